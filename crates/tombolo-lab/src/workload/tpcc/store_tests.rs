//! Tests of the database in a store: what the loader stored, the conditions after both mixes,
//! tampering, dumps and state hashes, on both product profiles.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};
use tombolo_engine::transaction::Stop;
use tombolo_storage::memory::{Limits, MemoryStore};
use tombolo_storage::profile::{Bare, Memory, MemoryProfile};
use tombolo_storage::schema::TableDef;
use tombolo_storage::store::Store;

use super::checks::{CHECKS, checks};
use super::input::{Generator, Mix};
use super::loader::{Scale, load};
use super::nurand::Constants;
use super::tamper::tamper;
use super::transactions::{INVALID_ITEM_REASON, Transactions};
use crate::rows::{StateHash, dump, state_hash};
use crate::workload::Workload;
use crate::workload::error::WorkloadError;

const SEED: u64 = 3;

fn loaded<P: MemoryProfile>(mix: Mix, threads: usize) -> MemoryStore<P> {
    let mut store = MemoryStore::<P>::new(Limits::default());
    load(&mut store, Scale { seed: SEED, warehouses: 1, mix }, threads, |_, _| {}).unwrap();
    store
}

/// Runs `count` transactions of `mix`; how many aborted.
fn run<S: Store>(store: &mut S, mix: Mix, count: usize) -> usize {
    let transactions = Transactions::bind(store.schema(), mix).unwrap();
    let mut aborted = 0;
    for input in Generator::new(SEED, mix, 1, Constants::from_seed(SEED)).take(count) {
        match transactions.call(store, &input) {
            Ok(_) => {}
            Err(Stop::Abort(INVALID_ITEM_REASON)) => aborted += 1,
            Err(error) => panic!("{error} in {input:?}"),
        }
    }
    aborted
}

/// The names of the conditions that do not hold.
fn violated<S: Store>(store: &mut S) -> Vec<&'static str> {
    let checks = checks(store).unwrap();
    assert!(checks.iter().map(|check| check.name).eq(CHECKS));
    checks.iter().filter(|check| !check.holds()).map(|check| check.name).collect()
}

/// The files of a dump, by table, and the hash it returned.
fn dumped<S: Store>(store: &mut S) -> (BTreeMap<String, String>, StateHash) {
    let directory = tempfile::tempdir().unwrap();
    let path = |table: &str| directory.path().join(format!("{table}.copy"));
    let open =
        |table: &str| std::fs::OpenOptions::new().write(true).create_new(true).open(path(table));
    let hash = dump(store, open).unwrap();
    let tables = store.schema().tables.iter().map(|table| table.name.to_string());
    let read = |table: String| {
        let text = std::fs::read_to_string(path(&table)).unwrap();
        (table, text)
    };
    (tables.map(read).collect(), hash)
}

#[test]
fn conditions_hold_after_loading_and_after_both_mixes() {
    for (mix, count) in [(Mix::Paper, 10_000), (Mix::Standard, 10_000)] {
        let mut store = loaded::<Bare>(mix, 2);
        assert_eq!(violated(&mut store), [""; 0], "{mix:?}, loaded");
        let aborted = run(&mut store, mix, count);
        assert!((20..90).contains(&aborted), "{aborted} of about 5,000 New Orders");
        assert_eq!(violated(&mut store), [""; 0], "{mix:?}, run");
        assert_eq!(store.check(), []);
    }
}

#[test]
fn tampering_breaks_one_condition_and_no_other() {
    for check in CHECKS {
        let mut store = loaded::<Bare>(Mix::Standard, 2);
        run(&mut store, Mix::Standard, 2_000);
        tamper(&mut store, check).unwrap();
        assert_eq!(violated(&mut store), [check]);
        assert_eq!(store.check(), [], "{check}: tampering must leave every structure intact");
    }
}

#[test]
fn tampering_refuses_what_is_no_condition() {
    let mut store = loaded::<Bare>(Mix::Paper, 1);
    let error = tamper(&mut store, "c13").unwrap_err();
    assert_eq!(error, WorkloadError::NoSuchCheck { name: "c13".to_owned(), known: "c01 to c12" });
    assert_eq!(violated(&mut store), [""; 0]);
}

