//! Random transactions of several sessions against a list of what the log must hold.

use super::*;
use crate::disk::{Fault, Operation};
use crate::error::Error;
use crate::log::record::Record;

/// What a reader must find: LSN, transaction, previous (0 of a change), whether it is only redone, what.
#[derive(Clone, Debug, PartialEq)]
struct Expected {
    lsn: u64,
    transaction: u64,
    previous: u64,
    is_redo_only: bool,
    what: What,
}

#[derive(Clone, Debug, PartialEq)]
enum What {
    Change(Change, Vec<u8>, Vec<u8>),
    Committed,
    Aborted,
    Ended,
}

impl Expected {
    fn of(lsn: u64, record: &Record<'_>) -> Self {
        let what = match record.content {
            Content::Change { change, before, after } => {
                What::Change(change, before.to_vec(), after.to_vec())
            }
            Content::Committed { .. } => What::Committed,
            Content::Aborted { .. } => What::Aborted,
            Content::Ended => What::Ended,
            other => panic!("{other:?} was never written"),
        };
        let Record { is_redo_only, transaction, previous, .. } = *record;
        Self { lsn, transaction, previous, is_redo_only, what }
    }
}

#[derive(Default)]
struct Session {
    transaction: LogTransaction,
    /// Changes not undone: where in the list, newest last.
    undoable: Vec<usize>,
    is_open: bool,
}

struct Model {
    random: Random,
    log: DiskLog,
    sessions: Vec<Session>,
    expected: Vec<Expected>,
    /// The LSN up to which, inclusive, the log was promised durable.
    promised: u64,
    next_id: u64,
}

impl Model {
    fn new(seed: u64, disk: &MemDisk, durability: Durability) -> Self {
        let settings = LogSettings { durability, buffer_bytes: 0, ..settings() };
        Self {
            random: Random::new(seed),
            log: DiskLog::create(settings, on(disk)).unwrap(),
            sessions: (0..4).map(|_| Session::default()).collect(),
            expected: Vec::new(),
            promised: 0,
            next_id: 1,
        }
    }

    fn step(&mut self) -> Result<(), Error> {
        let at = self.random.below(4) as usize;
        let mut session = std::mem::take(&mut self.sessions[at]);
        let result = match (session.is_open, self.random.below(10)) {
            (false, _) => {
                self.log.begin(&mut session.transaction, self.next_id);
                self.next_id += 1;
                session.is_open = true;
                Ok(())
            }
            (true, 0..6) => self.change(&mut session),
            (true, 6) => self.changes(&mut session),
            (true, 7) => self.abort(&mut session),
            (true, _) => self.commit(&mut session),
        };
        self.sessions[at] = session;
        result
    }

    fn change(&mut self, session: &mut Session) -> Result<(), Error> {
        let max = if self.random.below(20) == 0 { 20_000 } else { 100 };
        let before = bytes(&mut self.random, max);
        let after = bytes(&mut self.random, max);
        let kind = ChangeKind::ALL[self.random.below(9) as usize];
        let change = Change { kind, ..update(self.random.below(1_000)) };
        let stamp = self.log.change(&mut session.transaction, change, &before, &after)?;
        let is_redo_only = !kind.is_undoable();
        if !is_redo_only {
            session.undoable.push(self.expected.len());
        }
        self.expected.push(Expected {
            lsn: stamp.unwrap(),
            transaction: session.transaction.id(),
            previous: 0,
            is_redo_only,
            what: What::Change(change, before, after),
        });
        Ok(())
    }

    /// Several changes at once.
    fn changes(&mut self, session: &mut Session) -> Result<(), Error> {
        let kinds = [ChangeKind::RowCreated, ChangeKind::EntryInserted];
        let kind = kinds[self.random.below(2) as usize];
        let changes: Vec<_> = (0..self.random.below(64))
            .map(|_| {
                let change = Change { kind, ..update(self.random.below(1_000)) };
                (change, bytes(&mut self.random, 300))
            })
            .collect();
        let shown = changes.iter().map(|(change, after)| (*change, &after[..]));
        let newest = self.log.changes(&mut session.transaction, shown)?;
        let (transaction, first) = (session.transaction.id(), self.expected.len());
        let records = changes.iter().map(|(change, after)| {
            let content = Content::Change { change: *change, before: &[], after };
            Record { is_redo_only: false, transaction, previous: 0, content }
        });
        // Backwards from the newest one, each as long before the next as it is.
        let mut next = newest.unwrap_or_default() + records.clone().next_back().map_or(0, bytes_of);
        for record in records.rev() {
            next -= bytes_of(record);
            self.expected.insert(first, Expected::of(next, &record));
        }
        session.undoable.extend(first..self.expected.len());
        Ok(())
    }

