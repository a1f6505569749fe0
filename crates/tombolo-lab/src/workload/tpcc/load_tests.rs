//! Tests of the initial database: the load rules (4.3.3), the consistency conditions (3.3.2) and
//! independence of the order of generation.

use super::*;
use crate::workload::tpcc::text::is_original;

const SEED: u64 = 1;

/// All rows of one warehouse, and the items.
struct Database {
    warehouse: WarehouseRow,
    districts: Vec<DistrictRow>,
    customers: Vec<CustomerRow>,
    history: Vec<HistoryRow>,
    orders: Vec<OrderRow>,
    lines: Vec<OrderLineRow>,
    new_orders: Vec<NewOrderRow>,
}

impl Database {
    fn generate(w_id: i32) -> Self {
        let every = 1..=DISTRICTS;
        Self {
            warehouse: warehouse(SEED, w_id),
            districts: districts(SEED, w_id).collect(),
            customers: every.clone().flat_map(|d_id| customers(SEED, w_id, d_id)).collect(),
            history: every.clone().flat_map(|d_id| history(SEED, w_id, d_id)).collect(),
            orders: every.clone().flat_map(|d_id| orders(SEED, w_id, d_id)).collect(),
            lines: every.clone().flat_map(|d_id| order_lines(SEED, w_id, d_id)).collect(),
            new_orders: every.flat_map(|d_id| new_orders(w_id, d_id)).collect(),
        }
    }
}

#[test]
fn stock_and_items_follow_the_load_rules() {
    let items: Vec<_> = items(SEED).collect();
    assert_eq!(items.len(), 100_000);
    assert!(items.iter().map(|item| item.i_id).eq(1..=ITEMS));
    assert_eq!(items.iter().filter(|item| is_original(item.i_data.as_bytes())).count(), 10_000);
    for item in &items {
        assert!((money(1, 0)..=money(100, 0)).contains(&item.i_price));
        assert!((1..=10_000).contains(&item.i_im_id));
        assert!((14..=24).contains(&item.i_name.len()) && (26..=50).contains(&item.i_data.len()));
    }
    let mut originals = 0;
    let mut quantities = [0_u32; 101];
    for (stock, i_id) in stock(SEED, 3).zip(1..) {
        assert_eq!((stock.s_i_id, stock.s_w_id), (i_id, 3));
        assert!(stock.s_dist().iter().all(|dist| dist.len() == 24));
        assert_eq!((stock.s_ytd, stock.s_order_cnt, stock.s_remote_cnt), (0, 0, 0));
        assert!((26..=50).contains(&stock.s_data.len()));
        quantities[stock.s_quantity as usize] += 1;
        originals += u32::from(is_original(stock.s_data.as_bytes()));
    }
    assert_eq!(originals, 10_000);
    assert_eq!(quantities[..10], [0; 10]);
    assert_eq!(quantities.iter().sum::<u32>(), 100_000);
    assert!(quantities[10..].iter().all(|count| (950..1_250).contains(count)), "{quantities:?}");
}

#[test]
fn customers_follow_the_load_rules() {
    let customers: Vec<_> = customers(SEED, 2, 7).collect();
    assert!(customers.iter().map(|customer| customer.c_id).eq(1..=CUSTOMERS));
    let bad = customers.iter().filter(|customer| customer.c_credit.as_str() == "BC").count();
    let good = customers.iter().filter(|customer| customer.c_credit.as_str() == "GC").count();
    assert_eq!((bad, good), (300, 2_700));
    for (customer, number) in customers.iter().zip(0..1_000) {
        assert_eq!(customer.c_last, last_name(number));
    }
    let names: std::collections::BTreeSet<_> =
        customers[1_000..].iter().map(|customer| customer.c_last.as_str()).collect();
    assert!((300..900).contains(&names.len()), "{} last names are not skewed", names.len());
    for customer in &customers {
        assert_eq!((customer.c_w_id, customer.c_d_id), (2, 7));
        assert_eq!(customer.c_middle.as_str(), "OE");
        assert_eq!((customer.c_balance, customer.c_ytd_payment), (-1_000, 1_000));
        assert_eq!((customer.c_payment_cnt, customer.c_delivery_cnt), (1, 0));
        assert_eq!(customer.c_credit_lim, 5_000_000);
        assert!((0..=5_000).contains(&customer.c_discount));
        assert!((8..=16).contains(&customer.c_first.len()));
        assert!((300..=500).contains(&customer.c_data.len()));
        assert!(customer.c_phone.as_bytes().iter().all(u8::is_ascii_digit));
        assert_eq!((customer.c_phone.len(), customer.c_state.len()), (16, 2));
        assert!((0..DAY).contains(&customer.c_since) && customer.c_since % 1_000 == 0);
    }
}

