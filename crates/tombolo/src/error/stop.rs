//! `Stop`: the reason that a transaction ends without effect, possibly an error of the application.
//!
//! Not here: the error that a caller receives (`mod.rs`). Invariant: an error of the store keeps its type,
//! however it is converted.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use tombolo_engine::transaction::Stop as EngineStop;
use tombolo_storage::error::Error as StoreError;

use super::Error;

/// The result of calls of [`Tx`](crate::Tx).
pub(crate) type Result<T, E = Stop> = std::result::Result<T, E>;

/// The error of a transaction's closure: the reason that the transaction ends without effect.
///
/// `?` converts any error to it, so that calls of [`Tx`](crate::Tx) and an application's own functions mix;
/// the caller gets the application's error back with [`Error::own`].
///
/// ```
/// use tombolo::{Database, Stop};
///
/// #[derive(Debug)]
/// enum NotPaid {
///     NoAccount,
///     Missing { cents: i64 },
/// }
/// # impl std::fmt::Display for NotPaid {
/// #     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
/// #         write!(f, "{self:?}")
/// #     }
/// # }
/// impl std::error::Error for NotPaid {}
///
/// fn affordable(balance: i64, cents: i64) -> Result<i64, NotPaid> {
///     if balance < cents { Err(NotPaid::Missing { cents: cents - balance }) } else { Ok(balance - cents) }
/// }
///
/// let db = Database::in_memory()?;
/// let refused = db.transaction(|_| Ok(affordable(50, 80)?)).unwrap_err();
/// assert!(matches!(refused.own(), Some(NotPaid::Missing { cents: 30 })));
/// # let _ = NotPaid::NoAccount;
/// # Ok::<(), tombolo::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Stop {
    /// The closure aborted, for this reason.
    Abort(&'static str),
    /// The closure aborted, with an error of the application's own.
    Own(OwnError),
    /// The store refused a call.
    Error(StoreError),
}

/// An error of the application. Clones of one error are equal; two errors that were created separately
/// are not.
#[derive(Clone)]
pub struct OwnError(Arc<dyn std::error::Error + Send + Sync>);

impl OwnError {
    /// The error, if it is of this type.
    pub fn get<E: std::error::Error + 'static>(&self) -> Option<&E> {
        self.0.downcast_ref()
    }

    /// The error, of whatever type.
    pub fn as_dyn(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
        &*self.0
    }
}

impl PartialEq for OwnError {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for OwnError {}

impl fmt::Debug for OwnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for OwnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for Stop {
    /// Errors of this library keep their variant; any other error is the application's own.
    #[inline]
    fn from(error: E) -> Self {
        // A comparison of constants, decided at compile time.
        let any: &dyn Any = &error;
        if let Some(&error) = any.downcast_ref::<StoreError>() {
            return Self::Error(error);
        }
        if let Some(error) = any.downcast_ref::<EngineStop>() {
            return Self::of(*error);
        }
        match any.downcast_ref::<Error>() {
            Some(Error::Aborted(reason)) => Self::Abort(reason),
            Some(Error::Refused(error) | Error::RefusedAt { error, .. }) => Self::Error(*error),
            Some(Error::Own(own)) => Self::Own(own.clone()),
            _ => Self::Own(OwnError(Arc::new(error))),
        }
    }
}

impl Stop {
    /// Converts the error of a procedure.
    #[inline]
    pub(crate) const fn of(stop: EngineStop) -> Self {
        match stop {
            EngineStop::Abort(reason) => Self::Abort(reason),
            EngineStop::Error(error) => Self::Error(error),
        }
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Abort(reason) => write!(f, "aborted: {reason}"),
            Self::Own(own) => own.fmt(f),
            Self::Error(error) => error.fmt(f),
        }
    }
}
