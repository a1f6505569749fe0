//! Settings of the callers: how many they are, and when a call begins.

use super::setting;
use crate::settings::{Default, Kind, Setting};

/// Callers.
pub static CLIENTS: Setting = setting(
    "clients",
    Kind::Count(1, 1_000_000),
    Default::Is("1"),
    "callers, in a closed loop; not threads",
)
.of("callers");
/// Calls a caller has under way.
pub static IN_FLIGHT: Setting = setting(
    "in_flight",
    Kind::Count(1, 1_000_000),
    Default::Is("1"),
    "calls each caller has under way",
)
.of("calls");
/// What a call waits for before it begins.
pub static LOOP: Setting = setting(
    "loop",
    Kind::Choice(&["closed", "open"]),
    Default::Is("closed"),
    "when a call begins: when its caller's last is answered, or at its time (rate), answered or not",
);
/// Calls per second in an open loop.
pub static RATE: Setting = setting(
    "rate",
    Kind::Count(1, 1_000_000_000),
    Default::Means("none: an open loop needs one"),
    "calls per second in an open loop, at random times drawn by the seed",
)
.of("calls per second");
