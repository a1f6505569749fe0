//! A call with a request id; its type allows only one call.
//!
//! Not here: the guarantee that an id runs at most once, and the record of its outcome (engine `requests.rs`).

use super::options::Promise;
use super::pending::Pending;
use super::registered::{NotSubmitted, Registered, Transactions};
use crate::error::{Error, Stop};
use crate::tx::Tx;

/// A [`Registered`] procedure or closure, or [`Transactions`], to be called once with a request id. Created
/// by their `once`, or by [`Database::once`](crate::Database::once), which explains the id. A call consumes
/// it, so another call needs an id of its own.
#[derive(Debug)]
#[must_use = "nothing is called yet"]
pub struct Once<C>(pub(super) C);

impl<I, A, W: Promise> Once<Registered<I, A, W>>
where
    I: Send + 'static,
    A: Send + 'static,
{
    /// As [`Registered::call`].
    ///
    /// # Errors
    /// The same, and [`Error::Repeated`].
    pub fn call(self, input: I) -> Result<W::Answer<A>, W::Error> {
        self.0.call(input)
    }

    /// As [`Registered::submit`].
    ///
    /// # Errors
    /// The same.
    pub fn submit(self, input: I) -> Result<Pending<A, W>, Error> {
        self.0.submit(input)
    }

    /// As [`Registered::try_submit`].
    ///
    /// # Errors
    /// The same.
    pub fn try_submit(self, input: I) -> Result<Pending<A, W>, NotSubmitted<I>> {
        self.0.try_submit(input)
    }
}

impl<W: Promise> Once<Transactions<'_, W>> {
    /// As [`Transactions::transaction`].
    ///
    /// # Errors
    /// The same, and [`Error::Repeated`].
    pub fn transaction<A, F>(self, closure: F) -> Result<W::Answer<A>, W::Error>
    where
        F: FnOnce(&mut Tx<'_>) -> Result<A, Stop> + Send + 'static,
        A: Send + 'static,
    {
        self.0.transaction(closure)
    }

    /// As [`Transactions::submit`].
    ///
    /// # Errors
    /// The same.
    pub fn submit<A, F>(self, closure: F) -> Result<Pending<A, W>, Error>
    where
        F: FnOnce(&mut Tx<'_>) -> Result<A, Stop> + Send + 'static,
        A: Send + 'static,
    {
        self.0.submit(closure)
    }

    /// As [`Transactions::try_submit`].
    ///
    /// # Errors
    /// The same.
    pub fn try_submit<A, F>(self, closure: F) -> Result<Pending<A, W>, NotSubmitted<F>>
    where
        F: FnOnce(&mut Tx<'_>) -> Result<A, Stop> + Send + 'static,
        A: Send + 'static,
    {
        self.0.try_submit(closure)
    }
}
