//! `Pending`: a call under way, to be waited for, polled as a future, cancelled or dropped.
//!
//! Not here: the arrival of replies (`reply_slots.rs`), their interpretation (`core.rs`).

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::options::{Promise, Settled};
use super::reply_slots::{Ticket, drop_reply};
use crate::core::Core;

/// A call under way. Wait for its answer, on a thread ([`Pending::wait`]) or as a future in any
/// runtime. Dropping it discards the answer but does not end the call; [`Pending::cancel`] does.
///
/// ```
/// use tombolo::{CallOptions, Database};
///
/// let db = Database::in_memory()?;
/// let calls = db.with(CallOptions::new());
/// let pending = (0..3).map(|n| calls.submit(move |_| Ok(n * n)));
/// let pending = pending.collect::<Result<Vec<_>, _>>()?;
/// let answers = pending.into_iter().map(|call| call.wait()).collect::<Result<Vec<_>, _>>()?;
/// assert_eq!(answers, [0, 1, 4]);
/// # Ok::<(), tombolo::Error>(())
/// ```
#[must_use = "dropping it discards the answer"]
pub struct Pending<A, W = Settled> {
    core: Arc<Core>,
    /// Present until the answer was taken.
    ticket: Option<Ticket>,
    answer: PhantomData<fn() -> (A, W)>,
}

impl<A: Send + 'static, W: Promise> Pending<A, W> {
    pub(crate) fn new(core: Arc<Core>, ticket: Ticket) -> Self {
        Self { core, ticket: Some(ticket), answer: PhantomData }
    }

    /// Blocks until the answer arrives or the call's deadline passes.
    ///
    /// # Errors
    /// The reason that there is no answer.
    ///
    /// # Panics
    /// When it was polled as a future before and was ready.
    pub fn wait(mut self) -> Result<W::Answer<A>, W::Error> {
        let ticket = self.ticket.take().expect("a call is answered once");
        self.core.wait::<A, W>(ticket)
    }

    /// Ends the call, if it has not ended. A call that has not begun never runs; a running closure is ended
    /// at one of its next calls of [`Tx`](crate::Tx), or at a row that a scan visits, and undone. There is still an
    /// answer: [`Error::Cancelled`](crate::Error::Cancelled), or the call's outcome if it ended before. A
    /// committed call is not undone. Nothing ends a closure that computes without calling `Tx`, nor a running
    /// [procedure](crate::procedure).
    ///
    /// ```
    /// use tombolo::{CallOptions, Database, Error, Stop, TableDef};
    ///
    /// tombolo::table! {
    ///     /// Numbers.
    ///     pub struct Number = "number" { VALUE: BigInt; }
    /// }
    ///
    /// let db = Database::builder().table(TableDef::of::<Number>()).in_memory()?;
    /// let numbers = db.table::<Number>()?;
    /// // It never ends by itself.
    /// let endless = db.with(CallOptions::new()).submit(move |tx| -> Result<(), Stop> {
    ///     loop {
    ///         tx.count(&numbers)?;
    ///     }
    /// })?;
    /// endless.cancel();
    /// assert_eq!(endless.wait(), Err(Error::Cancelled));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn cancel(&self) {
        if let Some(ticket) = self.ticket {
            self.core.reply_slots(ticket).cancel(ticket.tag);
        }
    }

    /// Whether [`Pending::wait`] would return immediately.
    pub fn is_done(&self) -> bool {
        self.ticket.is_none_or(|ticket| self.core.reply_slots(ticket).is_done(ticket.tag))
    }
}

impl<A: Send + 'static, W: Promise> Future for Pending<A, W> {
    type Output = Result<W::Answer<A>, W::Error>;

    /// # Panics
    /// When it was ready before.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let ticket = self.ticket.expect("a call is answered once");
        let polled = self.core.reply_slots(ticket).poll(ticket.tag, context.waker());
        polled.map(|reply| {
            self.ticket = None;
            self.core.answer::<A, W>(reply)
        })
    }
}

impl<A, W> Drop for Pending<A, W> {
    fn drop(&mut self) {
        let left = self.ticket.take();
        if let Some(reply) = left.and_then(|left| self.core.reply_slots(left).abandon(left.tag)) {
            drop_reply(reply);
        }
    }
}

impl<A, W> fmt::Debug for Pending<A, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").field("ticket", &self.ticket).finish_non_exhaustive()
    }
}
