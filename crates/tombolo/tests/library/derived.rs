//! Tables derived from structs: their definition, and rows as values, against a model.

use std::collections::BTreeMap;

use tombolo::{
    CallOptions, Column, Database, Error, IndexDef, IndexKind, Order, Range, Table, TableDef,
    TableRow, types,
};
use tombolo_engine::rng::Rng;

/// One field of every kind.
#[derive(Table, Clone, Debug, PartialEq)]
#[table(name = "things")]
#[index(ByName(name, part))]
#[index(ByCode(code), unique, hash, name = "things_code")]
struct Thing {
    #[key]
    #[column(range = 0..=999)]
    id: i32,
    #[key]
    part: i16,
    name: Option<String>,
    #[column(sql = Decimal<12, 2>, hot)]
    price: i64,
    #[column(sql = Varchar<8>)]
    place: String,
    #[column(sql = Nullable<Date>)]
    day: Option<i32>,
    #[column(sql = Timestamp)]
    at: i64,
    code: [u8; 16],
    weight: Option<f64>,
    is_new: bool,
    picture: Vec<u8>,
    note: String,
    thumb: Option<Vec<u8>>,
    r#type: i64,
}

tombolo::table! {
    /// The same, declared.
    struct Declared = "things" {
        ID: Integer [0..=999];
        PART: SmallInt;
        NAME: Nullable<Text>;
        PRICE: Decimal<12, 2> => hot;
        PLACE: Varchar<8>;
        DAY: Nullable<Date>;
        AT: Timestamp;
        CODE: Uuid;
        WEIGHT: Nullable<Double>;
        IS_NEW: Boolean;
        PICTURE: Bytes;
        NOTE: Text;
        THUMB: Nullable<Bytes>;
        TYPE: BigInt;
    }
}
tombolo::index! {
    /// The key, declared.
    struct DeclaredKey = "things_key" on Declared (ID: Integer, PART: SmallInt) unique Tree;
}

/// Values of chance; those of the key are given.
fn thing(rng: &mut Rng, id: i32, part: i16) -> Thing {
    let text = |rng: &mut Rng, most: u64| "t".repeat(rng.below(most) as usize);
    let mut code = [0; 16];
    code[..8].copy_from_slice(&rng.below(u64::MAX).to_le_bytes());
    Thing {
        id,
        part,
        name: (rng.below(3) > 0).then(|| text(rng, 60)),
        price: rng.below(1_000_000) as i64 - 500_000,
        place: text(rng, 9),
        day: (rng.below(2) > 0).then(|| rng.below(20_000) as i32),
        at: rng.below(1 << 40) as i64,
        code,
        weight: (rng.below(2) > 0).then(|| rng.below(100) as f64 / 8.0),
        is_new: rng.below(2) > 0,
        picture: vec![7; rng.below(300) as usize],
        note: text(rng, 200),
        thumb: (rng.below(2) > 0).then(|| vec![1; rng.below(40) as usize]),
        r#type: rng.below(10) as i64,
    }
}

#[test]
fn a_derived_definition_is_what_declaring_makes() {
    let by_name = IndexDef {
        name: "things_by_name".into(),
        columns: vec![2, 1],
        unique: false,
        kind: IndexKind::Tree,
    };
    let by_code = IndexDef {
        name: "things_code".into(),
        columns: vec![7],
        unique: true,
        kind: IndexKind::Hash,
    };
    let mut declared = TableDef::of::<Declared>().with::<DeclaredKey>();
    declared.indexes.extend([by_name, by_code]);
    assert_eq!(Thing::definition(), declared);
    const PRICE: Column<Thing, types::Decimal<12, 2>> = Thing::PRICE;
    assert_eq!(PRICE.offset(), Declared::PRICE.offset());
    assert_eq!(Thing::TYPE.position(), Declared::TYPE.position());
}

#[test]
fn values_are_written_replaced_and_read_back_after_a_restart() {
    let place = tempfile::tempdir().unwrap();
    let (mut model, mut rng) = (BTreeMap::<(i32, i16), Thing>::new(), Rng::stream(5, &[]));
    for _ in 0..3 {
        let builder = Database::builder().define::<Thing>().set("log_segment_bytes", "1 MB");
        let db = builder.open(place.path()).unwrap();
        let (things, by_key) = (db.table::<Thing>().unwrap(), db.index::<ThingKey>().unwrap());
        let by_name = db.index::<ByName>().unwrap();
        let put = db.register_closure("put", move |tx, thing: &Thing| {
            match tx.lookup(&by_key, (thing.id, thing.part))? {
                Some(row) => tx.update_row(&things, row, thing)?,
                None => drop(tx.insert_row(&things, thing)?),
            }
            Ok(())
        });
        let put = put.with(CallOptions::new().early());
        for _ in 0..200 {
            let (id, part) = (rng.below(8) as i32, rng.below(6) as i16);
            let thing = thing(&mut rng, id, part);
            put.call(thing.clone()).unwrap().into_inner();
            model.insert((id, part), thing);
        }
        let read = db.transaction(move |tx| {
            let mut read = [Vec::new(), Vec::new()];
            let rows = [
                tx.range(&by_key, Range::all(), Order::Forward)?,
                tx.range(&by_name, Range::all(), Order::Forward)?,
            ];
            for (read, rows) in read.iter_mut().zip(rows) {
                for row in rows {
                    read.push(tx.read_row(&things, row)?);
                }
            }
            Ok(read)
        });
        let [by_key, mut by_name] = read.unwrap();
        assert_eq!(by_key, model.values().cloned().collect::<Vec<_>>());
        by_name.sort_by_key(|thing| (thing.id, thing.part));
        assert_eq!(by_name, by_key);
        let outside = thing(&mut rng, 1_000, 0);
        let refused = put.call(outside).unwrap_err();
        assert!(matches!(refused.error(), Error::RefusedAt { .. }), "{refused}");
    }
}
