//! The bank that is called: its tables, what a call does, and what must hold of its rows.
//!
//! Every call that writes carries its caller's next number, and its transaction compares that with the caller's row:
//! a call that was lost, executed twice or out of order is noticed when the next one comes.
//!
//! Not here: the callers (`callers.rs`).

use tombolo::{
    CallOptions, Database, Early, Error, Index, Order, Range, Registered, Stop, Table, Tx,
};

/// So many that an index takes several slices between transactions, and that all can be read together.
pub(crate) const ACCOUNTS: i32 = 20_000;
const CENTS_EACH: i64 = 1_000_000;
/// What there is, at any time.
pub(crate) const MONEY: i64 = ACCOUNTS as i64 * CENTS_EACH;

/// Why a transfer aborts that was to abort.
const TO_ITSELF: &str = "from an account to itself";

/// An account.
#[derive(Table)]
struct Account {
    #[key]
    number: i32,
    #[column(hot)]
    cents: i64,
    branch: i32,
}

/// A caller and the number of its last call.
#[derive(Table)]
struct Caller {
    #[key]
    number: i32,
    #[column(hot)]
    last: i64,
}

tombolo::index! {
    /// By what is in them, which every transfer changes: added while they are called.
    struct ByCents = "account_by_cents" on Account (CENTS: BigInt, NUMBER: Integer) unique Tree;
}

/// A transfer.
#[derive(Clone, Copy)]
pub(crate) struct Transfer {
    pub(crate) caller: i32,
    /// The caller's number of this call.
    pub(crate) call: i64,
    pub(crate) from: i32,
    pub(crate) to: i32,
    pub(crate) cents: i64,
}

impl Transfer {
    /// Whether it is undone and its number used again.
    pub(crate) const fn aborts(&self) -> bool {
        self.from == self.to
    }
}

/// What the calls need of the database.
#[derive(Clone, Copy)]
struct Handles {
    accounts: Table<Account>,
    account_key: Index<AccountKey>,
    callers: Table<Caller>,
    caller_key: Index<CallerKey>,
}

impl Handles {
    fn of(db: &Database) -> Result<Self, Error> {
        Ok(Self {
            accounts: db.table()?,
            account_key: db.index()?,
            callers: db.table()?,
            caller_key: db.index()?,
        })
    }

    fn transfer(&self, tx: &mut Tx<'_>, input: &Transfer) -> Result<(), Stop> {
        let found = tx.lookup(&self.caller_key, input.caller)?;
        let caller = found.ok_or(Stop::Abort("no such caller"))?;
        if tx.get(&self.callers, caller)?.get(Caller::LAST) != input.call - 1 {
            return Err(Stop::Abort("a call was lost, came twice or out of order"));
        }
        tx.set(&self.callers, caller, Caller::LAST, input.call)?;
        for (number, by) in [(input.from, -input.cents), (input.to, input.cents)] {
            let found = tx.lookup(&self.account_key, number)?;
            let row = found.ok_or(Stop::Abort("no such account"))?;
            let cents = tx.get(&self.accounts, row)?.get(Account::CENTS);
            tx.set(&self.accounts, row, Account::CENTS, cents + by)?;
        }
        match input.aborts() {
            true => Err(Stop::Abort(TO_ITSELF)), // behind its writes, which are undone
            false => Ok(()),
        }
    }

    fn balance(&self, tx: &mut Tx<'_>, number: i32) -> Result<i64, Stop> {
        let found = tx.lookup(&self.account_key, number)?;
        let row = found.ok_or(Stop::Abort("no such account"))?;
        Ok(tx.get(&self.accounts, row)?.get(Account::CENTS))
    }

    fn money(&self, tx: &mut Tx<'_>) -> Result<i64, Stop> {
        let mut cents = 0;
        for row in tx.rows(&self.accounts)? {
            cents += tx.get(&self.accounts, row)?.get(Account::CENTS);
        }
        Ok(cents)
    }
}

