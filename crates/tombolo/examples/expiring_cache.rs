//! A cache with expiry: values expire after a time, and the oldest are evicted when there is no room.
//!
//! `cargo run --release -p tombolo --example expiring_cache -- DIRECTORY`
//!
//! The cache survives a restart. A crash may lose the last tenth of a second, because calls are early.

use std::time::{Duration, SystemTime};

use tombolo::{CallOptions, Database, Early, Error, Order, Registered, Table};

#[derive(Table)]
#[index(ByExpiry(expires, key))]
struct Entry {
    #[key]
    #[column(sql = Varchar<100>)]
    key: String,
    value: Vec<u8>,
    expires: SystemTime,
}

/// A cache with a bounded number of entries. Transactions read no clock, so the time is part of their input.
struct Cache {
    database: Database,
    get: Registered<(String, SystemTime), Option<Vec<u8>>, Early>,
    put: Registered<(Entry, SystemTime, u64), (), Early>,
}

impl Cache {
    fn open(directory: &str) -> Result<Self, Error> {
        let database = Database::builder().define::<Entry>().open(directory)?;
        let (entries, by_key) = (database.table::<Entry>()?, database.index::<EntryKey>()?);
        let by_expiry = database.index::<ByExpiry>()?;
        let get = database.register_closure("get", move |tx, (key, now): &(String, SystemTime)| {
            let found = tx.find_row(&by_key, key)?;
            Ok(found.filter(|(_, entry)| entry.expires > *now).map(|(_, entry)| entry.value))
        });
        let put = database.register_closure(
            "put",
            move |tx, (entry, now, most): &(Entry, SystemTime, u64)| {
                tx.upsert_row(&by_key, entry)?;
                // Each insertion evicts up to two, so that expired entries do not pile up.
                for _ in 0..2 {
                    let oldest = tx.iter(&by_expiry, .., Order::Forward)?.next();
                    let oldest = oldest.map(|(id, row)| (id, row.get(Entry::EXPIRES)));
                    match oldest {
                        Some((id, expires)) if expires <= *now || tx.count(&entries)? > *most => {
                            tx.delete(&entries, id)?
                        }
                        _ => break,
                    }
                }
                Ok(())
            },
        );
        let early = CallOptions::new().early();
        let (get, put) = (get.with(early.read_only()), put.with(early));
        let put = put.input_bytes(|(entry, ..)| entry.key.len() + entry.value.len());
        Ok(Self { database, get, put })
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.get.call((key.to_owned(), now()))?.into_inner())
    }

    fn put(&self, key: &str, value: &[u8], lives: Duration) -> Result<(), Error> {
        let entry = Entry { key: key.to_owned(), value: value.to_vec(), expires: now() + lives };
        self.put.call((entry, now(), 1_000))?.into_inner();
        Ok(())
    }
}

#[expect(clippy::disallowed_methods, reason = "an application's own clock")]
fn now() -> SystemTime {
    SystemTime::now()
}

fn main() -> Result<(), Error> {
    let directory = std::env::args().nth(1).unwrap_or("cache".to_owned());
    let cache = Cache::open(&directory)?;
    let found = cache.get("greeting")?;
    println!("greeting was {}", if found.is_some() { "there" } else { "not there" });
    cache.put("greeting", b"good morning", Duration::from_secs(3_600))?;
    cache.put("mayfly", b"short", Duration::ZERO)?;
    for number in 0..5_000 {
        cache.put(&format!("page {number}"), &[7; 400], Duration::from_secs(60))?;
    }
    let held =
        (0..5_000).filter_map(|number| cache.get(&format!("page {number}")).ok().flatten()).count();
    println!(
        "{held} pages held; the mayfly is {}",
        if cache.get("mayfly")?.is_none() { "gone" } else { "there" }
    );
    cache.database.close()
}
