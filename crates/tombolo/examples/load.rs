//! Measures bulk loading: rows per second, memory used, and the net bytes of rows and keys.
//!
//! `cargo run --release -p tombolo --example load -- [ROWS] [DIRECTORY]`

use std::env;
use std::error::Error;

use tombolo::{Database, Table};
use tombolo_engine::clock::{Clock, SystemClock};

/// A reading of a sensor, by sensor and time.
#[derive(Table)]
#[index(BySensor(sensor, at))]
struct Reading {
    #[key]
    id: u64,
    sensor: u32,
    at: i64,
    value: f64,
    #[column(sql = Varchar<24>)]
    unit: String,
}

fn reading(id: u64) -> Reading {
    let (sensor, at) = ((id % 1_000) as u32, id as i64 / 1_000);
    Reading { id, sensor, at, value: id as f64 / 7.0, unit: "degrees Celsius".to_owned() }
}

fn main() -> Result<(), Box<dyn Error>> {
    let rows: u64 = env::args().nth(1).map_or(Ok(1_000_000), |rows| rows.parse())?;
    let builder = Database::builder().define::<Reading>();
    let db = match env::args().nth(2) {
        Some(directory) => builder.open(directory)?,
        None => builder.in_memory()?,
    };
    let table = db.table::<Reading>()?;
    let before = db.statistics().memory_bytes;
    let clock = SystemClock::new();
    let start_ns = clock.now_ns();
    let loaded = db.load(&table, (0..rows).map(reading))?;
    let seconds = (clock.now_ns() - start_ns) as f64 / 1e9;
    let statistics = db.statistics();
    // The row, and the keys: 8 bytes; 4 and 8 with the row's number.
    let held = (statistics.memory_bytes - before) as f64 / loaded as f64;
    let row = <Reading as tombolo::DeclaredTable>::SIZE;
    let flushes = statistics.flushes;
    println!(
        "{{\"rows\":{loaded},\"seconds\":{seconds:.3},\"rows_per_s\":{:.0},\"row_bytes\":{row},\"key_bytes\":28,\
         \"held_bytes_per_row\":{held:.1},\"held_to_rows_and_keys\":{:.2},\"flushes\":{flushes}}}",
        loaded as f64 / seconds,
        held / (row + 28) as f64
    );
    Ok(db.close()?)
}
