//! A caller that waits for several islands gives them their turns itself, instead of waking a thread of each.
//!
//! While it helps, what it rings for is noted, and no thread is woken: it gives the turn itself, or asks the thread
//! that has the island's execution to look again. At its end it rings for the islands that had no turn since. Not here:
//! the work of a turn (`member.rs`), how one thread at a time has an island's stages (the engine's
//! `callers/carrying/`). Invariant: an island that was noted gets its turn from this thread, or is rung for.

use std::cell::Cell;

use tombolo_engine::islands::commit::IslandId;
use tombolo_engine::pipeline::Taken;
use tombolo_storage::sync::Spin;

use super::Islands;
use crate::calls::Runner;
use crate::core::Core;

/// A set of islands; those with equal numbers modulo 64 are in it together.
type Set = u64;

const fn set_of(island: IslandId) -> Set {
    1 << (island.0 % Set::BITS as u16)
}

thread_local! {
    /// The islands that this thread rang for and that had no turn since; none while it does not help.
    static RUNG: Cell<Option<Set>> = const { Cell::new(None) };
}

/// Rounds that a caller goes on after its own answer, so that what follows from it is done by the thread that has
/// its rows at hand.
const ROUNDS_AFTER: usize = 4;

/// Notes that an island was rung for, if this thread helps; returns whether it does.
pub(super) fn note(island: IslandId) -> bool {
    let helps = RUNG.get();
    if let Some(rung) = helps {
        RUNG.set(Some(rung | set_of(island)));
    }
    helps.is_some()
}

/// A caller that helps, until this is dropped.
pub(super) struct Helping<'d> {
    islands: &'d Islands,
    /// Islands that it helps even if they were not rung for.
    known: Set,
    /// Positions of islands' logs for which transactions wait, since this thread gave these islands a turn.
    awaited: Vec<(IslandId, u64)>,
    outer: Option<Set>,
    is_over: bool,
    sleeps: bool,
}

impl<'d> Helping<'d> {
    pub(super) fn begin(islands: &'d Islands) -> Self {
        let (awaited, outer) = (Vec::new(), RUNG.replace(Some(0)));
        Self { islands, known: 0, awaited, outer, is_over: false, sleeps: false }
    }

    /// An island of its transaction.
    pub(super) fn add(&mut self, island: IslandId) {
        self.known |= set_of(island);
    }

    /// Gives back an island that this thread has taken for the transaction.
    pub(super) fn give_back(&mut self, island: IslandId, taken: Taken<'_, Runner>) {
        self.add(island);
        let position = self.islands.mail.give_back(island, taken);
        self.awaited.extend(position.map(|position| (island, position)));
    }

    /// Gives turns until the caller's own answer is there, or there is nothing to do for a moment: then it may sleep
    /// until it is there.
    pub(super) fn until(&mut self, is_done: impl Fn() -> bool) {
        let mut spin = Spin::new();
        while !is_done() {
            // Before the turns: what is rung for during them is for others.
            let rung = RUNG.replace(Some(0)).unwrap_or_default();
            self.known |= rung;
            if self.give_turns(rung) || self.keep_promises() || self.wait_for_log() || self.help() {
                spin = Spin::new();
            } else if !spin.again() && self.falls_asleep() {
                break;
            }
        }
        for _ in 0..ROUNDS_AFTER {
            match RUNG.replace(Some(0)).unwrap_or_default() {
                0 => break,
                rung => _ = self.give_turns(rung),
            }
        }
        self.end();
    }

    /// Says that this thread sleeps, unless something is promised on its islands.
    fn falls_asleep(&mut self) -> bool {
        self.sleep(true);
        let is_awaited = |(island, _)| self.islands.mail.awaited(island).is_some();
        if in_set(self.islands, self.known).any(is_awaited) {
            self.sleep(false);
        }
        self.sleeps
    }

    fn sleep(&mut self, does: bool) {
        if self.sleeps != does {
            self.sleeps = does;
            in_set(self.islands, self.known)
                .for_each(|(island, _)| self.islands.mail.sleeps(island, does));
        }
    }

    /// Rings for the islands that had no turn since, and for those whose promises others wait for.
    pub(super) fn end(&mut self) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        let mail = &self.islands.mail;
        let mut left = RUNG.replace(self.outer).unwrap_or_default();
        let promised = self.awaited.iter().filter(|(island, _)| mail.sleepers_wait(*island));
        promised.for_each(|(island, _)| left |= set_of(*island));
        in_set(self.islands, left).for_each(|(island, _)| mail.ring(island));
    }

    /// Gives each of these islands a turn, or notes that it is busy; returns whether there was anything to do.
    fn give_turns(&mut self, rung: Set) -> bool {
        let (islands, mut has_given) = (self.islands, false);
        for (island, core) in in_set(islands, rung) {
            let Some(position) = islands.mail.give_turn(island, core) else {
                note(island);
                continue;
            };
            has_given = true;
            self.awaited.extend(position.map(|position| (island, position)));
        }
        has_given
    }

    /// Keeps promises of the known islands; returns whether there were any.
    fn keep_promises(&self) -> bool {
        let known = in_set(self.islands, self.known);
        known.fold(false, |kept, (island, _)| kept | self.islands.mail.keep_promises(island))
    }

    /// Waits for a log for which a transaction waits; returns whether there is one.
    fn wait_for_log(&mut self) -> bool {
        let own = self.awaited.pop();
        let awaited = own.or_else(|| {
            in_set(self.islands, self.known)
                .find_map(|(island, _)| Some((island, self.islands.mail.awaited(island)?)))
        });
        let Some((island, position)) = awaited else { return false };
        let carrier = self.islands.databases[island.index()].core().carrier();
        // A log that fails breaks its island, which then answers.
        carrier.is_some_and(|carrier| {
            let _ = carrier.wait(position);
            true
        })
    }

    /// Runs the calls that wait on the known islands; returns whether there was anything to do.
    fn help(&self) -> bool {
        let (known, mail) = (in_set(self.islands, self.known), &self.islands.mail);
        known.fold(false, |helped, (island, core)| helped | mail.help(island, core))
    }
}

fn in_set(islands: &Islands, set: Set) -> impl Iterator<Item = (IslandId, &Core)> {
    let all = islands.databases.iter().enumerate();
    let all = all.map(|(island, database)| (IslandId(island as u16), &**database.core()));
    all.filter(move |(island, _)| set & set_of(*island) != 0)
}

impl Drop for Helping<'_> {
    fn drop(&mut self) {
        self.end();
        self.sleep(false);
    }
}
