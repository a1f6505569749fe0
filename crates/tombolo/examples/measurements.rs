//! Measurements of sensors: a database on disk that is much larger than its memory, written by several threads.
//!
//! `cargo run --release -p tombolo --example measurements -- DIRECTORY`
//!
//! The pool has 2 MB, each run adds about 6 MB. Two writers add measurements and keep a sum for each sensor, so
//! that they meet at the same rows; then all of it is read.

use tombolo::{Database, Error, Order, PagedDatabase, PagedTx, Range, Stop, Table};
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
const BATCHES: u64 = 100;
const BATCH: u64 = 100;

/// Adds a batch of measurements, one transaction.
fn add(db: &PagedDatabase, writer: u64, batch: u64) -> Result<(), Error> {
    let (measurements, by_id) = (db.table::<Measurement>()?, db.index::<SensorKey>()?);
    let remark = format!("from writer {writer}, batch {batch}{}", ".".repeat(200));
    db.transaction(|tx: &mut PagedTx<'_>| {
        for n in 0..BATCH {
            let (id, value) = (((batch * BATCH + n) % u64::from(SENSORS)) as u32, n as i64);
            // Locked for the change at once, so that no two writers read it and then wait for each other.
            let row = tx.lookup_for_update(&by_id, id)?.ok_or(Stop::Abort("no such sensor"))?;
            let mut sensor = tx.read_row(&db.table::<Sensor>()?, row)?;
            let (number, remark) = (sensor.measurements, remark.clone());
            tx.insert_row(&measurements, &Measurement { sensor: id, number, value, remark })?;
            (sensor.measurements, sensor.sum) = (number + 1, sensor.sum + value);
            tx.update_row(&db.table::<Sensor>()?, row, &sensor)?;
        }
        Ok(())
    })
}

/// How many measurements a sensor has and what they come to, counted by reading all of them.
fn count(db: &PagedDatabase, id: u32) -> Result<(u64, i64), Error> {
    let (measurements, by_sensor) = (db.table()?, db.index::<MeasurementKey>()?);
    db.read(|tx| {
        let rows = tx.range(&by_sensor, Range::prefix((id,)), Order::Forward)?;
        rows.iter().try_fold((0, 0), |(count, sum), &row| {
            Ok((count + 1, sum + tx.get(&measurements, row)?.get(Measurement::VALUE)))
        })
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
    for id in 0..SENSORS {
        let sensor = db.read(|tx| Ok(tx.find_row(&by_id, id)?.map(|(_, sensor)| sensor)))?;
        let sensor = sensor.map(|sensor| (sensor.measurements, sensor.sum)).unwrap_or_default();
        assert_eq!(sensor, count(&db, id)?, "sensor {id}");
        all += sensor.0;
    }
    let statistics = db.statistics();
    assert!(statistics.pool_misses > statistics.pool_pages, "it is larger than the pool");
    println!("{all} measurements in a pool of {} pages", statistics.pool_pages);
    db.close()
}
