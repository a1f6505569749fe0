//! How fast a database is opened from its image, and what that costs the processor.
//!
//! `cargo run --profile quick -p tombolo-engine --example opening_probe -- DIRECTORY [MEGABYTES [THREADS
//! [BLOCK_KB]]]` makes a database of two tables with rows of 128 bytes there, writes a checkpoint and
//! opens it: with DB′ and without. Figures are one line each.

use std::error::Error;
use std::sync::Arc;

use tombolo_engine::checkpointing::Checkpointing;
use tombolo_engine::clock::SystemClock;
use tombolo_engine::recovery::{Created, OpenOptions, Opened, create, open};
use tombolo_storage::disk::{Disk, OsDisk};
use tombolo_storage::dynamic::DynamicTable;
use tombolo_storage::memory::MemoryStore;
use tombolo_storage::memory::image::{CheckpointPart, ImageSettings, Step};
use tombolo_storage::profile::MemoryLogged;
use tombolo_storage::schema::{ColumnDef, IndexDef, IndexKind, TableDef};
use tombolo_storage::store::Store;
use tombolo_storage::types::SqlType;
use tombolo_storage::value::Value;
use tombolo_storage::value_log::{LogBuffer, LogWriter};

const ROW_BYTES: usize = 128;
const ROWS_PER_TRANSACTION: usize = 1000;

type Rows = MemoryStore<MemoryLogged>;

fn table(name: &'static str) -> TableDef {
    let column = |name: &'static str, sql, range| ColumnDef {
        name: name.into(),
        sql,
        nullable: false,
        range,
        hot: false,
        added: false,
        default: None,
    };
    let columns = vec![
        column("n", SqlType::BigInt, Some((0, 1 << 40))),
        column("filler", SqlType::Char(118), None),
    ];
    let index = IndexDef {
        name: format!("{name}_pk").into(),
        columns: vec![0],
        unique: true,
        kind: IndexKind::Tree,
    };
    TableDef { name: name.into(), columns, indexes: vec![index] }
}

/// Makes what was logged a durable group and installs it.
fn install(
    store: &mut Rows,
    writer: &mut LogWriter,
    parts: &mut [CheckpointPart],
) -> Result<(), Box<dyn Error>> {
    let mut records = LogBuffer::new();
    store.take_log(&mut records);
    writer.append_group(&[records.as_slice()], records.transactions(), None)?;
    writer.sync()?;
    let position = writer.position();
    parts.iter_mut().try_for_each(|part| part.install(position, records.as_slice()))?;
    Ok(())
}

/// Makes the database; bytes its store took, and those of DB′.
fn make(
    disks: &[Arc<dyn Disk>],
    options: &OpenOptions,
    megabytes: usize,
) -> Result<(u64, u64), Box<dyn Error>> {
    let Created { mut store, mut writer, checkpointing } = create(disks, options)?;
    let Some(Checkpointing { mut checkpoints, mut parts }) = checkpointing else {
        return Err("the options have an image".into());
    };
    for name in ["one", "two"] {
        store.create_table(table(name))?;
    }
    let handles = [0, 1].map(|at| DynamicTable::new(store.schema(), at));
    let filler = "x".repeat(118);
    for first in (0..megabytes * (1 << 20) / ROW_BYTES / 2).step_by(ROWS_PER_TRANSACTION) {
        store.begin()?;
        store.begin_writes();
        for n in first..first + ROWS_PER_TRANSACTION {
            for rows in &handles {
                rows.insert(&mut store, &[Value::Integer(n as i64), Value::Text(&filler)])?;
            }
        }
        store.commit()?;
        install(&mut store, &mut writer, &mut parts)?;
    }
    let needs =
        parts.iter_mut().map(CheckpointPart::needs).collect::<Result<Option<Vec<_>>, _>>()?;
    let needs = needs.expect("there is a second copy");
    let begun = checkpoints.begin(&needs)?;
    let mut done = Vec::new();
    for part in &mut parts {
        part.begin(&begun);
        loop {
            if let Step::Complete(completed) = part.step()? {
                done.push(completed);
                break;
            }
        }
    }
    let position = checkpoints.complete(&done)?;
    writer.release_before(position.group);
    let mirrored = parts.iter().map(CheckpointPart::memory_bytes).sum();
    Ok((store.memory_bytes(), mirrored))
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().ok_or("give a directory that does not exist yet")?;
    let mut number = |default: usize| arguments.next().map_or(Ok(default), |text| text.parse());
    let (megabytes, threads, block_kb) = (number(256)?, number(2)?, number(1024)?);
    let image = ImageSettings { block_bytes: (block_kb << 10) as u32, ..ImageSettings::default() };
    let options = OpenOptions { image: Some(image), threads, ..OpenOptions::default() };
    let disks: [Arc<dyn Disk>; 1] = [Arc::new(OsDisk::create(directory.as_ref())?)];
    let (store_bytes, mirrored_bytes) = make(&disks, &options, megabytes)?;
    println!(
        "store: {} MB, DB′: {} MB, together {:.2} times the store",
        store_bytes >> 20,
        mirrored_bytes >> 20,
        (store_bytes + mirrored_bytes) as f64 / store_bytes as f64
    );
    for image in [Some(image), None, Some(image), None] {
        let options = OpenOptions { image, ..options };
        let opened: Opened<MemoryLogged> =
            open(&disks, &options, &SystemClock::new(), &mut |_| {})?;
        let how = opened.recovery;
        let (megabytes, with) = (how.image_bytes as f64 / 1e6, image.map_or("without", |_| "with"));
        println!(
            "{with} DB′: image {megabytes:.0} MB in {:.3} s, {:.3} s of CPU ({:.0} MB per CPU-second); \
             all {:.3} s, {:.3} s of CPU",
            how.image_s,
            how.image_cpu_s,
            megabytes / how.image_cpu_s,
            how.wall_s,
            how.cpu_s
        );
    }
    Ok(())
}
