//! A caller that waits for several islands gives them their turns itself, instead of waking a thread of each.
//!
//! While it helps, what it rings for is noted, and no thread is woken: it gives the turn itself, or asks the thread
//! that has the island's execution to look again. At its end it rings for the islands that had no turn since. Not here:
//! the work of a turn (`member.rs`), how one thread at a time has an island's stages (the engine's
//! `callers/carrying/`). Invariant: an island that was noted gets its turn from this thread, or is rung for.

use std::cell::Cell;

use tombolo_engine::islands::commit::IslandId;
use tombolo_storage::sync::Spin;

use super::mail::Mail;
use crate::database::Database;

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

/// Gives turns to the islands that follow from a call of `first`, until the caller's own answer is there or there is
/// nothing to do for a moment.
pub(super) fn help_until(
    (mail, islands): (&Mail, &[Database]),
    first: IslandId,
    is_done: impl Fn() -> bool,
) {
    let in_set = |set: Set| {
        let ids = (0..islands.len()).map(|island| IslandId(island as u16));
        ids.filter(move |island| set & set_of(*island) != 0)
    };
    let give_turns = |rung: Set| {
        let give = |island: IslandId| mail.give_turn(island, islands[island.index()].core());
        in_set(rung).fold(false, |gave, island| gave | give(island))
    };
    let outer = RUNG.replace(Some(0));
    let (mut known, mut spin) = (set_of(first), Spin::new());
    while !is_done() {
        // Before the turns: what is rung for during them is for others.
        let rung = RUNG.replace(Some(0)).unwrap_or_default();
        known |= rung;
        let has_given = give_turns(rung);
        let help = |island: IslandId| islands[island.index()].core().help();
        if has_given || in_set(known).any(help) {
            spin = Spin::new();
        } else if !spin.again() {
            break;
        }
    }
    for _ in 0..ROUNDS_AFTER {
        match RUNG.replace(Some(0)).unwrap_or_default() {
            0 => break,
            rung => _ = give_turns(rung),
        }
    }
    let left = RUNG.replace(outer).unwrap_or_default();
    in_set(left).for_each(|island| mail.ring(island));
}
