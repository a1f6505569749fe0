//! The rules between islands, and the violations found.
//!
//! The oracle sees what each part read and wrote when it was executed, and what each caller was answered. At the end it
//! compares that with the durable rows, and lets the checker of histories look for an order of all committed
//! transactions. Not here: whether all transactions end (`world.rs`).

use std::collections::{BTreeMap, BTreeSet};

use tombolo_engine::islands::commit::{Answer, IslandId, TransactionNumber};
use tombolo_verify::{History, Holds, Level, Operation, Transaction};

use super::requests::Request;
use super::store::{Rows, Store};
use crate::oracle::{Rule, Violation};

/// What a part, or a local transaction, read and wrote.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// Account and version.
    pub(super) reads: Vec<(u8, u64)>,
    /// Account, version before and after.
    pub(super) writes: Vec<(u8, u64, u64)>,
}

/// When a run began, and when its caller was answered.
pub(super) type Span = (u64, u64);

/// See the file's head.
#[derive(Debug, Default)]
pub(super) struct Oracle {
    /// The money of all islands.
    total: i64,
    parts: BTreeMap<TransactionNumber, BTreeMap<IslandId, Seen>>,
    calls: BTreeMap<u64, (IslandId, Seen)>,
    committed: BTreeMap<TransactionNumber, Span>,
    aborted: BTreeSet<TransactionNumber>,
    calls_answered: BTreeMap<u64, Span>,
}

impl Oracle {
    /// Of islands that have so much money together.
    pub(super) fn new(total: i64) -> Self {
        Self { total, ..Self::default() }
    }

    /// A part was executed.
    pub(super) fn part(&mut self, island: IslandId, number: TransactionNumber, seen: Seen) {
        self.parts.entry(number).or_default().insert(island, seen);
    }

    /// A local transaction ran.
    pub(super) fn call(&mut self, island: IslandId, call: u64, seen: Seen) {
        self.calls.insert(call, (island, seen));
    }

    /// Its caller got the answer that it is durable.
    pub(super) fn call_answered(&mut self, call: u64, span: Span) {
        self.calls_answered.insert(call, span);
    }

    fn wrote(&self, number: TransactionNumber) -> bool {
        let mut parts = self.parts.get(&number).into_iter().flatten();
        parts.any(|(_, seen)| !seen.writes.is_empty())
    }

    /// Notes an answer to a caller; `rows` are the durable rows of its island.
    pub(super) fn answered(
        &mut self,
        number: TransactionNumber,
        request: &Request,
        answer: &Answer,
        (span, rows): (Span, &Rows),
    ) -> Result<(), Violation> {
        let Answer::Committed { results } = answer else {
            self.aborted.insert(number);
            return Ok(());
        };
        self.committed.insert(number, span);
        if self.wrote(number) && !rows.committed.contains_key(&number) {
            let what = format!("{number} is answered before its decision is durable");
            return Err(Violation::new(Rule::AnswerHolds, what));
        }
        let amounts = results.iter().flat_map(|result| result.chunks_exact(8));
        let amount = |bytes: &[u8]| i64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        let sum: i64 = amounts.map(amount).sum();
        if request.is_sum && sum != self.total {
            let what = format!("{number} read {sum} of {}", self.total);
            return Err(Violation::new(Rule::Serializable, what));
        }
        Ok(())
    }

