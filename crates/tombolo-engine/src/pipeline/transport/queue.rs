//! The queues between stages: bounded, with many producers and one consumer that drains the whole queue (TPK-4,
//! TPK-5).
//!
//! One mutex, held for a handful of instructions. A producer locks it once per call, whether it puts in
//! one item or a thousand. The consuming stage takes *everything* by swapping the queue's vector with its own
//! empty one, so that k transactions cost it one lock, no allocation and no copy. The vector
//! it returns is the one it took last time.
//!
//! Bounds are in transactions and in bytes. An item always fits into an empty queue, so that
//! no item is too large forever. A caller that waits for room sleeps in the queue; a stage never
//! does: it gets an error if there is no room, and its [`Signal`] wakes it once there is.
//!
//! Not here: the content of a queue, the threads of its ends. Invariants: every item comes
//! out once, in the order of the puts; after `close` nothing is accepted, and the remaining items come out.

use std::sync::Arc;

use tombolo_storage::sync::{AtomicBool, Condvar, Mutex, Ordering};

use crate::pipeline::transport::signal::Signal;

/// An amount of room: needed, or available.
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

/// The reason that an item was not accepted, with the item.
#[derive(Debug, PartialEq, Eq)]
pub enum NotPut<T> {
    /// There is no room now.
    Full(T),
    /// The queue is closed.
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
    /// Whether it is open and empty, as of the last change under the lock: for a thread that only
    /// has to see its own items.
    is_open_and_empty: AtomicBool,
    has_room: Condvar,
    bound: Load,
    consumer: Arc<Signal>,
    /// The threads of the producing stages.
    producers: Vec<Arc<Signal>>,
}

impl<T> Queue<T> {
    /// An empty queue that wakes `consumer` when items arrive and `producers` when there is
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

    /// Like [`Queue::try_put`], but does not wake the consumer: the calling thread does that.
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

    /// Like [`Queue::offer`], but does not wake the consumer: the calling thread does that.
    ///
    /// # Errors
    /// The item, when there is no room or the queue is closed.
    pub fn offer_silently(&self, item: T, load: Load) -> Result<(), NotPut<T>> {
        let mut inner = self.inner.lock();
        let put = self.put(&mut inner, item, load);
        inner.stage_refused |= matches!(put, Err(NotPut::Full(_)));
        put
    }

    /// Puts an item in, whether there is room or not, unless the queue is closed, and does not wake the consumer: the
    /// calling thread does that.
    pub fn put_anyway_silently(&self, item: T, load: Load) {
        let mut inner = self.inner.lock();
        if !inner.is_closed {
            inner.items.push(item);
            inner.load = inner.load.plus(load);
            self.is_open_and_empty.store(false, Ordering::Release);
        }
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

    /// Like [`Queue::put_when_room`], but does not wake the consumer, unless there is no room: the
    /// calling thread does that.
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

    /// Puts in as many of `items` as fit, from the front, with one lock, and removes them from `items`. Returns
    /// their number, or `None` if the queue is closed.
    pub fn put_many(&self, items: &mut Vec<T>, load: impl Fn(&T) -> Load) -> Option<usize> {
        let put = self.put_many_silently(items, load);
        if put > Some(0) {
            self.consumer.wake();
        }
        put
    }

    /// Like [`Queue::put_many`], but does not wake the consumer: the calling thread does that.
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

    /// Takes everything, in exchange for `into`, which is empty; returns whether more may come.
    ///
    /// # Panics
    /// When `into` is not empty.
    pub fn drain(&self, into: &mut Vec<T>) -> bool {
        assert!(into.is_empty(), "the items drained before were not consumed");
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

    /// Accepts no more items; those in the queue remain until they are drained.
    pub fn close(&self) {
        let mut inner = self.inner.lock();
        inner.is_closed = true;
        self.is_open_and_empty.store(false, Ordering::Release);
        drop(inner);
        self.has_room.notify_all();
        self.consumer.wake();
        self.wake_producers();
    }

    /// Whether it accepts items.
    pub fn is_open(&self) -> bool {
        !self.inner.lock().is_closed
    }

    /// Wakes the consuming stage, although no item was put in.
    pub fn wake(&self) {
        self.consumer.wake();
    }

    /// Wakes the producing stages, although there is no more room than before.
    pub fn wake_producers(&self) {
        self.producers.iter().for_each(|producer| producer.wake());
    }

    /// Whether it is open and empty. Items that another thread puts in concurrently may be missed.
    #[inline]
    pub fn is_open_and_empty(&self) -> bool {
        // Partners: the stores under the lock.
        self.is_open_and_empty.load(Ordering::Acquire)
    }

    /// Its current content.
    pub fn load(&self) -> Load {
        self.inner.lock().load
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(not(loom))]
#[cfg(test)]
mod tests;
