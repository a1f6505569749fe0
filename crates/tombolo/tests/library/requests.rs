//! Calls with a request id: once at most, known after any end of the process.

use std::io::{BufRead, BufReader, Write};
use std::time::Duration;

use tombolo::procedure::{Committed, Procedure, Reading, SchemaError, Store};
use tombolo::procedure::{resolve_index, resolve_table};
use tombolo::{
    CallOptions, Database, Error, Fields, Outcome, PreCommitted, Schema, Stop, TableDef, types,
};
use tombolo_engine::threads::on_each;

use super::kills::{CHILD, child};
use super::{ById, Counter, Counters, adding, builder, open, value};

/// Adds 1 to a counter that is there; knows nothing of request ids.
struct Add(Counters);

impl Procedure for Add {
    type Input = i32;
    type Answer = i64;

    fn bind(schema: &Schema) -> Result<Self, SchemaError> {
        let (table, by_id) = (resolve_table(schema)?, resolve_index::<ById>(schema)?);
        Ok(Self(Counters { table, by_id }))
    }

    fn run<S: Store>(
        &self,
        mut tx: Reading<'_, S>,
        &id: &i32,
    ) -> Result<Committed<i64>, tombolo::procedure::Stop> {
        const NAME: Fields<Counter> = Fields::none().with(Counter::NAME);
        let Some(row) = tx.lookup(&self.0.by_id, id)? else { return tx.abort("no counter") };
        let length = tx.pin(&self.0.table, row)?.get(Counter::NAME).map_or(0, <[u8]>::len);
        let mut tx = tx.write();
        tx.update(&self.0.table, row, NAME, |row| {
            row.set_present(Counter::NAME, true);
        })?;
        tx.set_variable(&self.0.table, row, Counter::NAME.offset(), &vec![b'+'; length + 1])?;
        tx.commit(length as i64 + 1)
    }
}

#[test]
fn calls_run_once_and_are_known_when_the_directory_is_opened_again() {
    let place = tempfile::tempdir().unwrap();
    for round in 0..3 {
        let db = open(place.path()).unwrap();
        assert_eq!(value(&db, 1), i64::from(round > 0));
        let (add, procedure) = (adding(&db), db.register::<Add>().unwrap());
        let counters = Counters::of(&db);
        let panics = move |tx: &mut tombolo::Tx<'_>| -> Result<i64, Stop> {
            counters.add(tx, 1)?;
            panic!("as asked")
        };
        let ended = [
            add.once(1).call(1),
            procedure.once(2).call(1),
            procedure.once(3).call(9),
            db.once(4).transaction(|_| Err(Stop::Abort("not today"))),
            db.once(5).transaction(panics),
            (db.with(CallOptions::new().early())
                .once(6)
                .transaction(|_| Ok(6))
                .map(PreCommitted::into_inner))
            .map_err(Error::from),
        ];
        let first = [
            Ok(1),
            Ok(1),
            Err(Error::Aborted("no counter")),
            Err(Error::Aborted("not today")),
            Err(Error::Panicked("as asked".into())),
            Ok(6),
        ];
        let outcomes = first.each_ref().map(|ended| match ended {
            Ok(_) => Outcome::Committed,
            Err(_) => Outcome::Aborted,
        });
        match round {
            0 => assert_eq!(ended, first),
            _ => assert_eq!(ended, outcomes.map(|outcome| Err(Error::Repeated(outcome)))),
        }
        assert_eq!([1, 2, 3, 4, 5, 6].map(|id| db.outcome(id).unwrap()), outcomes);
        assert_eq!(db.outcome(u128::MAX).unwrap(), Outcome::Unknown);
        let statistics = db.statistics();
        assert_eq!(statistics.repeated, if round == 0 { 0 } else { 6 });
        assert_eq!(statistics.panicked, u64::from(round == 0));
    }
}

