//! Transaction inputs of both mixes (2.4 – 2.8, 5.2.3; LG-31 … LG-33).
//!
//! # What it is
//! [`Generator`] is an endless, deterministic stream of [`Input`]s. An input holds every value a
//! transaction puts into a row that it did not read from one: amounts, carriers, and every time,
//! which counts one millisecond per input from 2000-01-02. A driver makes its inputs beforehand, in
//! one large array, so they are `Copy`, hold no pointer and stay within four cache lines.
//!
//! # The mixes
//! *Paper*: New Order and Payment, each with probability one half; always ten different items, all
//! supplied by the home warehouse; Payment at home, its customer by number. *Standard*: dealt from
//! a shuffled deck of 100 — 45 New Order, 43 Payment, 4 Order Status, 4 Delivery, 4 Stock Level —
//! so that each hundred meets the minimum shares of 5.2.3 exactly; lines, customers and warehouses
//! by the specification's percentages. In both, each New Order has with probability 1 % an item
//! number that no item has, on its last line.
//!
//! # Choices the specification leaves open
//! There are no terminals: every input draws its home warehouse, and Stock Level its district. With
//! a single warehouse nothing is remote.

use std::ops::RangeInclusive;

use tombolo_engine::rng::Rng;

use super::kinds;
use super::nurand::Constants;
use super::text::{Text, last_name};
use super::{DAY, DISTRICTS, ITEMS, MILLISECOND, ORDER_LINES_MAX, ORDER_LINES_MIN, Stream, money};
use crate::workload::{Kind, WorkloadInput};

/// The item number of a New Order that must roll back: no item has it.
pub const INVALID_ITEM: i32 = ITEMS + 1;

/// The items of every New Order in the paper's mix (LG-32).
pub const PAPER_ORDER_LINES: usize = 10;

named! {
    /// Which transactions run, in which shares.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Mix by name {
        /// The paper's variant of New Order and Payment, half each.
        Paper = "paper",
        /// The specification's five transactions.
        Standard = "standard",
    }
}

/// One line of a New Order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineInput {
    /// OL_I_ID.
    pub i_id: i32,
    /// OL_SUPPLY_W_ID.
    pub supply_w_id: i32,
    /// OL_QUANTITY.
    pub quantity: i16,
}

/// The input of a New Order (2.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewOrderInput {
    /// O_ENTRY_D.
    pub entry_d: i64,
    /// The home warehouse.
    pub w_id: i32,
    /// The customer.
    pub c_id: i32,
    /// The home district.
    pub d_id: i16,
    line_count: u8,
    line_array: [LineInput; ORDER_LINES_MAX as usize],
}

impl NewOrderInput {
    /// The lines, the first being OL_NUMBER 1.
    #[inline]
    #[must_use]
    pub fn lines(&self) -> &[LineInput] {
        &self.line_array[..usize::from(self.line_count)]
    }

    /// The order with some of its lines only.
    pub(super) fn only(&self, is_kept: impl Fn(usize, &LineInput) -> bool) -> Self {
        let mut kept = Self { line_count: 0, ..*self };
        for (place, line) in self.lines().iter().enumerate() {
            if is_kept(place, line) {
                kept.line_array[usize::from(kept.line_count)] = *line;
                kept.line_count += 1;
            }
        }
        kept
    }

    /// An order of these lines.
    ///
    /// # Panics
    /// When there are more than 15.
    pub(super) fn of_lines(
        entry_d: i64,
        w_id: i32,
        d_id: i16,
        c_id: i32,
        lines: &[LineInput],
    ) -> Self {
        let mut line_array = [LineInput::default(); ORDER_LINES_MAX as usize];
        line_array[..lines.len()].copy_from_slice(lines);
        Self { entry_d, w_id, c_id, d_id, line_count: lines.len() as u8, line_array }
    }

    /// Replaces the item of the line at `place`.
    #[cfg(test)]
    pub(super) fn set_item(&mut self, place: usize, i_id: i32) {
        assert!(place < usize::from(self.line_count));
        self.line_array[place].i_id = i_id;
    }
}

/// How a transaction names its customer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CustomerInput {
    /// By C_ID.
    Id(i32),
    /// By C_LAST: the middle one of all that have it, by C_FIRST.
    LastName(Text<16>),
}

/// The input of a Payment (2.5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaymentInput {
    /// H_DATE.
    pub h_date: i64,
    /// H_AMOUNT, in cents.
    pub h_amount: i64,
    /// The warehouse paid to.
    pub w_id: i32,
    /// The customer's warehouse.
    pub c_w_id: i32,
    /// The district paid to.
    pub d_id: i16,
    /// The customer's district.
    pub c_d_id: i16,
    /// The customer.
    pub customer: CustomerInput,
}

