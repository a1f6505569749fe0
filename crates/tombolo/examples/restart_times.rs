//! Measures restarts of paged databases: the same log, of changes to the same rows, on tables of different lengths
//! (LG-19). A process of its own makes the changes, from one thread that calls and waits, and ends without closing.
//!
//! `cargo run --release -p tombolo --example restart_times -- DIRECTORY`: a JSON line for each restart.

use std::error::Error;
use std::path::Path;
use std::process::{Command, abort};
use std::{array, env, fs};

use tombolo::{Database, PagedDatabase, Table};
use tombolo_engine::clock::{Clock, SystemClock};
use tombolo_engine::rng::Rng;

/// About 220 bytes in a page.
#[derive(Table)]
struct Item {
    #[key]
    id: u64,
    count: u64,
    text: String,
}

/// Rows that change, whatever there is besides.
const CHANGED: u64 = 100_000;
/// How many rows one transaction changes.
const PER_TRANSACTION: usize = 10;
const TRANSACTIONS: u64 = 60_000;

fn open(directory: &Path) -> Result<PagedDatabase, tombolo::Error> {
    let paged = Database::builder().define::<Item>().paged();
    // All pages fit, and no checkpoint shortens the log.
    paged.pool_bytes(1 << 30).checkpoint_log_bytes(1 << 40).open(directory)
}

/// Fills a database with so many rows.
fn make(directory: &Path, rows: u64) -> Result<(), Box<dyn Error>> {
    let db = open(directory)?;
    let items = db.table::<Item>()?;
    let item = |id| Item { id, count: 0, text: format!("item {id}: {}", "x".repeat(160)) };
    db.load(&items, (0..rows).map(item))?;
    Ok(db.close()?)
}

/// Changes rows, says how long that took, and ends the process.
fn change(directory: &Path) -> Result<(), Box<dyn Error>> {
    let db = open(directory)?;
    let by_id = db.index::<ItemKey>()?;
    let (clock, mut random) = (SystemClock::new(), Rng::stream(1, &[]));
    let before = db.statistics().flushed_bytes;
    let start_ns = clock.now_ns();
    for _ in 0..TRANSACTIONS {
        let ids: [u64; PER_TRANSACTION] = array::from_fn(|_| random.below(CHANGED));
        db.transaction(|tx| {
            for id in ids {
                let Some((_, mut item)) = tx.find_row(&by_id, id)? else { continue };
                item.count += 1;
                item.text.replace_range(..4, if item.count % 2 == 0 { "item" } else { "ITEM" });
                tx.upsert_row(&by_id, &item)?;
            }
            Ok(())
        })?;
    }
    let ns = clock.now_ns() - start_ns;
    println!("{} {ns}", db.statistics().flushed_bytes - before);
    abort()
}

fn measure(directory: &Path, rows: u64) -> Result<(), Box<dyn Error>> {
    let child = Command::new(env::current_exe()?).arg("change").arg(directory).output()?;
    let said = String::from_utf8(child.stdout)?;
    let written: Vec<f64> = said.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    let [written_bytes, written_ns] = written[..] else {
        return Err(format!("no changes: {}", String::from_utf8_lossy(&child.stderr)).into());
    };
    let pages_bytes = fs::metadata(directory.join("pages"))?.len();
    let clock = SystemClock::new();
    let start_ns = clock.now_ns();
    let db = open(directory)?;
    let ms = (clock.now_ns() - start_ns) as f64 / 1e6;
    let restart = db.restart().ok_or("the database was closed")?;
    let rate = restart.log_bytes as f64 / ms / 1e3;
    let written_rate = written_bytes * 1e3 / written_ns;
    println!(
        "{{\"rows\":{rows},\"pages_bytes\":{pages_bytes},\"log_bytes\":{},\"records_redone\":{},\"pages_redone\":{},\
         \"restart_ms\":{ms:.0},\"restart_mb_per_s\":{rate:.1},\"written_mb_per_s\":{written_rate:.1}}}",
        restart.log_bytes, restart.records_redone, restart.pages_redone,
    );
    Ok(db.close()?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let first = arguments.next().ok_or("name a directory")?;
    if let Some(directory) = arguments.next().filter(|_| first == "change") {
        return change(directory.as_ref());
    }
    let lengths = [CHANGED, 10 * CHANGED, 20 * CHANGED];
    let place = |rows| Path::new(&first).join(format!("{rows}-rows"));
    for rows in lengths {
        if !place(rows).exists() {
            make(&place(rows), rows)?;
        }
    }
    for _ in 0..3 {
        for rows in lengths {
            measure(&place(rows), rows)?;
        }
    }
    Ok(())
}
