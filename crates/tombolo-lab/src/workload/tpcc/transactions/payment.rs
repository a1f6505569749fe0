//! Payment (2.5): a customer pays a district.
//!
//! # Calls (LG-34)
//! By number: 3 look-ups and 3 pins (district, warehouse, customer), 3 updates, 1 create, no index
//! entry. By name, a scan takes the place of the customer's look-up.

use tombolo_engine::hints::Hints;
use tombolo_engine::procedure::{Ahead, Procedure};
use tombolo_engine::transaction::{Committed, Reading, Stop, Writing};
use tombolo_storage::error::{Result, SchemaError};
use tombolo_storage::row::{RowId, RowMut};
use tombolo_storage::schema::Schema;
use tombolo_storage::store::{Index, Store, Table};

use super::customer::Customers;
use super::existing;
use crate::workload::loading::Fill;
use crate::workload::resolve::Resolve;
use crate::workload::tpcc::input::{CustomerInput, PaymentInput};
use crate::workload::tpcc::schema::{
    Customer, District, DistrictKey, History, HistoryRow, Warehouse, WarehouseKey,
};
use crate::workload::tpcc::text::Text;

/// What a Payment returns to the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaymentAnswer {
    /// C_ID.
    pub c_id: i32,
    /// C_LAST.
    pub c_last: Text<16>,
    /// C_CREDIT.
    pub c_credit: Text<2>,
    /// C_CREDIT_LIM, in cents.
    pub c_credit_lim: i64,
    /// C_DISCOUNT, in 1/10,000.
    pub c_discount: i64,
    /// C_BALANCE after the payment, in cents.
    pub c_balance: i64,
}

handles! {
    /// The transaction, bound.
    #[derive(Debug)]
    pub struct Payment {
        warehouse: Table<Warehouse>,
        district: Table<District>,
        history: Table<History>,
        warehouse_key: Index<WarehouseKey>,
        district_key: Index<DistrictKey>,
        pub(super) customers: Customers,
    }
}

impl Procedure for Payment {
    type Input = PaymentInput;
    type Answer = PaymentAnswer;

    fn bind(schema: &Schema) -> Result<Self, SchemaError> {
        Resolve::resolve(schema)
    }

    #[inline(always)]
    fn removals<S: Store>(&self, store: &S) -> Option<u64> {
        self.customers.removals(store)
    }

    /// The customer, if its number is known.
    #[inline(always)]
    fn locate<S: Store>(&self, store: &S, input: &PaymentInput, ahead: Ahead, hints: &mut Hints) {
        if let CustomerInput::Id(c_id) = input.customer {
            self.customers.locate(store, (input.c_w_id, input.c_d_id, c_id), ahead, hints);
        }
    }

    #[inline]
    fn run<S: Store>(
        &self,
        tx: Reading<'_, S>,
        input: &PaymentInput,
    ) -> Result<Committed<PaymentAnswer>, Stop> {
        self.run_located(tx, input, &[])
    }

    #[inline]
    fn run_located<S: Store>(
        &self,
        mut tx: Reading<'_, S>,
        input: &PaymentInput,
        located: &[RowId],
    ) -> Result<Committed<PaymentAnswer>, Stop> {
        let (w_id, d_id) = (input.c_w_id, input.c_d_id);
        let customer = match *located {
            [customer] => customer,
            _ => self.customers.find_for_update(&mut tx, w_id, d_id, &input.customer)?,
        };
        self.pay(tx, input, customer)
    }
}

impl Payment {
    /// The same by a customer's number only, as the paper measures it: without the code of the
    /// search by name.
    ///
    /// # Errors
    /// As [`Procedure::run`], and when the customer is named.
    #[inline]
    pub(super) fn run_by_number<S: Store>(
        &self,
        mut tx: Reading<'_, S>,
        input: &PaymentInput,
    ) -> Result<Committed<PaymentAnswer>, Stop> {
        let (w_id, d_id) = (input.c_w_id, input.c_d_id);
        let found = match input.customer {
            CustomerInput::Id(c_id) => {
                self.customers.find_number_for_update(&mut tx, w_id, d_id, c_id)?
            }
            CustomerInput::LastName(_) => None,
        };
        let customer = existing(&self.customers.table, found)?;
        self.pay(tx, input, customer)
    }

