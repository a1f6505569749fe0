//! The transactions of a count: in groups by kind, those that abort in one of their own.
//!
//! Each group is a stretch of the mix in which only that kind is counted. Not here: counting
//! (`run/counting.rs`).

use crate::counters;
use crate::workload::{Kind, Workload, WorkloadInput};

/// Transactions before the first that is counted.
pub(crate) const UNCOUNTED: usize = 200;
/// Added to a kind's number for its aborting transactions.
const ABORTS: u8 = 8;

/// The meter's number for the transaction of `input`.
#[inline]
pub fn kind_of(input: &impl WorkloadInput) -> counters::Kind {
    number(input.kind(), input.aborts())
}

const fn number(kind: Kind, aborts: bool) -> counters::Kind {
    counters::Kind(kind.place() as u8 + if aborts { ABORTS } else { 0 })
}

/// Transactions of which one kind is counted.
#[derive(Clone, Debug)]
pub struct Group<I> {
    /// Its name: the kind's, with `_aborted` where those are counted that abort.
    pub name: String,
    /// The kind of transaction that is counted.
    pub kind: counters::Kind,
    /// All transactions that run meanwhile.
    pub inputs: Vec<I>,
}

/// The inputs of one count.
#[derive(Clone, Debug)]
pub struct CountInputs<I> {
    /// Those before.
    pub uncounted: Vec<I>,
    /// Those during which each group is counted.
    pub groups: Vec<Group<I>>,
}

impl<I: WorkloadInput> CountInputs<I> {
    /// The first inputs of `workload`: `counted` transactions for each kind.
    pub fn new<W: Workload<Input = I>>(workload: &W, counted: usize) -> Self {
        let mut inputs = workload.inputs();
        let uncounted = inputs.by_ref().take(UNCOUNTED).collect();
        let (kinds, aborting) = workload.counted();
        let mut group = |kind: Kind, aborts: bool| {
            let suffix = if aborts { "_aborted" } else { "" };
            let name = format!("{}{suffix}", W::KINDS[kind.place()]);
            Group {
                name,
                kind: number(kind, aborts),
                inputs: inputs.by_ref().take(counted).collect(),
            }
        };
        let mut groups: Vec<_> = kinds.iter().map(|&kind| group(kind, false)).collect();
        groups.push(group(aborting, true));
        Self { uncounted, groups }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::tpcc::input::{Input, Mix};
    use crate::workload::tpcc::loader::Scale;

    fn inputs(mix: Mix) -> CountInputs<Input> {
        CountInputs::new(&Scale { seed: 1, warehouses: 1, mix }, 1_000)
    }

    #[test]
    fn groups_cover_the_mix_and_what_aborts() {
        let names = |mix| inputs(mix).groups.iter().map(|g| g.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(Mix::Paper), ["new_order", "payment", "new_order_aborted"]);
        assert_eq!(names(Mix::Standard).len(), 6);
        for group in inputs(Mix::Standard).groups {
            assert_eq!(group.inputs.len(), 1_000);
            assert!(
                group.inputs.iter().any(|input| kind_of(input) == group.kind),
                "{}",
                group.name
            );
        }
    }

    #[test]
    fn aborting_orders_have_a_number_of_their_own() {
        let all = inputs(Mix::Paper).groups.into_iter().flat_map(|group| group.inputs);
        let (bad, good): (Vec<_>, Vec<_>) = all.partition(WorkloadInput::aborts);
        assert!(bad.len() > 5 && bad.len() < 50, "one in a hundred orders: {}", bad.len());
        assert!(good.iter().all(|input| kind_of(input).0 < ABORTS));
        assert!(bad.iter().all(|input| kind_of(input).0 == ABORTS));
    }
}
