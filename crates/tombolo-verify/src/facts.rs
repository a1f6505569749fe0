//! The facts that a history proves before any order is chosen: the transactions that count, their versions, the version
//! that each read saw, and observations that are impossible in any order.
//!
//! # Transactions that count
//! Committed transactions count, and transactions of unknown outcome whose values a transaction that counts has seen.
//! The reads of aborted transactions are ignored.
//!
//! # Versions
//! A version is the last write of a transaction to a key; a removal is a version without value. Each key has a first
//! version before all others, in which it is absent. A read of none saw a version without value; if there are
//! several, it remains open which one.

use crate::history::{History, KeyId, Op, TxnId, ValueId};
use crate::transaction::Outcome;
use crate::verdict::Kind;

/// A version: the index of a written version in [`Facts::versions`], or, after all these, the first one of each key.
pub(crate) type VersionId = u32;

/// No version, no transaction, no read.
pub(crate) const NONE: u32 = u32::MAX;

/// A key's value from one transaction's commit on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Version {
    pub(crate) key: KeyId,
    pub(crate) txn: TxnId,
    pub(crate) value: Option<ValueId>,
}

/// A read of another transaction's version, or of a key's first one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    pub(crate) txn: TxnId,
    pub(crate) key: KeyId,
    /// The version; [`NONE`] if several without value are possible.
    pub(crate) version: VersionId,
    pub(crate) by: By,
}

/// The kind of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// An existing row, or the value that a write replaced.
    Item,
    /// A look-up that found none.
    LookUp,
    /// A scan that did not meet the key.
    Scan,
}

/// An anomaly that needs no order, in the observations of one transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Direct {
    pub(crate) kind: Kind,
    pub(crate) txn: TxnId,
    pub(crate) key: KeyId,
    pub(crate) seen: Option<ValueId>,
    /// The writer of the observed value, or the transaction itself.
    pub(crate) other: TxnId,
    /// The transaction's own value that it should have seen.
    pub(crate) own: Option<ValueId>,
}

/// The most direct anomalies that are kept.
const DIRECT_MAX: usize = 10;

/// The facts that a history proves.
#[derive(Debug)]
pub(crate) struct Facts<'h> {
    pub(crate) history: &'h History,
    pub(crate) counted: Vec<bool>,
    pub(crate) versions: Vec<Version>,
    /// The beginning of each transaction's versions, which are sorted by key.
    first_version: Vec<u32>,
    /// The versions of all keys, and the beginning of each key's.
    of_keys: Vec<VersionId>,
    first_of_key: Vec<u32>,
    pub(crate) reads: Vec<Read>,
    /// Pairs of versions of one key, of which the first was replaced before the second.
    pub(crate) replaced: Vec<(VersionId, VersionId)>,
    pub(crate) direct: Vec<Direct>,
    /// Unknown transactions that do not count, whose removals may explain absences.
    pub(crate) optional: Vec<TxnId>,
}

impl<'h> Facts<'h> {
    /// The facts that `history` proves if these unknown transactions count, too.
    pub(crate) fn new(history: &'h History, included: &[TxnId]) -> Self {
        let counted = counted(history, included);
        let mut facts = Self {
            history,
            counted,
            versions: Vec::new(),
            first_version: Vec::new(),
            of_keys: Vec::new(),
            first_of_key: Vec::new(),
            reads: Vec::new(),
            replaced: Vec::new(),
            direct: Vec::new(),
            optional: Vec::new(),
        };
        facts.collect_versions();
        Walk::new(&mut facts).all();
        facts
    }

    fn collect_versions(&mut self) {
        let history = self.history;
        let mut finals: Vec<(KeyId, Option<ValueId>)> = Vec::new();
        for txn in history.txns() {
            self.first_version.push(number(self.versions.len()));
            if !self.counted[txn as usize] {
                continue;
            }
            finals.clear();
            finals.extend(history.ops_of(txn).iter().filter_map(|op| match op {
                Op::Write { key, value, .. } => Some((*key, *value)),
                _ => None,
            }));
            // Stable, so that the last write of a key stays last.
            finals.sort_by_key(|&(key, _)| key);
            for (i, &(key, value)) in finals.iter().enumerate() {
                if finals.get(i + 1).is_none_or(|next| next.0 != key) {
                    self.versions.push(Version { key, txn, value });
                }
            }
        }
        self.first_version.push(number(self.versions.len()));
        let mut first = vec![0; history.keys.len() + 1];
        for version in &self.versions {
            first[version.key as usize + 1] += 1;
        }
        for key in 0..history.keys.len() {
            first[key + 1] += first[key];
        }
        let mut next = first.clone();
        self.of_keys = vec![0; self.versions.len()];
        for (id, version) in self.versions.iter().enumerate() {
            let place = &mut next[version.key as usize];
            self.of_keys[*place as usize] = number(id);
            *place += 1;
        }
        self.first_of_key = first;
    }

