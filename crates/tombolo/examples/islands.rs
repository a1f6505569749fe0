//! An order desk on two islands: goods are where their number says, orders where their customer is.
//!
//! `cargo run --release -p tombolo --example islands -- DIRECTORY`

use tombolo::{Database, Error, Stop, Table};

#[derive(Table)]
struct Item {
    #[key]
    id: u64,
    stock: u32,
}

#[derive(Table)]
struct Order {
    #[key]
    customer: u64,
    #[key]
    number: u64,
    lines: u32,
}

fn main() -> Result<(), Error> {
    let directory = std::env::args().nth(1).unwrap_or("orders".to_owned());
    let islands = Database::builder().define::<Item>().define::<Order>().islands(2);
    let db = islands.spread_by(Item::ID).spread_by(Order::CUSTOMER).open(directory)?;
    let (items, by_id, orders) = (db.table()?, db.index::<ItemKey>()?, db.table::<Order>()?);
    let fill = db.register_closure("fill", move |tx, &(id, stock): &(u64, u32)| {
        tx.upsert_row(&by_id, &Item { id, stock }).map(drop)
    });
    let take = db.register_closure("take", move |tx, &(id, count): &(u64, u32)| {
        let Some((row, item)) = tx.find_row(&by_id, id)? else {
            return Err(Stop::Abort("no item"));
        };
        let Some(left) = item.stock.checked_sub(count) else { return Err(Stop::Abort("sold out")) };
        tx.set(&items, row, Item::STOCK, left)?;
        Ok(left)
    });
    let note = db.register_closure("note", move |tx, &(customer, lines): &(u64, u32)| {
        let number = tx.count(&orders)? + 1;
        tx.insert_row(&orders, &Order { customer, number, lines })?;
        Ok(number)
    });
    for id in 1..=6 {
        fill.at(&id)?.call((id, 10))?; // a call of one island
    }
    // An order takes goods on both islands and is noted on its customer's: all of that, or nothing.
    let order = |customer: u64, basket: &[(u64, u32)]| {
        let mut across = db.across();
        for &(id, count) in basket {
            across.part(&take, &id, (id, count))?;
        }
        let number = across.part(&note, &customer, (customer, basket.len() as u32))?;
        Ok::<_, Error>(across.commit()?.take(number)) // on disk, on each island
    };
    println!("customer 7: order {:?}", order(7, &[(1, 2), (2, 1), (5, 3)])?);
    println!("customer 8: {:?}", order(8, &[(3, 1), (4, 11)]));
    let left = (1..=6).map(|id| take.at(&id)?.call((id, 0))).collect::<Result<Vec<_>, _>>()?;
    println!("in stock: {left:?}");
    db.close()
}
