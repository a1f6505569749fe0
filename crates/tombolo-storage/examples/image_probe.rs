//! How fast checkpoints are written and loaded, and what that costs the processor.
//!
//! `cargo run --profile quick --example image_probe -- [DIRECTORY [MEGABYTES [SPARE]]]` fills a table of
//! rows of 128 bytes, writes some checkpoints as the engine does it, on a thread of its own, and loads the
//! image; without a directory it lies in memory. Between checkpoints as many bytes are written to a
//! file of the same directory, one behind the other with one sync at the end: the most the disk gives.
//! For instructions: `valgrind --tool=callgrind target/quick/examples/image_probe`, then
//! `callgrind_annotate --inclusive=yes`: `CheckpointPart::prepare` divided by the megabytes written.

#![expect(clippy::disallowed_methods, reason = "a probe outside the engine reads the clock itself")]

use std::error::Error;
use std::sync::{Arc, mpsc};
use std::time::Instant;

use tombolo_storage::disk::{ALIGNMENT_MAX, Disk, MemDisk, Open, OsDisk};
use tombolo_storage::dynamic::DynamicTable;
use tombolo_storage::memory::image::{
    Batch, CheckpointPart, Checkpoints, Completed, Image, ImageFailure, ImageSettings,
};
use tombolo_storage::memory::{Limits, MemoryStore};
use tombolo_storage::profile::MemoryLogged;
use tombolo_storage::schema::{ColumnDef, TableDef};
use tombolo_storage::store::Store;
use tombolo_storage::types::SqlType;
use tombolo_storage::value::Value;
use tombolo_storage::value_log::{LogBuffer, LogPosition};

const ROW_BYTES: usize = 128;
const ROWS_PER_TRANSACTION: usize = 1000;
/// Checkpoints that are written; the first makes the files.
const CHECKPOINTS: usize = 6;
/// Bytes of a write where nothing but the disk is timed.
const RAW_BYTES: usize = 4 << 20;
const RAW_FILE: &str = "image-probe-raw";

fn table() -> TableDef {
    let column = |name: &'static str, sql| ColumnDef {
        name: name.into(),
        sql,
        nullable: false,
        range: None,
        hot: false,
        added: false,
        default: None,
    };
    let columns = vec![column("n", SqlType::BigInt), column("filler", SqlType::Char(118))];
    TableDef { name: "rows".into(), columns, indexes: Vec::new() }
}

/// Installs `megabytes` of rows, logged by a store.
fn fill(part: &mut CheckpointPart, megabytes: usize) -> Result<(), Box<dyn Error>> {
    let mut store = MemoryStore::<MemoryLogged>::new(Limits::default());
    store.create_table(table())?;
    let rows = DynamicTable::new(store.schema(), 0);
    let (filler, mut buffer, mut position) =
        ("x".repeat(118), LogBuffer::new(), LogPosition::default());
    for first in (0..megabytes * (1 << 20) / ROW_BYTES).step_by(ROWS_PER_TRANSACTION) {
        store.begin()?;
        store.begin_writes();
        for n in first..first + ROWS_PER_TRANSACTION {
            rows.insert(&mut store, &[Value::Integer(n as i64), Value::Text(&filler)])?;
        }
        store.commit()?;
        store.take_log(&mut buffer);
        position.group += 1;
        part.install(position, buffer.as_slice())?;
        buffer.clear();
    }
    Ok(())
}

