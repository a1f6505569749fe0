//! The events of the model: transactions of callers in a closed loop, on islands' cores.
//!
//! ```text
//! one island   Begin ─ Rows ─ Finish ─ Decided
//! several      Begin ─ Sent ─ Rows ─ Executed ─┐
//!                       └ Serve ─ Rows ─ Vote ─┴ Counted ─ Decide ─ Decided
//!                                                                     └ Decision ─ Acknowledge   (rows were changed)
//! ```
//!
//! A task has a core until it waits: for a row, for the log, for a disk, for other islands. Rows are held until the
//! decision is known on their island; those that were only read, until the vote (ISL-30: a transaction that changes
//! rows has twice the messages). A transaction that would close a circle of waiting begins again. Not here: what a
//! piece of work costs (`costs.rs`).

use std::collections::{BTreeMap, VecDeque};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use tombolo_engine::rng::Rng;

use super::load::{Maker, Part};
use super::locks::{Asked, Locks};
use super::{Kind, Outcome, Parts, Scenario};

/// The next step of a task; at home, or on another island where its name says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Begin,
    /// The other islands' parts were sent to them.
    Sent,
    /// On another island: a part arrived.
    Serve,
    Rows,
    /// The row that was waited for is there.
    Granted,
    Read,
    /// The only part is executed.
    Finish,
    /// The log has what ends the transaction.
    Logged,
    /// The home part of several is executed.
    Executed,
    /// On another island: its part is executed; the vote is durable.
    Vote,
    Voted,
    /// A vote arrived; all parts that voted are counted.
    Answer,
    Counted,
    Decide,
    Decided,
    /// On another island: a decision arrived, and was carried out.
    Decision,
    Ended,
    Acknowledge,
    Acknowledged,
}

#[derive(Clone, Copy, Debug)]
struct Task {
    transaction: usize,
    part: usize,
    step: Step,
}

#[derive(Debug)]
struct Transaction {
    caller: usize,
    parts: Vec<Part>,
    /// The next row of each part.
    next: Vec<usize>,
    /// Parts whose vote, then whose acknowledgement, is awaited.
    pending: usize,
}

impl Transaction {
    const fn is_distributed(&self) -> bool {
        self.parts.len() > 1
    }
}

/// What follows a step: whether the task keeps its core.
enum Then {
    /// Goes on at once.
    Next(Step),
    /// Uses it so long, then goes on.
    Work(Parts, Step),
    /// Leaves it, and goes on after a while.
    Later(f64, Step),
    /// Leaves it.
    Leave,
}

/// An event: at the end of work on a core, or when a task that left its core goes on.
#[derive(Clone, Copy, Debug)]
enum Event {
    Worked(usize, Task),
    Ready(usize, Task),
}

/// The queue and the free cores of an island.
#[derive(Debug, Default)]
struct Island {
    free: usize,
    /// What others wait for, and new transactions.
    urgent: VecDeque<Task>,
    new: VecDeque<Task>,
    sharing_us: f64,
    message_us: Vec<f64>,
}

/// Work that is nothing but messages.
fn communicating(communication: f64, step: Step) -> Then {
    Then::Work(Parts { communication, ..Parts::default() }, step)
}

struct Simulation<'s> {
    scenario: &'s Scenario,
    maker: Maker,
    rng: Rng,
    now: f64,
    order: u64,
    /// Those to come, by their time, as bits, and the order in which they were scheduled.
    events: BTreeMap<(u64, u64), Event>,
    islands: Vec<Island>,
    locks: Locks,
    transactions: HashMap<usize, Transaction, FixedState>,
    numbers: usize,
    disks: Vec<f64>,
    /// Cores of an island.
    cores: usize,
    has_latches: bool,
    has_locks: bool,
    done: Done,
}

#[derive(Clone, Copy, Debug, Default)]
struct Done {
    committed: u64,
    distributed: u64,
    restarts: u64,
    messages: u64,
    parts: Parts,
}

impl Scenario {
    /// Simulates it.
    ///
    /// # Panics
    /// When its islands do not divide the cores, or have fewer rows than a transaction.
    pub fn run(&self) -> Outcome {
        let mut simulation = Simulation::new(self);
        simulation.run_until(self.transactions / 5);
        let (begun, before) = (simulation.now, std::mem::take(&mut simulation.done));
        debug_assert!(before.committed >= self.transactions / 5, "the warm-up is over");
        simulation.run_until(self.transactions);
        let (done, wall_us) = (simulation.done, simulation.now - begun);
        let each = done.committed.max(1) as f64;
        let parts = done.parts.map(|us| us / each);
        let tps = each * 1e6 / wall_us;
        Outcome {
            tps,
            parts,
            distributed: done.distributed as f64 / each,
            busy: self.busy(tps, &parts),
            restarts: done.restarts,
            messages: done.messages as f64 / each,
        }
    }
}

