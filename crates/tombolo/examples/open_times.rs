//! Measures the time of opening and the bytes on disk: for a new database, an empty one, and one with 1,000 rows.
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

fn open(directory: &Path, what: &str) -> Result<Database, Box<dyn Error>> {
    let clock = SystemClock::new();
    let start_ns = clock.now_ns();
    let db = Database::builder().define::<Counter>().open(directory)?;
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
    for round in 0..5 {
        let place = directory.join(format!("round-{round}"));
        open(&place, "new")?.close()?;
        let db = open(&place, "closed, empty")?;
        let table = db.table::<Counter>()?;
        for id in 0..1_000 {
            db.transaction(move |tx| tx.insert_row(&table, &Counter { id, value: 1 }))?;
        }
        db.close()?;
        for _ in 0..3 {
            open(&place, "closed, 1,000 rows")?.close()?;
        }
    }
    Ok(())
}
