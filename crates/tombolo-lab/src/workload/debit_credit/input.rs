//! Transaction inputs (TPK-38): account, teller, branch and amount drawn independently of each
//! other, every one equally likely.
//!
//! # Choices the paper leaves open
//! Amounts are up to 1,000.00 either way, never nothing. One request in a thousand brings a wrong
//! code: a check that never fails would not be one. That a balance does not suffice follows from the
//! amounts: it begins to happen when an account has been drawn some hundred times.

use tombolo_engine::rng::Rng;

use super::{Scale, Stream, WRONG, code};
use crate::workload::{Kind, WorkloadInput};

/// The largest amount either way, in cents.
pub const AMOUNT_MAX: i64 = 100_000;
/// One request in this many has a wrong code.
pub const WRONG_CODE_IN: u64 = 1_000;

/// The input of one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Input {
    /// The code that is to permit access to the account.
    pub code: i64,
    /// The account.
    pub account: i32,
    /// The teller.
    pub teller: i32,
    /// The branch.
    pub branch: i32,
    /// What the balances change by, in cents.
    pub amount: i32,
}

const _: () = assert!(size_of::<Input>() == 24, "inputs are stored by the million");

impl WorkloadInput for Input {
    #[inline]
    fn kind(&self) -> Kind {
        super::KIND
    }

    /// For want of permission; balances suffice until long after what is counted.
    fn aborts(&self) -> bool {
        self.code & WRONG != 0
    }
}

/// An endless stream of inputs.
#[derive(Clone, Debug)]
pub struct Generator {
    rng: Rng,
    scale: Scale,
}

impl Generator {
    /// The inputs of a database.
    #[must_use]
    pub fn new(scale: Scale) -> Self {
        Self { rng: Stream::Input.rng(scale.seed, 0), scale }
    }
}

impl Iterator for Generator {
    type Item = Input;

    fn next(&mut self) -> Option<Input> {
        let Self { rng, scale } = self;
        let mut id = |count: u32| 1 + rng.below(count.into()) as i32;
        let (account, teller, branch) =
            (id(scale.accounts()), id(scale.tellers()), id(scale.branches));
        let size = rng.between(1, AMOUNT_MAX) as i32;
        let amount = if rng.below(2) == 0 { size } else { -size };
        let wrong = if rng.below(WRONG_CODE_IN) == 0 { WRONG } else { 0 };
        let code = code(scale.seed, account) | wrong;
        Some(Input { code, account, teller, branch, amount })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_in_range_and_the_same_every_time() {
        let scale = Scale { seed: 5, branches: 3, tellers_per_branch: 4, accounts_per_branch: 50 };
        let inputs: Vec<_> = Generator::new(scale).take(20_000).collect();
        assert!(Generator::new(scale).take(20_000).eq(inputs.iter().copied()));
        assert!(
            !Generator::new(Scale { seed: 6, ..scale }).take(9).eq(inputs[..9].iter().copied())
        );
        let span = |of: fn(&Input) -> i64| {
            let all = || inputs.iter().map(of);
            (all().min().unwrap(), all().max().unwrap())
        };
        assert_eq!(span(|input| input.account.into()), (1, 150));
        assert_eq!(span(|input| input.teller.into()), (1, 12));
        assert_eq!(span(|input| input.branch.into()), (1, 3));
        let (least, most) = span(|input| input.amount.into());
        assert!(least < -99_000 && most > 99_000 && least >= -AMOUNT_MAX && most <= AMOUNT_MAX);
        assert!(inputs.iter().all(|input| input.amount != 0));
        let wrong = inputs.iter().filter(|input| input.aborts()).count();
        assert!((5..60).contains(&wrong), "{wrong} of 20,000 have a wrong code");
        let is_right = |input: &Input| input.code == code(scale.seed, input.account);
        assert!(inputs.iter().all(|input| is_right(input) != input.aborts()));
    }
}