impl<'s> Simulation<'s> {
    fn new(scenario: &'s Scenario) -> Self {
        let Scenario { machine, islands, load, .. } = scenario;
        let cores = machine.cores() / islands.count;
        assert_eq!(cores * islands.count, machine.cores(), "islands divide the cores");
        let is_serial = machine.serial_islands;
        let island = |at| Island {
            free: if is_serial { 1 } else { cores },
            sharing_us: machine.sharing_us(*islands, at),
            message_us: (0..islands.count).map(|to| machine.message_us(*islands, at, to)).collect(),
            ..Island::default()
        };
        let mut simulation = Self {
            scenario,
            maker: Maker::new(*load, islands.count),
            rng: Rng::from_seed(scenario.seed),
            now: 0.0,
            order: 0,
            events: BTreeMap::new(),
            islands: (0..islands.count).map(island).collect(),
            locks: Locks::default(),
            transactions: HashMap::default(),
            numbers: 0,
            disks: vec![0.0; scenario.disks.map_or(0, |disks| disks.count)],
            cores,
            has_latches: cores > 1 && !is_serial,
            has_locks: (cores > 1 && !is_serial)
                || (load.multisite_percent > 0 && islands.count > 1),
            done: Done::default(),
        };
        for caller in 0..machine.cores() * load.callers_per_core {
            simulation.begin(caller);
        }
        simulation
    }

    fn run_until(&mut self, committed: u64) {
        while self.done.committed < committed {
            let Some(((at, _), event)) = self.events.pop_first() else { return };
            self.now = f64::from_bits(at);
            match event {
                Event::Worked(island, task) => self.go_on(island, task),
                Event::Ready(island, task) => self.enqueue(island, task),
            }
        }
    }

    fn schedule(&mut self, after: f64, event: Event) {
        self.order += 1;
        // Times are not negative: their bits are in their order.
        self.events.insert(((self.now + after).to_bits(), self.order), event);
    }

    /// A caller's next transaction.
    fn begin(&mut self, caller: usize) {
        let own = caller / self.scenario.load.callers_per_core / self.cores;
        let parts = self.maker.make(own, &mut self.rng);
        self.start(caller, parts);
    }

    fn start(&mut self, caller: usize, parts: Vec<Part>) {
        self.numbers += 1;
        let (home, next) = (parts[0].island, vec![0; parts.len()]);
        let pending = parts.len();
        self.transactions.insert(self.numbers, Transaction { caller, parts, next, pending });
        self.enqueue(home, Task { transaction: self.numbers, part: 0, step: Step::Begin });
    }

    fn enqueue(&mut self, island: usize, task: Task) {
        let queues = &mut self.islands[island];
        match task.step {
            Step::Begin => queues.new.push_back(task),
            _ => queues.urgent.push_back(task),
        }
        self.dispatch(island);
    }

    /// Gives free cores to tasks.
    fn dispatch(&mut self, island: usize) {
        let of = &mut self.islands[island];
        if of.free == 0 {
            return;
        }
        if let Some(task) = of.urgent.pop_front().or_else(|| of.new.pop_front()) {
            of.free -= 1;
            self.go_on(island, task);
        }
    }

    /// A task that has a core does what comes next.
    fn go_on(&mut self, island: usize, mut task: Task) {
        loop {
            // A transaction that began again has left tasks behind.
            let then = match self.transactions.contains_key(&task.transaction) {
                true => self.step(island, task),
                false => Then::Leave,
            };
            match then {
                Then::Next(step) => task.step = step,
                Then::Work(parts, step) => {
                    self.done.parts.add(&parts);
                    return self
                        .schedule(parts.sum(), Event::Worked(island, Task { step, ..task }));
                }
                Then::Later(after, step) => {
                    self.schedule(after, Event::Ready(island, Task { step, ..task }));
                    return self.leave(island);
                }
                Then::Leave => return self.leave(island),
            }
        }
    }

    fn leave(&mut self, island: usize) {
        self.islands[island].free += 1;
        self.dispatch(island);
    }

