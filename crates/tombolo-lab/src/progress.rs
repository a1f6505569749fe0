//! The progress of a long command, reported to the code that shows it.
//!
//! Nothing here writes: on a terminal the command shows a bar, elsewhere nothing, because a line
//! written to a file in the middle of a run would be counted as the run's own disk traffic.

/// Reports on stages that take a while.
pub trait Progress {
    /// A stage begins.
    fn begin(&mut self, what: &str);
    /// `part` of the stage, from 0 to 1, is done.
    fn part(&mut self, part: f64, detail: &str);
    /// The stage is over.
    fn end(&mut self);
}

/// Progress is not shown.
impl Progress for () {
    fn begin(&mut self, _: &str) {}
    fn part(&mut self, _: f64, _: &str) {}
    fn end(&mut self) {}
}
