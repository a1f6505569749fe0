//! What excludes what: each access against each kind of lock, and what must not wait.

use std::ops::ControlFlow;

use tombolo_storage::error::{Error, Result};
use tombolo_storage::key::Range;
use tombolo_storage::memory::held::{Guard, Guarded, Lock, Locks, Mode, Part};
use tombolo_storage::memory::{Limits, MemoryStore};
use tombolo_storage::owner::Owner;
use tombolo_storage::profile::{Memory, MemoryCommandLogged};
use tombolo_storage::row::Fields;
use tombolo_storage::store::{Order, Phase, Store};

use super::items::{Item, Items, Seen, Step, Values, item_table};

type Checked<'g> = Guarded<'g, Memory>;

const OWNER: Owner = Owner::new(0xabc);

fn values(id: i32) -> Values {
    Values { id, code: id, number: id, name: id, kind: id % 5, value: i64::from(id), note: 50 }
}

/// A store with the rows 0, 2, … 18.
fn store() -> (MemoryStore<Memory>, Items) {
    let mut store = MemoryStore::new(Limits { structure_bytes_max: 1 << 20, ..Limits::default() });
    store.create_table(item_table()).unwrap();
    let items = Items::of(store.schema());
    store.begin().unwrap();
    store.begin_writes();
    for id in (0..20).step_by(2) {
        assert!(items.insert(&mut store, values(id)).unwrap());
    }
    store.commit().unwrap();
    (store, items)
}

