//! Fields of every type: what is written is read back after a restart, found by its key in the order of
//! its values, and refused where its column cannot hold it.
#![cfg(feature = "tested")]

use std::fmt::Debug;
use std::time::{Duration, SystemTime};

use chrono::{DateTime, NaiveDate, NaiveDateTime, Utc};
use rust_decimal::Decimal;
use tombolo::{Database, Enum, Error, Order, StoreError, Table};
use uuid::Uuid;

/// Names that the library has, too, mean what they mean here.
type Date = i32;
type Text = i64;

#[derive(Enum, Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
enum State {
    #[default]
    Open = -3,
    Sent,
    Paid = 30_000,
}

#[derive(Table, Clone, Debug, PartialEq)]
#[index(BySmall(small, state))]
#[index(ByText(text, day))]
#[index(ByTime(time, id))]
#[index(ByPrice(price))]
#[index(ByRatio(ratio, id))]
struct Sample {
    #[key]
    id: u64,
    small: u8,
    signed: i8,
    medium: u16,
    large: Option<u32>,
    ratio: f32,
    state: State,
    alias: Date,
    other_alias: Option<Text>,
    #[column(sql = Varchar<12>)]
    text: String,
    #[column(sql = Char<2>)]
    country: Option<String>,
    day: NaiveDate,
    time: DateTime<Utc>,
    local: Option<NaiveDateTime>,
    at: SystemTime,
    code: Option<Uuid>,
    #[column(sql = Decimal<8, 2>)]
    price: Decimal,
    #[column(sql = Decimal<18, 18>)]
    share: Option<Decimal>,
    state_before: Option<State>,
}

fn sample(id: u64) -> Sample {
    let day = NaiveDate::from_ymd_opt(1960 + (id % 90) as i32, 1 + (id % 12) as u32, 28).unwrap();
    let time = day.and_hms_micro_opt((id % 24) as u32, 1, 2, 345_678).unwrap();
    let is_odd = id % 2 == 1;
    Sample {
        id,
        small: (id * 37 % 256) as u8,
        signed: (id * 37 % 256) as i8,
        medium: (id * 3_000 % 65_536) as u16,
        large: is_odd.then_some(u32::MAX - id as u32),
        ratio: (id as f32 - 50.0) / 3.0,
        state: [State::Open, State::Sent, State::Paid][(id % 3) as usize],
        alias: -(id as i32),
        other_alias: is_odd.then_some(id as i64 - 5),
        text: "käse".repeat((id % 3) as usize),
        country: is_odd.then(|| "DE".to_owned()),
        day,
        time: time.and_utc(),
        local: is_odd.then_some(time),
        at: SystemTime::UNIX_EPOCH + Duration::from_micros(id * 1_000_003),
        code: is_odd.then(|| Uuid::from_u128(u128::from(id) << 90)),
        price: Decimal::new(id as i64 * 1_001 - 9_000, 2),
        share: is_odd.then(|| Decimal::new(id as i64, 18)),
        state_before: is_odd.then_some(State::Paid),
    }
}

/// All rows in the order of an index, forward.
fn in_order<I>(db: &Database) -> Vec<Sample>
where
    I: tombolo::DeclaredIndex<Table = Sample> + Send + Sync,
{
    let (samples, index) = (db.table::<Sample>().unwrap(), db.index::<I>().unwrap());
    let read = db.transaction(move |tx| {
        let rows = tx.range(&index, .., Order::Forward)?;
        rows.into_iter().map(|row| tx.read_row(&samples, row)).collect()
    });
    read.unwrap()
}

fn assert_sorted<K: PartialOrd + Debug>(rows: &[Sample], key: impl Fn(&Sample) -> K) {
    assert_eq!(rows.len(), 100);
    let keys: Vec<K> = rows.iter().map(key).collect();
    assert!(keys.is_sorted(), "{keys:?}");
}

