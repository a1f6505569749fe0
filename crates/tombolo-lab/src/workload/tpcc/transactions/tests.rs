//! Tests of the transactions against a loaded warehouse: calls, answers, effects.

use tombolo_engine::transaction::{Reading, execute};
use tombolo_storage::memory::{Limits, MemoryStore};
use tombolo_storage::profile::Bare;

use super::test_store::{Calls, Counting};
use super::*;
use crate::workload::resolve::Resolve;
use crate::workload::tpcc::handles::Handles;
use crate::workload::tpcc::input::{
    CustomerInput, Generator, INVALID_ITEM, LineInput, OrderStatusInput, PaymentInput,
    StockLevelInput,
};
use crate::workload::tpcc::loader::{Scale, load};
use crate::workload::tpcc::nurand::Constants;
use crate::workload::tpcc::schema::{Customer, District, Orders, Stock};
use crate::workload::tpcc::text::{Text, last_name};

const SEED: u64 = 1;

type TestStore = Counting<MemoryStore<Bare>>;

/// A loaded warehouse with the transactions of `mix`.
fn loaded(mix: Mix) -> (TestStore, Transactions) {
    let mut store = MemoryStore::<Bare>::new(Limits::default());
    load(&mut store, Scale { seed: SEED, warehouses: 1, mix }, 1, |_, _| {}).unwrap();
    let transactions = Transactions::bind(store.schema(), mix).unwrap();
    (Counting::new(store), transactions)
}

fn inputs(mix: Mix) -> Generator {
    Generator::new(SEED, mix, 1, Constants::from_seed(SEED))
}

/// Runs `input` on its own counts.
fn counted(
    store: &mut TestStore,
    transactions: &Transactions,
    input: &Input,
) -> (Result<Answer, Stop>, Calls) {
    store.calls.take();
    let answer = transactions.call(store, input);
    (answer, store.calls.take())
}

