//! An order desk: orders take goods from stock, or do not happen.
//!
//! `cargo run --release -p tombolo --no-default-features --example order_desk -- DIRECTORY`
//!
//! Several threads place orders at once and many are under way at a time; the database runs them one
//! after the other, so that no two sell the same piece and nobody locks anything. Each order that
//! was confirmed is on disk, with its lines and the stock it left.

use std::ops::ControlFlow;

use tombolo::{CallOptions, Database, Error, Index, Order, Range, Registered, Stop, Table, Tx};

/// Goods and how many there are.
#[derive(Table)]
struct Item {
    #[key]
    id: i32,
    #[column(sql = Varchar<30>)]
    name: String,
    #[column(hot)]
    stock: i32,
    cents: i64,
}

/// What was ordered, line by line; an order is its lines, and the last order is the last key.
#[derive(Table)]
struct Line {
    #[key]
    order: i64,
    #[key]
    line: i16,
    item: i32,
    count: i32,
    cents: i64,
}

/// What is ordered: items and how many of each.
type Basket = Vec<(i32, i32)>;

/// An order that was accepted.
#[derive(Debug)]
struct Confirmed {
    order: i64,
    cents: i64,
}

#[derive(Clone, Copy)]
struct Desk {
    items: Table<Item>,
    item_key: Index<ItemKey>,
    lines: Table<Line>,
    line_key: Index<LineKey>,
}

impl Desk {
    fn bind(db: &Database) -> Result<Self, Error> {
        Ok(Self {
            items: db.table()?,
            item_key: db.index()?,
            lines: db.table()?,
            line_key: db.index()?,
        })
    }

    /// Fills the shelves, the first time.
    fn stock(&self, tx: &mut Tx<'_>) -> Result<(), Stop> {
        for (id, (name, stock, cents)) in
            (1..).zip([("lamp", 400, 2_990), ("chair", 90, 11_900), ("table", 30, 34_900)])
        {
            if tx.lookup(&self.item_key, id)?.is_none() {
                let name = name.to_owned();
                tx.insert_row(&self.items, &Item { id, name, stock, cents })?;
            }
        }
        Ok(())
    }

    /// The number of the newest order; 0 before the first.
    fn last_order(&self, tx: &mut Tx<'_>) -> Result<i64, Stop> {
        let mut last = None;
        tx.scan(&self.line_key, Range::all(), Order::Backward, |row| {
            last = Some(row);
            ControlFlow::Break(())
        })?;
        match last {
            Some(row) => Ok(tx.get(&self.lines, row)?.get(Line::ORDER)),
            None => Ok(0),
        }
    }

    /// Takes a basket from stock, or nothing of it.
    fn order(&self, tx: &mut Tx<'_>, basket: &Basket) -> Result<Confirmed, Stop> {
        let order = self.last_order(tx)? + 1;
        let mut sum = 0;
        for (line, &(id, count)) in (1..).zip(basket) {
            let Some(item) = tx.lookup(&self.item_key, id)? else {
                return Err(Stop::Abort("no such item"));
            };
            let row = tx.get(&self.items, item)?;
            let (stock, cents) = (row.get(Item::STOCK), row.get(Item::CENTS));
            if stock < count {
                return Err(Stop::Abort("not enough in stock")); // and the other lines go back
            }
            tx.set(&self.items, item, Item::STOCK, stock - count)?;
            let cents = cents * i64::from(count);
            tx.insert_row(&self.lines, &Line { order, line, item: id, count, cents })?;
            sum += cents;
        }
        Ok(Confirmed { order, cents: sum })
    }

    /// What an order is worth, by its lines.
    fn value(&self, tx: &mut Tx<'_>, order: i64) -> Result<i64, Stop> {
        let mut cents = 0;
        for row in tx.range(&self.line_key, Range::prefix((order,)), Order::Forward)? {
            cents += tx.get(&self.lines, row)?.get(Line::CENTS);
        }
        Ok(cents)
    }
}

/// A clerk: keeps several orders under way and waits for each confirmation.
fn serve(order: &Registered<Basket, Confirmed>, clerk: i32) -> (Vec<Confirmed>, u32) {
    let basket = |n: i32| vec![(1, 1 + n % 3), (2 + (n + clerk) % 2, 1)];
    let pending: Vec<_> = (0..60).map(|n| order.submit(basket(n))).collect();
    let (mut confirmed, mut refused) = (Vec::new(), 0);
    for call in pending {
        match call.and_then(|call| call.wait()) {
            Ok(order) => confirmed.push(order),
            Err(Error::Aborted(_)) => refused += 1,
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
    let (mut confirmed, mut refused) = (Vec::new(), 0);
    std::thread::scope(|scope| {
        let order = &order;
        let clerks = [1, 2, 3].map(|clerk| scope.spawn(move || serve(order, clerk)));
        for (orders, sold_out) in clerks.into_iter().filter_map(|clerk| clerk.join().ok()) {
            confirmed.extend(orders);
            refused += sold_out;
        }
    });
    println!("{} orders confirmed, {refused} refused", confirmed.len());
    let read = db.with(CallOptions::new().read_only());
    if let Some(last) = confirmed.into_iter().max_by_key(|confirmed| confirmed.order) {
        let lines = read.transaction(move |tx| desk.value(tx, last.order))?;
        println!("order {}: {} cents confirmed, {lines} by its lines", last.order, last.cents);
    }
    let statistics = db.statistics();
    println!("{:.1} transactions per flush", statistics.transactions_per_flush());
    db.close()
}
