//! Decisions: the numbers from the settings, the threads of stages, the delay of a flush, the report of overruns.

pub(crate) mod caller_turnaround;
pub(crate) mod flush_time;
pub(crate) mod options;
pub(crate) mod overrun;
pub(crate) mod thread_layout;

pub(crate) use caller_turnaround::CallerTurnaround;
pub use options::{CheckpointPolicy, GroupPolicy, Options, Spread};
pub use overrun::Overrun;
pub(crate) use overrun::{Overruns, Watch};
pub(crate) use thread_layout::{CALLERS_OWN, ThreadLayout};
