//! `tombolo advise trace`: the library's side of the calls of a trace on databases of islands.
//!
//! Not here: the choice of calls and rows (lab `experiment/islands/traced/replay.rs`).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tombolo::{
    Database, Error, Index, Islands, OnIslands, Order, Range, Stop, Table, TableDef, Tx,
};
use tombolo_lab::experiment::islands::deployments::{Called, Deployment};
use tombolo_lab::experiment::islands::traced::replay::{Action, Replay, ReplayDeployment, Step};
use tombolo_lab::failure::Failure;

use super::{failed, run_parts, sum_of_all};

tombolo::table! {
    /// A row that stands for one of the traced database.
    struct Replayed = "replayed" {
        NUMBER: BigInt;
        UPDATES: BigInt;
        BODY: Bytes;
    }
}
tombolo::index! {
    /// By number.
    struct ByNumber = "replayed_by_number" on Replayed (NUMBER: BigInt) unique Tree;
}

/// Bytes that one call loads: their log fits into that of a call.
const LOADED_BYTES: usize = 40_000;

/// A database of islands, opened by the library.
struct Own {
    islands: Islands,
    /// A key of each island.
    keys: Vec<u64>,
    replay: OnIslands<Arc<[Step]>, i64>,
    load: OnIslands<Vec<(i64, u32)>, ()>,
    total: OnIslands<(), (u64, u64)>,
}

/// The table with its index.
#[derive(Clone, Copy)]
struct Handles {
    rows: Table<Replayed>,
    by_number: Index<ByNumber>,
}

impl Handles {
    fn insert(self, tx: &mut Tx<'_>, number: i64, bytes: u32) -> Result<(), Stop> {
        tx.insert(&self.rows, |row| {
            row.set(Replayed::NUMBER, number);
            row.set_variable(Replayed::BODY, &vec![b'.'; bytes as usize]);
        })
        .map(drop)
    }

    /// Takes a step; the answer is of what it read, so that it has to be read.
    fn step(self, tx: &mut Tx<'_>, step: &Step) -> Result<i64, Stop> {
        let numbers = step.first..step.first + i64::from(step.rows);
        let mut read = 0;
        if step.action == Action::Scan {
            let range = Range::between(numbers.start, numbers.end - 1);
            let found = tx.range(&self.by_number, range, Order::Forward)?;
            for row in found {
                read += tx.get(&self.rows, row)?.get(Replayed::UPDATES);
            }
            return Ok(read);
        }
        for number in numbers {
            let found = tx.lookup(&self.by_number, number)?;
            match (step.action, found) {
                (Action::Toggle, Some(row)) => tx.delete(&self.rows, row)?,
                (Action::Toggle, None) => self.insert(tx, number, step.bytes)?,
                (Action::Update, Some(row)) => {
                    let updates = tx.get(&self.rows, row)?.get(Replayed::UPDATES);
                    tx.set(&self.rows, row, Replayed::UPDATES, updates + 1)?;
                }
                (_, Some(row)) => read += tx.get(&self.rows, row)?.get(Replayed::UPDATES),
                (_, None) => return Err(Stop::Abort("a row was not loaded")),
            }
        }
        Ok(read)
    }
}

impl Own {
    fn open(islands: u16) -> Result<Self, Error> {
        let builder = Database::builder().table(TableDef::of::<Replayed>().with::<ByNumber>());
        let islands = builder.islands(islands.into()).in_memory()?;
        let handles = Handles { rows: islands.table()?, by_number: islands.index()? };
        let replay = islands.register_closure("replay", move |tx, steps: &Arc<[Step]>| {
            steps.iter().try_fold(0, |read, step| Ok(read + handles.step(tx, step)?))
        });
        let load = islands.register_closure("load", move |tx, rows: &Vec<(i64, u32)>| {
            rows.iter().try_for_each(|&(number, bytes)| handles.insert(tx, number, bytes))
        });
        let total = islands.register_closure("total", move |tx, (): &()| {
            let (mut updates, mut rows) = (0, 0);
            for (_, row) in tx.iter_table(&handles.rows)? {
                (updates, rows) = (updates + row.get(Replayed::UPDATES) as u64, rows + 1);
            }
            Ok((updates, rows))
        });
        let mut keys = vec![None; islands.islands()];
        let mut key = 0;
        while keys.contains(&None) {
            keys[islands.island_of(&key)?].get_or_insert(key);
            key += 1;
        }
        let keys = keys.into_iter().flatten().collect();
        Ok(Self { islands, keys, replay, load, total })
    }
}

impl Deployment for Own {
    type Transaction = Replay;

    fn islands(&self) -> usize {
        self.islands.islands()
    }

    fn bind_caller(&self, island: usize) -> Result<(), Failure> {
        self.islands.bind_thread(island).map_err(failed)
    }

    fn call(&self, replay: &Replay) -> Result<Called, Failure> {
        run_parts(&self.islands, (&self.replay, &self.keys), &replay.parts)?;
        replay.times.fetch_add(1, Ordering::Relaxed);
        Ok(Called { has_committed: true, is_distributed: replay.parts.len() > 1 })
    }
}

impl ReplayDeployment for Own {
    fn load(&self, island: usize, rows: &[(i64, u32)]) -> Result<(), Failure> {
        let load = self.load.at(&self.keys[island]).map_err(failed)?;
        let longest = rows.iter().map(|(_, bytes)| *bytes as usize).max().unwrap_or_default();
        let mut rows = rows.chunks((LOADED_BYTES / (longest + 100)).max(1));
        rows.try_for_each(|rows| load.call(rows.to_vec())).map_err(failed)
    }

    fn total(&self) -> Result<(u64, u64), Failure> {
        sum_of_all(&self.total, &self.keys)
    }
}

/// A database of islands in memory, without rows.
pub(in crate::cmd) fn open_in_memory(islands: u16) -> Result<Box<dyn ReplayDeployment>, Failure> {
    Ok(Box::new(Own::open(islands).map_err(failed)?))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    fn step(action: Action, first: i64, rows: u32) -> Step {
        Step { action, first, rows, bytes: 10 }
    }

    /// Each action leaves what it says, on one island and over two.
    #[test]
    fn steps_leave_what_they_say() {
        let own = Own::open(2).unwrap();
        own.load(0, &[(1, 8), (2, 8), (3, 8)]).unwrap();
        own.load(1, &[(1, 8)]).unwrap();
        let call = |parts: Vec<(usize, Vec<Step>)>| {
            let parts = parts.into_iter().map(|(island, steps)| (island, steps.into())).collect();
            let replay = Replay { parts, times: AtomicU64::new(0) };
            let called = own.call(&replay).map(|called| called.is_distributed);
            (called.map_err(|failure| failure.to_string()), replay.times.into_inner())
        };
        let update = step(Action::Update, 1, 3);
        assert_eq!(call(vec![(0, vec![update, step(Action::Scan, 1, 3)])]), (Ok(false), 1));
        let both =
            vec![(0, vec![step(Action::Toggle, 9, 2)]), (1, vec![step(Action::Update, 1, 1)])];
        assert_eq!(call(both.clone()), (Ok(true), 1));
        assert_eq!(own.total().unwrap(), (4, 6));
        assert_eq!(call(both), (Ok(true), 1));
        assert_eq!(own.total().unwrap(), (5, 4));
        let (refused, times) = call(vec![(1, vec![step(Action::Read, 2, 1)])]);
        assert!(refused.unwrap_err().contains("a row was not loaded"));
        assert_eq!(times, 0);
    }
}
