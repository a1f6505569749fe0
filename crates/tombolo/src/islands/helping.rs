//! A caller that waits for several islands gives them their turns itself, instead of waking a thread of each.
//!
//! While it helps, what it rings for is noted, and no thread is woken: it takes the turn, or asks the thread that has
//! the island's execution to look again. At its end it wakes the threads of islands that it rang for and that had no
//! turn since. Not here: the work of a turn (`member.rs`), how one thread at a time has an island's stages (the
//! engine's `callers/carrying/`). Invariant: an island that was rung for silently gets its turn from this
//! thread, or its thread is woken.

use std::cell::Cell;

use tombolo_engine::islands::commit::IslandId;
use tombolo_storage::sync::Spin;

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

/// Gives turns to the islands that follow from what `first` does, until the caller's own answer is there or there is
/// nothing to do for a moment. `cores` are those of all islands, `wake` wakes the threads of one.
pub(super) fn help_until(
    cores: &[&Core],
    first: IslandId,
    is_done: impl Fn() -> bool,
    wake: impl Fn(IslandId),
) {
    let ids = || (0..cores.len()).map(|island| IslandId(island as u16));
    let outer = RUNG.replace(Some(0));
    let (mut known, mut spin) = (set_of(first), Spin::new());
    let take = |set: Set| {
        for island in ids().filter(|island| set & set_of(*island) != 0) {
            // Before its turn: what it is rung for during it is for another.
            RUNG.set(RUNG.get().map(|rung| rung & !set_of(island)));
            if cores[island.index()].help() {
                return true;
            }
        }
        false
    };
    while !is_done() {
        known |= RUNG.get().unwrap_or_default();
        if take(known) {
            spin = Spin::new();
        } else if !spin.again() {
            break;
        }
    }
    for _ in 0..ROUNDS_AFTER {
        match RUNG.get() {
            None | Some(0) => break,
            Some(rung) => _ = take(rung),
        }
    }
    let left = RUNG.replace(outer).unwrap_or_default();
    ids().filter(|island| left & set_of(*island) != 0).for_each(wake);
}
