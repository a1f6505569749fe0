//! A database of one profile, its profile erased: what drivers, checks and counters do with any of
//! them.
//!
//! The engine and the workload are compiled once per profile, here and nowhere else; behind
//! [`Instance`] there is one dynamic call per batch of inputs and none inside. Not here: clocks,
//! files, what is printed.
//!
//! Invariant: what is timed runs on the store without probes ([`Metered::store`]).

use std::fmt;
use std::hint::black_box;
use std::io;

use tombolo_engine::clock::Clock;
use tombolo_engine::transaction::Stop;
use tombolo_storage::error::SchemaError;
use tombolo_storage::for_each_profile;
use tombolo_storage::memory::{Limits, MemoryStore};
use tombolo_storage::profile::MemoryProfile;
use tombolo_storage::schema::DeclaredTable;
use tombolo_storage::store::{Store, Usage};

use crate::counters::CounterError;
use crate::counters::meter::{Meter, Native, NativeCount};
use crate::counting::{CountInputs, Group};
use crate::drive::Tally;
use crate::dump::{self, DumpError, StateHash};
use crate::metered::Metered;
use crate::restore::{RestoreError, Rows};
use crate::workload::tpcc::checks::checks;
use crate::workload::tpcc::error::TpccError;
use crate::workload::tpcc::input::{Input, Mix};
use crate::workload::tpcc::loader::{self, Scale};
use crate::workload::tpcc::schema;
use crate::workload::tpcc::tamper::tamper;
use crate::workload::tpcc::transactions::Transactions;

/// Something a verification found wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The check that found it.
    pub check: String,
    /// Where and what.
    pub what: String,
}

/// What verifying a database found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// Every check and whether it holds, conditions first.
    pub checks: Vec<(String, bool)>,
    /// What is wrong.
    pub damage: Vec<Finding>,
}

impl Verification {
    /// Whether every check holds.
    pub fn consistent(&self) -> bool {
        self.checks.iter().all(|(_, holds)| *holds)
    }

    fn note(&mut self, check: &str, damage: Option<String>) {
        match self.checks.iter_mut().find(|(known, _)| known == check) {
            Some((_, holds)) => *holds &= damage.is_none(),
            None => self.checks.push((check.to_owned(), damage.is_none())),
        }
        self.damage.extend(damage.map(|what| Finding { check: check.to_owned(), what }));
    }
}

/// The store's own checks.
const STORE_CHECKS: [&str; 2] = ["indexes", "slabs"];

/// Where a table's dump goes.
pub type OpenTable<'a> = &'a mut dyn FnMut(&str) -> io::Result<Box<dyn io::Write>>;

/// One TPC-C database on one store.
pub trait Instance {
    /// Creates the tables and loads the initial database.
    ///
    /// # Errors
    /// What the store refused.
    fn load(
        &mut self,
        scale: Scale,
        threads: usize,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<(), TpccError>;

    /// Creates the tables with all indexes and fills them with dumped rows.
    ///
    /// # Errors
    /// A line that is no row, or what the store refused.
    fn restore(&mut self, rows: &mut dyn Rows) -> Result<(), RestoreError>;

    /// Takes and touches the memory that the rows of these transactions will need.
    ///
    /// # Errors
    /// `NoSpace`.
    fn reserve(&mut self, inputs: &[Input]) -> Result<(), Stop>;

    /// Runs one transaction per input.
    ///
    /// # Errors
    /// What the store failed with; aborts are outcomes.
    fn run(&mut self, inputs: &[Input], tally: &mut Tally) -> Result<(), Stop>;

    /// Runs one transaction per input and notes when each was over. `ends` is as long as `inputs`.
    ///
    /// # Errors
    /// What the store failed with.
    fn run_timed(
        &mut self,
        inputs: &[Input],
        clock: &dyn Clock,
        ends: &mut [u64],
    ) -> Result<(), Stop>;

    /// Counts each group's transactions, in a process under callgrind.
    ///
    /// # Errors
    /// When nothing can be counted, or a transaction ended otherwise than its input says.
    fn count(&mut self, inputs: &CountInputs) -> Result<(), CounterError>;

    /// Counts each group's transactions by a native counter.
    ///
    /// # Errors
    /// As [`Instance::count`].
    fn count_natively(
        &mut self,
        native: Native,
        inputs: &CountInputs,
    ) -> Result<Vec<NativeCount>, CounterError>;

    /// Runs all checks.
    ///
    /// # Errors
    /// When the store refuses to be read.
    fn verify(&mut self) -> Result<Verification, TpccError>;

    /// The hash of all rows.
    ///
    /// # Errors
    /// When the store refuses to be read.
    fn state_hash(&mut self) -> Result<StateHash, TpccError>;

    /// Writes all rows.
    ///
    /// # Errors
    /// When the store refuses to be read or a table cannot be written.
    fn dump(&mut self, open: OpenTable<'_>) -> Result<StateHash, DumpError>;

    /// Breaks the condition called `check`, and only it.
    ///
    /// # Errors
    /// When there is none of that name or it cannot be broken here.
    fn tamper(&mut self, check: &str) -> Result<(), TpccError>;

    /// Memory taken and used.
    fn usage(&mut self) -> Usage;
}

impl fmt::Debug for dyn Instance + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Instance")
    }
}

