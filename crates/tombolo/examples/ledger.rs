//! A durable ledger: every payment that it has printed survives any end of the program.
//!
//! `cargo run -p tombolo --example ledger -- DIRECTORY`

use tombolo::{Database, Error, Stop, Table};

/// Accounts; number 0 is the cash box, where money comes from.
#[derive(Table)]
struct Account {
    #[key]
    id: i32,
    cents: i64,
}

fn main() -> Result<(), Error> {
    let directory = std::env::args().nth(1).unwrap_or("ledger".to_owned());
    let db = Database::builder().define::<Account>().open(directory)?;
    let (accounts, by_id) = (db.table()?, db.index::<AccountKey>()?);
    let pay = db.register_closure("pay", move |tx, &(from, to, cents): &(i32, i32, i64)| {
        for (id, change) in [(from, -cents), (to, cents)] {
            let (row, cents) = match tx.find_row(&by_id, id)? {
                Some((row, account)) => (row, account.cents),
                None => (tx.insert_row(&accounts, &Account { id, cents: 0 })?, 0),
            };
            let left = cents + change;
            if left < 0 && id != 0 {
                return Err(Stop::Abort("not enough money")); // and nothing was changed
            }
            tx.set(&accounts, row, Account::CENTS, left)?;
        }
        Ok(())
    });
    pay.call((0, 1, 10_000))?; // when this returns it is on disk
    println!("1 pays 2: {:?}, and again: {:?}", pay.call((1, 2, 7_000)), pay.call((1, 2, 7_000)));
    db.close()
}
