//! The same requests as transactions on a memory store, written as an application would.
//!
//! Rows are deleted and their slots used again. Not here: tables (`tables.rs`), what the answers
//! should be (`model.rs`).

use std::ops::ControlFlow;

use tombolo_engine::transaction::{Committed, Stop, Transaction, execute_undoable};
use tombolo_storage::error::{Error, SchemaError};
use tombolo_storage::key::Range;
use tombolo_storage::memory::MemoryStore;
use tombolo_storage::memory::snapshot::{Slice, Snapshot, SnapshotCursor};
use tombolo_storage::profile::MemoryProfile;
use tombolo_storage::row::{Fields, RowId};
use tombolo_storage::schema::Schema;
use tombolo_storage::store::{Index, Order, Store, Table, resolve_index, resolve_table};

use super::added_columns::{AddedColumns, later};
use super::additions;
use super::identified::{Identified, aborted};
use super::model::{
    AccountRow, ItemRow, Outcome, State, account_number, client_number, fold, item_number,
    outcome_number,
};
use super::request::{
    ACCOUNTS, ITEMS_PER_GROUP, ItemKey, OPENING_BALANCE, Request, Text, Work, request_id,
};
use super::tables::{
    Account, AccountKey, Client, ClientKey, Item, ItemKeyIndex, ItemName, item_in, name_in,
    name_of, row_ids,
};

/// The workload's tables and indexes in one store.
#[derive(Clone, Debug)]
pub struct Handles {
    account: Table<Account>,
    account_key: Index<AccountKey>,
    client: Table<Client>,
    client_key: Index<ClientKey>,
    item: Table<Item>,
    item_key: Index<ItemKeyIndex>,
    item_name: Index<ItemName>,
    added: AddedColumns,
    identified: Option<Identified>,
}

/// What the workload's own panics say.
const PLANNED_PANIC: &str = "as planned by the simulator";

/// Keeps the workload's own panics off the terminal; all others are shown as before.
pub fn hide_planned_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let shown = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if panic.payload_as_str() != Some(PLANNED_PANIC) {
                shown(panic);
            }
        }));
    });
}

/// Why a transaction of the workload ended without effect.
type Ended<T> = Result<T, Stop>;

impl Handles {
    /// Resolves them; every table must be there.
    ///
    /// # Errors
    /// When one is missing or differs.
    pub fn of(schema: &Schema) -> Result<Self, SchemaError> {
        Ok(Self {
            account: resolve_table(schema)?,
            account_key: resolve_index(schema)?,
            client: resolve_table(schema)?,
            client_key: resolve_index(schema)?,
            item: resolve_table(schema)?,
            item_key: resolve_index(schema)?,
            item_name: resolve_index(schema)?,
            added: AddedColumns::of(schema)?,
            identified: Identified::of(schema)?,
        })
    }

    /// A column was added: what knows it gets a handle. All others stay as they are.
    ///
    /// # Errors
    /// When the column is another one.
    pub fn follow(&mut self, schema: &Schema) -> Result<(), SchemaError> {
        self.added = AddedColumns::of(schema)?;
        Ok(())
    }

    /// Runs `request` as one transaction; what it committed as a number.
    ///
    /// # Errors
    /// Its own abort, or what the store refused.
    ///
    /// # Panics
    /// When the request asks for it.
    pub fn run<P: MemoryProfile>(
        &self,
        store: &mut MemoryStore<P>,
        request: &Request,
    ) -> Ended<u64> {
        match (request.id(), &self.identified) {
            (Some(id), Some(identified)) => {
                identified.run(store, id, |store| self.run_now(store, request))
            }
            _ => self.run_now(store, request),
        }
    }

    fn run_now<S: Store>(&self, store: &mut S, request: &Request) -> Ended<u64> {
        execute_undoable(store, |mut tx| {
            let answer = match self.work(&mut tx, &request.work)? {
                Some(answer) => answer,
                None => return tx.abort("as the model does"),
            };
            if !request.work.only_reads() {
                self.note_client(&mut tx, request)?;
            }
            let committed: Committed<u64> = tx.commit(answer)?;
            Ok(committed)
        })
    }

