//! Long work with a database on a thread of its own, whose result can be waited for or awaited.
//!
//! Not here: transactions, which are awaited as [`Pending`](crate::Pending). Invariant: however the work
//! ends, it has exactly one result, and only the database's owner closes the database.

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tombolo_engine::threads::{Running, panic_message};

use crate::calls::on_database_thread;
use crate::database::Database;
use crate::error::Error;

/// Long work under way; see [`Database::task`]. Dropping it discards the result but does not end the work.
#[must_use = "dropping it discards the result"]
pub struct Task<A>(Arc<Shared<A>>);

struct Shared<A> {
    state: Mutex<State<A>>,
    is_done: Condvar,
}

enum State<A> {
    UnderWay(Option<Waker>),
    Done(Result<A, Error>),
    Taken,
}

impl<A> Shared<A> {
    /// No panic happens while it is held.
    fn state(&self) -> MutexGuard<'_, State<A>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, result: Result<A, Error>) {
        let before = std::mem::replace(&mut *self.state(), State::Done(result));
        self.is_done.notify_all();
        if let State::UnderWay(Some(waker)) = before {
            waker.wake();
        }
    }
}

impl Database {
    /// Does long work with the database on a thread of its own: a backup, a checkpoint, an index. The returned
    /// task can be awaited in any runtime, or waited for.
    ///
    /// ```
    /// # tombolo::table! {
    /// #     /// Accounts.
    /// #     pub struct Account = "account" { ID: Integer; OWNER: Text; }
    /// # }
    /// # tombolo::index! {
    /// #     /// By owner.
    /// #     pub struct ByOwner = "account_by_owner" on Account (OWNER: Text) multiple Tree;
    /// # }
    /// # use tombolo::{Database, Error, TableDef};
    /// # let place = tempfile::tempdir().unwrap();
    /// # let [directory, safe] = ["shop", "safe"].map(|name| place.path().join(name));
    /// # let db = Database::builder().table(TableDef::of::<Account>()).open(&directory)?;
    /// let backup = db.task(move |db| db.backup(safe))?;
    /// let index = db.task(|db| db.create_index::<ByOwner>())?;
    /// // … or `backup.await?` where there is a runtime.
    /// assert!(backup.wait()?.bytes > 0);
    /// let by_owner = index.wait()?;
    /// # let _ = by_owner;
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// Work that is under way when the database is closed ends with [`Error::Closed`], as its calls do.
    ///
    /// # Errors
    /// [`Error::System`] when the system refuses a thread, [`Error::Nested`] within a transaction. An error of
    /// the work is its result; a panic is [`Error::Panicked`].
    pub fn task<A: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<A, Error> + Send + 'static,
    ) -> Result<Task<A>, Error> {
        if on_database_thread() {
            return Err(Error::Nested);
        }
        let (state, is_done) = (Mutex::new(State::UnderWay(None)), Condvar::new());
        let shared = Arc::new(Shared { state, is_done });
        let (own, database) = (shared.clone(), self.view());
        Running::start("tombolo-task", move || {
            let worked = catch_unwind(AssertUnwindSafe(|| work(&database)));
            let panicked = |panic: Box<_>| Err(Error::Panicked(panic_message(&*panic)));
            // Before the caller is woken, because it may then end the process.
            drop(database);
            own.end(worked.unwrap_or_else(panicked));
        })?;
        Ok(Task(shared))
    }
}

impl<A> Task<A> {
    /// Blocks until the work has ended.
    ///
    /// # Errors
    /// The error of the work.
    ///
    /// # Panics
    /// When it was polled as a future before and was ready.
    pub fn wait(self) -> Result<A, Error> {
        let mut state = self.0.state();
        loop {
            match std::mem::replace(&mut *state, State::Taken) {
                State::Done(result) => return result,
                State::Taken => panic!("the result of a task is taken once"),
                under_way => *state = under_way,
            }
            state = self.0.is_done.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Whether [`Task::wait`] would return immediately.
    pub fn is_done(&self) -> bool {
        !matches!(*self.0.state(), State::UnderWay(_))
    }
}

impl<A> Future for Task<A> {
    type Output = Result<A, Error>;

    /// # Panics
    /// When it was ready before.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.0.state();
        match std::mem::replace(&mut *state, State::Taken) {
            State::Done(result) => Poll::Ready(result),
            State::Taken => panic!("the result of a task is taken once"),
            State::UnderWay(_) => {
                *state = State::UnderWay(Some(context.waker().clone()));
                Poll::Pending
            }
        }
    }
}

impl<A> fmt::Debug for Task<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("is_done", &self.is_done()).finish_non_exhaustive()
    }
}
