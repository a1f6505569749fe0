//! What follows from a ladder's rungs, or from a lattice: shares of components, the matrix call ×
//! removed component, the order-free attribution.
//!
//! Pure arithmetic on what was measured; a figure that cannot be computed is left out, never zero.

use std::collections::BTreeMap;

use super::result::{Component, Matrix, Measured, Removed, Rung, Share, Shares};

/// The measurement of one type of transaction on a profile.
type Figure = fn(&Measured, &str) -> Option<f64>;

/// What each component takes on a ladder that goes down from the first rung, in percent of the
/// first rung's cost; `remaining` is what is left when the five others are off.
pub fn components(rungs: &[Rung]) -> Shares {
    let mut shares = Shares::new();
    let Some(first) = rungs.first() else { return shares };
    for transaction in first.measured.by_transaction.keys() {
        let instructions = ladder_shares(rungs, transaction, Measured::instructions);
        let cycles = ladder_shares(rungs, transaction, Measured::cycles);
        insert_shares(&mut shares, transaction, &instructions, &cycles);
    }
    shares
}

type Percents = BTreeMap<Component, f64>;

fn insert_shares(
    shares: &mut Shares,
    transaction: &str,
    instructions: &Percents,
    cycles: &Percents,
) {
    for component in Component::ALL {
        let share = Share {
            percent_instructions: instructions.get(&component).copied(),
            percent_cycles: cycles.get(&component).copied(),
        };
        if share != Share::default() {
            shares.entry(component).or_default().insert(transaction.to_owned(), share);
        }
    }
}

/// Empty where a rung lacks the figure.
fn ladder_shares(rungs: &[Rung], transaction: &str, figure: Figure) -> Percents {
    let Some(figures) = figures(rungs.iter().map(|rung| &rung.measured), transaction, figure)
    else {
        return Percents::new();
    };
    let whole = figures[0];
    let mut percents = Percents::new();
    let mut left = whole;
    for (rung, pair) in rungs[1..].iter().zip(figures.windows(2)) {
        let Some(component) = rung.component else { return Percents::new() };
        if component == Component::Remaining {
            continue;
        }
        *percents.entry(component).or_default() += 100.0 * (pair[0] - pair[1]) / whole;
        left = pair[1];
    }
    percents.insert(Component::Remaining, 100.0 * left / whole);
    percents
}

/// The figure of every profile; `None` where one lacks it, or the first is not above 0.
fn figures<'a>(
    profiles: impl Iterator<Item = &'a Measured>,
    transaction: &str,
    figure: Figure,
) -> Option<Vec<f64>> {
    let figures: Vec<f64> =
        profiles.map(|profile| figure(profile, transaction)).collect::<Option<_>>()?;
    figures.first().is_some_and(|&first| first > 0.0).then_some(figures)
}

/// Call × removed component: what each component's rungs save in each call (LG-48, LG-50).
pub fn matrix(rungs: &[Rung]) -> Matrix {
    let mut matrix = Matrix::new();
    let Some(first) = rungs.first() else { return matrix };
    for (transaction, cost) in &first.measured.by_transaction {
        for (call, &whole) in &cost.calls {
            let at = |rung: &Rung| {
                rung.measured.by_transaction.get(transaction)?.calls.get(call).copied()
            };
            for component in Component::ALL {
                let Some((before, after)) = around(rungs, component, at) else { continue };
                let percent = |of: f64| (of > 0.0).then(|| 100.0 * (before - after) / of);
                let removed = Removed {
                    instructions: before - after,
                    percent_of_call: percent(whole),
                    percent_of_rest: percent(before),
                };
                let by_call = matrix.entry(transaction.clone()).or_default();
                by_call.entry(component).or_default().insert(call.clone(), removed);
            }
        }
    }
    matrix
}

/// A figure before a component's first rung and after its last one.
fn around(
    rungs: &[Rung],
    component: Component,
    figure: impl Fn(&Rung) -> Option<f64>,
) -> Option<(f64, f64)> {
    let first = rungs.iter().position(|rung| rung.component == Some(component))?;
    let last = rungs.iter().rposition(|rung| rung.component == Some(component))?;
    Some((figure(rungs.get(first.checked_sub(1)?)?)?, figure(&rungs[last])?))
}

/// What each of the five components takes whatever the order of removal, in percent of
/// `conventional`: Shapley values over the lattice; `remaining` is its all-off corner.
///
/// `lattice[mask]` is the point whose component `MAIN[i]` is **off** where bit `i` of `mask` is
/// set, so that `lattice[0]` is `conventional`. Empty unless there are all 32 points.
pub fn attribution(lattice: &[&Measured]) -> Shares {
    let mut shares = Shares::new();
    if lattice.len() != 1 << Component::MAIN.len() {
        return shares;
    }
    for transaction in lattice[0].by_transaction.keys() {
        let of = |figure| {
            let profiles = lattice.iter().copied();
            figures(profiles, transaction, figure).map(|costs| shapley(&costs)).unwrap_or_default()
        };
        let (instructions, cycles) = (of(Measured::instructions), of(Measured::cycles));
        insert_shares(&mut shares, transaction, &instructions, &cycles);
    }
    shares
}