/// An empty database of the profile called `profile`; none of that name: `None`.
pub fn open(profile: &str) -> Option<Box<dyn Instance>> {
    open_within(profile, Limits::default())
}

/// The same, with less address space than a store asks for by itself.
pub fn open_within(profile: &str, limits: Limits) -> Option<Box<dyn Instance>> {
    macro_rules! open_if_named {
        ($profile:ty) => {
            if <$profile as MemoryProfile>::NAME == profile {
                let store = MemoryStore::<$profile>::new(limits);
                return Some(Box::new(Tpcc {
                    metered: Metered::new(store),
                    transactions: None,
                    reserve: MemoryStore::<$profile>::reserve,
                }));
            }
        };
    }
    for_each_profile!(open_if_named);
    None
}

/// TPC-C on a store of type `S`.
struct Tpcc<S: Store> {
    metered: Metered<S>,
    /// Bound once there are tables.
    transactions: Option<Transactions>,
    /// Takes memory for rows of the table at a position; no part of [`Store`], which may live on
    /// disk.
    reserve: fn(&mut S, usize, usize) -> tombolo_storage::error::Result<()>,
}

impl<S: Store> Tpcc<S> {
    /// The transactions and the store without probes.
    fn parts(&mut self) -> Result<(&Transactions, &mut S), Stop> {
        let error = tombolo_storage::error::Error::Poisoned { reason: "nothing was loaded" };
        let transactions = self.transactions.as_ref().ok_or(Stop::Error(error))?;
        Ok((transactions, &mut self.metered.store))
    }

    fn bind(&mut self, mix: Mix) -> Result<(), SchemaError> {
        self.transactions = Some(Transactions::bind(self.metered.schema(), mix)?);
        Ok(())
    }

    /// Runs a group with its transactions announced to the meter, on the store with probes or on
    /// the one without.
    fn run_metered(&mut self, group: &Group, probes: bool) -> Result<(), CounterError> {
        let damaged = |what: &str| CounterError::Damaged(format!("{}: {what}", group.name));
        let Some(transactions) = &self.transactions else { return Err(damaged("not loaded")) };
        self.metered.meter.only(Some(group.kind));
        for input in &group.inputs {
            self.metered.meter.transaction_begin(crate::counting::kind_of(input));
            let answer = if probes {
                transactions.call(&mut self.metered, input)
            } else {
                transactions.call(&mut self.metered.store, input)
            };
            self.metered.meter.transaction_end();
            if black_box(&answer).is_err() != crate::counting::aborts(input) {
                return Err(damaged("a transaction ended otherwise than its input says"));
            }
        }
        Ok(())
    }

    fn run_uncounted(&mut self, inputs: &CountInputs) -> Result<(), CounterError> {
        let outcome = self.run(&inputs.uncounted, &mut Tally::default());
        outcome.map_err(|stop| CounterError::Damaged(stop.to_string()))
    }

    fn meter(&self) -> &Meter {
        &self.metered.meter
    }
}

