//! Running closures: as a transaction, or as a step of one.
//!
//! Not here: what a closure may call (`mod.rs`).

use tombolo_engine::transaction::{Stop as EngineStop, execute_undoable};
use tombolo_storage::error::Error as StoreError;
use tombolo_storage::memory::held::Guard;

use super::handles::NO_DATABASE;
use super::watch::Watch;
use super::{Guards, Tables, Tx};
use crate::error::{OwnError, Result, Stop};
use crate::product::Product;

/// Runs a closure as one transaction. While parts of transactions are held, its guard decides whether it commits or is
/// set aside; a transaction that met a lock ends with `Held`, whatever the closure did afterwards.
#[inline(always)]
pub(crate) fn run<A>(
    store: &mut Product,
    guard: Guards<'_>,
    tables: &Tables,
    closure: impl FnOnce(&mut Tx<'_>) -> Result<A, Stop>,
) -> Result<A, Stop> {
    // The application's own error bypasses the engine, which has no type for it.
    let mut own = None;
    let ended = match guard {
        None => execute_undoable(store, |mut transaction| {
            let store = transaction.store();
            let answer = run_open(store, None, tables.database, tables, closure, &mut own)?;
            transaction.commit(answer)
        }),
        Some(guard) => execute_undoable(&mut guard.over(store), |mut transaction| {
            let store = transaction.store().parts().0;
            let answer = run_open(store, Some(guard), NO_DATABASE, tables, closure, &mut own)?;
            transaction.commit(answer)
        }),
    };
    if let Some(owner) = guard.and_then(Guard::met) {
        return Err(Stop::Error(StoreError::Held { owner }));
    }
    ended.map_err(|stop| stopped(stop, own))
}

/// Runs several steps as one transaction while parts of transactions are held; `guard` decides whether it commits or is
/// set aside.
pub(crate) fn run_steps(
    store: &mut Product,
    guard: &Guard<'_>,
    steps: impl FnOnce(&mut Product, Guards<'_>) -> Result<()>,
) -> Result<()> {
    let mut own = None;
    let ended = execute_undoable(&mut guard.over(store), |mut transaction| {
        let (store, guard) = transaction.store().parts();
        match steps(store, Some(guard)) {
            Ok(()) => transaction.commit(()),
            Err(stop) => Err(engine_stop(stop, &mut own)),
        }
    });
    ended.map_err(|stop| stopped(stop, own))
}

/// Runs a closure as a step of the open transaction of `store`, which has to end with its error.
pub(crate) fn step<A>(
    store: &mut Product,
    guard: Guards<'_>,
    tables: &Tables,
    closure: impl FnOnce(&mut Tx<'_>) -> Result<A, Stop>,
) -> Result<A, Stop> {
    let mut own = None;
    let database = if guard.is_some() { NO_DATABASE } else { tables.database };
    let ended = run_open(store, guard, database, tables, closure, &mut own);
    ended.map_err(|stop| stopped(stop, own))
}

/// The error of a transaction; an error of the application's own comes from `own`, because it bypassed the engine.
pub(crate) fn stopped(stop: EngineStop, own: Option<OwnError>) -> Stop {
    match (stop, own) {
        // Any other stop means that the store could not undo the transaction.
        (EngineStop::Abort(_), Some(own)) => Stop::Own(own),
        (stop, _) => Stop::of(stop),
    }
}

/// Runs a closure in the open transaction. One function serves stores with and without a guard, because a closure is
/// inlined if it has a single caller.
#[inline]
fn run_open<A>(
    store: &mut Product,
    guard: Guards<'_>,
    database: u32,
    tables: &Tables,
    closure: impl FnOnce(&mut Tx<'_>) -> Result<A, Stop>,
    own: &mut Option<OwnError>,
) -> Result<A, EngineStop> {
    let watch = Watch::new(&tables.limits);
    let mut tx = Tx { store, tables, database, guard, watch };
    match closure(&mut tx) {
        Ok(answer) => match tx.watch.refused() {
            Some(error) => Err(EngineStop::Error(error)),
            None => Ok(answer),
        },
        Err(stop) => Err(engine_stop(stop, own)),
    }
}

/// A closure's error as the engine's type; an error of the application's own is put into `own`, see [`stopped`].
#[inline(always)]
pub(crate) fn engine_stop(stop: Stop, own: &mut Option<OwnError>) -> EngineStop {
    match stop {
        Stop::Abort(reason) => EngineStop::Abort(reason),
        Stop::Error(error) => EngineStop::Error(error),
        Stop::Own(error) => {
            *own = Some(error);
            EngineStop::Abort("of its own")
        }
    }
}