#[test]
fn warehouses_and_districts_follow_the_load_rules() {
    for w_id in 1..=20 {
        let warehouse = warehouse(SEED, w_id);
        assert_eq!((warehouse.w_id, warehouse.w_ytd), (w_id, 30_000_000));
        assert!((0..=2_000).contains(&warehouse.w_tax));
        assert!((6..=10).contains(&warehouse.w_name.len()));
        for (district, d_id) in districts(SEED, w_id).zip(1..) {
            assert_eq!((district.d_w_id, district.d_id), (w_id, d_id));
            assert_eq!((district.d_ytd, district.d_next_o_id), (3_000_000, 3_001));
            assert!((0..=2_000).contains(&district.d_tax));
            assert!((10..=20).contains(&district.d_city.len()));
            assert!(district.d_zip.as_str().ends_with("11111"));
        }
    }
}

#[test]
fn orders_follow_the_load_rules() {
    for d_id in 1..=DISTRICTS {
        let orders: Vec<_> = orders(SEED, 1, d_id).collect();
        assert!(orders.iter().map(|order| order.o_id).eq(1..=ORDERS));
        let mut buyers: Vec<_> = orders.iter().map(|order| order.o_c_id).collect();
        assert!(!buyers.is_sorted());
        buyers.sort_unstable();
        assert!(buyers.into_iter().eq(1..=CUSTOMERS));
        for order in &orders {
            assert_eq!(order.o_carrier_id.is_some(), order.o_id < 2_101);
            assert!(order.o_carrier_id.is_none_or(|carrier| (1..=10).contains(&carrier)));
            assert!((5..=15).contains(&order.o_ol_cnt) && order.o_all_local == 1);
            for (line, number) in lines_of(SEED, order).zip(1..) {
                let delivered = order.o_carrier_id.map(|_| order.o_entry_d);
                assert_eq!((line.ol_number, line.ol_delivery_d), (number, delivered));
                assert_eq!((line.ol_quantity, line.ol_supply_w_id), (5, 1));
                assert!((1..=ITEMS).contains(&line.ol_i_id) && line.ol_dist_info.len() == 24);
                match delivered {
                    Some(_) => assert_eq!(line.ol_amount, 0),
                    None => assert!((1..=999_999).contains(&line.ol_amount)),
                }
            }
        }
        let waiting = new_orders(1, d_id).map(|new_order| new_order.no_o_id);
        assert!(waiting.eq(2_101..=3_000));
    }
}

