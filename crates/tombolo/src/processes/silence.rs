//! `Silence`: how long a process has said nothing, and whether it hangs.
//!
//! ```text
//!   heard ──► quiet ── a quarter of the limit ──► asked ── the limit ──► hangs
//!     ▲                                             │
//!     └──────────────────── alive ◄─────────────────┘
//! ```
//!
//! An island answers the question in its turn: so its link, its queue and its execution are known to go on. Time
//! passes by a clock, but a pause counts for a quarter of the limit at most: a program that was itself stopped for a
//! while, or did not get a core, then finds what has arrived meanwhile, and does not take the islands for hanging.
//!
//! Not here: what follows (`supervisor.rs`).

use std::time::Duration;

/// In how many pauses the limit passes.
const PAUSES: u32 = 4;

/// See the file's head.
pub(crate) struct Silence {
    /// How long it may last after the question; without limit if there is none.
    time_max: Option<Duration>,
    quiet: Duration,
    is_asked: bool,
}

impl Silence {
    pub(crate) const fn new(time_max: Option<Duration>) -> Self {
        Self { time_max, quiet: Duration::ZERO, is_asked: false }
    }

    /// The process has said something.
    pub(crate) const fn ends(&mut self) {
        (self.quiet, self.is_asked) = (Duration::ZERO, false);
    }

    /// The process is expected to say something without being asked.
    pub(crate) const fn expects(&mut self) {
        self.is_asked = true;
    }

    /// How long to wait at once for a message, at most `time_max`.
    pub(crate) fn pause(&self, time_max: Duration) -> Duration {
        self.time_max.map_or(time_max, |limit| time_max.min(limit / PAUSES))
    }

    /// So much time has passed without a message. Returns whether the process is to be asked.
    pub(crate) fn lasts(&mut self, time: Duration) -> bool {
        let Some(limit) = self.time_max else { return false };
        self.quiet += time.min(limit / PAUSES);
        let is_long = self.quiet >= limit / PAUSES;
        if self.is_asked || !is_long {
            return false;
        }
        (self.quiet, self.is_asked) = (Duration::ZERO, true);
        true
    }

    /// Why the process is taken for hanging, if it is.
    pub(crate) fn hangs(&self) -> Option<String> {
        let limit = self.time_max.filter(|limit| self.is_asked && self.quiet >= *limit)?;
        Some(format!("it hung: it did not answer for {limit:?}, and was killed"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_hangs_that_does_not_answer_within_the_limit() {
        let second = Duration::from_secs(1);
        let mut silence = Silence::new(Some(4 * second));
        assert_eq!(silence.pause(60 * second), second);
        assert_eq!(silence.pause(second / 2), second / 2);
        assert!(!silence.lasts(second / 2));
        assert!(silence.lasts(second / 2), "it is asked");
        assert!((0..3).all(|_| !silence.lasts(second)), "it is asked once");
        assert_eq!(silence.hangs(), None);
        assert!(!silence.lasts(second));
        let why = silence.hangs().unwrap();
        assert!(why.contains("did not answer for 4s"), "{why}");
    }

    #[test]
    fn one_that_says_anything_does_not() {
        let second = Duration::from_secs(1);
        let mut silence = Silence::new(Some(4 * second));
        for _ in 0..100 {
            assert!(silence.lasts(second));
            assert!(!silence.lasts(60 * second), "the program was stopped meanwhile");
            assert_eq!(silence.hangs(), None);
            silence.ends();
            assert_eq!(silence.hangs(), None);
        }
        // While it opens it says that it does, without being asked.
        silence.expects();
        assert!((0..4).all(|_| !silence.lasts(second)));
        assert!(silence.hangs().is_some());
    }

    #[test]
    fn without_a_limit_none_hangs() {
        let mut silence = Silence::new(None);
        assert_eq!(silence.pause(Duration::from_secs(60)), Duration::from_secs(60));
        assert!(!silence.lasts(Duration::MAX / 2));
        silence.expects();
        assert_eq!(silence.hangs(), None);
    }
}