    #[inline(always)]
    fn pay<S: Store>(
        &self,
        mut tx: Reading<'_, S>,
        input: &PaymentInput,
        customer: RowId,
    ) -> Result<Committed<PaymentAnswer>, Stop> {
        tx.prefetch(&self.customers.table, customer, Customer::ACCOUNT);
        let home = self.find_home(&mut tx, input)?;
        let mut tx = tx.write();
        // The customer last: its row has been asked for, and until now nothing depends on it.
        self.take_in(&mut tx, input, &home)?;
        let answer = self.charge(&mut tx, customer, input)?;
        self.note(&mut tx, input, answer.c_id, home.h_data)?;
        tx.commit(answer)
    }
}

/// What a Payment finds at the warehouse that is paid to.
pub(super) struct Home {
    district: RowId,
    warehouse: RowId,
    pub(super) h_data: Text<24>,
}

/// The steps of the transaction: two at the warehouse that is paid to, one at the customer's.
impl Payment {
    /// Finds the district and the warehouse that are paid to.
    #[inline(always)]
    pub(super) fn find_home<S: Store>(
        &self,
        tx: &mut Reading<'_, S>,
        input: &PaymentInput,
    ) -> Result<Home> {
        let district = tx.lookup_for_update(&self.district_key, (input.w_id, input.d_id))?;
        let district = existing(&self.district, district)?;
        let warehouse = tx.lookup_for_update(&self.warehouse_key, input.w_id)?;
        let warehouse = existing(&self.warehouse, warehouse)?;
        let h_data = history_data(
            tx.pin(&self.warehouse, warehouse)?.get(Warehouse::W_NAME),
            tx.pin(&self.district, district)?.get(District::D_NAME),
        );
        Ok(Home { district, warehouse, h_data })
    }

    /// Adds the amount to what the district and the warehouse took in.
    #[inline(always)]
    pub(super) fn take_in<S: Store>(
        &self,
        tx: &mut Writing<'_, S>,
        input: &PaymentInput,
        home: &Home,
    ) -> Result<()> {
        tx.update(&self.district, home.district, District::PAID, |row| {
            row.set(District::D_YTD, row.get(District::D_YTD) + input.h_amount);
        })?;
        tx.update(&self.warehouse, home.warehouse, Warehouse::PAID, |row| {
            row.set(Warehouse::W_YTD, row.get(Warehouse::W_YTD) + input.h_amount);
        })
    }

    /// Stores the payment of customer `c_id`.
    #[inline(always)]
    pub(super) fn note<S: Store>(
        &self,
        tx: &mut Writing<'_, S>,
        input: &PaymentInput,
        c_id: i32,
        h_data: Text<24>,
    ) -> Result<()> {
        let history = HistoryRow {
            h_c_id: c_id,
            h_c_d_id: input.c_d_id,
            h_c_w_id: input.c_w_id,
            h_d_id: input.d_id,
            h_w_id: input.w_id,
            h_date: input.h_date,
            h_amount: input.h_amount,
            h_data,
        };
        tx.create(&self.history, |row| history.fill(row)).map(|_| ())
    }

    /// Changes the customer's balance and counts, and C_DATA where the credit is bad.
    #[inline(always)]
    pub(super) fn charge<S: Store>(
        &self,
        tx: &mut Writing<'_, S>,
        customer: RowId,
        input: &PaymentInput,
    ) -> Result<PaymentAnswer> {
        let answer = {
            let row = tx.pin(&self.customers.table, customer)?;
            PaymentAnswer {
                c_id: row.get(Customer::C_ID),
                c_last: Text::from_row(row.get(Customer::C_LAST)),
                c_credit: Text::from_row(row.get(Customer::C_CREDIT)),
                c_credit_lim: row.get(Customer::C_CREDIT_LIM),
                c_discount: row.get(Customer::C_DISCOUNT),
                c_balance: row.get(Customer::C_BALANCE) - input.h_amount,
            }
        };
        if answer.c_credit.as_bytes() != b"BC" {
            tx.update(&self.customers.table, customer, Customer::PAID, |row| {
                pay_balance(row, input, &answer);
            })?;
            return Ok(answer);
        }
        tx.update(&self.customers.table, customer, Customer::PAID_BAD, |row| {
            pay_balance(row, input, &answer);
            let mut data = [0; C_DATA];
            let len = bad_credit_data(&mut data, input, answer.c_id, row.get(Customer::C_DATA));
            row.set(Customer::C_DATA, &data[..len]);
        })?;
        Ok(answer)
    }
}