/// The input of an Order Status (2.6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderStatusInput {
    /// The customer's warehouse.
    pub w_id: i32,
    /// The customer's district.
    pub d_id: i16,
    /// The customer.
    pub customer: CustomerInput,
}

/// The input of a Delivery (2.7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryInput {
    /// OL_DELIVERY_D.
    pub delivery_d: i64,
    /// The warehouse that delivers.
    pub w_id: i32,
    /// O_CARRIER_ID.
    pub carrier_id: i16,
}

/// The input of a Stock Level (2.8.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StockLevelInput {
    /// The warehouse.
    pub w_id: i32,
    /// The district.
    pub d_id: i16,
    /// Stock below this quantity counts as low.
    pub threshold: i64,
}

/// The input of one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Of a New Order.
    NewOrder(NewOrderInput),
    /// Of a Payment.
    Payment(PaymentInput),
    /// Of an Order Status.
    OrderStatus(OrderStatusInput),
    /// Of a Delivery.
    Delivery(DeliveryInput),
    /// Of a Stock Level.
    StockLevel(StockLevelInput),
}

const _: () = assert!(size_of::<Input>() <= 256, "inputs are stored by the million");

impl WorkloadInput for Input {
    #[inline]
    fn kind(&self) -> Kind {
        match self {
            Self::NewOrder(_) => kinds::NEW_ORDER,
            Self::Payment(_) => kinds::PAYMENT,
            Self::OrderStatus(_) => kinds::ORDER_STATUS,
            Self::Delivery(_) => kinds::DELIVERY,
            Self::StockLevel(_) => kinds::STOCK_LEVEL,
        }
    }

    /// For an item number that no item has.
    fn aborts(&self) -> bool {
        let Self::NewOrder(order) = self else { return false };
        order.lines().last().is_some_and(|line| line.i_id == INVALID_ITEM)
    }
}

/// The cards of the standard mix's deck.
const DECK: usize = 100;

/// The deck before it is shuffled.
const fn new_deck() -> [Kind; DECK] {
    let mut deck = [kinds::NEW_ORDER; DECK];
    let mut card = 0;
    while card < DECK {
        deck[card] = match card {
            0..43 => kinds::PAYMENT,
            43..47 => kinds::ORDER_STATUS,
            47..51 => kinds::DELIVERY,
            51..55 => kinds::STOCK_LEVEL,
            _ => kinds::NEW_ORDER,
        };
        card += 1;
    }
    deck
}

/// How often a transaction involves another warehouse than its home, in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Payments whose customer is of another one.
    pub payments: u64,
    /// Lines of New Orders that another one supplies.
    pub lines: u64,
}

impl Remote {
    /// As often as the mix has it: never in the paper's, as the specification says in the other.
    pub const fn of(mix: Mix) -> Self {
        match mix {
            Mix::Paper => Self { payments: 0, lines: 0 },
            Mix::Standard => Self { payments: 15, lines: 1 },
        }
    }
}

/// An endless stream of transaction inputs, the same for the same arguments.
#[derive(Clone, Debug)]
pub struct Generator {
    rng: Rng,
    mix: Mix,
    warehouses: i32,
    homes: RangeInclusive<i32>,
    remote: Remote,
    constants: Constants,
    deck: [Kind; DECK],
    /// Cards of the deck already dealt.
    dealt: usize,
    /// The time of the next input.
    now: i64,
}

impl Generator {
    /// The stream of `seed` over warehouses 1 to `warehouses`.
    ///
    /// `constants` are those of the load that the transactions will run on.
    ///
    /// # Panics
    /// If `warehouses` is not positive.
    #[must_use]
    pub fn new(seed: u64, mix: Mix, warehouses: i32, constants: Constants) -> Self {
        assert!(warehouses > 0, "a database has at least one warehouse, not {warehouses}");
        let rng = Stream::Input.rng(seed, []);
        let (homes, remote) = (1..=warehouses, Remote::of(mix));
        let deck = new_deck();
        Self { rng, mix, warehouses, homes, remote, constants, deck, dealt: DECK, now: DAY }
    }

    /// The stream of one of several callers, by its number: the home warehouses of its transactions are among `homes`.
    #[must_use]
    pub fn of_caller(self, seed: u64, number: i32, homes: RangeInclusive<i32>) -> Self {
        Self { rng: Stream::Input.rng(seed, [number]), homes, ..self }
    }

    /// The stream with another share of remote customers and lines.
    #[must_use]
    pub fn with_remote(self, remote: Remote) -> Self {
        Self { remote, ..self }
    }

    /// The next input.
    pub fn next_input(&mut self) -> Input {
        let now = self.now;
        self.now += MILLISECOND;
        match self.next_kind() {
            kinds::NEW_ORDER => Input::NewOrder(self.new_order(now)),
            kinds::PAYMENT => Input::Payment(self.payment(now)),
            kinds::ORDER_STATUS => Input::OrderStatus(self.order_status()),
            kinds::DELIVERY => Input::Delivery(self.delivery(now)),
            kinds::STOCK_LEVEL => Input::StockLevel(self.stock_level()),
            _ => unreachable!("the deck has no such card"),
        }
    }

