//! SQLite against our own store: the same rows, outcomes, answers and conditions.

use super::*;
use crate::compare::failure;
use crate::compare::tpcc::compare;
use crate::compare::tpcc::tests::plan;
use crate::workload::WorkloadInput;
use crate::workload::tpcc::input::Generator;
use crate::workload::tpcc::kinds;
use crate::workload::tpcc::nurand::Constants;
use crate::workload::tpcc::transactions::Transactions;
use tombolo_engine::transaction::Stop;
use tombolo_storage::memory::{Limits, MemoryStore};
use tombolo_storage::profile::Bare;
use tombolo_storage::store::Store;

fn scale(mix: Mix) -> Scale {
    Scale { seed: 3, warehouses: 1, mix }
}

fn loaded(mix: Mix) -> Sqlite {
    Sqlite::open(scale(mix), &mut |_| ()).unwrap()
}

#[test]
fn both_engines_hold_the_same_rows_after_the_same_inputs() {
    for mix in [Mix::Paper, Mix::Standard] {
        let names = ["tombolo/bare", "sqlite"].map(str::to_owned);
        let measured = compare(&plan(scale(mix)), &names, &mut ()).unwrap();
        assert_eq!(failure(&measured), None);
        let [ours, theirs] = &measured[..] else { panic!("two engines") };
        assert_eq!((ours.rounds.len(), theirs.rounds.len()), (2, 2));
        assert!(theirs.verification.consistent() && theirs.verification.checks.len() == 13);
        assert_eq!(ours.state_hash, theirs.state_hash);
        let outcomes = |m: &crate::compare::Measured| (m.total().committed, m.total().aborted);
        assert_eq!(outcomes(ours), outcomes(theirs));
        assert_eq!(outcomes(ours).0 + outcomes(ours).1, 600);
        assert!(outcomes(theirs).1 > 0, "no item was invalid: use more inputs");
    }
}

#[test]
fn both_engines_give_the_same_answers() {
    let (scale, sqlite) = (scale(Mix::Standard), loaded(Mix::Standard));
    let mut store = MemoryStore::<Bare>::new(Limits::default());
    crate::workload::tpcc::loader::load(&mut store, scale, 1, |_, _| ()).unwrap();
    let transactions = Transactions::bind(store.schema(), scale.mix).unwrap();
    let mut statements = Statements::prepare(&sqlite.connection, scale.mix).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    let inputs = Generator::new(7, scale.mix, 1, Constants::from_seed(scale.seed));
    for (place, input) in inputs.take(1_500).enumerate() {
        let ours = match transactions.call(&mut store, &input) {
            Err(Stop::Abort("invalid_item")) => None,
            ours => Some(ours.unwrap()),
        };
        assert_eq!(statements.run(&input).unwrap(), ours, "input {place}: {input:?}");
        seen.insert(input.kind());
    }
    assert_eq!(seen.len(), 5);
    assert!(seen.contains(&kinds::DELIVERY));
}

/// A statement that breaks each condition, perhaps with others.
const BREAKS: [(&str, &str); 12] = [
    ("c01", "UPDATE warehouse SET w_ytd = w_ytd + 1"),
    ("c02", "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_id = 4"),
    ("c03", "DELETE FROM new_order WHERE no_o_id = 2500"),
    ("c04", "DELETE FROM order_line WHERE ol_o_id = 3000 AND ol_number = 1"),
    ("c05", "UPDATE orders SET o_carrier_id = NULL WHERE o_id = 7"),
    ("c06", "UPDATE orders SET o_ol_cnt = o_ol_cnt + 1 WHERE o_id = 7"),
    ("c07", "UPDATE order_line SET ol_delivery_d = NULL WHERE ol_o_id = 7 AND ol_number = 2"),
    ("c08", "DELETE FROM history WHERE h_c_id = 9"),
    ("c09", "UPDATE district SET d_ytd = d_ytd - 1 WHERE d_id = 10"),
    ("c10", "UPDATE customer SET c_balance = c_balance + 1 WHERE c_id = 3000"),
    ("c11", "DELETE FROM orders WHERE o_id = 1"),
    ("c12", "UPDATE customer SET c_ytd_payment = 0 WHERE c_id = 1"),
];

#[test]
fn every_condition_can_fail() {
    let sqlite = loaded(Mix::Paper);
    let connection = &sqlite.connection;
    connection.execute_batch("PRAGMA journal_mode = MEMORY").unwrap();
    for ((name, query), (broken, statement)) in checks::queries().zip(BREAKS) {
        assert_eq!(name, broken);
        assert_eq!(checks::violation(connection, query).unwrap(), None, "{name} at first");
        connection.execute_batch("BEGIN").unwrap();
        assert!(connection.execute(statement, []).unwrap() > 0);
        assert!(checks::violation(connection, query).unwrap().is_some(), "{name} still holds");
        connection.execute_batch("ROLLBACK").unwrap();
    }
}

#[test]
fn the_settings_are_in_effect() {
    let sqlite = loaded(Mix::Paper);
    let setting = |name: &str| -> String {
        let value = |row: &rusqlite::Row<'_>| row.get::<_, rusqlite::types::Value>(0);
        let value = sqlite.connection.query_row(&format!("PRAGMA {name}"), [], value).unwrap();
        format!("{value:?}")
    };
    assert_eq!(setting("page_size"), "Integer(8192)");
    assert_eq!(setting("journal_mode"), "Text(\"off\")");
    assert_eq!(setting("temp_store"), "Integer(2)");
    let options = "SELECT group_concat(compile_options) FROM pragma_compile_options";
    let options: String = sqlite.connection.query_row(options, [], |row| row.get(0)).unwrap();
    for option in ["THREADSAFE=2", "DEFAULT_MEMSTATUS=0"] {
        assert!(options.contains(option), "not built with {option}: {options}");
    }
    assert!(!options.contains("ENABLE_API_ARMOR"), "{options}");
}
