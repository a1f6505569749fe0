//! Measurements of sensors: a database on disk that is much larger than its memory, written by several threads.
//!
//! `cargo run --release -p tombolo --example measurements -- DIRECTORY`
//!
//! The pool has 2 MB, each run adds about 6 MB. Two writers add measurements and keep a sum for each sensor, so
//! that they meet at the same rows, always in the same order, so that they never wait for each other in a circle. Then
//! all of it is read, in the order in which it lies on the disk.

use tombolo::{Database, Error, PagedDatabase, PagedTx, Stop, Table};
use tombolo_engine::threads::on_each;

#[derive(Table)]
struct Measurement {
    #[key]
    sensor: u32,
    #[key]
    number: u64,
    value: i64,
    remark: String,
}

#[derive(Table)]
struct Sensor {
    #[key]
    id: u32,
    measurements: u64,
    sum: i64,
}

const SENSORS: u32 = 16;
const WRITERS: u64 = 2;
const BATCHES: u64 = 125;
/// Measurements of each sensor in a batch.
const EACH: i64 = 5;

/// Adds a batch of measurements, one transaction.
fn add(db: &PagedDatabase, writer: u64, batch: u64) -> Result<(), Error> {
    let (measurements, sensors) = (db.table::<Measurement>()?, db.table::<Sensor>()?);
    let by_id = db.index::<SensorKey>()?;
    let remark = format!("from writer {writer}, batch {batch}{}", ".".repeat(200));
    db.transaction(|tx: &mut PagedTx<'_>| {
        for id in 0..SENSORS {
            // Locked for the change at once: two writers that read it first would wait for each other.
            let row = tx.lookup_for_update(&by_id, id)?.ok_or(Stop::Abort("no such sensor"))?;
            let mut sensor = tx.read_row(&sensors, row)?;
            for value in 0..EACH {
                let (number, remark) = (sensor.measurements, remark.clone());
                tx.insert_row(&measurements, &Measurement { sensor: id, number, value, remark })?;
                (sensor.measurements, sensor.sum) = (number + 1, sensor.sum + value);
            }
            tx.update_row(&sensors, row, &sensor)?;
        }
        Ok(())
    })
}

/// How many measurements each sensor has and what they come to, counted by reading all of them.
fn count(db: &PagedDatabase) -> Result<Vec<(u64, i64)>, Error> {
    let measurements = db.table::<Measurement>()?;
    db.read(|tx| {
        let mut all = vec![(0, 0); SENSORS as usize];
        for row in tx.rows(&measurements)? {
            let row = tx.get(&measurements, row)?;
            let (count, sum) = &mut all[row.get(Measurement::SENSOR) as usize];
            (*count, *sum) = (*count + 1, *sum + row.get(Measurement::VALUE));
        }
        Ok(all)
    })
}

fn main() -> Result<(), Error> {
    let directory = std::env::args().nth(1).unwrap_or_else(|| "measurements-data".to_owned());
    let db = Database::builder()
        .define::<Measurement>()
        .define::<Sensor>()
        .paged()
        .pool_bytes(2 << 20)
        .open(directory)?;
    let by_id = db.index::<SensorKey>()?;
    db.transaction(|tx| {
        for id in 0..SENSORS {
            if tx.lookup(&by_id, id)?.is_none() {
                tx.upsert_row(&by_id, &Sensor { id, measurements: 0, sum: 0 })?;
            }
        }
        Ok(())
    })?;
    let added =
        on_each(0..WRITERS, |writer| (0..BATCHES).try_for_each(|batch| add(&db, writer, batch)));
    added.into_iter().collect::<Result<(), Error>>()?;
    let mut all = 0;
    for (id, counted) in (0..).zip(count(&db)?) {
        let sensor = db.read(|tx| Ok(tx.find_row(&by_id, id)?.map(|(_, sensor)| sensor)))?;
        let sensor = sensor.map(|sensor| (sensor.measurements, sensor.sum)).unwrap_or_default();
        assert_eq!(sensor, counted, "sensor {id}");
        all += sensor.0;
    }
    let statistics = db.statistics();
    assert!(statistics.pool_misses > statistics.pool_pages, "it is larger than the pool");
    println!(
        "{all} measurements, {} pages in the pool, {} deadlocks",
        statistics.pool_pages, statistics.deadlocks
    );
    db.close()
}