/// Reads something from the store, outside all counts.
fn read<T>(
    store: &mut TestStore,
    read: impl FnOnce(&mut Reading<'_, TestStore>, &Handles) -> Result<T, Error>,
) -> T {
    let handles = Handles::resolve(store.schema()).unwrap();
    let result = execute(store, |mut tx| {
        let value = read(&mut tx, &handles)?;
        tx.commit(value)
    });
    result.unwrap()
}

#[test]
fn paper_mix_makes_exactly_the_papers_calls() {
    let (mut store, transactions) = loaded(Mix::Paper);
    let new_order =
        Calls { lookups: 23, pins: 23, updates: 11, creates: 12, inserts: 13, ..Calls::default() };
    let payment = Calls { lookups: 3, pins: 3, updates: 3, creates: 1, ..Calls::default() };
    let invalid = Calls { lookups: 10, ..Calls::default() };
    let mut aborted = 0;
    for input in inputs(Mix::Paper).take(5_000) {
        let (answer, calls) = counted(&mut store, &transactions, &input);
        let expected = match answer {
            Ok(Answer::NewOrder(_)) => new_order,
            Ok(_) => payment,
            Err(Stop::Abort(INVALID_ITEM_REASON)) => {
                aborted += 1;
                invalid
            }
            Err(error) => panic!("{error}"),
        };
        assert_eq!(calls, expected, "{input:?}");
    }
    assert!((5..60).contains(&aborted), "{aborted} of about 2,500 were to abort");
}

/// The next input of the standard mix that `wanted` accepts.
fn find<T>(wanted: impl Fn(&Input) -> Option<T>) -> T {
    inputs(Mix::Standard).find_map(|input| wanted(&input)).expect("the stream is endless")
}

#[test]
fn new_order_takes_from_stock_and_numbers_orders() {
    let (mut store, transactions) = loaded(Mix::Standard);
    let order = find(|input| match input {
        Input::NewOrder(order) if order.lines().iter().all(|l| l.i_id != INVALID_ITEM) => {
            Some(*order)
        }
        _ => None,
    });
    let quantities = |store: &mut TestStore| {
        read(store, |tx, handles| {
            let row = |line: &LineInput| {
                let found = tx.lookup(&handles.stock_key, (line.supply_w_id, line.i_id))?;
                Ok(tx.pin(&handles.stock, found.unwrap())?.get(Stock::S_QUANTITY))
            };
            order.lines().iter().map(row).collect::<Result<Vec<i64>, Error>>()
        })
    };
    let before = quantities(&mut store);
    for expected in 3_001..3_004 {
        match transactions.call(&mut store, &Input::NewOrder(order)) {
            Ok(Answer::NewOrder(answer)) => assert_eq!(answer.o_id, expected),
            other => panic!("{other:?}"),
        }
    }
    let take = |quantity: i64, line: i64| match quantity - line {
        left @ 10.. => left,
        left => left + 91,
    };
    let after = quantities(&mut store);
    for ((before, after), line) in before.iter().zip(&after).zip(order.lines()) {
        let line = i64::from(line.quantity);
        assert_eq!(*after, take(take(take(*before, line), line), line));
    }
}

#[test]
fn order_total_has_discount_and_taxes_and_is_rounded() {
    let answer = NewOrderAnswer {
        o_id: 1,
        total: 0,
        brand: 0,
        c_last: Text::EMPTY,
        c_credit: Text::EMPTY,
        c_discount: 1_250,
        w_tax: 1_000,
        d_tax: 500,
    };
    assert_eq!(new_order::total(10_000, &answer), 10_063); // 100.00 × 0.875 × 1.15 = 100.625
    assert_eq!(new_order::total(10_000, &NewOrderAnswer { w_tax: 0, ..answer }), 9_188);
    assert_eq!(new_order::total(0, &answer), 0);
}

/// An order whose second line has item number `i_id`.
fn with_item(mut order: Input, place: usize, i_id: i32) -> Input {
    if let Input::NewOrder(order) = &mut order {
        order.set_item(place, i_id);
    }
    order
}

#[test]
fn an_item_ordered_twice_is_taken_twice() {
    let (mut store, transactions) = loaded(Mix::Standard);
    let order = find(|input| matches!(input, Input::NewOrder(_)).then_some(*input));
    let twice = with_item(with_item(order, 0, 77), 1, 77);
    let counts = |store: &mut TestStore| {
        read(store, |tx, handles| {
            let found = tx.lookup(&handles.stock_key, (1, 77))?;
            let row = tx.pin(&handles.stock, found.unwrap())?;
            Ok((row.get(Stock::S_ORDER_CNT), row.get(Stock::S_YTD)))
        })
    };
    let Input::NewOrder(input) = twice else { unreachable!() };
    let ytd: i64 = input.lines()[..2].iter().map(|line| i64::from(line.quantity)).sum();
    assert_eq!(counts(&mut store), (0, 0));
    transactions.call(&mut store, &with_item(twice, input.lines().len() - 1, 78)).unwrap();
    assert_eq!(counts(&mut store), (2, ytd));
}

#[test]
fn payment_moves_money_and_marks_bad_credit() {
    let (mut store, transactions) = loaded(Mix::Standard);
    let mut seen = std::collections::BTreeSet::new();
    for c_id in 1..=100 {
        let input = PaymentInput {
            h_date: 0,
            h_amount: 4_321,
            w_id: 1,
            c_w_id: 1,
            d_id: 2,
            c_d_id: 3,
            customer: CustomerInput::Id(c_id),
        };
        let Ok(Answer::Payment(answer)) = transactions.call(&mut store, &Input::Payment(input))
        else {
            panic!("a payment never aborts")
        };
        assert_eq!((answer.c_id, answer.c_balance), (c_id, -1_000 - 4_321));
        let (data, ytd, count) = read(&mut store, |tx, handles| {
            let found = tx.lookup(&handles.customer_key, (1, 3, c_id))?;
            let row = tx.pin(&handles.customer, found.unwrap())?;
            let (ytd, count) = (row.get(Customer::C_YTD_PAYMENT), row.get(Customer::C_PAYMENT_CNT));
            Ok((row.get(Customer::C_DATA).to_vec(), ytd, count))
        });
        assert_eq!((ytd, count), (1_000 + 4_321, 2));
        let marked = data.starts_with(format!("{c_id} 3 1 2 1 43.21|").as_bytes());
        assert_eq!(marked, answer.c_credit.as_str() == "BC");
        seen.insert(marked);
    }
    assert_eq!(seen.len(), 2, "a hundred customers have good and bad credit");
    let paid = read(&mut store, |tx, handles| {
        let found = tx.lookup(&handles.district_key, (1, 2))?;
        Ok(tx.pin(&handles.district, found.unwrap())?.get(District::D_YTD))
    });
    assert_eq!(paid, 3_000_000 + 100 * 4_321);
}

#[test]
fn a_named_customer_is_the_middle_one_by_first_name() {
    use crate::workload::tpcc::load::customers;
    let (mut store, transactions) = loaded(Mix::Standard);
    let all: Vec<_> = customers(SEED, 1, 4).collect();
    let mut namesakes_max = 0;
    for number in 0..1_000 {
        let name = last_name(number);
        let mut namesakes: Vec<_> = all.iter().filter(|c| c.c_last == name).collect();
        namesakes.sort_by(|a, b| a.c_first.as_str().cmp(b.c_first.as_str()));
        namesakes_max = namesakes_max.max(namesakes.len());
        let expected = namesakes[namesakes.len().div_ceil(2) - 1];
        let input = OrderStatusInput { w_id: 1, d_id: 4, customer: CustomerInput::LastName(name) };
        match transactions.call(&mut store, &Input::OrderStatus(input)) {
            Ok(Answer::OrderStatus(answer)) => assert_eq!(answer.c_first, expected.c_first),
            other => panic!("{other:?}"),
        }
    }
    assert!(namesakes_max > 30, "{namesakes_max} namesakes at most: the names are not skewed");
}

#[test]
fn order_status_tells_the_newest_order_and_its_lines() {
    let (mut store, transactions) = loaded(Mix::Standard);
    let order = find(|input| match input {
        Input::NewOrder(order) => Some(*order),
        _ => None,
    });
    let customer = CustomerInput::Id(order.c_id);
    let status =
        Input::OrderStatus(OrderStatusInput { w_id: order.w_id, d_id: order.d_id, customer });
    let before = match transactions.call(&mut store, &status) {
        Ok(Answer::OrderStatus(answer)) => answer,
        other => panic!("{other:?}"),
    };
    assert!((1..=3_000).contains(&before.o_id), "each customer has one order at first");
    assert!((5..=15).contains(&before.lines().len()));
    transactions.call(&mut store, &Input::NewOrder(order)).unwrap();
    let (answer, calls) = counted(&mut store, &transactions, &status);
    let Ok(Answer::OrderStatus(answer)) = answer else { panic!("{answer:?}") };
    assert_eq!((answer.o_id, answer.entry_d, answer.carrier_id), (3_001, order.entry_d, None));
    assert_eq!(answer.lines().len(), order.lines().len());
    for (line, ordered) in answer.lines().iter().zip(order.lines()) {
        assert_eq!((line.i_id, line.quantity), (ordered.i_id, i64::from(ordered.quantity)));
        assert_eq!(line.delivery_d, None);
    }
    assert_eq!((calls.scans, calls.updates, calls.creates), (2, 0, 0));
}

#[test]
fn delivery_delivers_the_oldest_order_of_every_district() {
    let (mut store, transactions) = loaded(Mix::Standard);
    for round in 0..3 {
        let delivery = find(|input| match input {
            Input::Delivery(delivery) => Some(*delivery),
            _ => None,
        });
        let (answer, calls) = counted(&mut store, &transactions, &Input::Delivery(delivery));
        assert_eq!(answer, Ok(Answer::Delivery(DeliveryAnswer { orders: [2_101 + round; 10] })));
        assert_eq!((calls.deletes, calls.removes), (10, 20));
        let carrier = read(&mut store, |tx, handles| {
            let found = tx.lookup(&handles.orders_key, (1, 10, 2_101 + round))?;
            Ok(tx.pin(&handles.orders, found.unwrap())?.get(Orders::O_CARRIER_ID))
        });
        assert_eq!(carrier, Some(delivery.carrier_id));
    }
}

#[test]
fn delivery_passes_over_districts_without_waiting_orders() {
    let (mut store, transactions) = loaded(Mix::Standard);
    let delivery = find(|input| matches!(input, Input::Delivery(_)).then_some(*input));
    for _ in 0..900 {
        transactions.call(&mut store, &delivery).unwrap();
    }
    let (answer, calls) = counted(&mut store, &transactions, &delivery);
    assert_eq!(answer, Ok(Answer::Delivery(DeliveryAnswer { orders: [0; 10] })));
    assert_eq!(calls, Calls { scans: 10, ..Calls::default() });
}

#[test]
fn stock_level_counts_different_low_items_of_twenty_orders() {
    use crate::workload::tpcc::load::{lines_of, orders, stock};
    let (mut store, transactions) = loaded(Mix::Standard);
    let stocks: Vec<_> = stock(SEED, 1).map(|stock| stock.s_quantity).collect();
    for d_id in 1..=10 {
        let newest = orders(SEED, 1, d_id).filter(|order| order.o_id > 2_980);
        let items: std::collections::BTreeSet<_> =
            newest.flat_map(|order| lines_of(SEED, &order)).map(|line| line.ol_i_id).collect();
        for threshold in [10, 15, 20, 101] {
            let low = |item: &&i32| stocks[**item as usize - 1] < threshold;
            let expected = items.iter().filter(low).count() as u32;
            let input = Input::StockLevel(StockLevelInput { w_id: 1, d_id, threshold });
            let answer = transactions.call(&mut store, &input);
            assert_eq!(answer, Ok(Answer::StockLevel(StockLevelAnswer { low: expected })));
        }
    }
}

#[test]
fn the_standard_mix_needs_the_standard_indexes() {
    let (store, _) = loaded(Mix::Paper);
    assert!(Transactions::bind(store.schema(), Mix::Standard).is_err());
}
