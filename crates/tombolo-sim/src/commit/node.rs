//! One simulated island: its machine, its store, and its pending actions.
//!
//! Not here: the times of its actions (`world.rs`).

use std::collections::VecDeque;

use tombolo_engine::islands::commit::{Action, Event, IslandId, Machine};

use super::store::{Cell, Store};

/// What has arrived at an island.
#[derive(Debug)]
pub(super) enum Arrival {
    Event(Event<'static>),
    Message(IslandId, Vec<u8>),
    Local(Action),
}

/// See the file's head.
#[derive(Debug)]
pub(super) struct Node {
    /// None: it is down.
    pub(super) machine: Option<Machine>,
    /// How often it crashed.
    pub(super) life: u32,
    pub(super) store: Store,
    pub(super) arrived: VecDeque<Arrival>,
    pub(super) todo: VecDeque<Action>,
    /// Whether the calendar has an entry for its next step, and for its next flush.
    pub(super) works: bool,
    pub(super) flushes: bool,
}

impl Node {
    pub(super) fn new(accounts: Vec<Cell>) -> Self {
        Self {
            machine: None,
            life: 0,
            store: Store::new(accounts),
            arrived: VecDeque::new(),
            todo: VecDeque::new(),
            works: false,
            flushes: false,
        }
    }

    /// Keeps so many records of what is not durable; says how many are lost.
    pub(super) fn crash(&mut self, kept: usize) -> usize {
        self.machine = None;
        self.life += 1;
        self.todo.clear();
        self.arrived.clear();
        (self.works, self.flushes) = (false, false);
        self.store.crash(kept)
    }
}
