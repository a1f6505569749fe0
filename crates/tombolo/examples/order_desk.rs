//! An order desk: an order takes its goods from stock, or is refused as a whole.
//!
//! `cargo run --release -p tombolo --example order_desk -- DIRECTORY [TRACE]`
//!
//! Several threads place orders concurrently, and many are under way at a time. The database runs them one
//! at a time, so that no two sell the same item and no thread needs a lock. Each confirmed order is on disk,
//! with its lines and the remaining stock. With the name of a new file, it records there what its calls do, for
//! `tombolo advise trace TRACE`.

use tombolo::{CallOptions, Database, Error, Index, Order, Range, Registered, Sequence, Stop};
use tombolo::{Table, Trace, Tx};

/// Goods and how many there are.
#[derive(Table)]
struct Item {
    #[key]
    id: i32,
    #[column(sql = Varchar<30>)]
    name: String,
    #[column(hot)]
    stock: u32,
    cents: i64,
}

/// The lines of all orders; an order consists of its lines.
#[derive(Table)]
struct Line {
    #[key]
    order: i64,
    #[key]
    line: u8,
    item: i32,
    count: u32,
    cents: i64,
}

/// A basket: items and their quantities.
type Basket = Vec<(i32, u32)>;

/// The reason that an order is refused.
#[derive(Debug)]
struct SoldOut {
    item: String,
    left: u32,
}

impl std::fmt::Display for SoldOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} are left", self.left, self.item)
    }
}

impl std::error::Error for SoldOut {}

/// The number of an order that was accepted, and what it costs in cents.
type Confirmed = (i64, i64);

#[derive(Clone, Copy)]
struct Desk {
    items: Table<Item>,
    item_key: Index<ItemKey>,
    lines: Table<Line>,
    line_key: Index<LineKey>,
    numbers: Sequence,
}

impl Desk {
    fn bind(db: &Database) -> Result<Self, Error> {
        Ok(Self {
            items: db.table()?,
            item_key: db.index()?,
            lines: db.table()?,
            line_key: db.index()?,
            numbers: db.sequence("orders")?,
        })
    }

    /// Fills the shelves, when the database is new.
    fn stock(&self, tx: &mut Tx<'_>) -> Result<(), Stop> {
        let items = [("lamp", 400, 2_990), ("chair", 90, 11_900), ("table", 30, 34_900)];
        for (id, (name, stock, cents)) in (1..).zip(items).skip(tx.count(&self.items)? as usize) {
            tx.insert_row(&self.items, &Item { id, name: name.to_owned(), stock, cents })?;
        }
        Ok(())
    }

    /// Takes a whole basket from stock, or nothing.
    fn order(&self, tx: &mut Tx<'_>, basket: &Basket) -> Result<Confirmed, Stop> {
        let order = tx.next(&self.numbers)?; // given back where the order is refused
        let mut sum = 0;
        for (line, &(id, count)) in (1..).zip(basket) {
            let Some((row, item)) = tx.find_row(&self.item_key, id)? else {
                return Err(Stop::Abort("no such item"));
            };
            let Some(stock) = item.stock.checked_sub(count) else {
                return Err(SoldOut { item: item.name, left: item.stock }.into()); // the other lines go back
            };
            tx.set(&self.items, row, Item::STOCK, stock)?;
            let cents = item.cents * i64::from(count);
            tx.insert_row(&self.lines, &Line { order, line, item: id, count, cents })?;
            sum += cents;
        }
        Ok((order, sum))
    }

    /// The total of an order, from its lines.
    fn value(&self, tx: &mut Tx<'_>, order: i64) -> Result<i64, Stop> {
        let lines = tx.iter(&self.line_key, Range::prefix((order,)), Order::Forward)?;
        Ok(lines.map(|(_, line)| line.get(Line::CENTS)).sum())
    }
}

/// A clerk: keeps several orders under way and waits for each confirmation.
fn serve(order: &Registered<Basket, Confirmed>, clerk: i32) -> (Vec<Confirmed>, u32) {
    let basket = |n: i32| vec![(1, 1 + n as u32 % 3), (2 + (n + clerk) % 2, 1)];
    let pending: Vec<_> = (0..60).map(|n| order.submit(basket(n))).collect();
    let (mut confirmed, mut refused) = (Vec::new(), 0);
    for call in pending {
        match call.and_then(|call| call.wait()) {
            Ok(order) => confirmed.push(order),
            Err(error) if error.own::<SoldOut>().is_some() => refused += 1,
            Err(error) => eprintln!("clerk {clerk}: {error}"),
        }
    }
    (confirmed, refused)
}

fn main() -> Result<(), Error> {
    let directory = std::env::args().nth(1).unwrap_or("orders".to_owned());
    let db = Database::builder().define::<Item>().define::<Line>().open(directory)?;
    let desk = Desk::bind(&db)?;
    db.transaction(move |tx| desk.stock(tx))?;
    let order = db.register_closure("order", move |tx, basket| desk.order(tx, basket));
    let trace = std::env::args().nth(2).map(|file| db.record_trace(file)).transpose()?;
    let (mut confirmed, mut refused) = (Vec::new(), 0);
    std::thread::scope(|scope| {
        let order = &order;
        let clerks = [1, 2, 3].map(|clerk| scope.spawn(move || serve(order, clerk)));
        for (orders, sold_out) in clerks.into_iter().filter_map(|clerk| clerk.join().ok()) {
            confirmed.extend(orders);
            refused += sold_out;
        }
    });
    if let Some(traced) = trace.map(Trace::end) {
        println!("{} calls traced, {} lost", traced.calls, traced.lost);
    }
    println!("{} orders confirmed, {refused} refused", confirmed.len());
    let read = db.with(CallOptions::new().read_only());
    if let Some((order, cents)) = confirmed.into_iter().max() {
        let lines = read.transaction(move |tx| desk.value(tx, order))?;
        println!("order {order}: {cents} cents confirmed, {lines} by its lines");
    }
    println!("{:.1} transactions per flush", db.statistics().transactions_per_flush());
    db.close()
}
