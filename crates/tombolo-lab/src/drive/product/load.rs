//! The initial database, in a store and in its log.
//!
//! What a part of the database logged is one group; a thread writes it while the next part is
//! stored. Everything is durable when loading is over, by one sync: a load that is broken off leaves nothing
//! that was acknowledged. Not here: the rows (each workload's loader).

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use tombolo_engine::threads::{NoThread, Running};
use tombolo_storage::error::Error;
use tombolo_storage::memory::MemoryStore;
use tombolo_storage::profile::MemoryProfile;
use tombolo_storage::value_log::{LogBuffer, LogFailure, LogWriter};

use crate::failure::{Blamed, Failure};
use crate::workload::Workload;

/// Buffers between the two threads.
const BUFFERS: usize = 4;

/// A thread that writes the log.
struct Writing {
    records: SyncSender<LogBuffer>,
    /// Buffers to be used again.
    empty: Receiver<LogBuffer>,
    done: Receiver<Result<LogWriter, LogFailure>>,
    thread: Running,
}

impl Writing {
    fn start(mut writer: LogWriter) -> Result<Self, NoThread> {
        let (records, to_write) = sync_channel::<LogBuffer>(BUFFERS);
        let (give_back, empty) = sync_channel(BUFFERS);
        let (report, done) = sync_channel(1);
        let started = Running::start("tombolo-load-log", move || {
            let mut write = || {
                for mut buffer in &to_write {
                    writer.append_group(&[buffer.as_slice()], buffer.transactions(), None)?;
                    buffer.clear();
                    // A full channel has buffers enough.
                    let _ = give_back.try_send(buffer);
                }
                writer.sync().map(|_| ())
            };
            let written = write();
            drop(to_write); // the storing thread's next send fails then
            // The receiver is dropped early only after another failure.
            let _ = report.send(written.map(|()| writer));
        });
        Ok(Self { records, empty, done, thread: started? })
    }

    /// Hands on what the store has logged; whether it is taken.
    fn take_from<P: MemoryProfile>(&self, store: &mut MemoryStore<P>) -> bool {
        let mut buffer = self.empty.try_recv().unwrap_or_default();
        store.take_log(&mut buffer);
        buffer.is_empty() || self.records.send(buffer).is_ok()
    }

    /// Waits until all is durable.
    fn finish(self) -> Result<LogWriter, Failure> {
        drop(self.records);
        let done = self.done.recv();
        self.thread.join();
        match done {
            Ok(written) => written.or_environment(),
            Err(_) => Err(Failure::check("the thread that writes the log ended early")),
        }
    }
}

/// Loads the database of `workload` into a store without tables, and into its log if there is one.
///
/// # Errors
/// The error of the store or of the log.
pub(crate) fn load<P: MemoryProfile, W: Workload>(
    store: &mut MemoryStore<P>,
    writer: Option<LogWriter>,
    workload: &W,
    threads: usize,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Option<LogWriter>, Failure> {
    let writing = writer.map(Writing::start).transpose().or_environment()?;
    let mut passed_over = LogBuffer::new();
    let mut is_refused = false;
    let loaded = workload.load_parts(store, threads, |store, done, of| {
        progress(done, of);
        match &writing {
            Some(writing) => is_refused |= !writing.take_from(store),
            None => store.take_log(&mut passed_over),
        }
        passed_over.clear();
        match is_refused {
            true => Err(Error::Poisoned { reason: "the log refused what was loaded" }.into()),
            false => Ok(()),
        }
    });
    let written = writing.map(Writing::finish).transpose();
    match loaded {
        Err(error) if !is_refused => Err(Failure::environment(error.to_string())),
        _ => written,
    }
}
