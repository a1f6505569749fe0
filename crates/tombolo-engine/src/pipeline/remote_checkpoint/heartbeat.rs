//! The heartbeat of the other process: when it is asked whether it is alive, and whether it has answered.
//!
//! ```text
//!   started ─hello─► greeted ─welcome─► opening ─report─► answered ──after a while──► asked
//!      │                                   │  ▲ │            ▲                          │
//!      │                                   │  └─┘ it opens   └──a report of that look───┤
//!      └───────────────────────────────────┴────────────────────────────────────────────┴─► silent
//! ```
//!
//! A process that is stopped, or hangs, does not end its link: only its silence shows that. While it opens the
//! image it reports that now and then, but the time of single steps grows with the database. Not here: the reaction to
//! silence (`client.rs`). Invariant: a process that has not been asked does not count as silent.

/// How long after an answer it is asked again.
const LOOK_NS: u64 = 1_000_000_000;
/// From when on an answer is late: it is no longer waited for eagerly.
const LATE_NS: u64 = 100_000_000;
/// When it is silent, and when it is while it opens the image.
const ANSWER_NS: u64 = 30_000_000_000;
const OPENING_NS: u64 = 600_000_000_000;

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    /// The last look that was asked for; a report says which one it has seen.
    looks: u64,
    /// Since when a sign is waited for, and how long at most; `None`: it has given the last one.
    waits: Option<(u64, u64)>,
    /// When it is asked again.
    next_ns: u64,
}

impl Heartbeat {
    /// Of a process that is started now.
    pub(crate) const fn new(now_ns: u64) -> Self {
        Self { looks: 0, waits: Some((now_ns, ANSWER_NS)), next_ns: u64::MAX }
    }

    /// It has said hello.
    pub(crate) fn greeted(&mut self) {
        self.waits = None;
    }

    /// It was asked to open the image, or is opening it.
    pub(crate) fn opens(&mut self, now_ns: u64) {
        self.waits = Some((now_ns, OPENING_NS));
    }

    /// It has reported, and seen this look.
    pub(crate) fn reported(&mut self, seen: u64, now_ns: u64) {
        if seen == self.looks {
            (self.waits, self.next_ns) = (None, now_ns.saturating_add(LOOK_NS));
        }
    }

    /// The look it has to be asked for by now.
    pub(crate) fn look(&mut self, now_ns: u64) -> u64 {
        if self.waits.is_none() && now_ns >= self.next_ns {
            self.looks += 1;
            self.waits = Some((now_ns, ANSWER_NS));
        }
        self.looks
    }

    /// Whether nothing is to be expected of it soon.
    pub(crate) fn is_late(&self, now_ns: u64) -> bool {
        self.waits.is_some_and(|(since_ns, _)| now_ns.saturating_sub(since_ns) >= LATE_NS)
    }

    /// For how many seconds it has given no sign, if that is too long.
    pub(crate) fn silent_s(&self, now_ns: u64) -> Option<u64> {
        let (since_ns, max_ns) = self.waits?;
        let silent_ns = now_ns.saturating_sub(since_ns);
        (silent_ns >= max_ns).then_some(silent_ns / 1_000_000_000)
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_process_that_was_asked_is_silent() {
        let mut heartbeat = Heartbeat::new(5);
        assert_eq!(heartbeat.silent_s(4 + ANSWER_NS), None);
        assert_eq!(heartbeat.silent_s(5 + ANSWER_NS), Some(30));
        heartbeat.greeted();
        assert_eq!((heartbeat.look(u64::MAX - 1), heartbeat.silent_s(u64::MAX)), (0, None));
        heartbeat.opens(100);
        heartbeat.opens(200);
        assert_eq!(
            (heartbeat.look(200 + ANSWER_NS), heartbeat.silent_s(199 + OPENING_NS)),
            (0, None)
        );
        assert_eq!(heartbeat.silent_s(200 + OPENING_NS), Some(600));
        heartbeat.reported(0, 1_000);
        assert_eq!((heartbeat.look(999 + LOOK_NS), heartbeat.silent_s(u64::MAX)), (0, None));
        let asked_ns = 1_000 + LOOK_NS;
        assert_eq!((heartbeat.look(asked_ns), heartbeat.look(asked_ns + 9)), (1, 1));
        assert!(!heartbeat.is_late(asked_ns + 9) && heartbeat.is_late(asked_ns + LATE_NS));
        // A report from before it was asked is no answer.
        heartbeat.reported(0, asked_ns + 10);
        assert_eq!(heartbeat.silent_s(asked_ns + ANSWER_NS), Some(30));
        heartbeat.reported(1, asked_ns + 11);
        assert_eq!(heartbeat.silent_s(u64::MAX), None);
    }
}
