//! The queues between stages: bounded, filled by many, drained whole by one (TPK-4, TPK-5).
//!
//! One mutex, held for a handful of instructions. A caller pays for it once per call that puts something in, be
//! it one item or a thousand. The stage behind takes *everything* by swapping the queue's vector with its own
//! empty one, so that a transaction costs it the k-th part of one lock, no allocation and no copy. The vector
//! it brings back is the one it took last time.
//!
//! Bounds are in transactions and in bytes. An item always fits into an empty queue, so that
//! nothing is too large forever. A thread that waits for room sleeps in the queue; a stage never
//! does: it gets an error when there is none, and is woken by its [`Signal`] once there is.
//!
//! Not here: what is in a queue, in which thread its ends run. Invariants: what was put in comes
//! out once, in the order of the puts; after `close` nothing is put in, and what is in comes out.

use std::sync::Arc;

use tombolo_storage::sync::{AtomicBool, Condvar, Mutex, Ordering};

use crate::pipeline::transport::signal::Signal;

/// How much room something takes, or how much there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// In transactions.
    pub transactions: u64,
    /// In bytes.
    pub bytes: u64,
}

impl Load {
    const fn plus(self, other: Self) -> Self {
        Self {
            transactions: self.transactions.saturating_add(other.transactions),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    const fn within(self, bound: Self) -> bool {
        self.transactions <= bound.transactions && self.bytes <= bound.bytes
    }
}

/// Why something was not put in; it comes back with the reason.
#[derive(Debug, PartialEq, Eq)]
pub enum NotPut<T> {
    /// There is no room now.
    Full(T),
    /// There will be none.
    Closed(T),
}

#[derive(Debug)]
struct Inner<T> {
    items: Vec<T>,
    load: Load,
    is_closed: bool,
    /// Threads that sleep until there is room.
    threads_waiting: u32,
    /// Whether a stage was refused since the queue was last drained.
    stage_refused: bool,
}

/// A queue with one stage behind it.
#[derive(Debug)]
pub struct Queue<T> {
    inner: Mutex<Inner<T>>,
    /// Whether nothing is in it and more may come, as last left under the lock: for a thread that only
    /// has to see what it has put in itself.
    is_open_and_empty: AtomicBool,
    has_room: Condvar,
    bound: Load,
    consumer: Arc<Signal>,
    /// The threads of the stages that fill it.
    producers: Vec<Arc<Signal>>,
}

impl<T> Queue<T> {
    /// An empty queue that wakes `consumer` when something is put in and `producers` when there is
    /// room again.
    pub fn new(bound: Load, consumer: Arc<Signal>, producers: Vec<Arc<Signal>>) -> Self {
        let inner = Inner {
            items: Vec::new(),
            load: Load::default(),
            is_closed: false,
            threads_waiting: 0,
            stage_refused: false,
        };
        Self {
            inner: Mutex::new(inner),
            is_open_and_empty: AtomicBool::new(true),
            has_room: Condvar::new(),
            bound,
            consumer,
            producers,
        }
    }

    fn put(&self, inner: &mut Inner<T>, item: T, load: Load) -> Result<(), NotPut<T>> {
        if inner.is_closed {
            return Err(NotPut::Closed(item));
        }
        let after = inner.load.plus(load);
        if !after.within(self.bound) && !inner.items.is_empty() {
            return Err(NotPut::Full(item));
        }
        inner.items.push(item);
        inner.load = after;
        self.is_open_and_empty.store(false, Ordering::Release);
        Ok(())
    }

    /// Puts an item in, if there is room.
    ///
    /// # Errors
    /// The item, when there is none or the queue is closed.
    pub fn try_put(&self, item: T, load: Load) -> Result<(), NotPut<T>> {
        let put = self.try_put_silently(item, load);
        if put.is_ok() {
            self.consumer.wake();
        }
        put
    }

    /// Like [`Queue::try_put`], but the consumer is not woken: the calling thread sees to that.
    ///
    /// # Errors
    /// As [`Queue::try_put`].
    pub fn try_put_silently(&self, item: T, load: Load) -> Result<(), NotPut<T>> {
        self.put(&mut self.inner.lock(), item, load)
    }

    /// For stages: like [`Queue::try_put`]; a stage that was refused is woken when there is room.
    ///
    /// # Errors
    /// The item, when there is no room or the queue is closed.
    pub fn offer(&self, item: T, load: Load) -> Result<(), NotPut<T>> {
        let put = self.offer_silently(item, load);
        if put.is_ok() {
            self.consumer.wake();
        }
        put
    }

    /// Like [`Queue::offer`], but the consumer is not woken: the calling thread sees to that.
    ///
    /// # Errors
    /// The item, when there is no room or the queue is closed.
    pub fn offer_silently(&self, item: T, load: Load) -> Result<(), NotPut<T>> {
        let mut inner = self.inner.lock();
        let put = self.put(&mut inner, item, load);
        inner.stage_refused |= matches!(put, Err(NotPut::Full(_)));
        put
    }

    /// Puts an item in; sleeps until there is room. Never called by a stage.
    ///
    /// # Errors
    /// The item, when the queue is closed.
    pub fn put_when_room(&self, item: T, load: Load) -> Result<(), T> {
        self.put_when_room_silently(item, load)?;
        self.consumer.wake();
        Ok(())
    }

    /// Like [`Queue::put_when_room`], but the consumer is not woken, unless there is no room: the
    /// calling thread sees to that.
    ///
    /// # Errors
    /// As [`Queue::put_when_room`].
    pub fn put_when_room_silently(&self, mut item: T, load: Load) -> Result<(), T> {
        let mut inner = self.inner.lock();
        loop {
            match self.put(&mut inner, item, load) {
                Ok(()) => return Ok(()),
                Err(NotPut::Closed(item)) => return Err(item),
                Err(NotPut::Full(refused)) => item = refused,
            }
            self.consumer.wake();
            inner.threads_waiting += 1;
            inner = self.has_room.wait(inner);
            inner.threads_waiting -= 1;
        }
    }

    /// Puts in as many of `items` as fit, from the front, with one lock; they leave `items`. How
    /// many, or `None` when the queue is closed.
    pub fn put_many(&self, items: &mut Vec<T>, load: impl Fn(&T) -> Load) -> Option<usize> {
        let put = self.put_many_silently(items, load);
        if put > Some(0) {
            self.consumer.wake();
        }
        put
    }

    /// Like [`Queue::put_many`], but the consumer is not woken: the calling thread sees to that.
    pub fn put_many_silently(
        &self,
        items: &mut Vec<T>,
        load: impl Fn(&T) -> Load,
    ) -> Option<usize> {
        let mut inner = self.inner.lock();
        if inner.is_closed {
            return None;
        }
        let (mut after, mut fitting) = (inner.load, 0);
        for item in items.iter() {
            let with = after.plus(load(item));
            let is_first = inner.items.is_empty() && fitting == 0;
            if !with.within(self.bound) && !is_first {
                inner.stage_refused = true;
                break;
            }
            (after, fitting) = (with, fitting + 1);
        }
        inner.items.extend(items.drain(..fitting));
        inner.load = after;
        if fitting > 0 {
            self.is_open_and_empty.store(false, Ordering::Release);
        }
        Some(fitting)
    }

    /// Takes everything, in exchange for `into`, which is empty; says whether more may come.
    ///
    /// # Panics
    /// When `into` is not empty.
    pub fn drain(&self, into: &mut Vec<T>) -> bool {
        assert!(into.is_empty(), "what was drained before is still there");
        let mut inner = self.inner.lock();
        let is_open = !inner.is_closed;
        if inner.items.is_empty() {
            return is_open;
        }
        std::mem::swap(&mut inner.items, into);
        inner.load = Load::default();
        self.is_open_and_empty.store(is_open, Ordering::Release);
        let stage_refused = std::mem::take(&mut inner.stage_refused);
        let threads_waiting = inner.threads_waiting;
        drop(inner);
        if threads_waiting > 0 {
            self.has_room.notify_all();
        }
        if stage_refused {
            self.wake_producers();
        }
        is_open
    }

    /// Lets nothing more in; what is in stays until it is drained.
    pub fn close(&self) {
        let mut inner = self.inner.lock();
        inner.is_closed = true;
        self.is_open_and_empty.store(false, Ordering::Release);
        drop(inner);
        self.has_room.notify_all();
        self.consumer.wake();
        self.wake_producers();
    }

    /// Whether anything may still be put in.
    pub fn is_open(&self) -> bool {
        !self.inner.lock().is_closed
    }

    /// Lets the stage behind it look around, though nothing was put in.
    pub fn wake(&self) {
        self.consumer.wake();
    }

    /// Lets the stages before it look around, though there is no more room than before.
    pub fn wake_producers(&self) {
        self.producers.iter().for_each(|producer| producer.wake());
    }

    /// Whether nothing is in it and more may come. What another thread puts in meanwhile may be
    /// missed.
    #[inline]
    pub fn is_open_and_empty(&self) -> bool {
        // Partners: the stores under the lock.
        self.is_open_and_empty.load(Ordering::Acquire)
    }

    /// What is in it now.
    pub fn load(&self) -> Load {
        self.inner.lock().load
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(not(loom))]
#[cfg(test)]
mod tests;