/// H_DATA: W_NAME and D_NAME with four blanks between (2.5.2.2).
#[inline(always)]
pub(crate) fn history_data(w_name: &[u8], d_name: &[u8]) -> Text<24> {
    let mut data = Text::EMPTY;
    [w_name, b"    ", d_name].into_iter().for_each(|part| data.push_short(part));
    data
}

/// Changes the customer's balance and counts.
#[inline(always)]
fn pay_balance(row: &mut RowMut<'_, Customer>, input: &PaymentInput, answer: &PaymentAnswer) {
    row.set(Customer::C_BALANCE, answer.c_balance);
    row.set(Customer::C_YTD_PAYMENT, row.get(Customer::C_YTD_PAYMENT) + input.h_amount);
    row.set(Customer::C_PAYMENT_CNT, row.get(Customer::C_PAYMENT_CNT) + 1);
}

/// The width of C_DATA.
const C_DATA: usize = 500;

/// 2.5.2.2: writes the payment's ids and amount and then `old` into `data`, cut at its end; the
/// length.
fn bad_credit_data(data: &mut [u8; C_DATA], input: &PaymentInput, c_id: i32, old: &[u8]) -> usize {
    let whole = [
        i64::from(c_id),
        input.c_d_id.into(),
        input.c_w_id.into(),
        input.d_id.into(),
        input.w_id.into(),
        input.h_amount / 100,
    ];
    let mut end = 0;
    for number in whole {
        end = push_number(data, end, number.unsigned_abs());
        data[end] = b' ';
        end += 1;
    }
    let cents = (input.h_amount % 100) as u8;
    let tail = [b'.', b'0' + cents / 10, b'0' + cents % 10, b'|'];
    let start = end - 1;
    end = start + tail.len();
    data[start..end].copy_from_slice(&tail);
    let kept = old.len().min(C_DATA - end);
    data[end..end + kept].copy_from_slice(&old[..kept]);
    end + kept
}

/// Writes `number` in decimal at `start`; where it ends.
#[inline]
fn push_number(data: &mut [u8; C_DATA], start: usize, mut number: u64) -> usize {
    const DIGITS_MAX: usize = 20;
    let mut digits = [0; DIGITS_MAX];
    let mut first = DIGITS_MAX;
    loop {
        first -= 1;
        digits[first] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    let end = start + DIGITS_MAX - first;
    data[start..end].copy_from_slice(&digits[first..]);
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(old_len: usize, expected_len: usize) {
        let input = PaymentInput {
            h_date: 0,
            h_amount: 123_405,
            w_id: 5,
            c_w_id: 4,
            d_id: 10,
            c_d_id: 9,
            customer: CustomerInput::Id(7),
        };
        let mut data = [0; C_DATA];
        let len = bad_credit_data(&mut data, &input, 7, &vec![b'x'; old_len]);
        assert_eq!(len, expected_len);
        assert!(data.starts_with(b"7 9 4 10 5 1234.05|x"));
        assert!(data[19..len].iter().all(|&byte| byte == b'x'));
    }

    #[test]
    fn bad_credit_data_grows_in_front_and_is_cut_at_500() {
        check(300, 319);
        check(481, 500);
        check(500, 500);
    }

    #[test]
    fn history_data_joins_the_names() {
        assert_eq!(history_data(b"warehouse0", b"district00").as_str(), "warehouse0    district00");
        assert_eq!(history_data(b"ware", b"d").as_str(), "ware    d");
    }
}