/// Runs `work` as a part, and gives it its locks.
fn hold(
    store: &mut MemoryStore<Memory>,
    locks: &mut Locks,
    work: impl FnOnce(&mut Checked<'_>) -> Result<()>,
) -> Part {
    let guard = Guard::part(locks);
    let mut guarded = guard.over(store);
    guarded.begin().unwrap();
    guarded.begin_writes();
    work(&mut guarded).unwrap();
    guarded.commit().unwrap();
    assert_eq!(guarded.phase(), Phase::Idle);
    let part = guard.into_part().unwrap();
    locks.acquire(OWNER, part.locks.clone()).unwrap();
    part
}

/// Whether a local transaction may do `work` while the locks are held.
fn may(
    store: &mut MemoryStore<Memory>,
    locks: &Locks,
    work: impl FnOnce(&mut Checked<'_>) -> Result<()>,
) -> bool {
    let guard = Guard::local(locks);
    let mut guarded = guard.over(store);
    guarded.begin().unwrap();
    guarded.begin_writes();
    let done = work(&mut guarded);
    // A procedure that goes on after the error does not commit either.
    let is_admitted = done.is_ok();
    let ended = if is_admitted { Ok(()) } else { guarded.commit() };
    assert!(matches!(done, Ok(()) | Err(Error::Held { owner: OWNER })), "{done:?}");
    assert_eq!(ended, done);
    guarded.abort().unwrap();
    assert_eq!(guarded.phase(), Phase::Idle);
    assert_eq!(store.check(), []);
    is_admitted
}

/// A part and an access, both as steps: whether both may be.
fn are_compatible(part: &Step, access: &Step) -> bool {
    let ((mut store, items), mut locks) = (store(), Locks::new().unwrap());
    hold(&mut store, &mut locks, |guarded| items.step(guarded, part).map(|_| ()));
    let compatible = may(&mut store, &locks, |guarded| items.step(guarded, access).map(|_| ()));
    locks.release(OWNER);
    assert_eq!(locks.check(), Ok(()));
    compatible
}

fn scan(first: i32, last: i32, rows_max: usize) -> Step {
    Step::Scan { by_code: false, first, last, order: Order::Forward, rows_max }
}

fn backward(by_code: bool, first: i32, last: i32, rows_max: usize) -> Step {
    Step::Scan { by_code, first, last, order: Order::Backward, rows_max }
}

fn read(id: i32) -> Step {
    Step::ReadMany(vec![id])
}

fn update(id: i32) -> Step {
    Step::Update { id, value: 7, note: Some(3) }
}

#[test]
fn what_excludes_what() {
    let insert = |id| Step::Insert(values(id));
    let apart = [
        (read(2), read(2)),
        (read(3), read(3)),
        (read(2), update(4)),
        (update(2), update(4)),
        (update(2), read(3)),
        (insert(3), insert(5)),
        (insert(3), read(4)),
        (Step::Delete(2), Step::Delete(4)),
        // Up to the row at which the scan stopped, and not beyond.
        (scan(2, 18, 2), insert(5)),
        (scan(2, 18, 2), insert(1)),
        (scan(2, 4, 9), insert(5)),
        (backward(false, 0, 18, 2), insert(15)),
        (backward(true, 0, 18, 2), insert(15)),
        (insert(5), scan(0, 4, 9)),
        (insert(5), scan(6, 9, 9)),
        // Rows of one kind come and go together, and a kind is read by several.
        (insert(3), insert(13)),
        (Step::Kind(3), Step::Kind(3)),
        (Step::HasKind(3), Step::HasKind(3)),
        (Step::Kind(3), insert(5)),
        (Step::All, read(2)),
        (Step::All, scan(0, 9, 9)),
        (Step::All, Step::All),
    ];
    for (part, access) in &apart {
        assert!(are_compatible(part, access), "{part:?} may be held while {access:?}");
    }
    let excluding = [
        (read(2), update(2)),
        (read(2), Step::Delete(2)),
        (read(3), insert(3)),
        (update(2), update(2)),
        (insert(3), insert(3)),
        (Step::Delete(2), Step::Replace { id: 2, value: 3 }),
        (scan(2, 18, 2), insert(3)),
        (scan(2, 4, 9), insert(3)),
        (scan(2, 4, 9), update(4)),
        (scan(2, 5, 9), insert(5)),
        (scan(1, 5, 9), insert(1)),
        (backward(false, 0, 18, 2), insert(17)),
        (backward(true, 0, 18, 2), insert(17)),
        (backward(true, 0, 18, 99), insert(1)),
        (insert(13), Step::Kind(3)),
        (insert(3), Step::HasKind(3)),
        (Step::Delete(2), Step::Kind(2)),
        (Step::All, insert(3)),
        (Step::All, update(2)),
        (Step::All, Step::Delete(2)),
        (Step::Rekey { id: 2, code: 3, number: 3, kind: 4 }, Step::Kind(4)),
        (Step::Rekey { id: 2, code: 3, number: 3, kind: 4 }, insert(3)),
    ];
    for (part, access) in &excluding {
        assert!(!are_compatible(part, access), "{part:?} is held, and {access:?} may be");
        assert!(!are_compatible(access, part), "{access:?} is held, and {part:?} may be");
    }
}

#[test]
fn nothing_is_found_ahead_while_a_part_is_held() {
    let ((mut store, items), mut locks) = (store(), Locks::new().unwrap());
    let found = |store: &mut MemoryStore<Memory>, guard: &Guard<'_>| {
        let guarded = guard.over(store);
        (guarded.find_ahead(&items.by_id, 2).is_some(), guarded.removals(&items.by_id).is_some())
    };
    assert_eq!(found(&mut store, &Guard::local(&locks)), (true, true), "no lock to meet");
    assert_eq!(found(&mut store, &Guard::part(&locks)), (false, false), "its reads are locked");
    hold(&mut store, &mut locks, |guarded| items.step(guarded, &read(4)).map(|_| ()));
    assert_eq!(found(&mut store, &Guard::local(&locks)), (false, false), "locks to be met");
}

/// Nothing is left of a part but its value; rows that were made again are like those before.
#[test]
fn a_part_changes_nothing_until_it_is_made() {
    let ((mut store, items), mut locks) = (store(), Locks::new().unwrap());
    let steps = [
        Step::Insert(values(3)),
        update(3),
        update(2),
        Step::Delete(4),
        Step::Replace { id: 6, value: 66 },
        Step::Rekey { id: 8, code: 9, number: 9, kind: 0 },
    ];
    let all = |store: &mut MemoryStore<Memory>| {
        store.begin().unwrap();
        let seen = items.step(store, &Step::All).unwrap();
        store.commit().unwrap();
        seen
    };
    let before = all(&mut store);
    let mut after = None;
    let part = hold(&mut store, &mut locks, |guarded| {
        for step in &steps {
            assert_eq!(items.step(guarded, step)?, Seen::Done(true));
        }
        after = Some(items.step(guarded, &Step::All)?);
        Ok(())
    });
    assert_eq!(all(&mut store), before);
    assert_eq!(store.check(), []);
    // The slots of its own rows are free.
    let own = part.locks.iter().filter(|lock| matches!(lock, Lock::Row { row: 10.., .. }));
    assert_eq!(own.count(), 0);

    for _ in 0..2 {
        store.begin().unwrap();
        store.begin_writes();
        store.make(&part.changes).unwrap();
        store.abort().unwrap();
        assert_eq!(all(&mut store), before);
    }
    store.begin().unwrap();
    store.begin_writes();
    store.make(&part.changes).unwrap();
    store.commit().unwrap();
    assert_eq!(Some(all(&mut store)), after);
    assert_eq!(store.check(), []);
    // It was made of other rows.
    store.begin().unwrap();
    store.begin_writes();
    assert_eq!(store.make(&part.changes), Err(Error::UnfitChanges));
    store.abort().unwrap();
    assert_eq!(store.check(), []);
}

#[test]
fn a_part_that_reads_changes_nothing() {
    let ((mut store, items), mut locks) = (store(), Locks::new().unwrap());
    let part = hold(&mut store, &mut locks, |guarded| {
        assert_eq!(items.step(guarded, &Step::Insert(values(2)))?, Seen::Done(false));
        items.step(guarded, &read(4)).map(|_| ())
    });
    assert!(part.changes.is_empty() && !part.locks.is_empty());
    // It has seen that there is a row 2.
    assert!(!may(&mut store, &locks, |guarded| items.step(guarded, &Step::Delete(2)).map(|_| ())));
    assert_eq!(locks.owners().collect::<Vec<_>>(), [OWNER]);
    let mut others = Locks::new().unwrap();
    let mut locks_of = |id| {
        let update = |guarded: &mut Checked<'_>| items.step(guarded, &update(id)).map(|_| ());
        let part = hold(&mut store, &mut others, update);
        others.release(OWNER);
        part.locks
    };
    assert_eq!(locks.conflict_with(&locks_of(4)), Some(OWNER));
    assert_eq!(locks.conflict_with(&locks_of(6)), None);
}

/// A row that is read many times, and rows of a table that is read as a whole, are locked once.
#[test]
fn a_part_locks_each_thing_once() {
    let ((mut store, items), mut locks) = (store(), Locks::new().unwrap());
    let part = hold(&mut store, &mut locks, |guarded| {
        for step in [read(2), update(2), read(2), Step::All, update(4)] {
            items.step(guarded, &step)?;
        }
        Ok(())
    });
    let of_table = |mode| Lock::Table { table: 0, mode };
    let locked: Vec<_> = part.locks.iter().collect();
    assert!(locked.contains(&of_table(Mode::Write)), "it is read and changed within: {locked:?}");
    let rows = locked.iter().filter(|lock| matches!(lock, Lock::Row { .. }));
    assert_eq!(rows.count(), 2, "{locked:?}");
    let keys = locked.iter().filter(|lock| matches!(lock, Lock::Key { .. }));
    assert_eq!(keys.count(), 2, "{locked:?}");
}

/// One that reads many rows locks their table.
#[test]
fn a_part_locks_tables_rather_than_many_rows() {
    let ((mut store, items), mut locks) = (store(), Locks::new().unwrap());
    store.begin().unwrap();
    store.begin_writes();
    let rows: Vec<_> = (0..1_500)
        .map(|id| store.create(&items.table, |row| row.set(Item::ID, id)).unwrap())
        .collect();
    let changes = store.set_aside().unwrap();
    store.begin().unwrap();
    store.begin_writes();
    store.make(&changes).unwrap();
    let part = |store: &mut MemoryStore<Memory>, locks: &mut Locks, count| {
        hold(store, locks, |guarded| {
            rows[..count].iter().try_for_each(|&row| guarded.pin(&items.table, row).map(|_| ()))
        })
    };
    store.commit().unwrap();
    let few = part(&mut store, &mut locks, 900);
    assert_eq!(few.locks.iter().count(), 900);
    locks.release(OWNER);
    let many = part(&mut store, &mut locks, 1_500);
    let whole = Lock::Table { table: 0, mode: Mode::Read };
    assert_eq!(many.locks.iter().collect::<Vec<_>>(), [whole]);
}

/// An edge of a range may be longer than any key, and outside what its column may be.
#[test]
fn ranges_of_all_edges_are_locked() {
    let ((mut store, items), mut locks) = (store(), Locks::new().unwrap());
    let long = vec![b'a'; 5_000];
    hold(&mut store, &mut locks, |guarded| {
        let on = |_| ControlFlow::Continue(());
        let empty = Range::between(9, 3);
        guarded.scan(&items.by_id, empty, Order::Forward, on)?;
        let range = Range::between(&b"a long beginning 11"[..], &long[..]);
        guarded.scan(&items.by_code, range, Order::Forward, on)?;
        let range = Range::between(&long[..], &b"b"[..]);
        guarded.scan(&items.by_code, range, Order::Backward, on)
    });
    let insert = |id| Step::Insert(values(id));
    assert!(may(&mut store, &locks, |guarded| items.step(guarded, &insert(1)).map(|_| ())));
    assert!(!may(&mut store, &locks, |guarded| items.step(guarded, &insert(3)).map(|_| ())));
    locks.release(OWNER);
    hold(&mut store, &mut locks, |guarded| {
        guarded.scan(&items.by_id, Range::all(), Order::Forward, |_| ControlFlow::Break(()))
    });
    assert!(may(&mut store, &locks, |guarded| items.step(guarded, &insert(1)).map(|_| ())));
    assert!(!may(&mut store, &locks, |guarded| items
        .insert(guarded, Values { id: -1, ..values(1) })
        .map(|_| ())));
    // The row at which it stopped, which it has not read.
    assert!(!may(&mut store, &locks, |guarded| items.step(guarded, &Step::Delete(0)).map(|_| ())));
}

#[test]
fn the_error_says_what_to_do() {
    let error = Error::Held { owner: OWNER };
    let text = "transaction abc holds what this one needs, and is not decided yet: wait for its decision, \
                then run this one again";
    assert_eq!(error.to_string(), text);
    assert!(error.retry() && !error.poisons() && !Error::UnfitChanges.retry());
}

/// A log of commands has nothing of a part that is set aside, and refuses to make it without a command.
#[test]
fn a_part_is_set_aside_with_any_log() {
    let mut store = MemoryStore::<MemoryCommandLogged>::new(Limits::default());
    store.create_table(item_table()).unwrap();
    let (items, before) = (Items::of(store.schema()), store.log_bytes());
    store.begin().unwrap();
    store.begin_writes();
    assert!(items.insert(&mut store, values(3)).unwrap());
    let changes = store.set_aside().unwrap();
    assert_eq!(store.log_bytes(), before);
    store.begin().unwrap();
    store.begin_writes();
    store.make(&changes).unwrap();
    let row = store.lookup(&items.by_id, 3).unwrap().unwrap();
    let fields = Fields::none().with(Item::VALUE);
    store.update(&items.table, row, fields, |row| row.set(Item::VALUE, 3)).unwrap();
    assert_eq!(items.read(&store, row), Ok(values(3)));
    assert_eq!(store.commit(), Err(Error::NoCommand));
    store.abort().unwrap();
    assert_eq!(store.check(), []);
}
