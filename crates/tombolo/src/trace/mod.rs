//! Traces: a file of what each call of a database did, for `tombolo advise trace`.
//!
//! ```text
//!   a call runs with a guard ──► Recorder notes its rows ──► block full ──► bounded channel ──► this trace's thread
//!     (Guarded, without locks)      (recorder.rs)                             full: it ends       writes the file
//! ```
//!
//! While a trace is recorded, calls run on the store with a guard that has nothing to compare and shows the
//! recorder each row: the same code runs while parts of transactions are held. Otherwise a call executes one more
//! branch, and an access to a row nothing more.
//!
//! Not here: the format (engine `trace/`), advice (the laboratory). Not traced: work in slices (loading, building
//! indexes, snapshots), databases of islands. Invariant: no call waits for the file.

mod recorder;
mod writing;

use std::path::Path;
use std::sync::Arc;

use tombolo_engine::threads::Running;
use tombolo_storage::disk::{Disk, Open, OsDisk};

pub(crate) use recorder::Recorder;
pub use recorder::Traced;

use crate::calls::{CallOptions, Envelope, How, OWN_PREFIX, Otherwise, Ran};
use crate::database::Database;
use crate::error::{Error, Stop};
use crate::product::Product;
use crate::tx::Tables;

/// A trace that is being recorded: [`Database::record_trace`]. It ends when this is dropped, or by [`Trace::end`].
#[derive(Debug)]
#[must_use = "the trace ends when this is dropped"]
pub struct Trace {
    recorder: Arc<Recorder>,
    writer: Option<Running>,
}

impl Trace {
    /// Ends the trace and waits until its file is written. A call that runs at this moment is not in it.
    ///
    /// A full or slow disk is no error: the trace ended early, and [`Traced`] says why and how many calls are missing.
    pub fn end(mut self) -> Traced {
        self.finish();
        self.recorder.traced()
    }

    fn finish(&mut self) {
        self.recorder.end();
        if let Some(writer) = self.writer.take() {
            writer.join();
        }
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        self.finish();
    }
}

impl Database {
    /// Records what each call does from now on into a new file, from which `tombolo advise trace FILE`
    /// computes how many islands the workload should have. For each call it has the name of its procedure or closure,
    /// when it began, how long it ran, whether it committed, and the rows that it scanned, read, updated, inserted and
    /// deleted: their table, and a hash of the first column of their primary key. The hash has a secret that is
    /// forgotten when the trace ends, so that no value leaves the application; names of tables, columns and procedures
    /// do.
    ///
    /// Calls take longer while a trace is recorded. They never wait for the file: if the disk is full,
    /// fails, or is too slow, the trace ends there, and the calls that are missing are counted.
    ///
    /// ```
    /// # use tombolo::{Database, Table};
    /// # #[derive(Table)]
    /// # struct Account { #[key] id: u64, cents: i64 }
    /// # let place = tempfile::tempdir().unwrap();
    /// # let file = place.path().join("accounts.trace");
    /// let db = Database::builder().define::<Account>().in_memory()?;
    /// let by_id = db.index::<AccountKey>()?;
    /// let trace = db.record_trace(&file)?;
    /// db.transaction(move |tx| tx.upsert_row(&by_id, &Account { id: 7, cents: 100 }).map(drop))?;
    /// let traced = trace.end();
    /// assert_eq!((traced.calls, traced.lost), (1, 0));
    /// # Ok::<(), tombolo::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Directory`] when there is such a file already, or another trace is recorded; [`Error::Disk`],
    /// [`Error::DiskFull`], [`Error::System`] without a thread to write it, [`Error::Closed`], [`Error::Nested`].
    pub fn record_trace(&self, file: impl AsRef<Path>) -> Result<Trace, Error> {
        let file = file.as_ref();
        let directory = file.parent().filter(|parent| !parent.as_os_str().is_empty());
        let Some(name) = file.file_name().and_then(|name| name.to_str()) else {
            return Err(Error::Directory(format!("{} is no name of a file", file.display())));
        };
        let disk = OsDisk::open(directory.unwrap_or(Path::new(".")))?;
        if disk.exists(name)? {
            let what = format!("{} exists: give a trace a file of its own", file.display());
            return Err(Error::Directory(what));
        }
        self.record_trace_on(&disk, name)
    }

    /// The same on a disk.
    pub(crate) fn record_trace_on(&self, disk: &dyn Disk, name: &str) -> Result<Trace, Error> {
        let core = self.core();
        let file = disk.open(name, Open::New)?;
        let schema = core.schema.get();
        let new = Recorder::new(&schema, OWN_PREFIX, core.clock().clone());
        let (recorder, blocks) =
            new.map_err(|error| Error::stopped(Stop::Error(error), &schema))?;
        let recorder = Arc::new(recorder);
        let write = {
            let recorder = recorder.clone();
            move || writing::write(&*file, &blocks, &recorder)
        };
        let writer = Running::start("tombolo-trace", write)?;
        let mut trace = Trace { recorder: recorder.clone(), writer: Some(writer) };
        let begun = Begin { recorder: Some(recorder), ran: None };
        let begun = core.call_queued::<bool, _>(Box::new(begun), &CallOptions::new());
        let refused = match begun {
            Ok(true) => return Ok(trace),
            Ok(false) => Error::Directory("another trace of the database is recorded".to_owned()),
            Err(error) => error,
        };
        trace.finish();
        let _ = disk.remove(name); // the reason that there is no trace counts
        Err(refused)
    }
}

/// The call that begins a trace.
struct Begin {
    recorder: Option<Arc<Recorder>>,
    ran: Option<Ran<bool>>,
}

impl Envelope for Begin {
    fn run(&mut self, _: &mut Product, tables: &mut Tables) -> How {
        let Some(recorder) = self.recorder.take() else { unreachable!("it runs once") };
        self.ran = Some(Ran::Ended(Ok(tables.record(recorder))));
        How::Committed
    }

    fn end_otherwise(&mut self, how: Otherwise) {
        self.ran = Some(Ran::Otherwise(how));
    }

    fn is_noted(&self) -> bool {
        false
    }

    fn name(&self) -> &'static str {
        "the beginning of a trace"
    }

    fn input(&mut self) -> &mut dyn std::any::Any {
        &mut self.recorder
    }

    fn ran(&mut self) -> &mut dyn std::any::Any {
        &mut self.ran
    }
}

#[cfg(test)]
mod tests;
