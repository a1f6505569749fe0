//! Calls with a request id: the id travels in an envelope around the call's own.
//!
//! Not here: the guarantee that an id runs at most once, and the record of its outcome (engine
//! `requests.rs`). Invariant: a call without an id runs none of this code.

use std::any::Any;

use tombolo_engine::hints::Hints;
use tombolo_engine::procedure::Ahead;
use tombolo_engine::requests::Once;
use tombolo_engine::threads::panic_message;
use tombolo_storage::memory::held::Guard;
use tombolo_storage::owner::Owner;

use super::envelope::{Envelope, How, Otherwise};
use crate::error::Stop;
use crate::product::{GuardedProduct, Product, Runs, TRANSACTION_BYTES};
use crate::tx::Tables;

pub use tombolo_engine::requests::Outcome;
pub(crate) use tombolo_engine::requests::{
    Kept, OWN_PREFIX, REQUEST_LOG_BYTES_MAX, Requests, request_table,
};

/// The envelope around the envelope of a call with a request id.
pub(crate) struct Identified {
    id: u128,
    /// Bytes that the call itself may log, in addition to its id.
    log_bytes_max: u64,
    inner: Box<dyn Envelope>,
}

impl Identified {
    /// Wraps the envelope of a call that may itself log `log_bytes_max` bytes.
    pub(crate) fn envelope(
        id: u128,
        inner: Box<dyn Envelope>,
        log_bytes_max: u64,
    ) -> Box<dyn Envelope> {
        Box::new(Self { id, log_bytes_max, inner })
    }
}

impl Identified {
    /// Runs the inner call by `run`, unless one with its id ran before.
    #[inline(always)]
    fn run_once<S: Runs>(
        &mut self,
        store: &mut S,
        tables: &mut Tables,
        run: impl FnOnce(&mut dyn Envelope, &mut S, &mut Tables) -> Result<How, Owner>,
    ) -> Result<How, Owner> {
        let Self { id, log_bytes_max, inner } = self;
        let requests = tables.requests().clone(); // handles, no memory
        let now_us = tables.unix_us();
        let is_part = store.parts().1.is_some_and(Guard::is_of_part);
        let run = |store: &mut S| {
            // The id is logged already and does not count towards the call's limit.
            let log_bytes = log_bytes_max.saturating_sub(TRANSACTION_BYTES);
            store.parts().0.set_rest_log_bytes_max(Some(log_bytes as usize));
            run(&mut **inner, store, tables)
        };
        let ran = requests.run_once(store, (*id, now_us), run, |ran| match ran {
            Ok(How::Committed) => Outcome::Committed,
            // The request may be retried.
            Ok(How::Expired | How::Cancelled | How::NoRoom) | Err(_) => Outcome::Unknown,
            // So may the part of a transaction that its coordinator has to abort.
            Ok(_) if is_part => Outcome::Unknown,
            Ok(_) => Outcome::Aborted,
        });
        store.parts().0.set_rest_log_bytes_max(None);
        let (otherwise, how) = match ran {
            Once::Ran(ran) => return ran,
            Once::Panicked(panic) => {
                (Otherwise::Panicked(panic_message(&*panic)), Ok(How::Panicked))
            }
            Once::Repeated(outcome) => (Otherwise::Repeated(outcome), Ok(How::Repeated)),
            Once::Refused(error) => {
                if let Some(owner) = store.met() {
                    return Err(owner);
                }
                (Otherwise::Stopped(Stop::Error(error)), Ok(How::Aborted))
            }
        };
        inner.end_otherwise(otherwise);
        how
    }
}

impl Envelope for Identified {
    fn run(&mut self, store: &mut Product, tables: &mut Tables) -> How {
        let run = |inner: &mut dyn Envelope, store: &mut _, tables: &mut _| {
            Ok::<_, Owner>(inner.run(store, tables))
        };
        let Ok(how) = self.run_once(store, tables, run) else { unreachable!("nothing is locked") };
        how
    }

    fn run_guarded(
        &mut self,
        store: &mut GuardedProduct<'_>,
        tables: &mut Tables,
    ) -> Result<How, Owner> {
        let run = |inner: &mut dyn Envelope, store: &mut _, tables: &mut _| {
            inner.run_guarded(store, tables)
        };
        self.run_once(store, tables, run)
    }

    fn locate(&self, store: &Product, ahead: Ahead, hints: &mut Hints) {
        self.inner.locate(store, ahead, hints);
    }

    fn end_otherwise(&mut self, how: Otherwise) {
        self.inner.end_otherwise(how);
    }

    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.inner.bytes()
    }

    fn input(&mut self) -> &mut dyn Any {
        self.inner.input()
    }

    fn ran(&mut self) -> &mut dyn Any {
        self.inner.ran()
    }

    fn recycle(self: Box<Self>) {
        self.inner.recycle();
    }
}

#[cfg(test)]
mod tests;