    fn next_kind(&mut self) -> Kind {
        match self.mix {
            Mix::Paper if self.rng.below(2) == 0 => kinds::NEW_ORDER,
            Mix::Paper => kinds::PAYMENT,
            Mix::Standard => {
                if self.dealt == DECK {
                    self.rng.shuffle(&mut self.deck);
                    self.dealt = 0;
                }
                self.dealt += 1;
                self.deck[self.dealt - 1]
            }
        }
    }

    /// True with a probability of `percent` in a hundred; what never happens draws nothing.
    fn happens(&mut self, percent: u64) -> bool {
        percent > 0 && self.rng.below(100) < percent
    }

    fn home_warehouse(&mut self) -> i32 {
        self.rng.between((*self.homes.start()).into(), (*self.homes.end()).into()) as i32
    }

    fn district(&mut self) -> i16 {
        self.rng.between(1, DISTRICTS.into()) as i16
    }

    /// A warehouse other than `home`, or `home` if there is no other.
    fn remote_warehouse(&mut self, home: i32) -> i32 {
        if self.warehouses == 1 {
            return home;
        }
        let other = self.rng.between(1, i64::from(self.warehouses) - 1) as i32;
        if other < home { other } else { other + 1 }
    }

    fn new_order(&mut self, now: i64) -> NewOrderInput {
        let w_id = self.home_warehouse();
        let d_id = self.district();
        let c_id = self.constants.customer(&mut self.rng);
        let mut lines = [LineInput::default(); ORDER_LINES_MAX as usize];
        let count = match self.mix {
            Mix::Paper => PAPER_ORDER_LINES,
            Mix::Standard => self.rng.between(ORDER_LINES_MIN, ORDER_LINES_MAX) as usize,
        };
        for number in 0..count {
            let (before, rest) = lines.split_at_mut(number);
            rest[0] = self.line(w_id, before);
        }
        if self.happens(1) {
            lines[count - 1].i_id = INVALID_ITEM;
        }
        NewOrderInput { entry_d: now, w_id, c_id, d_id, line_count: count as u8, line_array: lines }
    }

    /// One line of an order of warehouse `home`, given the lines before it.
    fn line(&mut self, home: i32, before: &[LineInput]) -> LineInput {
        let i_id = loop {
            let candidate = self.constants.item(&mut self.rng);
            let repeated = before.iter().any(|line| line.i_id == candidate);
            if !(repeated && self.mix == Mix::Paper) {
                break candidate;
            }
        };
        let remote = self.happens(self.remote.lines);
        let supply_w_id = if remote { self.remote_warehouse(home) } else { home };
        LineInput { i_id, supply_w_id, quantity: self.rng.between(1, 10) as i16 }
    }

    /// A customer of a district: by last name in 60 % of the standard mix, else by number.
    fn customer(&mut self) -> CustomerInput {
        if self.mix == Mix::Standard && self.happens(60) {
            CustomerInput::LastName(last_name(self.constants.last_name(&mut self.rng)))
        } else {
            CustomerInput::Id(self.constants.customer(&mut self.rng))
        }
    }

    fn payment(&mut self, now: i64) -> PaymentInput {
        let w_id = self.home_warehouse();
        let d_id = self.district();
        let remote = self.happens(self.remote.payments);
        let (c_w_id, c_d_id) =
            if remote { (self.remote_warehouse(w_id), self.district()) } else { (w_id, d_id) };
        let customer = self.customer();
        let h_amount = self.rng.between(money(1, 0), money(5_000, 0));
        PaymentInput { h_date: now, h_amount, w_id, c_w_id, d_id, c_d_id, customer }
    }

    fn order_status(&mut self) -> OrderStatusInput {
        let w_id = self.home_warehouse();
        let d_id = self.district();
        OrderStatusInput { w_id, d_id, customer: self.customer() }
    }

    fn delivery(&mut self, now: i64) -> DeliveryInput {
        let w_id = self.home_warehouse();
        DeliveryInput { delivery_d: now, w_id, carrier_id: self.rng.between(1, 10) as i16 }
    }

    fn stock_level(&mut self) -> StockLevelInput {
        let w_id = self.home_warehouse();
        let d_id = self.district();
        StockLevelInput { w_id, d_id, threshold: self.rng.between(10, 20) }
    }
}

impl Iterator for Generator {
    type Item = Input;

    fn next(&mut self) -> Option<Input> {
        Some(self.next_input())
    }
}

#[cfg(test)]
#[path = "input_tests.rs"]
mod tests;
