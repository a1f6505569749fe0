//! Accounts on two islands, each in a process of its own. One process is killed while money is moved: the other one
//! goes on, the killed one comes back, and no money is lost.
//!
//! `cargo run --release -p tombolo --example processes -- DIRECTORY`

use std::process::Command;

use tombolo::{Database, Error, Stop, Table};

#[derive(Table)]
struct Account {
    #[key]
    id: u64,
    cents: i64,
}

const ACCOUNTS: u64 = 10;

fn main() -> Result<(), Error> {
    let directory = std::env::args().nth(1).unwrap_or("accounts".to_owned());
    let mut islands = Database::builder().define::<Account>().islands(2).processes();
    let book = islands.closure(
        "book",
        |island| island.index::<AccountKey>(),
        |tx, by_id, &(id, cents): &(u64, i64)| {
            let cents = tx.find_row(by_id, id)?.map_or(0, |(_, account)| account.cents) + cents;
            if cents < 0 {
                return Err(Stop::Abort("not enough money"));
            }
            tx.upsert_row(by_id, &Account { id, cents })?;
            Ok(cents)
        },
    );
    // In the process of an island this call does not return.
    let db = islands.open(directory)?;
    for id in 0..ACCOUNTS {
        db.call(&book, &id, &(id, 100))?; // a call of one island
    }
    let money = || (0..ACCOUNTS).map(|id| db.call(&book, &id, &(id, 0))).sum::<Result<i64, _>>();
    let before = money()?;
    let transfer = |from: u64, to: u64| {
        let mut across = db.across();
        across.part(&book, &from, &(from, -1))?;
        across.part(&book, &to, &(to, 1))?;
        across.commit().map(drop) // on both islands, or on none
    };
    if let Some(process) = db.process_of(0) {
        // Whatever ends it: the database goes on.
        let killed = Command::new("kill").args(["-9", &process.to_string()]).status();
        println!("killed the process of island 0: {}", killed.is_ok_and(|status| status.success()));
    }
    let mut refused = 0;
    for n in 0..100 {
        let (from, to) = (n % ACCOUNTS, (n * 7 + 1) % ACCOUNTS);
        while let Err(error) = transfer(from, to) {
            if !error.is_retryable() {
                println!("{error}");
                break;
            }
            refused += 1;
            std::thread::yield_now();
        }
    }
    println!("refused meanwhile: {}", refused > 0);
    println!("all money is there: {}", before == money()?);
    db.close()
}