    fn abort(&mut self, session: &mut Session) -> Result<(), Error> {
        let mut undo = UndoRecord::new();
        while self.log.next_undo(&mut session.transaction, &mut undo) {
            let undone = self.expected[session.undoable.pop().unwrap()].clone();
            let shown = What::Change(undo.change, undo.before.clone(), undo.after.clone());
            assert_eq!(shown, undone.what);
            let before = session.undoable.last().map_or(0, |&at| self.expected[at].lsn);
            assert_eq!(undo.previous, before);
            let kind = undo.change.kind.undone_by().unwrap();
            let change = Change { kind, ..undo.change };
            let (before, after) = (&undo.after, &undo.before);
            let stamp = self.log.compensate(&mut session.transaction, change, before, after)?;
            self.expected.push(Expected {
                lsn: stamp.unwrap(),
                transaction: session.transaction.id(),
                previous: 0,
                is_redo_only: true,
                what: What::Change(change, before.clone(), after.clone()),
            });
        }
        assert_eq!(session.undoable, []);
        let previous = session.transaction.last();
        self.log.end_abort(&mut session.transaction)?;
        session.undoable.clear();
        self.ended(session, previous, What::Aborted);
        Ok(())
    }

    fn commit(&mut self, session: &mut Session) -> Result<(), Error> {
        let previous = session.transaction.last();
        let lsn = self.log.commit(&mut session.transaction)?;
        assert_eq!(lsn == 0, previous == 0);
        self.ended(session, previous, What::Committed);
        let deletes =
            |what: &What| matches!(what, What::Change(change, ..) if change.kind.is_cleared());
        let clears = session.undoable.iter().any(|&at| deletes(&self.expected[at].what));
        session.undoable.clear();
        self.log.end_commit(&mut session.transaction)?;
        if clears {
            self.ended(session, lsn, What::Ended);
        }
        self.log.harden(lsn)?;
        if self.log.durability != Durability::Async {
            self.promised = self.promised.max(lsn);
        }
        Ok(())
    }

    fn ended(&mut self, session: &mut Session, previous: u64, what: What) {
        session.is_open = false;
        if previous > 0 {
            let (lsn, transaction) = (session.transaction.last(), session.transaction.id());
            let is_redo_only = true;
            self.expected.push(Expected { lsn, transaction, previous, is_redo_only, what });
        }
    }

    /// The file holds a prefix of what was logged, which reaches as far as was promised.
    fn verify(&self, disk: &MemDisk) {
        let mut found = Vec::new();
        let end = read_log(disk, 0, |lsn, record| found.push(Expected::of(lsn, record))).unwrap();
        assert!(end.lsn > self.promised || self.promised == 0, "{end:?}");
        assert!(found.len() <= self.expected.len());
        for (found, expected) in found.iter().zip(&self.expected) {
            assert_eq!(found, expected);
        }
    }
}

fn bytes_of(record: Record<'_>) -> u64 {
    record.bytes() as u64
}

fn run(seed: u64, durability: Durability) {
    let disk = MemDisk::new();
    let mut model = Model::new(seed, &disk, durability);
    for step in 0..3_000 {
        model.step().unwrap();
        if step % 97 == 0 {
            let lsn = model.log.core.ring.tail() - 1;
            model.log.ahead().flush_to(lsn).unwrap();
            model.promised = model.promised.max(lsn);
            model.verify(&disk);
        }
    }
    model.verify(&disk);
    assert_eq!(model.log.check(), []);
    let usage = model.log.usage();
    assert_eq!(usage.records, model.expected.len() as u64);
    assert!(usage.bytes > 2 * usage.buffer_bytes, "{usage:?}");
    model.log.flush().unwrap();
    model.promised = model.log.core.ring.tail() - 1;
    model.verify(&disk);
    assert_eq!(model.log.usage().flushed_bytes, model.log.usage().bytes);
}

#[test]
fn the_file_holds_what_was_logged_in_groups() {
    (0..4).for_each(|seed| run(seed, Durability::Group));
}

#[test]
fn the_file_holds_what_was_logged_one_by_one() {
    run(11, Durability::Sync);
}

#[test]
fn the_file_holds_what_was_logged_later() {
    run(12, Durability::Async);
}

/// Wherever a write, a sync or the space fails, what was promised is found.
#[test]
fn what_was_promised_survives_every_fault() {
    for seed in 0..60 {
        let disk = MemDisk::new();
        let mut model = Model::new(seed, &disk, Durability::Group);
        let operation = [Operation::Write, Operation::Sync, Operation::SetLen][seed as usize % 3];
        let kind = std::io::ErrorKind::Other;
        disk.set_fault(Some(Fault { operation, after: seed / 3, kind }));
        let failed = (0..20_000).find_map(|_| model.step().err());
        let Some(Error::Poisoned { reason }) = failed else { panic!("{operation:?}: {failed:?}") };
        assert!(reason.starts_with("its log failed: cannot"), "{reason}");
        disk.set_fault(None);
        for _ in 0..50 {
            let mut transaction = LogTransaction::default();
            model.log.begin(&mut transaction, 1);
            let again = model.log.change(&mut transaction, update(1), b"", b"x");
            assert_eq!(again, Err(Error::Poisoned { reason }));
        }
        let newest = model.log.core.ring.tail() - 1;
        let is_durable = model.log.core.flusher.as_ref().unwrap().durable() > newest;
        let expected = if is_durable { Ok(()) } else { Err(Error::Poisoned { reason }) };
        assert_eq!(model.log.harden(newest), expected);
        assert_eq!(model.log.check().len(), 1);
        model.verify(&disk);
        let Err(refused) = model.log.close() else { panic!("closed") };
        assert_eq!(refused.to_string(), format!("the log is poisoned: {reason}"));
    }
}
