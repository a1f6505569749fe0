//! One transaction over two and three islands, with a crash at every step, of every island, and every order in which
//! they open again; and with a second crash at every later step.
//!
//! Each trial is a world in which nothing else goes wrong. Not here: what must hold (`oracle.rs`).

use std::sync::atomic::{AtomicUsize, Ordering};

use tombolo_engine::islands::commit::IslandId;
use tombolo_engine::rng::Rng;
use tombolo_engine::threads::on_each;

use super::requests::{Operation, Request};
use super::swarm::Swarm;
use super::world::{Crash, World};
use crate::oracle::Violation;
use crate::trace::Trace;

/// How long an island is down that opens first, second, third.
const DOWN: [u64; 3] = [1, 40, 400];

/// What the trials found.
#[derive(Clone, Debug, Default)]
pub struct Trials {
    /// How many ended.
    pub count: u64,
    /// How many of them broke a rule.
    pub failed: u64,
    /// The first violation, in words.
    pub first: Option<String>,
}

/// A transaction and how its world goes.
#[derive(Clone, Debug)]
struct Case {
    islands: u16,
    parts: Vec<Vec<Operation>>,
    /// Whether flushes are slow, and messages fast; or the other way round.
    is_flush_slow: bool,
}

impl Case {
    fn world(&self, crashes: Vec<Crash>) -> World {
        let (message_max, flush_max) = if self.is_flush_slow { (1, 30) } else { (30, 1) };
        let swarm = Swarm {
            islands: self.islands,
            accounts: 1,
            requests: 1,
            pause_max: 5,
            slow_links: 0,
            message_max,
            work_max: 1,
            flush_max,
            patience: 600,
            is_serial: true,
            down_max: 0,
            cut_max: 5,
            crashes: 0,
            cuts: 0,
            vote_crashes: 0,
            refusals: 0,
        };
        let part =
            |(island, steps): (usize, &Vec<Operation>)| (IslandId(island as u16), steps.clone());
        let parts = self.parts.iter().enumerate().map(part);
        let parts = parts.filter(|(_, steps)| !steps.is_empty()).collect();
        let request = Request { island: IslandId(0), parts, is_local: false, is_sum: false };
        World::new(swarm, vec![request], crashes, Rng::from_seed(1), Trace::new(false))
    }

    /// Steps of the trial in which nothing goes wrong.
    fn steps(&self) -> Result<u64, Violation> {
        let mut world = self.world(Vec::new());
        world.run()?;
        Ok(world.steps)
    }
}

impl Trials {
    fn run(&mut self, case: &Case, crashes: Vec<Crash>) -> u64 {
        let mut world = case.world(crashes.clone());
        self.count += 1;
        if let Err(violation) = world.run() {
            self.failed += 1;
            self.first.get_or_insert_with(|| format!("{violation}: {case:?} {crashes:?}"));
        }
        world.steps
    }

    fn try_all(&mut self, case: &Case, with_second: bool) -> Result<(), Violation> {
        for step in 1..=case.steps()? {
            for order in orders(case.islands) {
                let crash =
                    |(island, down): (&IslandId, u64)| Crash { step, island: *island, down };
                let crashes: Vec<Crash> = order.iter().zip(DOWN).map(crash).collect();
                let steps = self.run(case, crashes.clone());
                if order.len() > 1 || !with_second {
                    continue;
                }
                // Once more, while what follows from the first crash is under way.
                for step in step + 1..=steps {
                    for island in (0..case.islands).map(IslandId) {
                        let again = Crash { step, island, down: DOWN[0] };
                        self.run(case, [&crashes[..], &[again]].concat());
                    }
                }
            }
        }
        Ok(())
    }
}

/// Every set of islands, in every order.
fn orders(islands: u16) -> Vec<Vec<IslandId>> {
    let mut orders: Vec<Vec<IslandId>> = vec![Vec::new()];
    let mut from = 0;
    while from < orders.len() {
        for island in (0..islands).map(IslandId) {
            if !orders[from].contains(&island) {
                let longer = orders[from].iter().copied().chain([island]).collect();
                orders.push(longer);
            }
        }
        from += 1;
    }
    orders.split_off(1)
}

/// The transactions that are tried: of each island nothing, a read, a write, or a refusal, where the first one is the
/// coordinator's own.
fn cases() -> Vec<Case> {
    let read = || vec![Operation::Read(0)];
    let add = |amount| vec![Operation::Add(0, amount)];
    let of_two = [
        vec![add(-5), add(5)],
        vec![read(), add(0)],
        vec![add(0), read()],
        vec![read(), read()],
        vec![add(-5), vec![Operation::Refuse]],
    ];
    let of_three = [
        vec![add(-5), add(3), add(2)],
        vec![Vec::new(), add(-5), add(5)],
        vec![read(), add(-5), add(5)],
        vec![add(-5), add(5), read()],
        vec![read(), add(0), read()],
        vec![Vec::new(), read(), read()],
        vec![add(-5), add(5), vec![Operation::Refuse]],
    ];
    let all = of_two.into_iter().chain(of_three);
    let both = |parts: Vec<Vec<Operation>>| {
        let islands = parts.len() as u16;
        [false, true].map(|is_flush_slow| Case { islands, parts: parts.clone(), is_flush_slow })
    };
    all.flat_map(both).collect()
}

/// Tries them all, on so many threads; second crashes over three islands only where `is_thorough`, because they take a
/// minute.
///
/// # Errors
/// When one fails in which nothing goes wrong.
pub fn run(threads: usize, is_thorough: bool) -> Result<Trials, Violation> {
    let cases = cases();
    let next = AtomicUsize::new(0);
    let parts = on_each(0..threads, |_| {
        let mut trials = Trials::default();
        // Relaxed: the cases are independent; the counts are passed on when the threads end.
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            trials.try_all(case, is_thorough || case.islands == 2)?;
        }
        Ok(trials)
    });
    let mut trials = Trials::default();
    for Trials { count, failed, first } in parts.into_iter().collect::<Result<Vec<_>, _>>()? {
        trials.count += count;
        trials.failed += failed;
        trials.first = trials.first.or(first);
    }
    Ok(trials)
}
