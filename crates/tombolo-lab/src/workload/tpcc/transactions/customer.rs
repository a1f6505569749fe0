//! Finding a customer: by number, or by last name (2.5.2.2, 2.6.2.2).
//!
//! By name it is, of all customers of the district with that last name in order of first name, the
//! middle one, rounded up.

use std::ops::ControlFlow;

use tombolo_engine::hints::Hints;
use tombolo_engine::procedure::Ahead;
use tombolo_engine::transaction::Reading;
use tombolo_storage::error::Result;
use tombolo_storage::key::Range;
use tombolo_storage::row::RowId;
use tombolo_storage::store::{Index, Order, Store, Table};

use super::existing;
use super::row_list::RowList;
use crate::workload::tpcc::input::CustomerInput;
use crate::workload::tpcc::schema::{Customer, CustomerByName, CustomerKey};
use crate::workload::tpcc::text::Text;

handles! {
    /// The handles that find a customer.
    #[derive(Debug)]
    pub(super) struct Customers {
        pub(super) table: Table<Customer>,
        by_id: Index<CustomerKey>,
        /// The paper's index set has none.
        by_name: Option<Index<CustomerByName>>,
    }
}

/// The customers with one last name whose rows a search remembers; there are about fifty of the
/// most frequent name, and the middle one of twice as many can be found without a second scan.
const NAMESAKES: usize = 64;

impl Customers {
    /// The row of a customer of district `d_id` of warehouse `w_id`, to be read.
    ///
    /// # Panics
    /// If the customer is named and the schema has no index of names.
    #[inline(always)]
    pub(super) fn find<S: Store>(
        &self,
        tx: &mut Reading<'_, S>,
        w_id: i32,
        d_id: i16,
        customer: &CustomerInput,
    ) -> Result<RowId> {
        match customer {
            CustomerInput::Id(c_id) => {
                existing(&self.table, tx.lookup(&self.by_id, (w_id, d_id, *c_id))?)
            }
            CustomerInput::LastName(name) => self.find_by_name(tx, w_id, d_id, name),
        }
    }

    /// The same, to be changed. One found by name is locked for reading first: a scan does not know
    /// which of the rows it meets will be changed.
    ///
    /// # Panics
    /// As [`Customers::find`].
    #[inline(always)]
    pub(super) fn find_for_update<S: Store>(
        &self,
        tx: &mut Reading<'_, S>,
        w_id: i32,
        d_id: i16,
        customer: &CustomerInput,
    ) -> Result<RowId> {
        match customer {
            CustomerInput::Id(c_id) => {
                existing(&self.table, self.find_number_for_update(tx, w_id, d_id, *c_id)?)
            }
            CustomerInput::LastName(name) => self.find_by_name(tx, w_id, d_id, name),
        }
    }

    /// The same by number.
    #[inline(always)]
    pub(super) fn find_number_for_update<S: Store>(
        &self,
        tx: &mut Reading<'_, S>,
        w_id: i32,
        d_id: i16,
        c_id: i32,
    ) -> Result<Option<RowId>> {
        tx.lookup_for_update(&self.by_id, (w_id, d_id, c_id))
    }

    /// How many entries the index of numbers has lost.
    #[inline(always)]
    pub(super) fn removals<S: Store>(&self, store: &S) -> Option<u64> {
        store.removals(&self.by_id)
    }

    /// Asks for what finding a customer by number, and reading it, will wait for; notes where it is.
    #[inline(always)]
    pub(super) fn locate<S: Store>(
        &self,
        store: &S,
        key: (i32, i16, i32),
        ahead: Ahead,
        hints: &mut Hints,
    ) {
        match ahead {
            Ahead::Keys => store.prefetch_lookup(&self.by_id, key),
            Ahead::Rows => {
                if let Some(customer) = store.find_ahead(&self.by_id, key) {
                    store.prefetch(&self.table, customer, Customer::ACCOUNT);
                    hints.push(customer);
                }
            }
        }
    }

    fn find_by_name<S: Store>(
        &self,
        tx: &mut Reading<'_, S>,
        w_id: i32,
        d_id: i16,
        name: &Text<16>,
    ) -> Result<RowId> {
        let index = self.by_name.as_ref().expect("only the standard mix names customers");
        let range = || Range::prefix((w_id, d_id, name.as_bytes()));
        let mut first = RowList::<NAMESAKES>::new();
        let mut count = 0;
        tx.scan(index, range(), Order::Forward, |row| {
            if count < NAMESAKES {
                // Whether the list is full does not matter: the rest is counted.
                let _ = first.push(row);
            }
            count += 1;
            ControlFlow::Continue(())
        })?;
        let middle = count.div_ceil(2).saturating_sub(1);
        if middle < NAMESAKES {
            return existing(&self.table, first.get(middle).copied());
        }
        let (mut before, mut found) = (middle, None);
        tx.scan(index, range(), Order::Forward, |row| {
            if before == 0 {
                found = Some(row);
                return ControlFlow::Break(());
            }
            before -= 1;
            ControlFlow::Continue(())
        })?;
        existing(&self.table, found)
    }
}
