//! Calls of one island, which the caller names by a key.
//!
//! Not here: transactions over several (`across.rs`), the path of a call (`calls/`).

use std::fmt;
use std::sync::Arc;

use super::Router;
use super::key::IslandKey;
use crate::calls::{CallOptions, ClosureBody, Promise, Registered, Settled, register};
use crate::core::Core;
use crate::error::{Error, Stop};
use crate::tx::Tx;

/// A procedure or closure of all islands of a database: [`OnIslands::at`] is that of one. Cloning it is cheap.
pub struct OnIslands<I, A, W = Settled> {
    on: Vec<Registered<I, A, W>>,
    router: Arc<Router>,
}

impl<I, A, W: Promise> OnIslands<I, A, W>
where
    I: Send + 'static,
    A: Send + 'static,
{
    pub(super) const fn new(on: Vec<Registered<I, A, W>>, router: Arc<Router>) -> Self {
        Self { on, router }
    }

    /// The procedure on the island of `key`: the rows that it finds are those of that island.
    ///
    /// ```
    /// # use tombolo::{Database, Error};
    /// let db = Database::builder().islands(2).in_memory()?;
    /// let twice = db.register_closure("twice", |_, n: &i64| Ok(2 * n));
    /// assert_eq!(twice.at(&7)?.call(21)?, 42);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Schema`] when keys are spread by ranges of numbers, and this is none.
    #[inline]
    pub fn at(&self, key: &(impl IslandKey + ?Sized)) -> Result<&Registered<I, A, W>, Error> {
        Ok(self.on(self.router.island_of(key)?))
    }

    /// The procedure on the island of this number.
    pub(super) fn on(&self, island: usize) -> &Registered<I, A, W> {
        &self.on[island]
    }

    /// The same procedure, called with other options.
    pub fn with<V: Promise>(&self, options: CallOptions<V>) -> OnIslands<I, A, V> {
        let on = self.on.iter().map(|island| island.with(options)).collect();
        OnIslands { on, router: self.router.clone() }
    }
}

impl<I, A, W: Copy> Clone for OnIslands<I, A, W> {
    fn clone(&self) -> Self {
        Self { on: self.on.clone(), router: self.router.clone() }
    }
}

impl<I, A, W: fmt::Debug> fmt::Debug for OnIslands<I, A, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnIslands").field("on", &self.on.first()).finish_non_exhaustive()
    }
}

/// Closures as transactions of one island; see [`Islands::at`](super::Islands::at).
#[derive(Debug)]
pub struct AtIsland<'d, W = Settled> {
    core: &'d Arc<Core>,
    options: CallOptions<W>,
}

impl<'d, W: Promise> AtIsland<'d, W> {
    pub(super) const fn new(core: &'d Arc<Core>, options: CallOptions<W>) -> Self {
        Self { core, options }
    }

    /// The same with these options.
    pub const fn with<V: Promise>(&self, options: CallOptions<V>) -> AtIsland<'d, V> {
        AtIsland { core: self.core, options }
    }

    /// Runs a closure as one transaction and blocks until its answer arrives. It sees the rows of its island. If it
    /// meets a row that a transaction over several islands holds, it is undone, waits and runs again: so it may
    /// run more than once, and must do nothing but read and write.
    ///
    /// # Errors
    /// The reason that there is no answer; see [`Error`].
    pub fn transaction<A, F>(&self, closure: F) -> Result<W::Answer<A>, W::Error>
    where
        F: Fn(&mut Tx<'_>) -> Result<A, Stop> + Send + Sync + 'static,
        A: Send + 'static,
    {
        let body = ClosureBody::new(move |tx: &mut Tx<'_>, (): &()| closure(tx));
        register(self.core, "a transaction", body).with(self.options).call(())
    }
}
