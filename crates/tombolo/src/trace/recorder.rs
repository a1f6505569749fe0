//! `Recorder`: notes what a call does, and makes it an entry of the trace.
//!
//! One thread at a time runs calls, so its lock is free except when the trace ends. Memory is bounded: a call's rows,
//! the open block, and the blocks on their way to the file. Not here: the file (`writing.rs`), the format (engine).

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use tombolo_engine::clock::Clock;
use tombolo_engine::trace::{Call, Encoder, End, Touched, TracedTable};
use tombolo_storage::error::Result;
use tombolo_storage::memory::MemoryRow;
use tombolo_storage::memory::held::{Access, Locks, RowPlace, Witness};
use tombolo_storage::schema::Schema;
use tombolo_storage::sync::{AtomicBool, Mutex, Ordering};
use tombolo_storage::value::{ColumnReader, Value};

/// Blocks on their way to the file: a device may be as late as that.
const BLOCKS_MAX: usize = 64;
/// Rows of a call that are noted one by one.
pub(super) const ROWS_MAX: usize = 1 << 12;

/// A block, with the number of its calls.
pub(super) type Block = (Vec<u8>, u64);

/// What was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traced {
    /// Calls in the file.
    pub calls: u64,
    /// Calls that ran meanwhile and are not in the file.
    pub lost: u64,
    /// The length of the file.
    pub bytes: u64,
    /// Why calls were lost, if any were: the disk was full, failed, or was slower than the calls.
    pub why_lost: Option<String>,
}

/// See the module's head.
pub(crate) struct Recorder {
    clock: Arc<dyn Clock>,
    begun_ns: u64,
    /// What a guard compares with while nothing is locked.
    no_locks: Locks,
    /// Where the key of each table is, by the table's position; absent for the database's own tables.
    keys: Vec<Option<KeyOf>>,
    /// The hash of a key has a secret, which is nowhere else.
    secret: RandomState,
    is_over: AtomicBool,
    state: Mutex<State>,
}

/// Reads the key of a table's rows.
struct KeyOf {
    /// The table's place among the traced ones.
    table: u32,
    reader: Option<ColumnReader>,
}

struct State {
    encoder: Encoder,
    /// Absent once the trace is over.
    blocks: Option<SyncSender<Block>>,
    open: OpenCall,
    /// Calls that have ended.
    seen: u64,
    /// Why calls are only counted, if so.
    why_lost: Option<String>,
    recorded_us: u64,
    traced: Traced,
}

/// The call that runs.
#[derive(Default)]
struct OpenCall {
    began_ns: u64,
    rows: Vec<Touched>,
    /// Where each row is among them.
    places: BTreeMap<RowPlace, usize>,
    more_rows: u64,
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").field("is_over", &self.is_over()).finish_non_exhaustive()
    }
}

impl Recorder {
    /// For a database with these tables, of which those are its own whose names begin with `own`; with the blocks that
    /// the trace will have.
    pub(super) fn new(
        schema: &Schema,
        own: &str,
        clock: Arc<dyn Clock>,
    ) -> Result<(Self, Receiver<Block>)> {
        let (mut tables, mut keys) = (Vec::new(), Vec::new());
        for table in &schema.tables {
            if table.is_dropped() || table.name.starts_with(own) {
                keys.push(None);
                continue;
            }
            // The first index is the primary key, if there is one.
            let primary = table.indexes.first().filter(|index| index.unique);
            let column = primary.and_then(|index| index.columns.first().copied());
            let reader = column.map(|column| ColumnReader::new(&table.columns, column));
            keys.push(Some(KeyOf { table: tables.len() as u32, reader }));
            tables.push(TracedTable {
                name: table.name.to_string(),
                row_bytes: table.row_size() as u32,
                key: column.map(|column| table.columns[column].name.to_string()),
            });
        }
        let (encoder, file) = Encoder::begin(&tables);
        let (blocks, receiver) = sync_channel(BLOCKS_MAX);
        let _ = blocks.try_send((file, 0)); // there is room for the first
        let state = State {
            encoder,
            blocks: Some(blocks),
            open: OpenCall::default(),
            seen: 0,
            why_lost: None,
            recorded_us: 0,
            traced: Traced::default(),
        };
        let this = Self {
            begun_ns: clock.now_ns(),
            clock,
            no_locks: Locks::new()?,
            keys,
            secret: RandomState::new(),
            is_over: AtomicBool::new(false),
            state: Mutex::new(state),
        };
        Ok((this, receiver))
    }

    /// Whether it records no more calls, so that none need be reported to it.
    pub(crate) fn is_over(&self) -> bool {
        // Only a hint: a call that is noted too late is dropped under the lock.
        self.is_over.load(Ordering::Relaxed)
    }

    /// No locks.
    pub(crate) const fn no_locks(&self) -> &Locks {
        &self.no_locks
    }