impl<S: Store> Instance for Tpcc<S> {
    fn load(
        &mut self,
        scale: Scale,
        threads: usize,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<(), TpccError> {
        loader::load(&mut self.metered.store, scale, threads, progress)?;
        Ok(self.bind(scale.mix)?)
    }

    fn restore(&mut self, rows: &mut dyn Rows) -> Result<(), RestoreError> {
        let store = &mut self.metered.store;
        for table in schema::tables(Mix::Standard) {
            store.create_table(table)?;
        }
        crate::restore::restore(store, rows)?;
        Ok(self.bind(Mix::Standard)?)
    }

    fn reserve(&mut self, inputs: &[Input]) -> Result<(), Stop> {
        let (mut orders, mut lines, mut payments) = (0, 0, 0);
        for input in inputs {
            match input {
                Input::NewOrder(order) => {
                    orders += 1;
                    lines += order.lines().len();
                }
                Input::Payment(_) => payments += 1,
                _ => {}
            }
        }
        let store = &mut self.metered.store;
        for (table, rows) in [
            (schema::Orders::NAME, orders),
            (schema::NewOrder::NAME, orders),
            (schema::OrderLine::NAME, lines),
            (schema::History::NAME, payments),
        ] {
            if let Some(position) = store.schema().table(table) {
                (self.reserve)(store, position, rows)?;
            }
        }
        Ok(())
    }

    fn run(&mut self, inputs: &[Input], tally: &mut Tally) -> Result<(), Stop> {
        let (transactions, store) = self.parts()?;
        for input in inputs {
            match transactions.call(store, input) {
                Ok(answer) => {
                    black_box(&answer);
                    tally.committed(input.kind());
                }
                Err(stop) => tally.stopped(input.kind(), stop)?,
            }
        }
        Ok(())
    }

    fn run_timed(
        &mut self,
        inputs: &[Input],
        clock: &dyn Clock,
        ends: &mut [u64],
    ) -> Result<(), Stop> {
        let (transactions, store) = self.parts()?;
        for (input, end) in inputs.iter().zip(ends) {
            let answer = transactions.call(store, input);
            if let Err(stop @ Stop::Error(_)) = black_box(answer) {
                return Err(stop);
            }
            *end = clock.now_ns();
        }
        Ok(())
    }

    fn count(&mut self, inputs: &CountInputs) -> Result<(), CounterError> {
        self.run_uncounted(inputs)?;
        self.meter().count()?;
        for group in &inputs.groups {
            self.run_metered(group, false)?;
            self.meter().dump(&group.name);
        }
        self.meter().stop();
        Ok(())
    }

    fn count_natively(
        &mut self,
        native: Native,
        inputs: &CountInputs,
    ) -> Result<Vec<NativeCount>, CounterError> {
        self.run_uncounted(inputs)?;
        self.meter().time(native, true)?;
        let mut counts = Vec::new();
        for group in &inputs.groups {
            self.run_metered(group, true)?;
            counts.push(self.meter().take()?);
        }
        self.meter().stop();
        Ok(counts)
    }

    fn verify(&mut self) -> Result<Verification, TpccError> {
        let store = &mut self.metered.store;
        let mut verification = Verification::default();
        for check in checks(store)? {
            verification.note(check.name, check.violation);
        }
        for name in STORE_CHECKS {
            verification.note(name, None);
        }
        for damage in store.check() {
            verification.note(damage.check, Some(damage.what));
        }
        Ok(verification)
    }

    fn state_hash(&mut self) -> Result<StateHash, TpccError> {
        Ok(dump::state_hash(&mut self.metered.store)?)
    }

    fn dump(&mut self, open: OpenTable<'_>) -> Result<StateHash, DumpError> {
        dump::dump(&mut self.metered.store, open)
    }

    fn tamper(&mut self, check: &str) -> Result<(), TpccError> {
        tamper(&mut self.metered.store, check)
    }

    fn usage(&mut self) -> Usage {
        self.metered.store.usage()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tombolo_storage::profile::PROFILES;

    #[test]
    fn every_profile_that_is_listed_opens() {
        for profile in PROFILES {
            assert!(open(profile.name).is_some(), "{}", profile.name);
        }
        assert!(open("fast").is_none());
    }

    #[test]
    fn nothing_runs_before_it_is_loaded() {
        let mut instance = open("bare").unwrap();
        let error = instance.run(&[], &mut Tally::default()).unwrap_err();
        assert!(error.to_string().contains("nothing was loaded"), "{error}");
    }

    #[test]
    fn a_check_fails_once_any_of_its_findings_does() {
        let mut verification = Verification::default();
        verification.note("slabs", None);
        assert!(verification.consistent());
        verification.note("slabs", Some("slot 7 is lost".to_owned()));
        verification.note("slabs", None);
        assert_eq!(verification.checks, [("slabs".to_owned(), false)]);
        assert_eq!(verification.damage.len(), 1);
        assert!(!verification.consistent());
    }
}
