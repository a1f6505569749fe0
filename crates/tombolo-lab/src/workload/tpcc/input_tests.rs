//! Tests of the transaction inputs: shares, ranges and rules of both mixes, for a fixed seed.

use super::*;

fn generate(mix: Mix, warehouses: i32, count: usize) -> Vec<Input> {
    Generator::new(1, mix, warehouses, Constants::from_seed(1)).take(count).collect()
}

fn new_orders(inputs: &[Input]) -> Vec<NewOrderInput> {
    let order = |input: &Input| match input {
        Input::NewOrder(order) => Some(*order),
        _ => None,
    };
    inputs.iter().filter_map(order).collect()
}

fn payments(inputs: &[Input]) -> Vec<PaymentInput> {
    let payment = |input: &Input| match input {
        Input::Payment(payment) => Some(*payment),
        _ => None,
    };
    inputs.iter().filter_map(payment).collect()
}

/// Checks that `hits` of `draws` lies within four standard deviations of `percent`.
#[track_caller]
fn check_percent(hits: usize, draws: usize, percent: f64) {
    let (draws, share) = (draws as f64, percent / 100.0);
    let off = (hits as f64 - draws * share).abs() / (draws * share * (1.0 - share)).sqrt();
    assert!(off < 4.0, "{hits} of {draws} is {off:.1} deviations from {percent} %");
}

#[test]
fn streams_are_determined_by_their_arguments() {
    for mix in [Mix::Paper, Mix::Standard] {
        assert_eq!(generate(mix, 5, 1_000), generate(mix, 5, 1_000));
    }
    let constants = Constants::from_seed(1);
    let other: Vec<_> = Generator::new(2, Mix::Paper, 5, constants).take(1_000).collect();
    assert_ne!(generate(Mix::Paper, 5, 1_000), other);
}

#[test]
fn paper_mix_is_half_new_order_half_payment() {
    let inputs = generate(Mix::Paper, 5, 100_000);
    let orders = new_orders(&inputs).len();
    check_percent(orders, inputs.len(), 50.0);
    assert_eq!(orders + payments(&inputs).len(), inputs.len());
}

#[test]
fn paper_orders_have_ten_different_local_items() {
    let orders = new_orders(&generate(Mix::Paper, 5, 100_000));
    let mut invalid = 0;
    for order in &orders {
        let lines = order.lines();
        assert_eq!(lines.len(), 10);
        let items: std::collections::BTreeSet<_> = lines.iter().map(|line| line.i_id).collect();
        assert_eq!(items.len(), 10);
        assert!(lines[..9].iter().all(|line| (1..=ITEMS).contains(&line.i_id)));
        assert!(lines.iter().all(|line| line.supply_w_id == order.w_id));
        assert!(lines.iter().all(|line| (1..=10).contains(&line.quantity)));
        invalid += usize::from(lines[9].i_id == INVALID_ITEM);
    }
    check_percent(invalid, orders.len(), 1.0);
}

#[test]
fn paper_payments_stay_at_home_and_name_the_customer_by_number() {
    for payment in payments(&generate(Mix::Paper, 5, 20_000)) {
        assert_eq!((payment.c_w_id, payment.c_d_id), (payment.w_id, payment.d_id));
        assert!(matches!(payment.customer, CustomerInput::Id(1..=3_000)));
        assert!((money(1, 0)..=money(5_000, 0)).contains(&payment.h_amount));
    }
}

#[test]
fn every_hundred_of_the_standard_mix_has_the_same_shares() {
    for hundred in generate(Mix::Standard, 5, 10_000).chunks(100) {
        let count = |kind| hundred.iter().filter(|input| input.kind() == kind).count();
        let kinds = [kinds::NEW_ORDER, kinds::PAYMENT, kinds::ORDER_STATUS, kinds::DELIVERY];
        assert_eq!(kinds.map(count), [45, 43, 4, 4]);
        assert_eq!(count(kinds::STOCK_LEVEL), 4);
    }
}

#[test]
fn standard_decks_are_shuffled() {
    let inputs = generate(Mix::Standard, 5, 100_000);
    let first: Vec<_> = inputs.chunks(100).map(|hundred| hundred[0].kind()).collect();
    check_percent(first.iter().filter(|&&kind| kind == kinds::PAYMENT).count(), 1_000, 43.0);
    check_percent(first.iter().filter(|&&kind| kind == kinds::NEW_ORDER).count(), 1_000, 45.0);
}

#[test]
fn standard_orders_follow_the_percentages() {
    let orders = new_orders(&generate(Mix::Standard, 5, 200_000));
    let mut counts = [0; 16];
    let (mut lines, mut remote, mut invalid) = (0, 0, 0);
    for order in &orders {
        counts[order.lines().len()] += 1;
        let last = order.lines().len() - 1;
        for (place, line) in order.lines().iter().enumerate() {
            lines += 1;
            remote += usize::from(line.supply_w_id != order.w_id);
            assert!((1..=5).contains(&line.supply_w_id));
            assert!((1..=10).contains(&line.quantity));
            match line.i_id {
                INVALID_ITEM => assert_eq!(place, last),
                item => assert!((1..=ITEMS).contains(&item)),
            }
        }
        invalid += usize::from(order.lines()[last].i_id == INVALID_ITEM);
    }
    assert_eq!(counts[..5], [0; 5]);
    counts[5..].iter().for_each(|&count| check_percent(count, orders.len(), 100.0 / 11.0));
    check_percent(remote, lines, 1.0);
    check_percent(invalid, orders.len(), 1.0);
}