#[test]
fn values_of_every_type_come_back_and_are_found_in_their_order() {
    let place = tempfile::tempdir().unwrap();
    let open = || Database::builder().define::<Sample>().open(place.path()).unwrap();
    let db = open();
    let samples = db.table().unwrap();
    db.transaction(move |tx| {
        (0..100).try_for_each(|id| tx.insert_row(&samples, &sample(id)).map(drop))
    })
    .unwrap();
    db.close().unwrap();
    let db = open();
    for row in in_order::<SampleKey>(&db) {
        assert_eq!(row, sample(row.id));
    }
    assert_sorted(&in_order::<SampleKey>(&db), |row| row.id);
    assert_sorted(&in_order::<BySmall>(&db), |row| (row.small, row.state));
    assert_sorted(&in_order::<ByText>(&db), |row| (row.text.clone(), row.day));
    assert_sorted(&in_order::<ByTime>(&db), |row| (row.time, row.id));
    assert_sorted(&in_order::<ByPrice>(&db), |row| row.price);
    assert_sorted(&in_order::<ByRatio>(&db), |row| row.ratio);
    let by_text = db.index::<ByText>().unwrap();
    let (text, day) = ("käsekäse", sample(5).day);
    let found =
        db.transaction(move |tx| Ok(tx.find_row(&by_text, (text, day))?.map(|(_, row)| row)));
    assert_eq!(found.unwrap(), Some(sample(5)));
    let by_small = db.index::<BySmall>().unwrap();
    let prefix = tombolo::Range::prefix((sample(7).small,));
    let rows = db.transaction(move |tx| Ok(tx.range(&by_small, prefix, Order::Forward)?.len()));
    assert_eq!(rows, Ok(1));
}

/// A value that no row can have is in no row, and before or behind all.
#[test]
fn a_key_that_no_column_holds_is_in_no_row() {
    let db = Database::builder().define::<Sample>().in_memory().unwrap();
    let (samples, by_id) = (db.table().unwrap(), db.index::<SampleKey>().unwrap());
    let (by_price, dec) = (db.index::<ByPrice>().unwrap(), |cents| Decimal::new(cents, 2));
    db.transaction(move |tx| {
        tx.insert_row(&samples, &sample(3))?;
        tx.insert_row(&samples, &Sample { id: (1 << 63) - 2, ..sample(3) })?;
        assert_eq!(tx.lookup(&by_id, u64::MAX)?, None);
        assert_eq!(tx.lookup(&by_id, i64::MAX as u64)?, None);
        assert_eq!(tx.range(&by_id, ..=u64::MAX, Order::Forward)?.len(), 2);
        assert_eq!(
            tx.range(&by_price, dec(-1_000_000_000)..dec(1_000_000_000), Order::Forward)?.len(),
            2
        );
        assert_eq!(tx.range(&by_price, dec(-1_000_000_000)..dec(0), Order::Forward)?.len(), 2);
        assert_eq!(tx.range(&by_id, i64::MAX as u64 + 1.., Order::Forward)?.len(), 0);
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_value_that_its_column_cannot_hold_is_refused_and_nothing_changes() {
    let db = Database::builder().define::<Sample>().in_memory().unwrap();
    let (samples, by_id) = (db.table::<Sample>().unwrap(), db.index::<SampleKey>().unwrap());
    let put = db.register_closure("put", move |tx, value: &Sample| match tx.lookup(&by_id, 1)? {
        Some(row) => tx.update_row(&samples, row, value),
        None => tx.insert_row(&samples, value).map(drop),
    });
    let good = sample(1);
    let wrong = [
        ("id", Sample { id: 1 << 63, ..good.clone() }),
        ("text", Sample { text: "thirteen bytes".to_owned(), ..good.clone() }),
        ("country", Sample { country: Some("DEU".to_owned()), ..good.clone() }),
        ("price", Sample { price: Decimal::new(100_000_000, 2), ..good.clone() }),
        ("price", Sample { price: Decimal::new(1_005, 3), ..good.clone() }), // is not rounded
        ("share", Sample { share: Some(Decimal::ONE), ..good.clone() }),
    ];
    for made in [false, true] {
        for (column, value) in &wrong {
            let Err(Error::RefusedAt { place, error }) = put.call(value.clone()) else {
                panic!("{column} was taken")
            };
            assert_eq!(place, format!("sample.{column}"));
            assert!(matches!(error, StoreError::OutOfRange { .. }));
        }
        assert_eq!(in_order::<SampleKey>(&db), if made { vec![good.clone()] } else { vec![] });
        put.call(good.clone()).unwrap();
    }
    let set = db.transaction(move |tx| {
        let (row, _) = tx.find(&by_id, 1)?.unwrap();
        tx.set(&samples, row, Sample::TEXT, "thirteen bytes")
    });
    assert!(matches!(set, Err(Error::RefusedAt { place, .. }) if place == "sample.text"));
    // One digit behind the point fits two.
    let price = Decimal::new(55, 1);
    put.call(Sample { price, ..good.clone() }).unwrap();
    assert_eq!(in_order::<SampleKey>(&db)[0].price, price);
}
