//! How sessions share a database (S6): by reference count if it has latches; without latches there is nothing to share.
//!
//! An unlatched database has one session and lies in a box of its own: the store that holds it
//! cannot be shared, but moves from thread to thread.

use std::ops::Deref;

use crate::latch::{Latched, Latching, Unlatched};
use crate::sync::Arc;

/// What a session holds its database by.
pub trait Sharing: Latching {
    /// Leads to a `T`.
    type Handle<T>: Deref<Target = T>;

    /// Puts `value` where sessions find it.
    fn share<T>(value: T) -> Self::Handle<T>;

    /// Another handle of the same; `None` where there is one only.
    fn another<T>(handle: &Self::Handle<T>) -> Option<Self::Handle<T>>;

    /// What the handle leads to, if no other does.
    fn alone<T>(handle: &mut Self::Handle<T>) -> Option<&mut T>;
}

impl Sharing for Latched {
    type Handle<T> = Arc<T>;

    fn share<T>(value: T) -> Arc<T> {
        Arc::new(value)
    }

    fn another<T>(handle: &Arc<T>) -> Option<Arc<T>> {
        Some(Arc::clone(handle))
    }

    fn alone<T>(handle: &mut Arc<T>) -> Option<&mut T> {
        Arc::get_mut(handle)
    }
}

impl Sharing for Unlatched {
    type Handle<T> = Box<T>;

    fn share<T>(value: T) -> Box<T> {
        Box::new(value)
    }

    fn another<T>(_: &Box<T>) -> Option<Box<T>> {
        None
    }

    fn alone<T>(handle: &mut Box<T>) -> Option<&mut T> {
        Some(handle)
    }
}