    /// Judges what is durable when nothing is under way any more.
    pub(super) fn judge(
        &self,
        stores: &[&Store],
        first: &[Rows],
        is_strict: bool,
    ) -> Result<(), Violation> {
        let broken = |rule, what| Err(Violation::new(rule, what));
        for (number, parts) in &self.parts {
            let decider = &stores[number.island.index()].durable.committed;
            let is_committed = decider.contains_key(number);
            let times = |island: IslandId| {
                stores[island.index()].durable.committed.get(number).copied().unwrap_or_default()
            };
            for (island, seen) in parts.iter().filter(|(_, seen)| !seen.writes.is_empty()) {
                if times(*island) != u32::from(is_committed) {
                    let what = format!(
                        "{number}, committed: {is_committed}, wrote {} and was committed on {island} {} times",
                        seen.writes.len(),
                        times(*island)
                    );
                    return broken(Rule::Atomic, what);
                }
            }
            if is_committed && self.aborted.contains(number) {
                return broken(Rule::AnswerHolds, format!("{number} was answered as aborted"));
            }
            if self.committed.contains_key(number) && self.wrote(*number) && !is_committed {
                return broken(Rule::AnswerHolds, format!("{number} was answered and is lost"));
            }
        }
        let lost = |call: &&u64| {
            let (island, seen) = &self.calls[*call];
            !seen.writes.is_empty() && !stores[island.index()].durable.calls.contains(call)
        };
        if let Some(call) = self.calls_answered.keys().find(lost) {
            return broken(
                Rule::AnswerHolds,
                format!("local call {call} was answered and is lost"),
            );
        }
        let amounts = stores.iter().flat_map(|store| &store.durable.accounts);
        let sum: i64 = amounts.map(|cell| cell.amount).sum();
        if sum != self.total {
            return broken(Rule::Money, format!("{sum} is left of {}", self.total));
        }
        let level = if is_strict { Level::StrictSerializable } else { Level::Serializable };
        self.judge_order(stores, first, level)
    }

    /// Looks for an order of all transactions that were committed.
    fn judge_order(
        &self,
        stores: &[&Store],
        first: &[Rows],
        level: Level,
    ) -> Result<(), Violation> {
        let mut history = History::new();
        let mut sessions = 0;
        // Without an answer: it may have been any time.
        let mut push = |span: Option<&Span>, operations| {
            sessions += 1;
            let (began, ended) =
                span.map_or((0, u64::MAX), |(began, ended)| (began + 1, ended + 1));
            let transaction = Transaction::committed(sessions, began, ended, operations);
            let refused = |error| Violation::new(Rule::Serializable, format!("{error}"));
            history.push(&transaction).map_err(refused)
        };
        let mut initial = Vec::new();
        for (island, rows) in first.iter().enumerate() {
            for (account, cell) in rows.accounts.iter().enumerate() {
                let (table, version) = (format!("{island}"), cell.version as i64);
                initial.push(Operation::write(&table, account as i64, version).over(None));
            }
        }
        push(Some(&(0, 0)), initial)?;
        for (number, parts) in &self.parts {
            let is_durable = stores[number.island.index()].durable.committed.contains_key(number);
            let answered = self.committed.get(number);
            if is_durable || answered.is_some() {
                push(
                    answered,
                    parts.iter().flat_map(|(island, seen)| seen.operations(*island)).collect(),
                )?;
            }
        }
        for (call, (island, seen)) in &self.calls {
            let is_durable = stores[island.index()].durable.calls.contains(call);
            let answered = self.calls_answered.get(call);
            if is_durable || answered.is_some() {
                push(answered, seen.operations(*island).collect())?;
            }
        }
        let verdict = history.judge(level);
        match verdict.levels.of(level) {
            Holds::Yes => Ok(()),
            _ => {
                let anomaly = verdict.anomalies.first();
                let what = anomaly.map_or_else(|| "undecided".to_string(), |found| found.name());
                Err(Violation::new(Rule::Serializable, what))
            }
        }
    }
}

impl Seen {
    fn operations(&self, island: IslandId) -> impl Iterator<Item = Operation> {
        let table = island.0.to_string();
        let datum = |version: u64| (version as i64).into();
        let own = |version: u64| self.writes.iter().any(|(_, _, after)| *after == version);
        let reads = self.reads.iter().filter(move |(_, version)| !own(*version));
        let reads = reads.map({
            let table = table.clone();
            move |(account, version)| {
                Operation::read(&table, i64::from(*account), Some(datum(*version)))
            }
        });
        // Of several writes of an account only the last can be seen by others.
        let last = |account: u8, after: u64| {
            !self.writes.iter().any(|(other, before, _)| *other == account && *before == after)
        };
        let writes = self.writes.iter().filter(move |(account, _, after)| last(*account, *after));
        let writes = writes.map(move |(account, _, after)| {
            Operation::write(&table, i64::from(*account), *after as i64)
        });
        reads.chain(writes)
    }
}
