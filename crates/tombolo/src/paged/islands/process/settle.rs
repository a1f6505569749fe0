//! What is prepared on an island whose process was started again: each is settled as its coordinator had decided.
//!
//! A thread of the database's process does that while calls go on: what is prepared holds its locks meanwhile. A
//! transaction whose commit is under way is left until its caller knows what was decided. Any other has ended: if a
//! row of its coordinator has its number, it commits, and otherwise it is undone (presumed abort).
//! Not here: what an opening of the database settles (`paged/islands/resolve.rs`).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tombolo_engine::islands::commit::TransactionNumber;
use tombolo_engine::threads::Running;
use tombolo_storage::owner::Owner;
use tombolo_storage::sync::{AtomicBool, Mutex, Ordering, Parker};

use crate::error::Error;
use crate::processes::own::unreadable;
use crate::processes::supervisor::Supervised;
use crate::processes::wire::{self, Item};

/// The pause before an island is asked again.
const AGAIN_WAIT: Duration = Duration::from_millis(5);

/// Transactions whose commit is under way.
#[derive(Clone, Default)]
pub(super) struct UnderWay(Arc<Mutex<BTreeSet<u128>>>);

/// One of them, while it lives.
pub(super) struct Entered<'u> {
    all: &'u UnderWay,
    owner: Owner,
}

impl UnderWay {
    pub(super) fn enter(&self, owner: Owner) -> Entered<'_> {
        self.0.lock().insert(owner.number());
        Entered { all: self, owner }
    }

    fn has(&self, owner: Owner) -> bool {
        self.0.lock().contains(&owner.number())
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.all.0.lock().remove(&self.owner.number());
    }
}

/// The message that settles what is prepared, with the number of its call.
pub(super) fn settle_item(owner: Owner, commits: bool) -> impl Fn(u64) -> Vec<u8> {
    move |call| Item::new(wire::SETTLE).u64(call).flag(commits).u128(owner.number()).end()
}

/// Whether an island has decided that a transaction commits.
pub(super) fn has_decided(
    supervised: &Supervised,
    island: usize,
    owner: Owner,
) -> Result<bool, Error> {
    let item = |call| Item::new(wire::DECIDED).u64(call).u128(owner.number()).end();
    match supervised.call(island, item)?[..] {
        [has_decided] => Ok(has_decided == 1),
        _ => Err(unreadable(island)),
    }
}

/// The thread, and what it shares with those that wake it.
pub(super) struct Settler {
    shared: Arc<Shared>,
    thread: Option<Running>,
}

#[derive(Default)]
struct Shared {
    /// Whether a process was started again.
    has_risen: AtomicBool,
    wakes: Parker<()>,
    is_over: AtomicBool,
}

impl Settler {
    pub(super) fn start(supervised: &Arc<Supervised>, under_way: UnderWay) -> Result<Self, Error> {
        let shared = Arc::new(Shared::default());
        let (tells, all) = (shared.clone(), supervised.clone());
        supervised.risen.get_or_init(|| {
            Box::new(move |_| {
                tells.has_risen.store(true, Ordering::SeqCst);
                tells.wakes.unpark(());
            })
        });
        let own = shared.clone();
        let thread = Running::start("tombolo-settling", move || own.run(&all, &under_way))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Ends the thread.
    pub(super) fn end(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        self.shared.wakes.unpark(());
        self.thread.take().into_iter().for_each(Running::join);
    }
}

impl Shared {
    fn run(&self, supervised: &Supervised, under_way: &UnderWay) {
        let mut left = BTreeSet::new();
        while !self.is_over.load(Ordering::SeqCst) {
            // Also of others: a coordinator may be back that they could not ask.
            if self.has_risen.swap(false, Ordering::SeqCst) {
                left.extend(0..supervised.seats.len());
            }
            left.retain(|&island| !matches!(settle(supervised, under_way, island), Ok(true)));
            match left.is_empty() {
                true => self.wakes.park(),
                false => _ = self.wakes.park_for(AGAIN_WAIT),
            }
        }
    }
}

/// Settles what is prepared on an island; whether that was all.
fn settle(supervised: &Supervised, under_way: &UnderWay, island: usize) -> Result<bool, Error> {
    let listed = supervised.call(island, |call| Item::new(wire::PREPARED).u64(call).end())?;
    let (numbers, rest) = listed.as_chunks::<16>();
    if !rest.is_empty() {
        return Err(unreadable(island));
    }
    let mut is_all = true;
    for owner in numbers.iter().map(|bytes| Owner::new(u128::from_le_bytes(*bytes))) {
        let number = TransactionNumber::of(owner).ok_or_else(|| unreadable(island))?;
        if under_way.has(owner) {
            is_all = false;
            continue;
        }
        let commits = has_decided(supervised, number.island.index(), owner)?;
        supervised.call(island, settle_item(owner, commits))?;
    }
    Ok(is_all)
}