    /// What the request asks; `None` aborts.
    fn work<S: Store>(&self, tx: &mut Transaction<'_, S>, work: &Work) -> Ended<Option<u64>> {
        match work {
            Work::Open => {
                if tx.lookup(&self.account_key, 0)?.is_some() {
                    return Ok(None);
                }
                for id in 0..ACCOUNTS {
                    let row = tx.create(&self.account, |row| {
                        row.set(Account::ID, id);
                        row.set(Account::BALANCE, OPENING_BALANCE);
                    })?;
                    tx.insert(&self.account_key, id, row)?;
                }
                Ok(Some(0))
            }
            Work::Transfer { from, to, amount } => self.transfer(tx, *from, *to, *amount),
            Work::Note { account, note } => self.note(tx, *account, *note),
            Work::Insert { item, name, body } => {
                if tx.lookup(&self.item_key, *item)?.is_some() {
                    return Ok(None);
                }
                self.add_item(tx, *item, *name, &body.to_vec())?;
                Ok(Some(0))
            }
            Work::Change { item, name, body } => self.change(tx, *item, *name, *body),
            Work::Delete { item } => self.delete(tx, *item),
            Work::Rate { item, rating } => match tx.lookup(&self.item_key, *item)? {
                Some(row) => self.added.rate(tx, row, *rating),
                None => Ok(None),
            },
            Work::Remark { item, remark } => match tx.lookup(&self.item_key, *item)? {
                Some(row) => self.added.remark(tx, row, *remark),
                None => Ok(None),
            },
            Work::Restock { group, items, account, to, body } => {
                let Some(left) = self.transfer(tx, *account, *to, i64::from(*items))? else {
                    return Ok(None);
                };
                for number in 0..ITEMS_PER_GROUP {
                    self.delete(tx, (*group, number))?;
                }
                let body = body.to_vec();
                for number in 0..*items {
                    self.add_item(tx, (*group, number), number as u8, &body)?;
                }
                Ok(Some(left))
            }
            Work::ReadAccount { account } => {
                let Some(row) = tx.lookup(&self.account_key, *account)? else { return Ok(None) };
                let row = tx.pin(&self.account, row)?;
                let (balance, changes) = (row.get(Account::BALANCE), row.get(Account::CHANGES));
                Ok(Some(account_number(*account, balance, changes, row.get(Account::NOTE))))
            }
            Work::ReadGroup { group } => self.read_group(tx, *group).map(Some),
            Work::Audit => self.audit(tx).map(Some),
            Work::Outcome { client, number } => {
                let Some(identified) = &self.identified else { return Ok(None) };
                let outcome = identified.outcome(tx.store(), request_id(*client, *number))?;
                Ok(Some(outcome_number(outcome)))
            }
            Work::Fail { account, item, panics } => {
                self.note(tx, *account, Some(Text { bytes: 90, fill: 1 }))?;
                if self.delete(tx, *item)?.is_none() {
                    self.add_item(tx, *item, 99, b"never seen")?;
                }
                assert!(!panics, "{PLANNED_PANIC}");
                Ok(None)
            }
        }
    }

    fn audit<S: Store>(&self, tx: &mut Transaction<'_, S>) -> Ended<u64> {
        let mut rows = Vec::new();
        tx.rows(&self.account, |row| {
            rows.push(row);
            ControlFlow::Continue(())
        })?;
        let mut sum = 0;
        for row in rows {
            sum += tx.pin(&self.account, row)?.get(Account::BALANCE);
        }
        Ok(sum as u64)
    }

    /// Adds the numbers of the next rows of the table at `position`, as they were when the snapshot
    /// was opened.
    ///
    /// # Errors
    /// What the store refused.
    pub fn read_slice<P: MemoryProfile>(
        &self,
        store: &MemoryStore<P>,
        snapshot: &Snapshot,
        position: usize,
        cursor: &mut SnapshotCursor,
        rows_max: usize,
        number: &mut u64,
    ) -> Result<Slice, Error> {
        match position {
            0 => store.read_slice(snapshot, &self.account, cursor, rows_max, |_, row| {
                let (balance, changes) = (row.get(Account::BALANCE), row.get(Account::CHANGES));
                let note = row.get(Account::NOTE);
                *number ^= account_number(row.get(Account::ID), balance, changes, note);
            }),
            1 => store.read_slice(snapshot, &self.client, cursor, rows_max, |_, row| {
                *number ^= client_number(row.get(Client::ID), row.get(Client::LAST));
            }),
            2 => self.added.read_slice(store, snapshot, &self.item, cursor, rows_max, number),
            _ => match &self.identified {
                Some(identified) => {
                    identified.read_slice(store, snapshot, cursor, rows_max, number)
                }
                None => Ok(Slice::Done),
            },
        }
    }

