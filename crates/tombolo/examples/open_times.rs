//! Measures the time of opening and the bytes on disk: for a new database, an empty one, and one with 1,000 rows; of
//! rows in memory, and of rows in pages.
//!
//! `cargo run --release -p tombolo --example open_times -- DIRECTORY`

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

use tombolo::{Database, Table};
use tombolo_engine::clock::{Clock, SystemClock};

/// A counter.
#[derive(Table)]
struct Counter {
    #[key]
    id: i32,
    value: i64,
}

/// Opens a database, and prints how long that took.
fn open<T>(
    what: &str,
    directory: &Path,
    open: impl Fn(&Path) -> Result<T, tombolo::Error>,
) -> Result<T, Box<dyn Error>> {
    let clock = SystemClock::new();
    let start_ns = clock.now_ns();
    let db = open(directory)?;
    let ms = (clock.now_ns() - start_ns) as f64 / 1e6;
    let mut bytes = 0;
    for file in fs::read_dir(directory)? {
        bytes += file?.metadata()?.len();
    }
    println!("{what}: opened in {ms:.1} ms, {} KB", bytes >> 10);
    Ok(db)
}

fn main() -> Result<(), Box<dyn Error>> {
    let directory = PathBuf::from(env::args().nth(1).ok_or("name a directory")?);
    let builder = || Database::builder().define::<Counter>();
    let in_memory = |place: &Path| builder().open(place);
    let in_pages = |place: &Path| builder().paged().open(place);
    for round in 0..5 {
        let place = directory.join(format!("round-{round}"));
        open("new", &place, in_memory)?.close()?;
        let db = open("closed, empty", &place, in_memory)?;
        let table = db.table::<Counter>()?;
        for id in 0..1_000 {
            db.transaction(move |tx| tx.insert_row(&table, &Counter { id, value: 1 }))?;
        }
        db.close()?;
        for _ in 0..3 {
            open("closed, 1,000 rows", &place, in_memory)?.close()?;
        }
        let place = directory.join(format!("round-{round}-pages"));
        open("pages, new", &place, in_pages)?.close()?;
        let db = open("pages, closed, empty", &place, in_pages)?;
        let table = db.table::<Counter>()?;
        for id in 0..1_000 {
            db.transaction(|tx| tx.insert_row(&table, &Counter { id, value: 1 }).map(drop))?;
        }
        db.close()?;
        for _ in 0..3 {
            open("pages, closed, 1,000 rows", &place, in_pages)?.close()?;
        }
    }
    Ok(())
}