    /// A call begins.
    pub(crate) fn begin(&self, name: &'static str) -> Noted<'_> {
        let began_ns = self.clock.now_ns();
        let open = &mut self.state.lock().open;
        open.began_ns = began_ns;
        open.rows.clear();
        open.places.clear();
        open.more_rows = 0;
        Noted { recorder: self, name, is_aborted: true }
    }

    /// Ends the trace, and hands over what is left: waits for room on the way to the file, as no call does.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        let (blocks, last) = {
            let state = &mut *self.state.lock();
            state.recorded_us = self.since_us(self.clock.now_ns());
            let calls = state.encoder.open_calls();
            let last = state.encoder.take().filter(|_| state.why_lost.is_none());
            (state.blocks.take(), last.map(|block| (block, calls)))
        };
        if let (Some(blocks), Some(last)) = (blocks, last) {
            let _ = blocks.send(last); // a writer that has panicked is reported when it is joined
        }
    }

    fn since_us(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.begun_ns) / 1_000
    }

    /// Writes nothing more, for this reason: calls are only counted.
    pub(super) fn stop(&self, why: &str) {
        self.state.lock().stop(why);
    }

    /// The trace is over, with so many blocks and calls in the file: its last block.
    pub(super) fn close(&self, blocks: u64, calls: u64) -> Vec<u8> {
        let state = &mut *self.state.lock();
        let lost = state.seen - calls;
        (state.traced.calls, state.traced.lost) = (calls, lost);
        state.encoder.end(blocks, End { calls, lost, recorded_us: state.recorded_us })
    }

    /// The file is so long.
    pub(super) fn set_written(&self, bytes: u64) {
        self.state.lock().traced.bytes = bytes;
    }

    /// What was recorded, once the file is written.
    pub(super) fn traced(&self) -> Traced {
        let state = self.state.lock();
        Traced { why_lost: state.why_lost.clone(), ..state.traced.clone() }
    }

    /// The hash of the key in a row.
    fn key(&self, reader: &ColumnReader, row: &MemoryRow<'_>) -> Option<u64> {
        Some(match reader.read(row) {
            Value::Integer(number) => self.secret.hash_one(number),
            Value::Text(text) => self.secret.hash_one(text.as_bytes()),
            Value::Bytes(bytes) => self.secret.hash_one(bytes),
            Value::Uuid(uuid) => self.secret.hash_one(uuid),
            // Islands have no keys of other types.
            _ => return None,
        })
    }

    /// The table and key of a row, unless it is of one of the database's own tables or of a later one.
    fn key_of(&self, place: RowPlace) -> Option<&KeyOf> {
        self.keys.get(place.0 as usize)?.as_ref()
    }
}

impl Witness for Recorder {
    fn see(&self, access: Access, place: RowPlace, row: &MemoryRow<'_>) {
        let Some(of) = self.key_of(place) else { return };
        let open = &mut self.state.lock().open;
        if let Some(&at) = open.places.get(&place) {
            let known = &mut open.rows[at].access;
            // The slot of a deleted row may have another row.
            if *known != Access::Deleted {
                *known = (*known).max(access);
                return;
            }
        }
        if open.rows.len() == ROWS_MAX {
            open.more_rows += 1;
            return;
        }
        // Variable values of a row that is created come later.
        let reader =
            of.reader.as_ref().filter(|reader| access != Access::Created || !reader.is_variable());
        let key = reader.and_then(|reader| self.key(reader, row));
        open.places.insert(place, open.rows.len());
        open.rows.push(Touched { access, table: of.table, key, rows: 1 });
    }

    fn see_entered(&self, place: RowPlace, row: &MemoryRow<'_>) {
        let Some(KeyOf { reader: Some(reader), .. }) = self.key_of(place) else { return };
        let open = &mut self.state.lock().open;
        if let Some(&at) = open.places.get(&place)
            && open.rows[at].key.is_none()
        {
            open.rows[at].key = self.key(reader, row);
        }
    }

    fn see_table(&self, table: u32, rows: u64) {
        let Some(of) = self.key_of((table, 0)) else { return };
        let open = &mut self.state.lock().open;
        if open.rows.len() < ROWS_MAX {
            open.rows.push(Touched { access: Access::Scanned, table: of.table, key: None, rows });
        } else {
            open.more_rows += rows;
        }
    }
}

impl State {
    fn stop(&mut self, why: &str) {
        self.why_lost.get_or_insert_with(|| why.to_owned());
    }

    /// The call that runs has ended: it becomes an entry, if there is room on the way to the file.
    fn add(&mut self, name: &'static str, call: &Call) {
        self.seen += 1;
        if self.why_lost.is_some() {
            return;
        }
        let Some(blocks) = &self.blocks else { return };
        let of_block = self.encoder.open_calls() + 1;
        if let Some(block) = self.encoder.add(name, call)
            && blocks.try_send((block, of_block)).is_err()
        {
            self.stop("the disk was slower than the calls");
        }
    }
}

/// A call that is noted. What ends without [`Noted::end`] has panicked, and counts as aborted.
pub(crate) struct Noted<'r> {
    recorder: &'r Recorder,
    name: &'static str,
    is_aborted: bool,
}

impl Noted<'_> {
    /// The call has ended, and has committed or not.
    pub(crate) fn end(&mut self, commits: bool) {
        self.is_aborted = !commits;
    }
}

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        let recorder = self.recorder;
        let now_ns = recorder.clock.now_ns();
        let state = &mut *recorder.state.lock();
        if state.blocks.is_none() {
            return; // the trace has ended meanwhile
        }
        let open = &mut state.open;
        let mut touched: Vec<Touched> = Vec::with_capacity(open.rows.len());
        for row in &open.rows {
            match touched.last_mut() {
                Some(last)
                    if (last.access, last.table, last.key) == (row.access, row.table, row.key) =>
                {
                    last.rows += row.rows;
                }
                _ => touched.push(*row),
            }
        }
        let call = Call {
            procedure: 0, // the encoder numbers names
            began_us: recorder.since_us(open.began_ns),
            ran_ns: now_ns.saturating_sub(open.began_ns),
            is_aborted: self.is_aborted,
            touched,
            more_rows: open.more_rows,
        };
        state.add(self.name, &call);
    }
}
