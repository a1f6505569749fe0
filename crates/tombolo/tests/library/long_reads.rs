//! Scans of a whole table while transactions run: what they report is one moment, whatever changes meanwhile.

use tombolo::{Database, Error, StoreError, Table};

use super::calls::block_on;
use super::together::until_one_ends;

#[derive(Table)]
struct Account {
    #[key]
    id: u32,
    cents: i64,
    owner: String,
}

const ACCOUNTS: u32 = 20_000;

fn bank(builder: tombolo::Builder) -> Database {
    let db = builder.define::<Account>().in_memory().unwrap();
    let accounts = db.table::<Account>().unwrap();
    let account = |id| Account { id, cents: 100, owner: format!("owner {id}") };
    db.load(&accounts, (0..ACCOUNTS).map(account)).unwrap();
    db
}

#[test]
fn a_scan_sees_one_moment_while_money_moves_and_accounts_come_and_go() {
    let db = bank(Database::builder());
    let (accounts, by_id) = (db.table::<Account>().unwrap(), db.index::<AccountKey>().unwrap());
    // Moves money from one account to another, and lets a third one close and a new one open.
    let change = db.register_closure("change", move |tx, &n: &u32| {
        let at = |n: u32| n.wrapping_mul(2_654_435_761) % ACCOUNTS;
        let (from, to) = (tx.lookup(&by_id, at(n))?, tx.lookup(&by_id, at(n + 7))?);
        let (Some(from), Some(to)) = (from, to) else { return Ok(()) };
        if from == to {
            return Ok(());
        }
        let (left, there) = (tx.read_row(&accounts, from)?, tx.read_row(&accounts, to)?);
        tx.set(&accounts, to, Account::CENTS, there.cents + left.cents)?;
        tx.delete(&accounts, from)?;
        tx.insert_row(
            &accounts,
            &Account { cents: 0, owner: format!("heir of {}", left.owner), ..left },
        )?;
        Ok(())
    });
    until_one_ends([true, false], |changes, over| {
        if changes {
            (0..).take_while(|_| !over.is_set()).for_each(|n| change.call(n).unwrap());
            return;
        }
        for round in 0..20 {
            let scan = db.scan(&accounts, (0u32, 0i64), |(rows, sum), row| {
                assert!(row.get(Account::OWNER).ends_with(&row.get(Account::ID).to_string()));
                (*rows, *sum) = (*rows + 1, *sum + row.get(Account::CENTS));
            });
            let scan = scan.unwrap();
            let seen = if round % 2 == 0 { scan.wait() } else { block_on(scan) };
            assert_eq!(seen, Ok((ACCOUNTS, i64::from(ACCOUNTS) * 100)));
        }
    });
}

#[test]
fn a_scan_that_fails_says_why_and_leaves_the_database_as_it_was() {
    let db = bank(Database::builder());
    let accounts = db.table::<Account>().unwrap();
    let broken = db.scan(&accounts, (), |(), _| panic!("as asked")).unwrap();
    assert_eq!(broken.wait(), Err(Error::Panicked("as asked".into())));
    let other = Database::builder().define::<Account>().in_memory().unwrap();
    let refused = other.scan(&accounts, 0, |rows, _| *rows += 1).map(drop);
    assert_eq!(refused, Err(Error::Refused(StoreError::OtherDatabase)));
    // A scan that is given up continues, and one behind it is right.
    drop(db.scan(&accounts, 0, |rows, _| *rows += 1).unwrap());
    let rows = db.scan(&accounts, 0, |rows, _| *rows += 1).unwrap();
    assert_eq!(rows.wait(), Ok(ACCOUNTS));
    let ended = db.scan(&accounts, 0u64, |rows, _| *rows += 1).unwrap();
    ended.cancel();
    assert!(matches!(ended.wait(), Ok(_) | Err(Error::Cancelled)));
}
