//! `Peer`: another engine in a workload's list, with the function that opens it, if this build has one.

use crate::failure::Failure;

/// Another engine; an `O` is the function that opens it.
pub(super) struct Peer<O> {
    pub(super) name: &'static str,
    /// None where it is not in this build.
    pub(super) open: Option<O>,
    /// Refuses a machine without what it needs.
    pub(super) verify_machine: Option<fn() -> Result<(), Failure>>,
    /// Commands to be typed before a build with it.
    pub(super) before: &'static str,
}

impl<O> Peer<O> {
    /// An engine that needs nothing of the machine.
    pub(super) const fn new(name: &'static str, open: Option<O>) -> Self {
        Self { name, open, verify_machine: None, before: "" }
    }
}

/// `Some` of an expression in builds with a feature.
macro_rules! built {
    ($feature:literal, $what:expr) => {{
        #[cfg(feature = $feature)]
        {
            Some($what)
        }
        #[cfg(not(feature = $feature))]
        {
            None
        }
    }};
}
pub(super) use built;

/// The names of `peers`.
pub(super) fn names_of<O>(peers: &[Peer<O>]) -> Vec<&'static str> {
    peers.iter().map(|peer| peer.name).collect()
}

/// The function that opens the one of `peers` called `name`.
///
/// # Errors
/// When it is not in this build, or not one of `peers`.
pub(super) fn opener<'p, O>(
    peers: &'p [Peer<O>],
    name: &str,
    workload: &str,
) -> Result<&'p O, Failure> {
    let Some(peer) = peers.iter().find(|peer| peer.name == name) else {
        let names = names_of(peers).join(", ");
        return Err(Failure::usage(format!("there is no engine {name}: use {names}")));
    };
    let before = peer.before;
    peer.open.as_ref().ok_or_else(|| {
        Failure::usage(format!(
            "engine {name} is not in this build: build it with {before}cargo run --release \
             --features compare-{name} -- compare {workload} --with {name}"
        ))
    })
}