    /// A key's versions but the first, in no order.
    pub(crate) fn versions_of(&self, key: KeyId) -> &[VersionId] {
        let key = key as usize;
        &self.of_keys[self.first_of_key[key] as usize..self.first_of_key[key + 1] as usize]
    }

    /// The version that a transaction made of a key.
    pub(crate) fn version_by(&self, txn: TxnId, key: KeyId) -> Option<VersionId> {
        let own = self.first_version[txn as usize]..self.first_version[txn as usize + 1];
        let versions = &self.versions[own.start as usize..own.end as usize];
        let place = versions.binary_search_by_key(&key, |version| version.key).ok()?;
        Some(own.start + number(place))
    }

    /// The version in which a key is absent before any transaction.
    pub(crate) fn first_of(&self, key: KeyId) -> VersionId {
        number(self.versions.len()) + key
    }

    /// A version's transaction; [`NONE`] of a first one.
    pub(crate) fn writer(&self, version: VersionId) -> TxnId {
        self.versions.get(version as usize).map_or(NONE, |version| version.txn)
    }

    /// A version's value.
    pub(crate) fn value(&self, version: VersionId) -> Option<ValueId> {
        self.versions.get(version as usize).and_then(|version| version.value)
    }

    /// The versions that a read of none by `txn` may have seen.
    pub(crate) fn absent(&self, txn: TxnId, key: KeyId) -> impl Iterator<Item = VersionId> {
        let removed = self.versions_of(key).iter().copied();
        let removed = removed.filter(move |&id| self.value(id).is_none() && self.writer(id) != txn);
        std::iter::once(self.first_of(key)).chain(removed)
    }
}

/// A length as a number.
pub(crate) fn number(length: usize) -> u32 {
    u32::try_from(length).expect("fewer than 2^32 of anything")
}

/// Whether each transaction counts.
fn counted(history: &History, included: &[TxnId]) -> Vec<bool> {
    let committed = |txn: &TxnId| history.head(*txn).outcome == Outcome::Committed;
    let mut open: Vec<TxnId> = history.txns().filter(committed).collect();
    open.extend(included);
    let mut counted = vec![false; history.len()];
    open.iter().for_each(|&txn| counted[txn as usize] = true);
    if history.heads.iter().all(|head| head.outcome != Outcome::Unknown) {
        return counted;
    }
    let mut see = |key: KeyId, value: ValueId, open: &mut Vec<TxnId>| {
        if let Some(&writer) = history.writers.get(&(key, value))
            && history.head(writer).outcome == Outcome::Unknown
            && !std::mem::replace(&mut counted[writer as usize], true)
        {
            open.push(writer);
        }
    };
    while let Some(txn) = open.pop() {
        for op in history.ops_of(txn) {
            match *op {
                Op::Read { key, seen: Some(value) }
                | Op::Write { key, over: Some(Some(value)), .. } => see(key, value, &mut open),
                Op::Scan(scan) => {
                    let rows = &history.scans[scan as usize].rows;
                    rows.iter().for_each(|&(key, value)| see(key, value, &mut open));
                }
                _ => {}
            }
        }
    }
    counted
}

/// Walks through all operations in order and records their observations.
struct Walk<'f, 'h> {
    facts: &'f mut Facts<'h>,
    /// For each key, the last transaction that wrote it so far, and the value.
    own: Vec<(TxnId, Option<ValueId>)>,
    /// For each key, the last transaction that found it absent, by a scan or look-up.
    absent: Vec<TxnId>,
    /// For each key, the last scan that met it, and the value.
    met: Vec<(u32, ValueId)>,
    /// For each table, its keys in order.
    sorted: Vec<Vec<KeyId>>,
}

impl<'f, 'h> Walk<'f, 'h> {
    fn new(facts: &'f mut Facts<'h>) -> Self {
        let history = facts.history;
        let mut sorted = vec![Vec::new(); history.tables.len()];
        if !history.scans.is_empty() {
            for key in 0..number(history.keys.len()) {
                sorted[history.keys.name(key).0 as usize].push(key);
            }
            for keys in &mut sorted {
                keys.sort_by_key(|&key| &history.keys.name(key).1);
            }
        }
        let keys = history.keys.len();
        let (own, absent, met) =
            (vec![(NONE, None); keys], vec![NONE; keys], vec![(NONE, 0); keys]);
        Self { facts, own, absent, met, sorted }
    }

