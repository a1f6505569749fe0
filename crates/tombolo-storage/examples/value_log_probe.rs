//! What the value log costs and how fast it is replayed, on transactions like TPC-C's New Order and
//! like debit-credit.
//!
//! `cargo run --profile quick --example value_log_probe` prints bytes, nanoseconds and the speed of
//! recovery; an argument is the directory for the log, else it is in memory. For instructions:
//! `valgrind --tool=callgrind target/quick/examples/value_log_probe`, then
//! `callgrind_annotate --inclusive=yes`: the difference of `orders_logged` and `orders_not_logged`
//! (and of `transfers_…`), divided by the numbers printed.

#![expect(clippy::disallowed_methods, reason = "a probe outside the engine reads the clock itself")]

use std::sync::Arc;
use std::time::Instant;

use tombolo_storage::disk::{Disk, MemDisk, OsDisk};
use tombolo_storage::memory::recovery::ReplayPart;
use tombolo_storage::memory::{Limits, MemoryStore};
use tombolo_storage::profile::{Memory, MemoryLogged, MemoryProfile};
use tombolo_storage::row::{Fields, RowId};
use tombolo_storage::schema::TableDef;
use tombolo_storage::store::{Index, Store, Table, resolve_index, resolve_table};
use tombolo_storage::value_log::{
    LogBuffer, LogSettings, LogWriter, RecoverOptions, Recovered, recover,
};

const STOCK: i64 = 100_000;
const LINES: usize = 10;
/// Transactions per group.
const GROUP: u64 = 256;

tombolo_storage::table! {
    /// What an order changes ten rows of.
    struct Stock = "stock" {
        ITEM: Integer [0..=1_048_575];
        QUANTITY: Decimal<4, 0> => hot;
        YTD: Decimal<9, 0> => hot;
        ORDERS: Decimal<9, 0> => hot;
        REMOTE: Decimal<9, 0> => hot;
        DIST: Char<240>;
        DATA: Varchar<50> => hot;
    }
}
tombolo_storage::index! {
    /// By item.
    struct StockKey = "stock_pk" on Stock (ITEM: Integer) unique Tree;
}
tombolo_storage::table! {
    /// What an order makes one of.
    struct Orders = "orders" {
        ID: Integer [0..=16_777_215];
        CUSTOMER: Integer [0..=16_777_215];
        ENTERED: Timestamp;
        LINES: SmallInt;
    }
}
tombolo_storage::index! {
    /// By number.
    struct OrdersKey = "orders_pk" on Orders (ID: Integer) unique Tree;
}
tombolo_storage::table! {
    /// What is not delivered yet.
    struct NewOrder = "new_order" { ID: Integer [0..=16_777_215]; }
}
tombolo_storage::index! {
    /// By number.
    struct NewOrderKey = "new_order_pk" on NewOrder (ID: Integer) unique Tree;
}
tombolo_storage::table! {
    /// What an order makes ten of.
    struct Line = "order_line" {
        ID: Integer [0..=16_777_215];
        NUMBER: SmallInt [0..=15];
        ITEM: Integer [0..=1_048_575];
        AMOUNT: Decimal<6, 2>;
        DELIVERED: Timestamp;
        INFO: Char<24>;
    }
}
tombolo_storage::index! {
    /// By order and number.
    struct LineKey = "order_line_pk" on Line (ID: Integer, NUMBER: SmallInt) unique Tree;
}

/// A store with the tables' handles.
struct Shop<P: MemoryProfile> {
    store: MemoryStore<P>,
    stock: (Table<Stock>, Index<StockKey>),
    orders: (Table<Orders>, Index<OrdersKey>),
    new_orders: (Table<NewOrder>, Index<NewOrderKey>),
    lines: (Table<Line>, Index<LineKey>),
}

fn must<T, E: std::fmt::Display>(result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}

