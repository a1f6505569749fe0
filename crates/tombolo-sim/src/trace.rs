//! What happened, folded into one number: equal seeds must leave equal traces.
//!
//! On request the events are kept as text too, for the person who replays a seed. Clones are the
//! same trace. Not here: what counts as an event; everything that could differ between two runs
//! does.

use tombolo_storage::sync::{Arc, Mutex};

/// The events of one seed.
#[derive(Clone, Debug, Default)]
pub struct Trace(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    hash: u64,
    events: u64,
    lines: Option<Vec<String>>,
}

impl Trace {
    /// An empty trace; `with_text` keeps the events as text.
    pub fn new(with_text: bool) -> Self {
        Self(Arc::new(Mutex::new(State { lines: with_text.then(Vec::new), ..State::default() })))
    }

    /// Adds an event: numbers that distinguish it from others, and a text that is only made where it is
    /// kept.
    pub fn event(&self, numbers: &[u64], text: impl FnOnce() -> String) {
        let mut state = self.0.lock();
        state.events += 1;
        for &number in numbers {
            // A multiplication by an odd number and a rotation are both one to one: nothing that
            // went in is lost before the next number arrives.
            state.hash = (state.hash ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        }
        if let Some(lines) = &mut state.lines {
            lines.push(text());
        }
    }

    /// All events so far, folded into one number.
    pub fn hash(&self) -> u64 {
        self.0.lock().hash
    }

    /// How many events there were.
    pub fn events(&self) -> u64 {
        self.0.lock().events
    }

    /// The events as text, as far as they were kept; they are gone from here then.
    pub fn take_lines(&self) -> Vec<String> {
        self.0.lock().lines.as_mut().map(std::mem::take).unwrap_or_default()
    }
}

/// A number for a text, for events that are distinguished by one.
pub fn number_of(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_numbers_make_the_hash() {
        let hash = |events: &[&[u64]]| {
            let trace = Trace::new(false);
            events.iter().for_each(|event| trace.event(event, || unreachable!("not kept")));
            (trace.hash(), trace.events())
        };
        assert_eq!(hash(&[&[1, 2], &[3]]), hash(&[&[1, 2], &[3]]));
        assert_ne!(hash(&[&[1, 2], &[3]]), hash(&[&[3], &[1, 2]]));
        assert_ne!(number_of("a"), number_of("b"));
    }

    #[test]
    fn text_is_kept_on_request() {
        let trace = Trace::new(true);
        trace.event(&[1], || "first".to_string());
        assert_eq!(trace.take_lines(), ["first"]);
        assert!(trace.take_lines().is_empty());
    }
}