    fn all(mut self) {
        let history = self.facts.history;
        for txn in
            history.txns().filter(|&txn| self.facts.counted[txn as usize]).collect::<Vec<_>>()
        {
            for &op in history.ops_of(txn) {
                match op {
                    Op::Read { key, seen } => {
                        let by = if seen.is_some() { By::Item } else { By::LookUp };
                        self.see(txn, key, seen, by);
                    }
                    Op::Write { key, value, over } => {
                        if let Some(seen) = over {
                            self.replace(txn, key, seen);
                        }
                        self.own[key as usize] = (txn, value);
                    }
                    Op::Scan(scan) => self.scan(txn, scan),
                }
            }
        }
        self.find_optional();
    }

    /// Records a transaction's observation of a key.
    fn see(&mut self, txn: TxnId, key: KeyId, seen: Option<ValueId>, by: By) {
        let (writer, own) = self.own[key as usize];
        if writer == txn {
            if own != seen {
                self.direct(Direct { kind: Kind::Internal, txn, key, seen, other: txn, own });
            }
            return;
        }
        let Some(value) = seen else { return self.see_none(txn, key, by) };
        let wrong = |kind, other| Direct { kind, txn, key, seen, other, own: None };
        let Some(&writer) = self.facts.history.writers.get(&(key, value)) else {
            return self.direct(wrong(Kind::GarbageRead, txn));
        };
        if writer == txn {
            return self.direct(wrong(Kind::Internal, txn));
        }
        if !self.facts.counted[writer as usize] {
            return self.direct(wrong(Kind::AbortedRead, writer));
        }
        let version = self.facts.version_by(writer, key).expect("it wrote the key");
        if self.facts.value(version) != seen {
            return self.direct(wrong(Kind::IntermediateRead, writer));
        }
        self.facts.reads.push(Read { txn, key, version, by });
    }

    fn see_none(&mut self, txn: TxnId, key: KeyId, by: By) {
        let seen_before = std::mem::replace(&mut self.absent[key as usize], txn) == txn;
        if seen_before && by != By::Item {
            return;
        }
        let several = self.facts.absent(txn, key).nth(1).is_some();
        let version = if several { NONE } else { self.facts.first_of(key) };
        self.facts.reads.push(Read { txn, key, version, by });
    }

    /// Records the value that a write replaced.
    fn replace(&mut self, txn: TxnId, key: KeyId, seen: Option<ValueId>) {
        let noted = self.facts.reads.len();
        self.see(txn, key, seen, By::Item);
        if let Some(&Read { version, .. }) = self.facts.reads.get(noted)
            && self.facts.writer(version) != NONE
        {
            let own = self.facts.version_by(txn, key).expect("it writes the key");
            self.facts.replaced.push((version, own));
        }
    }

    fn scan(&mut self, txn: TxnId, number: u32) {
        let history = self.facts.history;
        let scan = &history.scans[number as usize];
        for &(key, value) in &scan.rows {
            let (last, other) = self.met[key as usize];
            if last == number {
                let (seen, own) = (Some(value), Some(other));
                self.direct(Direct { kind: Kind::Internal, txn, key, seen, other: txn, own });
            }
            self.met[key as usize] = (number, value);
            self.see(txn, key, Some(value), By::Item);
        }
        let keys = std::mem::take(&mut self.sorted[scan.table as usize]);
        let name = |key: &KeyId| &history.keys.name(*key).1;
        let from = scan.lo.as_ref().map_or(0, |lo| keys.partition_point(|key| name(key) < lo));
        let to =
            scan.hi.as_ref().map_or(keys.len(), |hi| keys.partition_point(|key| name(key) <= hi));
        for &key in keys.get(from..to).unwrap_or_default() {
            if self.met[key as usize].0 != number && !self.facts.versions_of(key).is_empty() {
                self.see(txn, key, None, By::Scan);
            }
        }
        self.sorted[scan.table as usize] = keys;
    }

    fn direct(&mut self, found: Direct) {
        if self.facts.direct.len() < DIRECT_MAX {
            self.facts.direct.push(found);
        }
    }

    /// Finds unknown transactions that do not count but removed a key that a transaction that counts found absent.
    fn find_optional(&mut self) {
        let history = self.facts.history;
        for txn in history.txns() {
            let unknown = history.head(txn).outcome == Outcome::Unknown;
            let removes = |op: &Op| match op {
                Op::Write { key, value: None, .. } => self.absent[*key as usize] != NONE,
                _ => false,
            };
            if unknown
                && !self.facts.counted[txn as usize]
                && history.ops_of(txn).iter().any(removes)
            {
                self.facts.optional.push(txn);
            }
        }
    }
}
