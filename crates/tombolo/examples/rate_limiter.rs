//! A rate limiter: a number of requests per client and minute, enforced across all threads.
//!
//! `cargo run --release -p tombolo --example rate_limiter -- DIRECTORY`
//!
//! Each client has a bucket into which tokens flow at a steady rate; a request takes a token or is rejected.
//! Each decision is a transaction. Its answer leaves early ([`CallOptions::early`]): after a crash of the
//! machine a few requests more than allowed may pass, which is cheaper than waiting for the disk each
//! time. Buckets survive a restart, so no client benefits from one.

use std::time::{SystemTime, UNIX_EPOCH};

use tombolo::{CallOptions, Database, Early, Error, Registered, Table};

/// The tokens left in each client's bucket, looked up only by client.
#[derive(Table)]
#[index(ByClient(client), unique, hash)]
struct Bucket {
    #[column(sql = Varchar<40>)]
    client: String,
    /// In thousandths.
    #[column(hot)]
    tokens: i64,
    /// When they were counted, in milliseconds since 1970.
    #[column(hot)]
    counted_ms: i64,
}

/// Tokens of a full bucket, and those that flow in per second; both in thousandths.
const FULL: i64 = 10_000;
const PER_SECOND: i64 = 2_000;
const TOKEN: i64 = 1_000;

/// A request of a client at some time. Transactions read no clock, so the time is part of the input.
struct Request {
    client: String,
    now_ms: i64,
}

struct Limiter {
    database: Database,
    admit: Registered<Request, bool, Early>,
}

impl Limiter {
    fn open(directory: &str) -> Result<Self, Error> {
        let database = Database::builder().define::<Bucket>().open(directory)?;
        let buckets = database.table::<Bucket>()?;
        let by_client = database.index::<ByClient>()?;
        let admit = database.register_closure("admit", move |tx, request: &Request| {
            let row = match tx.lookup(&by_client, &request.client)? {
                Some(row) => row,
                None => tx.insert(&buckets, |row| {
                    row.set(Bucket::CLIENT, &request.client);
                    row.set(Bucket::TOKENS, FULL);
                    row.set(Bucket::COUNTED_MS, request.now_ms);
                })?,
            };
            let bucket = tx.get(&buckets, row)?;
            let (tokens, counted_ms) = (bucket.get(Bucket::TOKENS), bucket.get(Bucket::COUNTED_MS));
            let passed_ms = (request.now_ms - counted_ms).max(0);
            let tokens =
                FULL.min(tokens.saturating_add(passed_ms.saturating_mul(PER_SECOND) / 1_000));
            let is_admitted = tokens >= TOKEN;
            tx.set(&buckets, row, Bucket::TOKENS, tokens - if is_admitted { TOKEN } else { 0 })?;
            tx.set(&buckets, row, Bucket::COUNTED_MS, request.now_ms)?;
            Ok(is_admitted)
        });
        Ok(Self { database, admit: admit.with(CallOptions::new().early()) })
    }

    /// Whether a client may pass now.
    fn admits(&self, client: &str) -> Result<bool, Error> {
        let request = Request { client: client.to_owned(), now_ms: now_ms() };
        Ok(self.admit.call(request)?.into_inner())
    }
}

#[expect(clippy::disallowed_methods, reason = "an application's own clock")]
fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |time| time.as_millis() as i64)
}

fn main() -> Result<(), Error> {
    let directory = std::env::args().nth(1).unwrap_or("limits".to_owned());
    let limiter = Limiter::open(&directory)?;
    for client in ["anna", "ben"] {
        let mut admitted = 0;
        for _ in 0..25 {
            admitted += u32::from(limiter.admits(client)?);
        }
        println!("{client}: {admitted} of 25 requests at once passed");
    }
    let statistics = limiter.database.statistics();
    println!("{} decisions, {} flushes", statistics.committed, statistics.flushes);
    limiter.database.close()
}