/// The calls of one database.
pub(crate) struct Bank {
    pub(crate) db: Database,
    handles: Handles,
    pub(crate) transfer: Registered<Transfer, ()>,
    pub(crate) early: Registered<Transfer, (), Early>,
    pub(crate) balance: Registered<i32, i64>,
}

impl Bank {
    /// Opens the database in `directory`, or one in memory, and fills it where it is empty.
    pub(crate) fn open(directory: Option<&str>, callers: usize) -> Result<Self, Error> {
        let builder = Database::builder().define::<Account>().define::<Caller>();
        // So many checkpoints that calls, index and backup meet them.
        let builder = builder.set("log_segment_bytes", "4 MB").set("checkpoint_log_bytes", "16 MB");
        let db = match directory {
            Some(directory) => builder.open(directory)?,
            None => builder.in_memory()?,
        };
        let handles = Handles::of(&db)?;
        fill(&db, handles, callers as i32)?;
        let transfer = db
            .register_closure("transfer", move |tx, input: &Transfer| handles.transfer(tx, input));
        let balance =
            db.register_closure("balance", move |tx, &number: &i32| handles.balance(tx, number));
        let early = transfer.with(CallOptions::new().early());
        let balance = balance.with(CallOptions::new().read_only());
        Ok(Self { db, handles, transfer, early, balance })
    }

    /// What all accounts hold together, read in one transaction.
    pub(crate) fn money(&self) -> Result<i64, Error> {
        let handles = self.handles;
        let read = self.db.with(CallOptions::new().read_only());
        read.transaction(move |tx| handles.money(tx))
    }

    /// The numbers of the callers' last calls.
    pub(crate) fn last_calls(&self, callers: usize) -> Result<Vec<i64>, Error> {
        let handles = self.handles;
        self.db.transaction(move |tx| {
            let last = |number| {
                let row = tx.lookup(&handles.caller_key, number)?;
                let row = row.ok_or(Stop::Abort("no such caller"))?;
                Ok(tx.get(&handles.callers, row)?.get(Caller::LAST))
            };
            (0..callers as i32).map(last).collect()
        })
    }

    /// Adds the index by what is in the accounts.
    pub(crate) fn add_index(&self) -> Result<(), Error> {
        self.db.create_index::<ByCents>().map(|_| ())
    }

    /// What is wrong with that index, if anything: it leads to each account once, in order.
    pub(crate) fn fault_of_index(&self) -> Result<Option<String>, Error> {
        let (accounts, by_cents) = (self.handles.accounts, self.db.index::<ByCents>()?);
        self.db.transaction(move |tx| {
            let (mut last, mut count, mut money) = (i64::MIN, 0, 0);
            for row in tx.range(&by_cents, Range::all(), Order::Forward)? {
                let cents = tx.get(&accounts, row)?.get(Account::CENTS);
                if cents < last {
                    return Ok(Some(format!("{cents} stands behind {last}")));
                }
                (last, count, money) = (cents, count + 1, money + cents);
            }
            let is_whole = (count, money) == (ACCOUNTS, MONEY);
            Ok((!is_whole).then(|| format!("it leads to {count} accounts with {money}")))
        })
    }

    /// Closes it; its calls are refused from then on.
    pub(crate) fn close(self) -> Result<(), Error> {
        self.db.close()
    }
}

/// Fills an empty database, a part of the accounts in each transaction.
fn fill(db: &Database, handles: Handles, callers: i32) -> Result<(), Error> {
    const PART: usize = 500;
    for first in (0..ACCOUNTS).step_by(PART) {
        db.transaction(move |tx| {
            if tx.lookup(&handles.account_key, first)?.is_some() {
                return Ok(());
            }
            for number in first..first + PART as i32 {
                let account = Account { number, cents: CENTS_EACH, branch: number % 100 };
                tx.insert_row(&handles.accounts, &account)?;
            }
            Ok(())
        })?;
    }
    db.transaction(move |tx| {
        for number in 0..callers {
            if tx.lookup(&handles.caller_key, number)?.is_none() {
                tx.insert_row(&handles.callers, &Caller { number, last: 0 })?;
            }
        }
        Ok(())
    })
}
