//! The other islands: whether each can be reached, and its newest known opening and tenure.
//!
//! Every message carries the tenures that its sender knows. So an island that receives news of anything that followed
//! the end of a tenure, over any number of other islands, also learns of that end (`coordinator.rs` says what for).
//! This module also recognises messages of and to earlier openings, which must have no effect.

use tombolo_storage::plant::{self, Plant};

use super::event::Action;
use super::identity::{IslandId, Tenure, Tenures};
use super::message::{Envelope, Message, Refusal};

#[derive(Debug)]
pub(super) struct Peers {
    pub(super) me: IslandId,
    tenures: Tenures,
    /// The opening of each island that said hello on its present link.
    greeted: Vec<Option<u32>>,
}

impl Peers {
    pub(super) fn new(me: IslandId, islands: usize, opening: u32) -> Self {
        let mut tenures = Tenures::new(islands);
        tenures.set(me, Tenure { opening, term: 0 });
        Self { me, tenures, greeted: vec![None; islands] }
    }

    pub(super) fn islands(&self) -> usize {
        self.greeted.len()
    }

    pub(super) fn is_reached(&self, peer: IslandId) -> bool {
        self.greeted[peer.index()].is_some()
    }

    /// Whether every other island can be reached.
    pub(super) fn are_reached(&self) -> bool {
        let mut others = (0..self.greeted.len()).filter(|peer| *peer != self.me.index());
        others.all(|peer| self.greeted[peer].is_some())
    }

    pub(super) fn tenure(&self, island: IslandId) -> Tenure {
        self.tenures.of(island)
    }

    /// Locks that were voted for are gone.
    pub(super) fn end_tenure(&mut self) {
        let Tenure { opening, term } = self.tenure(self.me);
        self.tenures.set(self.me, Tenure { opening, term: term + 1 });
    }

    /// Whether the peer said hello at another opening before, and no break was noticed since.
    pub(super) fn is_reopened(&self, peer: IslandId) -> bool {
        let opening = self.tenure(peer).opening;
        self.greeted[peer.index()].is_some_and(|greeted| greeted != opening)
    }

    pub(super) fn note_greeting(&mut self, peer: IslandId) {
        self.greeted[peer.index()] = Some(self.tenure(peer).opening);
    }

    pub(super) fn note_break(&mut self, peer: IslandId) {
        self.greeted[peer.index()] = None;
    }

    /// The message in `bytes` that came by the link from `from`, with its sender's tenure; `None`: of or to an
    /// earlier opening.
    pub(super) fn open(
        &mut self,
        from: IslandId,
        bytes: &[u8],
    ) -> Result<Option<(Message, Tenure)>, Refusal> {
        let envelope = Envelope::decode(bytes, self.me, self.islands())?;
        if envelope.from != from {
            return Err(Refusal::WrongIsland);
        }
        let (sender, receiver) = (envelope.tenures.of(from), envelope.tenures.of(self.me));
        let own = self.tenure(self.me);
        if receiver.opening > own.opening {
            return Err(Refusal::LaterOpening);
        }
        let is_to_us = receiver.opening == own.opening || envelope.message == Message::Hello;
        let is_present = is_to_us && sender.opening >= self.tenure(from).opening;
        if !is_present && !plant::is(Plant::EarlierOpeningAccepted) {
            return Ok(None);
        }
        self.tenures.merge(&envelope.tenures);
        Ok(Some((envelope.message, sender)))
    }
}

/// What an event has at hand: the other islands, and the actions that follow from it.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    pub(super) peers: &'a mut Peers,
    pub(super) out: &'a mut Vec<Action>,
}

impl Turn<'_> {
    pub(super) fn act(&mut self, action: Action) {
        self.out.push(action);
    }

    /// Sends `message`, if there is a link.
    pub(super) fn send(&mut self, to: IslandId, message: Message) {
        if self.peers.is_reached(to) {
            self.push(to, message);
        }
    }

    /// Greets a peer that was just linked.
    pub(super) fn greet(&mut self, peer: IslandId) {
        self.push(peer, Message::Hello);
    }

    fn push(&mut self, to: IslandId, message: Message) {
        let (from, tenures) = (self.peers.me, self.peers.tenures.clone());
        let message = Envelope { from, to, tenures, message }.encode();
        self.act(Action::Send { to, message });
    }
}