/// The mean saving of each component over all orders, in percent of the first cost.
fn shapley(costs: &[f64]) -> Percents {
    let n = Component::MAIN.len();
    let factorial = |k: usize| (1..=k).product::<usize>() as f64;
    let mut percents = Percents::new();
    for (i, component) in Component::MAIN.into_iter().enumerate() {
        let bit = 1 << i;
        let without = (0..costs.len()).filter(|mask| mask & bit == 0);
        let value: f64 = without
            .map(|mask| {
                let before = mask.count_ones() as usize;
                let orders = factorial(before) * factorial(n - 1 - before) / factorial(n);
                orders * (costs[mask] - costs[mask | bit])
            })
            .sum();
        percents.insert(component, 100.0 * value / costs[0]);
    }
    percents.insert(Component::Remaining, 100.0 * costs[costs.len() - 1] / costs[0]);
    percents
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::looking_glass::paper::PRINTED;
    use crate::experiment::looking_glass::result::Cost;

    fn measured(instructions: f64) -> Measured {
        let calls = BTreeMap::from([
            ("lookup".to_owned(), 0.75 * instructions),
            ("commit".to_owned(), 0.25 * instructions),
        ]);
        let cost = Cost { instructions: Some(instructions), calls, ..Cost::default() };
        Measured {
            by_transaction: BTreeMap::from([("payment".to_owned(), cost)]),
            ..Measured::default()
        }
    }

    /// Figure 5's shares as a ladder of eleven switches.
    fn ladder() -> Vec<Rung> {
        let left = [180.0, 161.8, 155.0, 135.0, 130.0, 84.6, 61.9, 55.0, 30.0, 8.5, 8.0, 1.4];
        let rung = |(i, &instructions): (usize, &f64)| Rung {
            switch: (i > 0).then(|| format!("S{i}")),
            label: None,
            component: (i > 0).then(|| PRINTED.switches[i - 1].component),
            measured: measured(instructions),
        };
        left.iter().enumerate().map(rung).collect()
    }

    fn near(value: Option<f64>, expect: f64) {
        assert!(value.is_some_and(|value| (value - expect).abs() < 1e-9), "{value:?} {expect}");
    }

    #[test]
    fn components_sum_to_the_whole() {
        let shares = components(&ladder());
        let percent = |component| shares[&component]["payment"].percent_instructions;
        near(percent(Component::Logging), 100.0 * (161.8 - 130.0) / 180.0);
        near(percent(Component::BufferManager), 100.0 * (61.9 - 8.5) / 180.0);
        near(percent(Component::Remaining), 100.0 * 8.5 / 180.0);
        near(Some(Component::ALL.iter().filter_map(|&c| percent(c)).sum()), 100.0);
        assert_eq!(shares[&Component::Locking]["payment"].percent_cycles, None);
    }

    #[test]
    fn components_of_a_swapped_ladder_are_their_own() {
        let mut rungs = ladder();
        rungs[5].component = Some(Component::Latching);
        rungs[6].component = Some(Component::Locking);
        let percent = |c| components(&rungs)[&c]["payment"].percent_instructions;
        near(percent(Component::Locking), 100.0 * (84.6 - 61.9) / 180.0);
        near(percent(Component::Latching), 100.0 * (130.0 - 84.6) / 180.0);
    }

    #[test]
    fn a_missing_count_leaves_its_shares_out() {
        let mut rungs = ladder();
        rungs[3].measured.by_transaction.clear();
        assert!(components(&rungs).is_empty());
        assert!(components(&[]).is_empty() && matrix(&[]).is_empty());
    }

    #[test]
    fn the_matrix_says_what_each_removal_saves_in_each_call() {
        let matrix = matrix(&ladder());
        let lookup = |component| matrix["payment"][&component]["lookup"];
        near(Some(lookup(Component::Locking).instructions), 0.75 * (130.0 - 84.6));
        near(lookup(Component::Locking).percent_of_call, 100.0 * (130.0 - 84.6) / 180.0);
        near(lookup(Component::Locking).percent_of_rest, 100.0 * (130.0 - 84.6) / 130.0);
        near(Some(lookup(Component::Remaining).instructions), 0.75 * (8.5 - 1.4));
    }

    #[test]
    fn an_order_free_attribution_adds_up() {
        // Removing both locking and latching saves 6 more than either alone: half goes to each.
        let cost = |mask: usize| {
            let saved: f64 = (0..5).filter(|i| mask >> i & 1 == 1).map(|i| 2.0 + i as f64).sum();
            100.0 - saved - if mask >> 2 & 3 == 3 { 6.0 } else { 0.0 }
        };
        let points: Vec<Measured> = (0..32).map(|mask| measured(cost(mask))).collect();
        let points: Vec<&Measured> = points.iter().collect();
        let shares = attribution(&points);
        let percent = |component| shares[&component]["payment"].percent_instructions;
        near(percent(Component::BtreeKeys), 2.0);
        near(percent(Component::Locking), 4.0 + 3.0);
        near(percent(Component::Latching), 5.0 + 3.0);
        near(percent(Component::Remaining), cost(31));
        near(Some(Component::ALL.iter().filter_map(|&c| percent(c)).sum()), 100.0);
        assert!(attribution(&points[..31]).is_empty());
    }
}