    fn step(&mut self, island: usize, task: Task) -> Then {
        let costs = &self.scenario.machine.costs;
        let (management, woken_us) = (costs.management_us, costs.message_us);
        let is_update = self.scenario.load.is_update();
        let is_distributed = self.is_distributed(task);
        match task.step {
            Step::Begin => {
                let communication = self.sending_us(task);
                Then::Work(Parts { management, communication, ..Parts::default() }, Step::Sent)
            }
            Step::Sent => {
                self.send_all(task, Step::Serve);
                Then::Next(Step::Rows)
            }
            Step::Serve => {
                let communication = self.message_us(task);
                Then::Work(Parts { management, communication, ..Parts::default() }, Step::Rows)
            }
            Step::Rows => self.row(island, task),
            Step::Granted => communicating(woken_us, Step::Read),
            Step::Read => Then::Work(self.access(island, is_distributed), Step::Rows),
            Step::Finish => Then::Work(self.ending(task, 1.0, true), Step::Logged),
            Step::Logged => self.durable(Step::Decided),
            Step::Executed => Then::Work(self.ending(task, 0.0, false), Step::Counted),
            Step::Vote => {
                let communication = self.message_us(task);
                let ending = self.ending(task, 1.0, !is_update);
                Then::Work(Parts { communication, ..ending }, Step::Voted)
            }
            Step::Voted => {
                if !is_update {
                    self.release(task.transaction, task.part);
                }
                self.send_home(task, Step::Answer, if is_update { costs.flush_us } else { 0.0 })
            }
            Step::Answer => communicating(self.message_us(task), Step::Counted),
            Step::Counted => match self.is_last(task.transaction) {
                true => Then::Next(Step::Decide),
                false => Then::Leave,
            },
            Step::Decide => Then::Work(self.deciding(task), Step::Logged),
            Step::Decided => self.answered(task),
            Step::Decision => {
                let communication = 2.0 * self.message_us(task);
                let (locking, logging) = (costs.unlock_us, costs.log_record_us);
                let parts = Parts { communication, locking, logging, ..Parts::default() };
                Then::Work(parts, Step::Ended)
            }
            Step::Ended => {
                self.release(task.transaction, task.part);
                self.send_home(task, Step::Acknowledge, 0.0)
            }
            Step::Acknowledge => communicating(self.message_us(task), Step::Acknowledged),
            Step::Acknowledged => {
                if self.is_last(task.transaction) {
                    self.transactions.remove(&task.transaction);
                }
                Then::Leave
            }
        }
    }

    /// The home island makes the decision, and sends it where rows were changed.
    fn deciding(&self, task: Task) -> Parts {
        let costs = &self.scenario.machine.costs;
        let (logging, communication) = match self.scenario.load.is_update() {
            true => (costs.log_record_us, self.sending_us(task)),
            false => (0.0, 0.0),
        };
        Parts { locking: costs.unlock_us, logging, communication, ..Parts::default() }
    }

    /// One end of a message between a part's island and the home of its transaction.
    fn message_us(&self, task: Task) -> f64 {
        let parts = &self.transactions[&task.transaction].parts;
        self.islands[parts[0].island].message_us[parts[task.part].island] / 2.0
    }

    /// Sending a message to each other part's island.
    fn sending_us(&self, task: Task) -> f64 {
        let parts = 1..self.transactions[&task.transaction].parts.len();
        parts.map(|part| self.message_us(Task { part, ..task })).sum()
    }

    fn send_all(&mut self, task: Task, step: Step) {
        let parts = self.transactions[&task.transaction].parts.iter().map(|part| part.island);
        for (part, island) in parts.collect::<Vec<_>>().into_iter().enumerate().skip(1) {
            self.done.messages += 1;
            self.enqueue(island, Task { part, step, ..task });
        }
    }

    fn send_home(&mut self, task: Task, step: Step, after: f64) -> Then {
        self.done.messages += 1;
        let home = self.transactions[&task.transaction].parts[0].island;
        self.schedule(after, Event::Ready(home, Task { step, ..task }));
        Then::Leave
    }

    /// The next row of a part, or what comes after the last one.
    fn row(&mut self, island: usize, task: Task) -> Then {
        let is_update = self.scenario.load.is_update();
        let Some(of) = self.transactions.get_mut(&task.transaction) else { return Then::Leave };
        let at = of.next[task.part];
        let Some(&key) = of.parts[task.part].rows.get(at) else {
            return Then::Next(match (of.is_distributed(), task.part) {
                (false, _) => Step::Finish,
                (true, 0) => Step::Executed,
                (true, _) => Step::Vote,
            });
        };
        of.next[task.part] += 1;
        if self.has_locks {
            match self.locks.ask(key, (task.transaction, task.part), is_update) {
                Asked::Granted => {}
                Asked::Waits => return Then::Leave,
                Asked::Circle => {
                    self.begin_again(task.transaction);
                    return Then::Leave;
                }
            }
        }
        match self.disk_us() {
            Some(after) => Then::Later(after, Step::Read),
            None => Then::Work(self.access(island, self.is_distributed(task)), Step::Rows),
        }
    }

