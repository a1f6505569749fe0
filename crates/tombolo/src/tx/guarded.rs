//! Calls of a transaction while parts of transactions are held: on the store with its guard.
//!
//! Not here: what a call is compared with (storage `memory/held/`), when a transaction has a guard (`calls/runner.rs`).

use tombolo_storage::memory::held::Guard;

/// Calls `$call` with the store that `$guard` has it called on, as `$store`.
///
/// With a table and a row, `$row` is the store's id of the row, which is to be written.
macro_rules! on {
    ($tx:ident, $guard:ident, $table:ident, |$store:ident, $row:ident| $call:expr) => {
        match $guard {
            None => {
                let $row = $tx.unnamed_to_write($table, $row)?;
                let $store = &mut *$tx.store;
                $call
            }
            Some(guard) => {
                let $row = $tx.unnamed_to_write($table, $row)?;
                let store = &mut *$tx.store;
                $crate::tx::guarded::while_held(move || {
                    let $store = &mut guard.over(store);
                    $call
                })
            }
        }
    };
    ($tx:ident, $guard:ident, |$store:ident| $call:expr) => {
        match $guard {
            None => {
                let $store = &mut *$tx.store;
                $call
            }
            Some(guard) => {
                let store = &mut *$tx.store;
                $crate::tx::guarded::while_held(move || {
                    let $store = &mut guard.over(store);
                    $call
                })
            }
        }
    };
}
pub(super) use on;

/// A call while parts are held: apart, so that it costs the others nothing.
#[cold]
#[inline(never)]
pub(super) fn while_held<T>(call: impl FnOnce() -> T) -> T {
    call()
}

/// What a call is compared with while parts are held.
pub(crate) type Guards<'s> = Option<&'s Guard<'s>>;
