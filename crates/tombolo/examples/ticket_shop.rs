//! A ticket shop: eight concurrent buyers, each seat sold once, each payment made once.
//!
//! `cargo run --release -p tombolo --features chrono,rust_decimal --example ticket_shop -- DIR`
//!
//! Each purchase has a request id: a buyer who lost an answer asks for its outcome, and buys nothing
//! twice. Seats have one more column than last season: it is added when an earlier directory is opened.

use std::sync::atomic::{AtomicU32, Ordering};

use chrono::{DateTime, TimeDelta, Utc};
use rust_decimal::Decimal;
use tombolo::{Database, Enum, Error, Order, Outcome, Range, Registered, Stop, Table};

mod last_season {
    #[derive(tombolo::Table)]
    #[table(name = "seat")]
    pub(crate) struct Seat {
        #[key]
        event: u32,
        #[key]
        number: u16,
        #[column(sql = Varchar<40>)]
        buyer: Option<String>,
        #[column(sql = Decimal<8, 2>)]
        paid: Option<rust_decimal::Decimal>,
        sold_at: Option<chrono::DateTime<chrono::Utc>>,
    }
}

#[derive(Enum, Clone, Copy, Debug, PartialEq)]
enum Rate {
    Full = 0,
    Student = 1,
}

#[derive(Table)]
#[index(ByBuyer(event, buyer, number))]
struct Seat {
    #[key]
    event: u32,
    #[key]
    number: u16,
    #[column(sql = Varchar<40>)]
    buyer: Option<String>,
    #[column(sql = Decimal<8, 2>)]
    paid: Option<Decimal>,
    sold_at: Option<DateTime<Utc>>,
    #[column(added)]
    rate: Option<Rate>,
}

#[derive(Table)]
struct Event {
    #[key]
    id: u32,
    title: String,
    begins: DateTime<Utc>,
    #[column(sql = Decimal<8, 2>)]
    price: Decimal,
}

/// A buyer's request: the event and the price category. Transactions read no clock, so it includes the time.
struct Purchase {
    buyer: String,
    event: u32,
    rate: Rate,
    now: DateTime<Utc>,
}

/// Buys until all seats are sold; returns the number bought.
fn buy(shop: &Database, sell: &Registered<Purchase, u16>, number: u32, ids: &AtomicU32) -> u32 {
    let rate = if number.is_multiple_of(4) { Rate::Student } else { Rate::Full };
    let mut bought = 0;
    loop {
        let id = u128::from(ids.fetch_add(1, Ordering::Relaxed));
        let buyer = format!("buyer {number}");
        match sell.once(id).call(Purchase { buyer, event: 1, rate, now: Utc::now() }) {
            Ok(_) => bought += 1,
            Err(Error::Aborted("sold out")) => return bought,
            // The answer was lost: the purchase may have happened.
            Err(error) if error.may_have_committed() => {
                bought += u32::from(shop.outcome(id) == Ok(Outcome::Committed));
            }
            Err(error) => eprintln!("buyer {number}: {error}"),
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::args().nth(1).unwrap_or("shop".to_owned());
    if !std::path::Path::new(&directory).exists() {
        Database::builder().define::<last_season::Seat>().open(&directory)?.close()?;
    }
    let shop = Database::builder().define::<Event>().define::<Seat>().open(&directory)?;
    let (seats, by_seat) = (shop.table::<Seat>()?, shop.index::<SeatKey>()?);
    let (by_event, by_buyer) = (shop.index::<EventKey>()?, shop.index::<ByBuyer>()?);

    let (begins, price) = (Utc::now() + TimeDelta::days(30), Decimal::new(2_450, 2));
    let title = "Käthe Kruse: dolls".to_owned();
    let is_new = shop.transaction(move |tx| {
        Ok(tx.upsert_row(&by_event, &Event { id: 1, title, begins, price })?.1)
    })?;
    if is_new {
        let nobodys =
            Seat { event: 1, number: 0, buyer: None, paid: None, sold_at: None, rate: None };
        shop.load(&seats, (1..=500).map(|number| Seat { number, buyer: None, ..nobodys }))?;
    }
    let sell = shop.register_closure("sell", move |tx, want: &Purchase| {
        let Some((_, event)) = tx.find_row(&by_event, want.event)? else {
            return Err(Stop::Abort("no such event"));
        };
        let free = Range::prefix((want.event, None));
        let first = tx.iter(&by_buyer, free, Order::Forward)?.next();
        let Some((row, mut seat)) = first.map(|(id, row)| (id, row.read())) else {
            return Err(Stop::Abort("sold out"));
        };
        let share = if want.rate == Rate::Student { Decimal::new(5, 1) } else { Decimal::ONE };
        seat.buyer = Some(want.buyer.clone());
        seat.paid = Some((event.price * share).round_dp(2));
        (seat.sold_at, seat.rate) = (Some(want.now), Some(want.rate));
        tx.update_row(&seats, row, &seat)?;
        Ok(seat.number)
    });

    let ids = AtomicU32::new(std::process::id() << 12); // any numbers that no request had before
    let sold: u32 = std::thread::scope(|scope| {
        let (shop, sell, ids) = (&shop, &sell, &ids);
        let buyers = [1, 2, 3, 4, 5, 6, 7, 8].map(|n| scope.spawn(move || buy(shop, sell, n, ids)));
        buyers.into_iter().filter_map(|buyer| buyer.join().ok()).sum()
    });
    let safe = format!("{directory}-backup-{}", std::process::id());
    let backup = shop.task(move |shop| shop.backup(safe))?;
    let (mut taken, mut money) = (0, Decimal::ZERO);
    for page in shop.pages(&by_seat, Range::prefix((1,)), Order::Forward, 100)? {
        let paid: Vec<Decimal> = page?.into_iter().filter_map(|seat| seat.paid).collect();
        (taken, money) = (taken + paid.len(), money + paid.iter().sum::<Decimal>());
    }
    println!("{sold} sold now, {taken} of 500 in all for {money}");
    println!("backup of {} bytes", backup.wait()?.bytes);
    Ok(shop.close()?)
}