#[test]
fn both_profiles_and_any_number_of_threads_leave_the_same_state() {
    for mix in [Mix::Paper, Mix::Standard] {
        let mut bare = loaded::<Bare>(mix, 1);
        let mut memory = loaded::<Memory>(mix, 3);
        assert_eq!(state_hash(&mut bare).unwrap(), state_hash(&mut memory).unwrap());
        run(&mut bare, mix, 5_000);
        run(&mut memory, mix, 5_000);
        assert_eq!(state_hash(&mut bare).unwrap(), state_hash(&mut memory).unwrap(), "{mix:?}");
    }
}

#[test]
fn loading_lays_rows_out_the_same_whatever_the_schedule() {
    // A dump lists rows in the order in which they lie.
    let (one, _) = dumped(&mut loaded::<Bare>(Mix::Paper, 1));
    let (three, _) = dumped(&mut loaded::<Bare>(Mix::Paper, 3));
    assert!(one == three);
}

#[test]
fn state_hash_can_be_recomputed_from_a_dump() {
    let mut store = loaded::<Bare>(Mix::Standard, 2);
    run(&mut store, Mix::Standard, 3_000);
    let (tables, hash) = dumped(&mut store);
    assert_eq!(hash, state_hash(&mut store).unwrap());
    let mut sum = 0_u128;
    for (table, text) in &tables {
        for row in text.lines() {
            let digest = Sha256::digest(format!("{table}\t{row}"));
            sum = sum.wrapping_add(u128::from_be_bytes(digest[..16].try_into().unwrap()));
        }
    }
    assert_eq!(hash.to_string(), format!("{sum:032x}"));
}

/// A decimal's COPY text, made without the store's code.
fn decimal(units: i64, scale: u32) -> String {
    let sign = if units < 0 { "-" } else { "" };
    let digits = format!("{:0width$}", units.abs(), width = scale as usize + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale as usize);
    format!("{sign}{whole}.{fraction}")
}

/// A time's COPY text, for times of the first day.
fn time(micros: i64) -> String {
    let seconds = micros / 1_000_000;
    assert!(micros % 1_000_000 == 0, "loaded rows are dated in whole seconds");
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("2000-01-01 {hour:02}:{minute:02}:{second:02}")
}

#[test]
fn every_column_is_stored_as_generated() {
    let (tables, _) = dumped(&mut loaded::<Bare>(Mix::Paper, 2));
    let lines = |table: &str| tables[table].lines();
    let customers = (1..=10).flat_map(|d_id| super::load::customers(SEED, 1, d_id));
    assert!(lines("customer").eq(customers.map(|c| {
        let texts = [c.c_first.as_str(), c.c_middle.as_str(), c.c_last.as_str()].join("\t");
        let streets = [c.c_street_1.as_str(), c.c_street_2.as_str(), c.c_city.as_str()].join("\t");
        let places = [c.c_state.as_str(), c.c_zip.as_str(), c.c_phone.as_str()].join("\t");
        let money = [c.c_balance, c.c_ytd_payment].map(|units| decimal(units, 2)).join("\t");
        format!(
            "{}\t{}\t{}\t{texts}\t{streets}\t{places}\t{}\t{}\t{}\t{}\t{money}\t{}\t{}\t{}",
            c.c_id,
            c.c_d_id,
            c.c_w_id,
            time(c.c_since),
            c.c_credit.as_str(),
            decimal(c.c_credit_lim, 2),
            decimal(c.c_discount, 4),
            c.c_payment_cnt,
            c.c_delivery_cnt,
            c.c_data.as_str()
        )
    })));
    assert!(lines("stock").eq(super::load::stock(SEED, 1).map(|s| {
        let dist = s.s_dist().each_ref().map(super::text::Text::as_str).join("\t");
        format!("{}\t1\t{}\t{dist}\t0\t0\t0\t{}", s.s_i_id, s.s_quantity, s.s_data.as_str())
    })));
    let order_lines = (1..=10).flat_map(|d_id| super::load::order_lines(SEED, 1, d_id));
    assert!(lines("order_line").eq(order_lines.map(|l| {
        let delivered = l.ol_delivery_d.map_or("\\N".to_owned(), time);
        format!(
            "{}\t{}\t1\t{}\t{}\t1\t{delivered}\t5\t{}\t{}",
            l.ol_o_id,
            l.ol_d_id,
            l.ol_number,
            l.ol_i_id,
            decimal(l.ol_amount, 2),
            l.ol_dist_info.as_str()
        )
    })));
    let orders = (1..=10).flat_map(|d_id| super::load::orders(SEED, 1, d_id));
    assert!(lines("orders").eq(orders.map(|o| {
        let carrier = o.o_carrier_id.map_or("\\N".to_owned(), |carrier| carrier.to_string());
        let (entry_d, count) = (time(o.o_entry_d), o.o_ol_cnt);
        format!("{}\t{}\t1\t{}\t{entry_d}\t{carrier}\t{count}\t1", o.o_id, o.o_d_id, o.o_c_id)
    })));
    check_small_tables(&tables);
}

