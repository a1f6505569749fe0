//! The choices of a seed: numbers of islands and requests, durations, frequencies of faults.

use tombolo_engine::rng::Rng;

use crate::faults::one_in;
use crate::swarm::pick;

/// Longer than anything takes where nothing goes wrong.
const PATIENT: u64 = 100_000;

/// What differs between seeds. Times have no unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Swarm {
    pub(super) islands: u16,
    pub(super) accounts: u8,
    pub(super) requests: u64,
    /// Between two requests, at most.
    pub(super) pause_max: u64,
    /// One in so many directions of links takes twenty times as long.
    pub(super) slow_links: u32,
    /// What a message, a local action and a flush take at most.
    pub(super) message_max: u64,
    pub(super) work_max: u64,
    pub(super) flush_max: u64,
    pub(super) patience: u64,
    /// An island looks for what has arrived only when it has done all that it wanted before.
    pub(super) is_serial: bool,
    /// How long an island is down at most; now and then ten times that.
    pub(super) down_max: u64,
    /// A link, too.
    pub(super) cut_max: u64,
    /// One in so many steps; 0 is never.
    pub(super) crashes: u32,
    pub(super) cuts: u32,
    /// One in so many votes: the island crashes soon after, and opens again soon.
    pub(super) vote_crashes: u32,
    /// One in so many preparations and commits.
    pub(super) refusals: u32,
}

impl Swarm {
    pub(super) fn draw(rng: &mut Rng) -> Self {
        let is_calm = one_in(rng, 8);
        let mut rate = |rates: &[u32]| if is_calm { 0 } else { pick(rng, rates) };
        let vote_crashes = rate(&[0, 0, 5, 20]);
        let (crashes, cuts, refusals) =
            (rate(&[0, 80, 200, 500]), rate(&[0, 60, 200, 500]), rate(&[0, 0, 20, 60]));
        Self {
            islands: rng.between(2, 5) as u16,
            accounts: rng.between(1, 4) as u8,
            requests: rng.between(20, 60) as u64,
            pause_max: pick(rng, &[5, 40, 150]),
            slow_links: pick(rng, &[0, 2, 4]),
            message_max: pick(rng, &[1, 10, 60]),
            work_max: pick(rng, &[0, 3, 15]),
            flush_max: pick(rng, &[1, 20, 100]),
            patience: if is_calm { PATIENT } else { pick(rng, &[300, 1_500, 6_000]) },
            is_serial: is_calm || one_in(rng, 2),
            down_max: pick(rng, &[20, 300, 2_000]),
            cut_max: pick(rng, &[5, 200, 1_000]),
            crashes,
            cuts,
            vote_crashes,
            refusals,
        }
    }

    /// Nothing goes wrong.
    pub(super) const fn is_calm(&self) -> bool {
        self.patience == PATIENT
    }
}