    fn is_distributed(&self, task: Task) -> bool {
        self.transactions[&task.transaction].is_distributed()
    }

    /// How long a row is waited for, if it is not in memory.
    fn disk_us(&mut self) -> Option<f64> {
        let disks = self.scenario.disks?;
        if self.rng.below(1_000) >= disks.misses_per_mille {
            return None;
        }
        let free = self.disks.iter_mut().min_by(|one, other| one.total_cmp(other))?;
        *free = free.max(self.now) + disks.read_us;
        Some(*free - self.now)
    }

    /// Whether locks of a transaction cost anything: on a serial island only one of several islands has some (ISL-17).
    const fn pays_locks(&self, is_distributed: bool) -> bool {
        self.has_locks && (is_distributed || !self.scenario.machine.serial_islands)
    }

    fn access(&self, island: usize, is_distributed: bool) -> Parts {
        let Scenario { machine, load, .. } = self.scenario;
        let costs = &machine.costs;
        let mut parts = Parts { execution: costs.read_row_us, ..Parts::default() };
        if matches!(load.kind, Kind::Rows { is_update: true, .. }) {
            parts.execution += costs.change_row_us;
        }
        if self.pays_locks(is_distributed) {
            parts.locking += costs.lock_row_us;
        }
        if self.has_latches {
            // The lines are those of latches, locks and pins.
            parts.locking += costs.latch_row_us + self.islands[island].sharing_us;
        }
        parts
    }

    /// A part's log records, a number of others, and the release of its locks.
    fn ending(&self, task: Task, records: f64, releases: bool) -> Parts {
        let Scenario { machine, load, .. } = self.scenario;
        let costs = &machine.costs;
        let mut parts = Parts::default();
        let mut changed = self.transactions[&task.transaction].parts[task.part].rows.len() as f64;
        if matches!(load.kind, Kind::Payment { .. }) {
            parts.execution = changed * costs.change_row_us + costs.create_row_us;
            changed += 1.0; // the one that is made
        }
        if load.is_update() {
            parts.logging = (changed + records) * costs.log_record_us;
        }
        if releases && self.pays_locks(self.is_distributed(task)) {
            parts.locking = costs.unlock_us;
        }
        parts
    }

    /// Waits until the log is durable, if anything was changed.
    fn durable(&self, step: Step) -> Then {
        let flush_us = self.scenario.machine.costs.flush_us;
        match self.scenario.load.is_update() && flush_us > 0.0 {
            true => Then::Later(flush_us, step),
            false => Then::Next(step),
        }
    }

    /// Whether of the parts that are awaited this was the last.
    fn is_last(&mut self, transaction: usize) -> bool {
        let Some(of) = self.transactions.get_mut(&transaction) else { return false };
        of.pending -= 1;
        of.pending == 0
    }

    /// The caller has its answer, and calls again.
    fn answered(&mut self, task: Task) -> Then {
        self.release(task.transaction, 0);
        let Some(of) = self.transactions.get_mut(&task.transaction) else { return Then::Leave };
        let (caller, others) = (of.caller, of.parts.len() - 1);
        of.pending = others;
        self.done.committed += 1;
        self.done.distributed += u64::from(others > 0);
        match self.scenario.load.is_update() && others > 0 {
            true => self.send_all(task, Step::Decision),
            false => drop(self.transactions.remove(&task.transaction)),
        }
        self.begin(caller);
        Then::Leave
    }

    fn release(&mut self, transaction: usize, part: usize) {
        if !self.has_locks {
            return;
        }
        let Some(of) = self.transactions.get(&transaction) else { return };
        let (rows, is_update) = (of.parts[part].rows.clone(), self.scenario.load.is_update());
        for (transaction, part) in self.locks.release(transaction, rows, is_update) {
            let Some(of) = self.transactions.get(&transaction) else { continue };
            let island = of.parts[part].island;
            self.enqueue(island, Task { transaction, part, step: Step::Granted });
        }
    }

    /// A transaction gives way, and begins again.
    fn begin_again(&mut self, transaction: usize) {
        let parts = self.transactions.get(&transaction).map_or(0, |of| of.parts.len());
        (0..parts).for_each(|part| self.release(transaction, part));
        if let Some(of) = self.transactions.remove(&transaction) {
            self.done.restarts += 1;
            self.start(of.caller, of.parts);
        }
    }
}