fn check_small_tables(tables: &BTreeMap<String, String>) {
    let lines = |table: &str| tables[table].lines();
    assert!(lines("item").eq(super::load::items(SEED).map(|i| {
        let (price, data) = (decimal(i.i_price, 2), i.i_data.as_str());
        format!("{}\t{}\t{}\t{price}\t{data}", i.i_id, i.i_im_id, i.i_name.as_str())
    })));
    let history = (1..=10).flat_map(|d_id| super::load::history(SEED, 1, d_id));
    assert!(lines("history").eq(history.map(|h| {
        let (id, date) = (h.h_d_id, time(h.h_date));
        format!("{}\t{id}\t1\t{id}\t1\t{date}\t10.00\t{}", h.h_c_id, h.h_data.as_str())
    })));
    let new_orders = (1..=10).flat_map(|d_id| super::load::new_orders(1, d_id));
    assert!(
        lines("new_order").eq(new_orders.map(|no| format!("{}\t{}\t1", no.no_o_id, no.no_d_id)))
    );
    let warehouse = super::load::warehouse(SEED, 1);
    let columns: Vec<_> = lines("warehouse").next().unwrap().split('\t').collect();
    let expected = [
        "1",
        warehouse.w_name.as_str(),
        warehouse.w_street_1.as_str(),
        warehouse.w_street_2.as_str(),
        warehouse.w_city.as_str(),
        warehouse.w_state.as_str(),
        warehouse.w_zip.as_str(),
        &decimal(warehouse.w_tax, 4),
        "300000.00",
    ];
    assert_eq!(columns, expected);
    assert!(lines("district").eq(super::load::districts(SEED, 1).map(|d| {
        let streets = [d.d_street_1.as_str(), d.d_street_2.as_str(), d.d_city.as_str()].join("\t");
        let places = [d.d_state.as_str(), d.d_zip.as_str()].join("\t");
        let (id, name, tax) = (d.d_id, d.d_name.as_str(), decimal(d.d_tax, 4));
        format!("{id}\t1\t{name}\t{streets}\t{places}\t{tax}\t30000.00\t3001")
    })));
}

#[test]
fn the_rows_of_a_scale_foretell_the_stores_own_count() {
    let mut store = loaded::<Bare>(Mix::Paper, 2);
    let scale = Scale { seed: SEED, warehouses: 1, mix: Mix::Paper };
    let bytes = |table: &TableDef| table.raw_row_bytes() as u64 * scale.rows_after(&table.name, 0);
    let expected = scale.tables().iter().map(bytes).sum::<u64>() as f64;
    let counted = store.usage().raw_row_bytes as f64;
    assert!((0.99..1.01).contains(&(counted / expected)), "{counted} of {expected} expected");
}

#[test]
fn loading_tells_its_progress() {
    let mut store = MemoryStore::<Bare>::new(Limits::default());
    let mut heard = Vec::new();
    let scale = Scale { seed: SEED, warehouses: 1, mix: Mix::Paper };
    load(&mut store, scale, 1, |done, of| heard.push((done, of))).unwrap();
    let parts = heard.len();
    assert!(heard.into_iter().eq((1..=parts).map(|done| (done, parts))));
}