#[test]
fn all_twelve_conditions_hold() {
    let db = Database::generate(2);
    assert_eq!(db.warehouse.w_ytd, db.districts.iter().map(|d| d.d_ytd).sum::<i64>(), "c01");
    assert_eq!(db.warehouse.w_ytd, db.history.iter().map(|h| h.h_amount).sum::<i64>(), "c08");
    for district in &db.districts {
        let d_id = district.d_id;
        let orders = || db.orders.iter().filter(|order| order.o_d_id == d_id);
        let waiting: Vec<i32> =
            db.new_orders.iter().filter(|no| no.no_d_id == d_id).map(|no| no.no_o_id).collect();
        let (oldest, newest) = (waiting[0], waiting[waiting.len() - 1]);
        assert_eq!(Some(district.d_next_o_id - 1), orders().map(|order| order.o_id).max(), "c02");
        assert_eq!(district.d_next_o_id - 1, newest, "c02");
        assert_eq!((newest - oldest + 1) as usize, waiting.len(), "c03");
        let lines = db.lines.iter().filter(|line| line.ol_d_id == d_id).count();
        assert_eq!(orders().map(|order| order.o_ol_cnt).sum::<i64>(), lines as i64, "c04");
        let undelivered = orders().filter(|order| order.o_carrier_id.is_none());
        assert!(undelivered.map(|order| order.o_id).eq(waiting.iter().copied()), "c05");
        let paid = db.history.iter().filter(|h| h.h_d_id == d_id).map(|h| h.h_amount);
        assert_eq!(district.d_ytd, paid.sum::<i64>(), "c09");
        assert_eq!(orders().count() - waiting.len(), 2_100, "c11");
    }
    check_orders_against_lines(&db);
    check_customers(&db);
}

fn check_orders_against_lines(db: &Database) {
    let mut lines = db.lines.iter().peekable();
    for order in &db.orders {
        let mut count = 0;
        while let Some(line) =
            lines.next_if(|line| (line.ol_d_id, line.ol_o_id) == (order.o_d_id, order.o_id))
        {
            count += 1;
            assert_eq!(line.ol_delivery_d.is_some(), order.o_carrier_id.is_some(), "c07");
        }
        assert_eq!(order.o_ol_cnt, count, "c06");
    }
    assert!(lines.next().is_none(), "c06: a line belongs to no order");
}

fn check_customers(db: &Database) {
    let place = |d_id: i16, c_id: i32| (i32::from(d_id) - 1) * CUSTOMERS + c_id - 1;
    let mut delivered = vec![0; db.customers.len()];
    let mut paid = vec![0; db.customers.len()];
    for order in db.orders.iter().filter(|order| order.o_carrier_id.is_some()) {
        let sum: i64 = lines_of(SEED, order).map(|line| line.ol_amount).sum();
        delivered[place(order.o_d_id, order.o_c_id) as usize] += sum;
    }
    for payment in &db.history {
        paid[place(payment.h_c_d_id, payment.h_c_id) as usize] += payment.h_amount;
    }
    for ((customer, delivered), paid) in db.customers.iter().zip(delivered).zip(paid) {
        assert_eq!(customer.c_balance, delivered - paid, "c10");
        assert_eq!(customer.c_balance + customer.c_ytd_payment, delivered, "c12");
    }
}

#[test]
fn parts_do_not_depend_on_what_was_generated_before() {
    let once: Vec<Vec<OrderLineRow>> =
        (1..=DISTRICTS).map(|d| order_lines(SEED, 1, d).collect()).collect();
    let backwards: Vec<Vec<OrderLineRow>> = (1..=DISTRICTS)
        .rev()
        .map(|d_id| {
            let _other = customers(SEED, 9, d_id).count();
            order_lines(SEED, 1, d_id).collect()
        })
        .collect();
    assert!(once.iter().eq(backwards.iter().rev()));
    let order = orders(SEED, 1, 4).nth(1_234).expect("a district has 3,000 orders");
    let alone: Vec<_> = lines_of(SEED, &order).collect();
    assert!(alone.iter().eq(once[3].iter().filter(|line| line.ol_o_id == order.o_id)));
}

#[test]
fn parts_and_seeds_differ() {
    let first = |seed, w_id, d_id| customers(seed, w_id, d_id).next().expect("3,000 customers");
    let datas = [(1, 1, 1), (1, 1, 2), (1, 2, 1), (2, 1, 1)].map(|(s, w, d)| first(s, w, d).c_data);
    for (place, data) in datas.iter().enumerate() {
        assert!(datas[..place].iter().all(|other| other != data));
    }
    assert_ne!(warehouse(1, 1).w_name, warehouse(1, 2).w_name);
}
