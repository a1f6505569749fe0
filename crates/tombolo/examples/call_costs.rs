//! What a call of one island costs beside the same call of a database without islands: a program whose instructions
//! are counted.
//!
//! `cargo build --release -p tombolo --example call_costs`, then for each KIND of `lone`, `island` and `spread`
//! `valgrind --tool=callgrind --toggle-collect='*measured*' target/release/examples/call_costs KIND 20000`
//!
//! A call reads two rows and changes them, on its caller's thread, and nothing is on disk. `island` calls one of two
//! islands, which it also finds by the key; `spread` does so where rows are compared with their island (`spread_by`).
//! Not here: time (`tombolo islands rows`).

use tombolo::{Database, Error, Index, Stop, Table, Tx};

#[derive(Table)]
struct Account {
    #[key]
    id: u64,
    cents: i64,
}

const ACCOUNTS: u64 = 1_000;

/// Moves one cent between two accounts.
fn transfer(
    tx: &mut Tx<'_>,
    (accounts, by_id): (&Table<Account>, &Index<AccountKey>),
    &(from, to): &(u64, u64),
) -> Result<(), Stop> {
    for (id, cents) in [(from, -1), (to, 1)] {
        let row = tx.lookup(by_id, id)?.ok_or(Stop::Abort("no account"))?;
        let before = tx.get(accounts, row)?.get(Account::CENTS);
        tx.set(accounts, row, Account::CENTS, before + cents)?;
    }
    Ok(())
}

/// The accounts of one island, in pairs.
fn pairs(is_here: impl Fn(&u64) -> bool) -> Vec<(u64, u64)> {
    let here: Vec<u64> = (0..ACCOUNTS).filter(is_here).collect();
    here.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
}

/// Calls with the pairs by turns. The loop is the same code for each kind.
#[inline(never)]
fn measured(
    calls: usize,
    pairs: &[(u64, u64)],
    call: &dyn Fn((u64, u64)) -> Result<(), Error>,
) -> Result<(), Error> {
    pairs.iter().cycle().take(calls).try_for_each(|pair| call(*pair))
}

fn run(kind: &str, calls: usize) -> Result<(), Error> {
    let builder = Database::builder().define::<Account>();
    match kind {
        "lone" => {
            let db = builder.in_memory()?;
            let (accounts, by_id) = (db.table::<Account>()?, db.index::<AccountKey>()?);
            let fill = db.register_closure("fill", move |tx, &id| {
                tx.insert_row(&accounts, &Account { id, cents: 0 }).map(drop)
            });
            (0..ACCOUNTS).try_for_each(|id| fill.call(id))?;
            let transfer = db.register_closure("transfer", move |tx, pair| {
                transfer(tx, (&accounts, &by_id), pair)
            });
            measured(calls, &pairs(|_| true), &|pair| transfer.call(pair))?;
            db.close()
        }
        "island" | "spread" => {
            let builder = builder.islands(2);
            let db = match kind {
                "spread" => builder.spread_by(Account::ID).in_memory()?,
                _ => builder.in_memory()?,
            };
            let (accounts, by_id) = (db.table::<Account>()?, db.index::<AccountKey>()?);
            let fill = db.register_closure("fill", move |tx, &id| {
                tx.insert_row(&accounts, &Account { id, cents: 0 }).map(drop)
            });
            (0..ACCOUNTS).try_for_each(|id| fill.at(&id)?.call(id))?;
            let transfer = db.register_closure("transfer", move |tx, pair| {
                transfer(tx, (&accounts, &by_id), pair)
            });
            let is_first = |id: &u64| db.island_of(id).is_ok_and(|island| island == 0);
            measured(calls, &pairs(is_first), &|pair| transfer.at(&pair.0)?.call(pair))?;
            db.close()
        }
        _ => Err(Error::Setting("give lone, island or spread".to_owned())),
    }
}

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let kind = arguments.next().unwrap_or_default();
    let calls = arguments.next().and_then(|calls| calls.parse().ok()).unwrap_or(20_000);
    run(&kind, calls)
}