    fn note_client<S: Store>(&self, tx: &mut Transaction<'_, S>, request: &Request) -> Ended<()> {
        let Some(row) = tx.lookup(&self.client_key, request.client)? else {
            let row = tx.create(&self.client, |row| {
                row.set(Client::ID, request.client);
                row.set(Client::LAST, request.number);
            })?;
            return Ok(tx.insert(&self.client_key, request.client, row)?);
        };
        let last = Fields::none().with(Client::LAST);
        Ok(tx.update(&self.client, row, last, |row| row.set(Client::LAST, request.number))?)
    }

    fn transfer<S: Store>(
        &self,
        tx: &mut Transaction<'_, S>,
        from: i32,
        to: i32,
        amount: i64,
    ) -> Ended<Option<u64>> {
        let mut rows = [None; 2];
        tx.lookup_many(&self.account_key, &[from, to], &mut rows)?;
        let [Some(from), Some(to)] = rows else { return Ok(None) };
        let held = tx.pin(&self.account, from)?.get(Account::BALANCE);
        if held < amount {
            return Ok(None);
        }
        self.add_to(tx, from, -amount)?;
        self.add_to(tx, to, amount)?;
        Ok(Some((held - amount) as u64))
    }

    fn add_to<S: Store>(&self, tx: &mut Transaction<'_, S>, row: RowId, amount: i64) -> Ended<()> {
        let fields = Fields::none().with(Account::BALANCE).with(Account::CHANGES);
        Ok(tx.update(&self.account, row, fields, |row| {
            row.set(Account::BALANCE, row.get(Account::BALANCE) + amount);
            row.set(Account::CHANGES, row.get(Account::CHANGES) + 1);
        })?)
    }

    fn note<S: Store>(
        &self,
        tx: &mut Transaction<'_, S>,
        account: i32,
        note: Option<Text>,
    ) -> Ended<Option<u64>> {
        let Some(row) = tx.lookup(&self.account_key, account)? else { return Ok(None) };
        let mut changes = 0;
        let fields = Fields::none().with(Account::CHANGES).with(Account::NOTE);
        tx.update(&self.account, row, fields, |row| {
            changes = row.get(Account::CHANGES) + 1;
            row.set(Account::CHANGES, changes);
            row.set_present(Account::NOTE, note.is_some());
        })?;
        let text = note.map(Text::to_vec).unwrap_or_default();
        tx.set_variable(&self.account, row, Account::NOTE.offset(), &text)?;
        Ok(Some(changes as u64))
    }

    fn add_item<S: Store>(
        &self,
        tx: &mut Transaction<'_, S>,
        item: ItemKey,
        name: u8,
        body: &[u8],
    ) -> Ended<()> {
        let name = name_of(name);
        // Some rows are made with all columns, the others without those that were added.
        let made = if item.1 % 2 == 0 { self.added.create(tx, item, &name)? } else { None };
        let row = match made {
            Some(row) => row,
            None => tx.create(&self.item, |row| {
                row.set(Item::GROUP, item.0);
                row.set(Item::ID, item.1);
                row.set(Item::NAME, name.as_slice());
            })?,
        };
        tx.set_variable(&self.item, row, Item::BODY.offset(), body)?;
        tx.insert(&self.item_key, item, row)?;
        Ok(tx.insert(&self.item_name, name.as_slice(), row)?)
    }

    fn change<S: Store>(
        &self,
        tx: &mut Transaction<'_, S>,
        item: ItemKey,
        name: u8,
        body: Option<Text>,
    ) -> Ended<Option<u64>> {
        let Some(row) = tx.lookup(&self.item_key, item)? else { return Ok(None) };
        let before = tx.pin(&self.item, row)?.get(Item::NAME).to_vec();
        let after = name_of(name);
        tx.remove(&self.item_name, before.as_slice(), row)?;
        let fields = Fields::none().with(Item::NAME);
        tx.update(&self.item, row, fields, |row| row.set(Item::NAME, after.as_slice()))?;
        tx.insert(&self.item_name, after.as_slice(), row)?;
        if let Some(body) = body {
            tx.set_variable(&self.item, row, Item::BODY.offset(), &body.to_vec())?;
        }
        Ok(Some(name_in(&before).into()))
    }