impl<P: MemoryProfile> Shop<P> {
    fn new() -> Self {
        let mut store = MemoryStore::<P>::new(Limits::default());
        for table in [
            TableDef::of::<Stock>().with::<StockKey>(),
            TableDef::of::<Orders>().with::<OrdersKey>(),
            TableDef::of::<NewOrder>().with::<NewOrderKey>(),
            TableDef::of::<Line>().with::<LineKey>(),
        ] {
            must(store.create_table(table));
        }
        let schema = store.schema().clone();
        let mut shop = Self {
            store,
            stock: (must(resolve_table(&schema)), must(resolve_index(&schema))),
            orders: (must(resolve_table(&schema)), must(resolve_index(&schema))),
            new_orders: (must(resolve_table(&schema)), must(resolve_index(&schema))),
            lines: (must(resolve_table(&schema)), must(resolve_index(&schema))),
        };
        for item in 0..STOCK {
            must(shop.store.begin());
            shop.store.begin_writes();
            let row = must(shop.store.create(&shop.stock.0, |row| {
                row.set(Stock::ITEM, item as i32);
                row.set(Stock::QUANTITY, 50);
            }));
            must(shop.store.insert(&shop.stock.1, item as i32, row));
            must(shop.store.commit());
        }
        shop
    }

    #[inline(always)]
    fn order(&mut self, id: u64) {
        let items: [i32; LINES] = std::array::from_fn(|line| {
            (id.wrapping_mul(10).wrapping_add(line as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
                % STOCK as u64) as i32
        });
        let store = &mut self.store;
        must(store.begin());
        let mut found = [None; LINES];
        must(store.lookup_many(&self.stock.1, &items, &mut found));
        store.begin_writes();
        const ORDERED: Fields<Stock> = Fields::none().with(Stock::QUANTITY).with(Stock::REMOTE);
        for row in found.into_iter().flatten() {
            must(store.update(&self.stock.0, row, ORDERED, |row| {
                row.set(Stock::QUANTITY, (id % 90) as i64);
                row.set(Stock::YTD, (id % 1_000) as i64);
            }));
        }
        let id = id as i32;
        let order = must(store.create(&self.orders.0, |row| {
            row.set(Orders::ID, id);
            row.set(Orders::LINES, LINES as i16);
        }));
        must(store.insert(&self.orders.1, id, order));
        let new = must(store.create(&self.new_orders.0, |row| row.set(NewOrder::ID, id)));
        must(store.insert(&self.new_orders.1, id, new));
        let mut rows = [RowId::new(0); LINES];
        for (line, item) in items.into_iter().enumerate() {
            rows[line] = must(store.create(&self.lines.0, |row| {
                row.set(Line::ID, id);
                row.set(Line::NUMBER, line as i16);
                row.set(Line::ITEM, item);
            }));
        }
        must(store.insert_run(&self.lines.1, &rows, |line| (id, line as i16)));
        must(store.commit());
    }

    /// Three rows, eight bytes each.
    #[inline(always)]
    fn transfer(&mut self, id: u64, rows: &[RowId]) {
        must(self.store.begin());
        self.store.begin_writes();
        const CHANGED: Fields<Stock> = Fields::none().with(Stock::YTD).with(Stock::ORDERS);
        for at in 0..3 {
            let row = rows[(id * 3 + at) as usize % rows.len()];
            must(self.store.update(&self.stock.0, row, CHANGED, |row| {
                row.set(Stock::YTD, (id % 1_000) as i64);
            }));
        }
        must(self.store.commit());
    }
}

#[inline(never)]
fn orders_not_logged(shop: &mut Shop<Memory>, ids: std::ops::Range<u64>) {
    ids.for_each(|id| shop.order(id));
}

#[inline(never)]
fn orders_logged(shop: &mut Shop<MemoryLogged>, ids: std::ops::Range<u64>) {
    ids.for_each(|id| shop.order(id));
}

#[inline(never)]
fn transfers_not_logged(shop: &mut Shop<Memory>, rows: &[RowId], count: u64) {
    (0..count).for_each(|id| shop.transfer(id, rows));
}

#[inline(never)]
fn transfers_logged(shop: &mut Shop<MemoryLogged>, rows: &[RowId], count: u64) {
    (0..count).for_each(|id| shop.transfer(id, rows));
}

fn rows<P: MemoryProfile>(shop: &mut Shop<P>) -> Vec<RowId> {
    let mut rows = Vec::new();
    must(shop.store.rows(&shop.stock.0, |row| {
        rows.push(row);
        std::ops::ControlFlow::Continue(())
    }));
    rows
}

fn main() {
    let disk: Arc<dyn Disk> = match std::env::args().nth(1) {
        Some(directory) => Arc::new(must(OsDisk::create(directory.as_ref()))),
        None => Arc::new(MemDisk::new()),
    };
    let count: u64 = std::env::var("ORDERS").ok().and_then(|n| n.parse().ok()).unwrap_or(2_000);
    println!("{count} orders of {LINES} lines and {count} transfers of 3 rows");
    let mut plain = Shop::<Memory>::new();
    let (begun, cpu_begun) = (Instant::now(), cpu());
    orders_not_logged(&mut plain, 0..count);
    println!("not logged: {:.0} ns an order", nanoseconds(begun, count));
    print_cpu("running the orders", cpu_begun);

    let mut shop = Shop::<MemoryLogged>::new();
    let mut writer = must(LogWriter::create(Arc::clone(&disk), LogSettings::default()));
    let mut buffer = LogBuffer::new();
    flush(&mut shop, &mut writer, &mut buffer);
    let (loaded, mut executing) = (writer.usage().record_bytes, 0.0);
    let begun = Instant::now();
    for first in (0..count).step_by(GROUP as usize) {
        let begun = Instant::now();
        orders_logged(&mut shop, first..count.min(first + GROUP));
        executing += begun.elapsed().as_secs_f64();
        flush(&mut shop, &mut writer, &mut buffer);
    }
    let bytes = writer.usage().record_bytes - loaded;
    println!("logged: {:.0} ns an order, {} bytes", executing * 1e9 / count as f64, bytes / count);
    println!("logged and synced in groups of {GROUP}: {:.0} ns", nanoseconds(begun, count));

    let plain_rows = rows(&mut plain);
    transfers_not_logged(&mut plain, &plain_rows, count);
    let shop_rows = rows(&mut shop);
    let before = shop.store.log_bytes();
    transfers_logged(&mut shop, &shop_rows, count);
    println!("a transfer logs {} bytes", (shop.store.log_bytes() - before) as u64 / count);
    flush(&mut shop, &mut writer, &mut buffer);
    drop(writer);
    replay(disk, &mut shop, count, executing);
}

fn replay(disk: Arc<dyn Disk>, shop: &mut Shop<MemoryLogged>, count: u64, executing: f64) {
    let mut part = ReplayPart::new(0, 1, Limits::default());
    let (settings, options) = (LogSettings::default(), RecoverOptions::default());
    let (begun, cpu_begun) = (Instant::now(), cpu());
    let found = must(recover(disk, settings, options, &mut part, &mut |_| {}));
    let Recovered { transactions, .. } = found;
    let replayed = begun.elapsed().as_secs_f64();
    print_cpu("replaying rows", cpu_begun);
    let rebuilt = must(part.finish());
    let mut again =
        must(MemoryStore::<MemoryLogged>::from_replay(Limits::default(), vec![rebuilt]));
    let whole = begun.elapsed().as_secs_f64();
    print_cpu("recovery", cpu_begun);
    println!(
        "recovered {transactions} transactions in {:.1} ms, the last {:.1} ms of it indexes; the \
         {count} orders alone took {:.1} ms to run",
        whole * 1e3,
        (whole - replayed) * 1e3,
        executing * 1e3
    );
    assert_eq!(again.check(), []);
    assert_eq!(again.usage(), shop.store.usage());
}

fn flush(shop: &mut Shop<MemoryLogged>, writer: &mut LogWriter, buffer: &mut LogBuffer) {
    shop.store.take_log(buffer);
    must(writer.append_group(&[buffer.as_slice()], buffer.transactions(), None));
    must(writer.sync());
    buffer.clear();
}

/// Processor time of this process so far, of its own and of the system for it, in milliseconds.
fn cpu() -> [f64; 2] {
    let stat = must(std::fs::read_to_string("/proc/self/stat"));
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let mut ticks = fields.skip(11).filter_map(|ticks| ticks.parse::<f64>().ok());
    std::array::from_fn(|_| ticks.next().unwrap_or_default() * 10.0)
}

fn print_cpu(what: &str, begun: [f64; 2]) {
    let [own, system] = cpu();
    println!(
        "{what}: {:.0} ms of its own, {:.0} ms of the system",
        own - begun[0],
        system - begun[1]
    );
}

fn nanoseconds(begun: Instant, count: u64) -> f64 {
    begun.elapsed().as_secs_f64() * 1e9 / count as f64
}