#[test]
fn standard_payments_follow_the_percentages() {
    let payments = payments(&generate(Mix::Standard, 5, 200_000));
    let remote = payments.iter().filter(|payment| payment.c_w_id != payment.w_id).count();
    check_percent(remote, payments.len(), 15.0);
    let by_name = |payment: &&PaymentInput| matches!(payment.customer, CustomerInput::LastName(_));
    check_percent(payments.iter().filter(by_name).count(), payments.len(), 60.0);
    for warehouse in 1..=5 {
        let paid = payments.iter().filter(|payment| payment.w_id == warehouse).count();
        check_percent(paid, payments.len(), 20.0);
        let abroad =
            |payment: &&PaymentInput| payment.c_w_id == warehouse && payment.w_id != payment.c_w_id;
        check_percent(payments.iter().filter(abroad).count(), payments.len(), 3.0);
    }
    for payment in payments.iter().filter(|payment| payment.c_w_id == payment.w_id) {
        assert_eq!(payment.c_d_id, payment.d_id);
    }
    let districts: std::collections::BTreeSet<_> =
        payments.iter().map(|payment| payment.c_d_id).collect();
    assert_eq!(districts, (1..=10).collect());
}

#[test]
fn standard_queries_and_deliveries_stay_in_range() {
    let inputs = generate(Mix::Standard, 5, 100_000);
    let (mut statuses, mut by_name) = (0, 0);
    let mut thresholds = std::collections::BTreeSet::new();
    let mut carriers = std::collections::BTreeSet::new();
    for input in &inputs {
        match input {
            Input::OrderStatus(status) => {
                statuses += 1;
                by_name += usize::from(matches!(status.customer, CustomerInput::LastName(_)));
                assert!((1..=5).contains(&status.w_id) && (1..=10).contains(&status.d_id));
            }
            Input::StockLevel(level) => assert!({
                thresholds.insert(level.threshold);
                (1..=5).contains(&level.w_id) && (1..=10).contains(&level.d_id)
            }),
            Input::Delivery(delivery) => {
                carriers.insert(delivery.carrier_id);
                assert!((1..=5).contains(&delivery.w_id));
            }
            Input::NewOrder(_) | Input::Payment(_) => {}
        }
    }
    check_percent(by_name, statuses, 60.0);
    assert_eq!(thresholds, (10..=20).collect());
    assert_eq!(carriers, (1..=10).collect());
}

#[test]
fn times_advance_by_a_millisecond_from_the_second_day() {
    for (place, input) in generate(Mix::Standard, 5, 1_000).iter().enumerate() {
        let expected = DAY + place as i64 * MILLISECOND;
        match input {
            Input::NewOrder(order) => assert_eq!(order.entry_d, expected),
            Input::Payment(payment) => assert_eq!(payment.h_date, expected),
            Input::Delivery(delivery) => assert_eq!(delivery.delivery_d, expected),
            Input::OrderStatus(_) | Input::StockLevel(_) => {}
        }
    }
}

#[test]
fn a_single_warehouse_has_nothing_remote() {
    let inputs = generate(Mix::Standard, 1, 20_000);
    let mut lines = new_orders(&inputs).into_iter().flat_map(|order| order.lines().to_vec());
    assert!(lines.all(|line| line.supply_w_id == 1));
    assert!(payments(&inputs).iter().all(|payment| payment.c_w_id == 1));
}

#[test]
fn callers_have_homes_and_shares_of_their_own() {
    let all = Generator::new(1, Mix::Standard, 6, Constants::from_seed(1));
    let of = |caller, remote| {
        let own = all.clone().of_caller(1, caller, 3..=4).with_remote(remote);
        own.take(10_000).collect::<Vec<_>>()
    };
    let never = of(0, Remote { payments: 0, lines: 0 });
    assert_ne!(never, of(1, Remote { payments: 0, lines: 0 }));
    let is_home = |w_id: i32| (3..=4).contains(&w_id);
    for payment in payments(&never) {
        assert!(is_home(payment.w_id) && payment.c_w_id == payment.w_id);
    }
    let at_home =
        |order: &NewOrderInput| order.lines().iter().all(|line| line.supply_w_id == order.w_id);
    assert!(new_orders(&never).iter().all(|order| is_home(order.w_id) && at_home(order)));
    let often = of(0, Remote { payments: 100, lines: 30 });
    assert!(payments(&often).iter().all(|payment| payment.c_w_id != payment.w_id));
    let orders = new_orders(&often);
    let lines = orders.iter().flat_map(|order| {
        order.lines().iter().map(|line| (line.supply_w_id != order.w_id, order.w_id))
    });
    let lines: Vec<_> = lines.collect();
    check_percent(lines.iter().filter(|(remote, _)| *remote).count(), lines.len(), 30.0);
    assert!(lines.iter().all(|(_, home)| is_home(*home)));
}
