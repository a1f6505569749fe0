//! What goes into the log of a simulated database, and how a store is made of it again.
//!
//! There are two kinds. *Values* are the product's: the store's records of every change. *Commands* are the
//! requests themselves, which are run again one after the other. Commands need nothing of the store, so they
//! test groups, segments and recovery alone; values test the store's part as well.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tombolo_engine::pipeline::Records;
use tombolo_storage::memory::MemoryStore;
use tombolo_storage::profile::{Memory, MemoryLogged, MemoryProfile};
use tombolo_storage::store::Store;
use tombolo_storage::value_log::LogBuffer;

use super::buffer::ByteBuffer;
use super::image;
use super::log::{LIMITS, OpenLog, open_log};
use super::refused::Refused;
use crate::faults::FaultyDisk;
use crate::swarm::Swarm;
use crate::workload::command;
use crate::workload::step::Step;
use crate::workload::store::Handles;
use crate::workload::tables::definition;

/// A store whose log is `R`'s.
pub type StoreOf<R> = MemoryStore<<R as Recording>::Profile>;

/// A kind of log.
pub trait Recording: Default + Send + 'static {
    /// What its store is built of.
    type Profile: MemoryProfile;
    /// What records are passed on in.
    type Buffer: Records;

    /// Records that `step` was executed on the store.
    fn ran(&mut self, step: &Step);

    /// How many bytes [`Recording::take`] would add.
    fn bytes(&self, store: &StoreOf<Self>) -> usize;

    /// Moves what was recorded since the last call to `into`, which is empty.
    fn take(&mut self, store: &mut StoreOf<Self>, into: &mut Self::Buffer);

    /// Recovers the log and a store of it; a new one where there is none.
    ///
    /// # Errors
    /// When a call failed or something is damaged.
    fn recover(
        disk: &FaultyDisk,
        swarm: &Swarm,
        accept_loss: bool,
    ) -> Result<(OpenLog, StoreOf<Self>), Refused>;
}

/// The requests themselves.
#[derive(Debug, Default)]
pub struct Commands(ByteBuffer);

impl Recording for Commands {
    type Profile = Memory;
    type Buffer = ByteBuffer;

    fn ran(&mut self, step: &Step) {
        let only_reads = matches!(step, Step::Request(request) if request.work.only_reads());
        if !only_reads {
            command::encode(step, &mut self.0.bytes);
            self.0.transactions += 1;
        }
    }

    fn bytes(&self, _: &StoreOf<Self>) -> usize {
        self.0.bytes.len()
    }

    fn take(&mut self, _: &mut StoreOf<Self>, into: &mut ByteBuffer) {
        std::mem::swap(&mut self.0, into);
    }

    fn recover(
        disk: &FaultyDisk,
        swarm: &Swarm,
        accept_loss: bool,
    ) -> Result<(OpenLog, StoreOf<Self>), Refused> {
        let mut again = Again::new();
        let mut replay = |_, records: &[u8]| again.run_all(records);
        let log = open_log(disk, swarm, accept_loss, &mut replay)?;
        Ok((log, again.store))
    }
}

/// The records that the store makes of every change.
#[derive(Clone, Copy, Debug, Default)]
pub struct Values;

impl Recording for Values {
    type Profile = MemoryLogged;
    type Buffer = LogBuffer;

    fn ran(&mut self, _: &Step) {}

    fn bytes(&self, store: &StoreOf<Self>) -> usize {
        store.log_bytes()
    }

    fn take(&mut self, store: &mut StoreOf<Self>, into: &mut LogBuffer) {
        store.take_log(into);
    }

    fn recover(
        disk: &FaultyDisk,
        swarm: &Swarm,
        accept_loss: bool,
    ) -> Result<(OpenLog, StoreOf<Self>), Refused> {
        image::open(disk, swarm, accept_loss)
    }
}

/// A store on which steps are run again.
pub(crate) struct Again {
    pub(crate) store: MemoryStore<Memory>,
    handles: Option<Handles>,
}

impl Again {
    pub(crate) fn new() -> Self {
        Self { store: MemoryStore::new(LIMITS), handles: None }
    }

    fn run_all(&mut self, records: &[u8]) -> Result<(), String> {
        let steps = command::decode_all(records).ok_or("no commands")?;
        steps.iter().try_for_each(|step| self.run(step))
    }

    /// Runs a step; a request aborts and panics as it did the first time.
    pub(crate) fn run(&mut self, step: &Step) -> Result<(), String> {
        let Step::Request(request) = step else {
            // A table; indexes are not added here.
            let table = definition(self.store.schema().tables.len());
            return self.store.create_table(table).map(drop).map_err(|error| error.to_string());
        };
        let handles = match self.handles.take() {
            Some(handles) => handles,
            None => Handles::of(self.store.schema()).map_err(|error| error.to_string())?,
        };
        // What it leaves is compared later.
        let run = || handles.run(&mut self.store, request);
        drop(catch_unwind(AssertUnwindSafe(run)));
        self.handles = Some(handles);
        Ok(())
    }
}