fn checkpoint(
    checkpoints: &mut Checkpoints,
    part: &mut CheckpointPart,
) -> Result<f64, Box<dyn Error>> {
    let before = part.progress();
    let begun = checkpoints.begin(&[part.needs()?])?;
    part.begin(&begun);
    let start = Instant::now();
    let done = std::thread::scope(|scope| -> Result<Completed, ImageFailure> {
        let (due, batches) = mpsc::channel::<Batch>();
        let (back, written) = mpsc::channel();
        scope.spawn(move || batches.into_iter().try_for_each(|batch| back.send(batch.write())));
        part.prepare()?;
        while let Some(batch) = part.next_batch() {
            due.send(batch).expect("the thread takes what there is");
            part.prepare()?; // the next one, while this one is written
            part.wrote(written.recv().expect("the thread gives it back"))?;
        }
        Ok(part.completed().expect("no batch is left"))
    })?;
    let seconds = start.elapsed().as_secs_f64();
    checkpoints.complete(&[done])?;
    let now = part.progress();
    let megabytes = (now.written_bytes - before.written_bytes) as f64 / 1e6;
    println!(
        "written: {megabytes:.0} MB in {seconds:.3} s, {:.0} MB/s, {} syncs",
        megabytes / seconds,
        now.syncs - before.syncs
    );
    Ok(megabytes / seconds)
}

/// Megabytes a second that the disk takes of writes behind each other, with one sync at the end.
fn raw_write(disk: &dyn Disk, bytes: usize) -> Result<f64, Box<dyn Error>> {
    // Direct writes want an aligned address, which no vector promises.
    let memory = vec![0xA5_u8; RAW_BYTES + ALIGNMENT_MAX];
    let from = memory.as_ptr().align_offset(ALIGNMENT_MAX);
    let open =
        if disk.list()?.iter().any(|name| name == RAW_FILE) { Open::Write } else { Open::New };
    let file = disk.open_direct(RAW_FILE, open)?;
    let start = Instant::now();
    for offset in (0..bytes).step_by(RAW_BYTES) {
        file.write_at(&memory[from..from + RAW_BYTES], offset as u64)?;
    }
    file.sync()?;
    let seconds = start.elapsed().as_secs_f64();
    let written = bytes.next_multiple_of(RAW_BYTES) as f64 / 1e6;
    println!("raw:     {written:.0} MB in {seconds:.3} s, {:.0} MB/s", written / seconds);
    Ok(written / seconds)
}

fn median(mut found: Vec<f64>) -> f64 {
    found.sort_by(f64::total_cmp);
    found[found.len() / 2]
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let disk: Arc<dyn Disk> = match arguments.next().filter(|directory| directory != "-") {
        Some(directory) => Arc::new(OsDisk::open(directory.as_ref())?),
        None => Arc::new(MemDisk::new()),
    };
    let megabytes = arguments.next().map_or(Ok(64), |text| text.parse())?;
    let spare_blocks = arguments.next().map_or(Ok(1), |text| text.parse())?;
    let settings = ImageSettings { spare_blocks, ..ImageSettings::default() };
    let image = Image::find(vec![Arc::clone(&disk)], settings)?;
    let mut loaded = image.load(0, 1, Limits::default(), &mut |_| {})?;
    let mut mirrored = vec![loaded.mirror()?];
    let mut checkpoints = Checkpoints::start(image, &mirrored, 1, 1)?;
    let mirrored = mirrored.remove(0);
    let mut part = CheckpointPart::new(mirrored, &checkpoints, LogPosition::default());
    fill(&mut part, megabytes)?;
    let (mut raw, mut written) = (Vec::new(), Vec::new());
    for _ in 0..CHECKPOINTS {
        raw.push(raw_write(&*disk, part.memory_bytes() as usize)?);
        written.push(checkpoint(&mut checkpoints, &mut part)?);
    }
    disk.remove(RAW_FILE)?;
    // Those that made the files are not compared.
    let (raw, written) = (median(raw.split_off(1)), median(written.split_off(1)));
    println!("written: {:.0} % of raw, medians", 100.0 * written / raw);
    println!(
        "DB′: {} MB, image: {} MB",
        part.memory_bytes() >> 20,
        checkpoints.image_bytes() >> 20
    );
    for _ in 0..2 {
        let start = Instant::now();
        let image = Image::find(vec![Arc::clone(&disk)], settings)?;
        let loaded = image.load(0, 1, Limits::default(), &mut |_| {})?;
        let (seconds, read) = (start.elapsed().as_secs_f64(), loaded.bytes() as f64 / 1e6);
        println!("loaded: {read:.0} MB in {seconds:.3} s, {:.0} MB/s", read / seconds);
    }
    Ok(())
}