    fn delete<S: Store>(&self, tx: &mut Transaction<'_, S>, item: ItemKey) -> Ended<Option<u64>> {
        let Some(id) = tx.lookup(&self.item_key, item)? else { return Ok(None) };
        let row = tx.pin(&self.item, id)?;
        let (name, body) = (row.get(Item::NAME).to_vec(), row.get(Item::BODY).to_vec());
        drop(row);
        let later = later!(self.added, tx, id)?;
        let number = item_number(item, &ItemRow { name: name_in(&name), body, later });
        tx.remove(&self.item_key, item, id)?;
        tx.remove(&self.item_name, name.as_slice(), id)?;
        tx.delete(&self.item, id)?;
        Ok(Some(number))
    }

    fn read_group<S: Store>(&self, tx: &mut Transaction<'_, S>, group: i16) -> Ended<u64> {
        let mut rows = Vec::new();
        tx.scan(&self.item_key, Range::prefix((group,)), Order::Forward, |row| {
            rows.push(row);
            ControlFlow::Continue(())
        })?;
        let mut number = 0;
        for id in rows {
            let row = tx.pin(&self.item, id)?;
            let (key, mut item) = item_in(&row);
            drop(row);
            item.later = later!(self.added, tx, id)?;
            number = fold(number, item_number(key, &item));
        }
        Ok(number)
    }
}

/// What `ended` is to the model.
///
/// # Errors
/// What no transaction of the workload may end with.
pub fn outcome(ended: &Ended<u64>) -> Result<Outcome, Error> {
    match ended {
        Ok(answer) => Ok(Outcome::Committed(*answer)),
        Err(Stop::Abort(reason)) => Ok(aborted(reason)),
        Err(Stop::Error(error)) => Err(*error),
    }
}

/// All rows of a store, as the model holds them; tables that are not there have none.
///
/// # Errors
/// What a resolved handle or a pinned row failed with, in words.
pub fn contents<S: Store>(store: &mut S) -> Result<State, String> {
    let (tables, added) = (store.schema().tables.len(), additions::count(store.schema()));
    let mut state = State { tables, added, ..State::default() };
    if state.tables > 0 {
        let table: Table<Account> = resolve_table(store.schema()).map_err(|e| e.to_string())?;
        for id in row_ids(store, &table)? {
            let row = store.pin(&table, id).map_err(|e| e.to_string())?;
            let account = AccountRow {
                balance: row.get(Account::BALANCE),
                changes: row.get(Account::CHANGES),
                note: row.get(Account::NOTE).map(<[u8]>::to_vec),
            };
            unique(state.accounts.insert(row.get(Account::ID), account))?;
        }
    }
    if state.tables > 1 {
        let table: Table<Client> = resolve_table(store.schema()).map_err(|e| e.to_string())?;
        for id in row_ids(store, &table)? {
            let row = store.pin(&table, id).map_err(|e| e.to_string())?;
            unique(state.clients.insert(row.get(Client::ID), row.get(Client::LAST)))?;
        }
    }
    if state.tables > 2 {
        let table: Table<Item> = resolve_table(store.schema()).map_err(|e| e.to_string())?;
        let columns = AddedColumns::of(store.schema()).map_err(|e| e.to_string())?;
        for id in row_ids(store, &table)? {
            let row = store.pin(&table, id).map_err(|e| e.to_string())?;
            let (key, mut item) = item_in(&row);
            drop(row);
            item.later = later!(columns, store, id).map_err(|e| e.to_string())?;
            unique(state.items.insert(key, item))?;
        }
    }
    if let Some(identified) = Identified::of(store.schema()).map_err(|e| e.to_string())? {
        for (number, row) in identified.rows(store)? {
            unique(state.requests.insert(number, row))?;
        }
    }
    Ok(state)
}

fn unique<T: std::fmt::Debug>(before: Option<T>) -> Result<(), String> {
    match before {
        None => Ok(()),
        Some(row) => Err(format!("two rows have the same key, one is {row:?}")),
    }
}
