//! The links between simulated islands: messages arrive late and in order. When a link breaks, some messages on it are
//! lost; when it is made again, some are sent again.
//!
//! Not here: when a link breaks (`world.rs`).

use std::collections::{BTreeMap, VecDeque};

use tombolo_engine::islands::commit::IslandId;
use tombolo_engine::rng::Rng;

use crate::faults::one_in;

/// Messages of a direction that may come again.
const RECENT_MAX: usize = 6;

/// One direction of a link.
#[derive(Debug, Default)]
struct Direction {
    /// On their way.
    messages: VecDeque<Vec<u8>>,
    /// Sent last, whether they arrived or not.
    recent: VecDeque<Vec<u8>>,
    /// When the last one of them arrives.
    last: u64,
    is_slow: bool,
}

/// The link between two islands.
#[derive(Debug, Default)]
struct Link {
    is_up: bool,
    /// How often it was made.
    made: u32,
    /// Whether the end of the lower and of the higher island knows it.
    known: [bool; 2],
    /// To the end of the lower and of the higher island.
    directions: [Direction; 2],
}

/// What a break did.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Broke {
    pub(super) lost: u64,
    pub(super) repeated: u64,
    /// Which ends have to hear of it.
    pub(super) known: [bool; 2],
}

/// All links.
#[derive(Debug)]
pub(super) struct Links(BTreeMap<(IslandId, IslandId), Link>);

/// A link's islands in order, and which end the second of the arguments is.
fn pair(from: IslandId, to: IslandId) -> ((IslandId, IslandId), usize) {
    ((from.min(to), from.max(to)), usize::from(to > from))
}

impl Links {
    /// One in `slow` directions is slow.
    pub(super) fn new(islands: u16, slow: u32, rng: &mut Rng) -> Self {
        let pairs = (0..islands).flat_map(|low| (low + 1..islands).map(move |high| (low, high)));
        let mut direction = || Direction { is_slow: one_in(rng, slow), ..Direction::default() };
        let mut link = || Link { directions: [direction(), direction()], ..Link::default() };
        let link = |(low, high)| ((IslandId(low), IslandId(high)), link());
        Self(pairs.map(link).collect())
    }

    pub(super) fn pairs(&self) -> impl Iterator<Item = (IslandId, IslandId)> {
        self.0.keys().copied()
    }

    fn find(&mut self, from: IslandId, to: IslandId) -> (&mut Link, usize) {
        let (pair, end) = pair(from, to);
        (self.0.get_mut(&pair).expect("every two islands have a link"), end)
    }

    /// Makes the link, if it is not there and both ends have noticed that; the messages that come again are on
    /// their way before all others. Says how many of them each end gets.
    pub(super) fn make(&mut self, (low, high): (IslandId, IslandId)) -> Option<[usize; 2]> {
        let (link, _) = self.find(low, high);
        if link.is_up || link.known.contains(&true) {
            return None;
        }
        link.is_up = true;
        link.made += 1;
        Some([0, 1].map(|end| link.directions[end].messages.len()))
    }

    /// How many times as long messages take as elsewhere, at most.
    pub(super) fn slowness(&mut self, from: IslandId, to: IslandId) -> u64 {
        let (link, end) = self.find(from, to);
        if link.directions[end].is_slow { 20 } else { 1 }
    }

    pub(super) fn is_up(&mut self, a: IslandId, b: IslandId) -> bool {
        self.find(a, b).0.is_up
    }

    /// The end of `at` knows of the link that was the `made`-th. Says whether it is that still.
    pub(super) fn know(&mut self, at: IslandId, peer: IslandId, made: u32) -> bool {
        let (link, end) = self.find(peer, at);
        let is_it = link.is_up && link.made == made;
        link.known[end] |= is_it;
        is_it
    }

    /// The end of `at` knows of the break.
    pub(super) fn forget(&mut self, at: IslandId, peer: IslandId) {
        let (link, end) = self.find(peer, at);
        link.known[end] = false;
    }

    pub(super) fn made(&mut self, a: IslandId, b: IslandId) -> u32 {
        self.find(a, b).0.made
    }

    /// Breaks it.
    pub(super) fn cut(
        &mut self,
        (low, high): (IslandId, IslandId),
        rng: &mut Rng,
    ) -> Option<Broke> {
        let (link, _) = self.find(low, high);
        if !link.is_up {
            return None;
        }
        link.is_up = false;
        let mut broke = Broke { known: link.known, ..Broke::default() };
        for direction in &mut link.directions {
            broke.lost += direction.messages.len() as u64;
            direction.messages.clear();
            direction.last = 0;
            let again = one_in(rng, 2);
            let recent = std::mem::take(&mut direction.recent);
            direction.messages.extend(recent.into_iter().filter(|_| again && one_in(rng, 2)));
            broke.repeated += direction.messages.len() as u64;
        }
        Some(broke)
    }

    /// Sends a message; says when it arrives at the latest end of what is on its way, or nothing if it is lost.
    pub(super) fn send(
        &mut self,
        from: IslandId,
        to: IslandId,
        message: Vec<u8>,
        at: u64,
    ) -> Option<u64> {
        let (link, end) = self.find(from, to);
        let knows = link.known[1 - end];
        let direction = &mut link.directions[end];
        if !link.is_up || !knows {
            return None;
        }
        if direction.recent.len() == RECENT_MAX {
            direction.recent.pop_front();
        }
        direction.recent.push_back(message.clone());
        direction.messages.push_back(message);
        direction.last = direction.last.max(at);
        Some(direction.last)
    }

    /// The next message to `to`, if its end knows of the link.
    pub(super) fn receive(&mut self, from: IslandId, to: IslandId) -> Received {
        let (link, end) = self.find(from, to);
        match (link.is_up, link.known[end]) {
            (true, true) => {
                let message = link.directions[end].messages.pop_front();
                message.map_or(Received::Nothing, Received::Message)
            }
            (true, false) => Received::NotYet,
            (false, _) => Received::Nothing,
        }
    }
}

/// What a look for a message found.
#[derive(Debug)]
pub(super) enum Received {
    Message(Vec<u8>),
    /// The link is there, and its end will know soon.
    NotYet,
    Nothing,
}