#[test]
fn an_id_whose_call_did_not_run_may_be_used_again() {
    let place = tempfile::tempdir().unwrap();
    let db = builder().open(place.path()).unwrap();
    let add = adding(&db);
    let options = CallOptions::new();
    let (begun, has_begun) = std::sync::mpsc::channel();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let holding = db.with(CallOptions::new()).submit(move |_| {
        begun.send(()).unwrap();
        let _ = ended.recv();
        Ok(())
    });
    has_begun.recv().unwrap();
    let late = add.with(options.within(Duration::from_millis(1)));
    assert_eq!(late.once(7).call(1), Err(Error::TimedOut));
    drop(end);
    holding.unwrap().wait().unwrap();
    assert_eq!(db.outcome(7), Ok(Outcome::Unknown));
    // More than a group of the log takes, and the id in addition.
    let huge = add.with(options.log_bytes_max(u64::MAX)).once(7).call(1);
    assert!(matches!(huge, Err(Error::TooLarge { .. })), "{huge:?}");
    // A call that may write nothing still has room for its id.
    assert_eq!(db.with(options.read_only()).once(7).transaction(|_| Ok(3)), Ok(3));
    let again = add.once(7).call(1).unwrap_err();
    assert!(again == Error::Repeated(Outcome::Committed) && again.may_have_committed());
    assert!(!again.is_retryable() && again.to_string().contains("committed"), "{again}");
    assert_eq!(value(&db, 1), 0);
}

#[test]
fn as_many_and_as_long_ids_are_remembered_as_the_settings_say() {
    for (seconds, known) in [("0", 30..40), ("60", 0..40)] {
        let few = builder().set("request_ids_min", "10").set("request_ids_s_min", seconds);
        let db = few.in_memory().unwrap();
        let add = adding(&db);
        for id in 0..40 {
            add.once(id).call(1).unwrap();
        }
        let committed = (0..40).filter(|&id| db.outcome(id) == Ok(Outcome::Committed));
        assert!(committed.eq(known), "{seconds} s");
    }
    let none = builder().set("request_ids_min", "0").in_memory().unwrap_err();
    assert!(none.to_string().contains("request_ids_min"), "{none}");
}

#[test]
fn tables_of_the_databases_own_are_not_an_applications() {
    let column = tombolo::ColumnDef::of::<types::Integer>("id");
    for name in ["tombolo_request", "tombolo_else"] {
        let table = TableDef { name: name.into(), columns: vec![column.clone()], indexes: vec![] };
        let refused = Database::builder().table(table).in_memory().unwrap_err();
        assert!(refused.to_string().contains(name), "{refused}");
    }
    let db = Database::in_memory().unwrap();
    assert!(db.dynamic_table("tombolo_request").is_err());
    assert!(!format!("{db:?}").contains("tombolo_request"));
}

#[test]
fn after_a_kill_every_request_is_there_or_not_and_can_be_tried_again() {
    const THREADS: u128 = 3;
    if let Some(directory) = std::env::var_os(CHILD) {
        let db = open(directory.as_ref()).unwrap();
        let add = adding(&db);
        on_each(0..THREADS, |thread| {
            for number in 0.. {
                let id = number * THREADS + thread;
                let reported = add.once(id).call(id as i32);
                let line = match reported {
                    Ok(_) => format!("ack {id}\n"),
                    Err(Error::Repeated(Outcome::Committed)) => continue,
                    Err(error) => panic!("{error}"),
                };
                if std::io::stdout().lock().write_all(line.as_bytes()).is_err() {
                    return;
                }
            }
        });
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let mut last = 0;
    for round in 1..=3 {
        let test = "requests::after_a_kill_every_request_is_there_or_not_and_can_be_tried_again";
        let mut child = child(test, place.path());
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut acknowledged =
            lines.filter_map(|line| line.strip_prefix("ack ").map(|id| id.parse().unwrap()));
        let mut ids: Vec<u128> = acknowledged.by_ref().take(50 * round).collect();
        child.kill().unwrap(); // SIGKILL
        child.wait().unwrap();
        ids.extend(acknowledged);
        let db = open(place.path()).unwrap();
        for &id in &ids {
            assert_eq!(db.outcome(id), Ok(Outcome::Committed), "{id} was acknowledged");
        }
        last = ids.into_iter().max().unwrap_or(last);
        let add = adding(&db);
        for id in 0..=last + 10 {
            let there = value(&db, id as i32);
            match db.outcome(id).unwrap() {
                Outcome::Committed => assert_eq!(there, 1, "{id}"),
                Outcome::Unknown => assert_eq!(there, 0, "{id}"),
                Outcome::Aborted => panic!("{id} never aborts"),
            }
            let _ = add.once(id).call(id as i32);
            assert_eq!(value(&db, id as i32), 1, "{id}: once, and once only");
        }
    }
}
