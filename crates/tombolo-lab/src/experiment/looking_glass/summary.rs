//! What follows from the profiles that were measured: a result of `dissect`.
//!
//! Not here: arithmetic on rungs (`derive.rs`), measuring.

use std::collections::BTreeMap;

use tombolo_storage::log::Durability;

use super::ladder::{CONVENTIONAL, IF_VARIANT, LATTICE_POINTS, Ladder, Step};
use super::measure::Profile;
use super::plan::DissectPlan;
use super::result::{
    Alone, Component, Count, Dissection, IfVariant, Measured, Rung, Share, Shares, Speed,
    Transaction,
};
use super::{derive, paper};
use crate::failure::Failure;
use crate::numbers::separated;
use crate::plan::profiles::same_type;
use crate::plan::{Counter, Part};
use crate::settings;

type Profiles = BTreeMap<&'static str, Profile>;

/// The result.
///
/// # Errors
/// When a profile of the plan was not measured.
pub(super) fn summary(
    plan: &DissectPlan,
    counter: Option<Counter>,
    profiles: &Profiles,
    notes: Vec<String>,
    miss_ns: Option<f64>,
) -> Result<Dissection, Failure> {
    let rungs: Vec<Rung> =
        plan.steps().iter().map(|step| rung(profiles, step)).collect::<Result<_, _>>()?;
    let lattice = plan.lattice();
    let lattice: Vec<Measured> =
        lattice.iter().map(|name| measured(profiles, name)).collect::<Result<_, _>>()?;
    let count = |setting| plan.settings.count(setting);
    let warehouses = count(&settings::WAREHOUSES);
    let mut dissection = Dissection {
        workload: "tpcc".to_owned(),
        mix: plan.settings.word(&settings::MIX).to_owned(),
        warehouses: Some(warehouses),
        ladder: plan.scope.ladder.name().to_owned(),
        counter: counter.map_or("none", Counter::name).to_owned(),
        transactions: plan.settings.number(&settings::TRANSACTIONS).unwrap_or(0),
        counted: counter.map_or(0, |_| count(&settings::COUNTED)),
        components: derive::components(&rungs),
        matrix: derive::matrix(&rungs),
        alone: alone(plan, profiles)?,
        attribution: Shares::new(),
        if_variant: if_variant(plan, profiles)?,
        counts: Vec::new(),
        sum_error_percent: profiles
            .values()
            .filter_map(|profile| profile.sum_error_percent)
            .reduce(f64::max),
        paper: match (plan.scope.only, plan.scope.ladder) {
            (None, Ladder::Paper | Ladder::ReverseLocks) => paper::shares(),
            _ => Shares::new(),
        },
        miss_ns,
        rungs,
        lattice,
        notes,
    };
    if dissection.lattice.len() == LATTICE_POINTS {
        dissection.attribution =
            derive::attribution(&dissection.lattice.iter().collect::<Vec<_>>());
    }
    dissection.counts = counts(&dissection, profiles);
    let more = notes_of(plan, &dissection);
    dissection.notes.extend(more);
    Ok(dissection)
}

/// The measurement of the type that `name` means.
fn measured(profiles: &Profiles, name: &str) -> Result<Measured, Failure> {
    let Some(profile) = profiles.get(same_type(name)) else {
        return Err(Failure::check(format!("profile {name} was not measured: please report it")));
    };
    let durable = Part::find(name).is_some_and(Part::is_durable);
    Ok(Measured {
        profile: name.to_owned(),
        state_hash: profile.state_hash.clone(),
        consistent: true, // or the dissection had ended with it
        durability: if durable { "group" } else { "none" }.to_owned(),
        speed: Speed::over(&profile.speeds),
        log_in_memory: None,
        by_transaction: profile.costs.clone(),
    })
}

/// The same on a ladder: times are those with the log on disk, where it goes there.
fn rung(profiles: &Profiles, step: &Step) -> Result<Rung, Failure> {
    let mut measured = measured(profiles, step.profile)?;
    if let Some(profile) = profiles.get(same_type(step.profile))
        && !profile.durable.is_empty()
    {
        measured.durability = profile.durability.to_owned();
        measured.log_in_memory = Some(measured.speed);
        measured.speed = Speed::over(&profile.durable);
    }
    Ok(Rung {
        switch: step.switch.map(str::to_owned),
        label: step.label.map(str::to_owned),
        component: step.component,
        measured,
    })
}

fn alone(plan: &DissectPlan, profiles: &Profiles) -> Result<BTreeMap<Component, Alone>, Failure> {
    let mut alone = BTreeMap::new();
    for (component, name) in plan.alone() {
        let whole = measured(profiles, CONVENTIONAL)?;
        let measured = measured(profiles, name)?;
        let saved = saved(&whole, &measured);
        alone.insert(component, Alone { measured, saved });
    }
    Ok(alone)
}

/// The saving of `part`, in percent of `whole`.
fn saved(whole: &Measured, part: &Measured) -> BTreeMap<Transaction, Share> {
    let percent = |whole: Option<f64>, part: Option<f64>| {
        let (whole, part) = whole.zip(part).filter(|(whole, _)| *whole > 0.0)?;
        Some(100.0 * (whole - part) / whole)
    };
    let share = |name: &String| Share {
        percent_instructions: percent(whole.instructions(name), part.instructions(name)),
        percent_cycles: percent(whole.cycles(name), part.cycles(name)),
    };
    let names = whole.by_transaction.keys();
    let shares = names.map(|name| (name.clone(), share(name)));
    shares.filter(|(_, share)| *share != Share::default()).collect()
}

fn if_variant(plan: &DissectPlan, profiles: &Profiles) -> Result<Option<IfVariant>, Failure> {
    if !plan.if_variant() {
        return Ok(None);
    }
    let (switch, with_if, typed_profile) = IF_VARIANT;
    let (with_if, typed) = (measured(profiles, with_if)?, measured(profiles, typed_profile)?);
    let extra = |name: &String| {
        let (with_if, typed) = (with_if.instructions(name)?, typed.instructions(name)?);
        Some((name.clone(), with_if - typed))
    };
    let extra_instructions = with_if.by_transaction.keys().filter_map(extra).collect();
    Ok(Some(IfVariant {
        switch: switch.to_owned(),
        typed_profile: typed_profile.to_owned(),
        extra_instructions,
        measured: with_if,
    }))
}

/// Every count, by the names of the result.
fn counts(dissection: &Dissection, profiles: &Profiles) -> Vec<Count> {
    let rungs = dissection.rungs.iter().map(|rung| &rung.measured);
    let alone = dissection.alone.values().map(|alone| &alone.measured);
    let others = dissection.if_variant.iter().map(|variant| &variant.measured);
    let shown = rungs.chain(alone).chain(others).chain(&dissection.lattice);
    let names: Vec<&str> = shown.map(|measured| measured.profile.as_str()).collect();
    let repeats = profiles.values().map(|profile| profile.counts.len()).max().unwrap_or(0);
    let of = |repeat: usize, name: &str| {
        let count = profiles.get(same_type(name))?.counts.get(repeat)?.clone();
        Some((name.to_owned(), count))
    };
    (0..repeats).map(|repeat| names.iter().filter_map(|name| of(repeat, name)).collect()).collect()
}

/// Notes for readers of the result.
fn notes_of(plan: &DissectPlan, dissection: &Dissection) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(only) = plan.scope.only
        && let Some(first) = dissection.rungs.first()
    {
        notes.push(format!(
            "only {} was turned: percentages are of {}, the rung before it, and not of the whole \
             engine",
            only.key, first.measured.profile
        ));
    }
    if plan.durability == Durability::None && plan.scope.ladder != Ladder::Product {
        notes.push("no rung writes its log to disk: --durability none".to_owned());
    }
    if dissection.counts.windows(2).any(|pair| pair[0] != pair[1]) {
        notes.push("repeated counts differ: see counts".to_owned());
    }
    notes.extend(corners(dissection));
    notes
}

/// The remainder at the end of the lattice, and at the end of the ladder.
fn corners(dissection: &Dissection) -> Option<String> {
    let point = dissection.lattice.get(LATTICE_POINTS - 1)?;
    let rung = dissection.rungs.iter().rfind(|r| r.component == Some(Component::BufferManager))?;
    let figures = paper::in_order(&point.by_transaction).into_iter().filter_map(|name| {
        let of = |measured: &Measured| Some(separated(measured.instructions(name)?.round() as u64));
        Some(format!("{} {} and {}", paper::name(name), of(point)?, of(&rung.measured)?))
    });
    let figures: Vec<String> = figures.collect();
    let figures = match figures.is_empty() {
        true => String::new(),
        false => format!(" (instructions: {})", figures.join(", ")),
    };
    Some(format!(
        "with all five components off, {} is not {}: its rows and nodes still lie in pages, which \
         all stay in memory, instead of being reached by pointers{figures}",
        point.profile, rung.measured.profile
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::looking_glass::ladder::find_switch;
    use crate::experiment::looking_glass::plan::Scope;
    use crate::experiment::looking_glass::result::Cost;
    use crate::settings::Source;

    fn plan(scope: Scope) -> DissectPlan {
        let mut settings = settings::defaults();
        for (name, value) in [("warehouses", "1"), ("transactions", "300")] {
            settings.set(name, value, Source::Flag).unwrap();
        }
        DissectPlan::new(&settings, scope).unwrap()
    }

    fn speed(tps: f64, ns_per_transaction: f64) -> Speed {
        Speed { tps, ns_per_transaction, ..Speed::default() }
    }

    /// A profile that costs 1,000 for each profile measured after it.
    fn profiles(plan: &DissectPlan) -> Profiles {
        let names = plan.profiles();
        let profile = |i: usize| {
            let cost = 1_000.0 * (names.len() - i) as f64;
            let of = |cost: f64| Cost { instructions: Some(cost), ..Cost::default() };
            Profile {
                state_hash: "00".to_owned(),
                durability: if i == 0 { "group" } else { "none" },
                speeds: [2.0, 3.0, 1.5].map(|tps| speed(tps, 1.0)).to_vec(),
                durable: if i == 0 { vec![speed(1.0, 3.0)] } else { Vec::new() },
                costs: [("new_order".to_owned(), of(cost))].into(),
                counts: vec![[("new_order".to_owned(), cost)].into()],
                sum_error_percent: Some(i as f64 / 100.0),
            }
        };
        names.iter().enumerate().map(|(i, name)| (*name, profile(i))).collect()
    }

    fn result(scope: Scope) -> Dissection {
        let plan = plan(scope);
        let found = profiles(&plan);
        summary(&plan, Some(Counter::Callgrind), &found, Vec::new(), Some(200.0)).unwrap()
    }

    const PAPER: Scope = Scope { ladder: Ladder::Paper, only: None, lattice: false };

    #[test]
    fn every_part_of_the_result_is_there() {
        let found = result(Scope { lattice: true, ..PAPER });
        assert_eq!((found.rungs.len(), found.lattice.len(), found.alone.len()), (12, 32, 5));
        assert_eq!((found.counts.len(), found.components.len()), (1, 6));
        let attributed: f64 = found
            .attribution
            .values()
            .map(|shares| shares["new_order"].percent_instructions.unwrap())
            .sum();
        assert!((attributed - 100.0).abs() < 1e-9, "{attributed}");
        let variant = found.if_variant.as_ref().unwrap();
        assert_eq!(variant.measured.profile, "if-locking");
        assert!(variant.extra_instructions.contains_key("new_order"));
        assert_eq!(found.lattice[31].profile, "lattice-00000");
        assert_eq!(
            found.lattice[0].instructions("new_order"),
            found.rungs[0].measured.instructions("new_order")
        );
        assert!(
            found.notes.iter().any(|note| note.contains("lattice-00000 is not no-page-access"))
        );
        assert!(!found.paper.is_empty());
        assert!(serde_json::to_string(&found).unwrap().contains("\"miss_ns\":200.0"));
    }

    #[test]
    fn a_durable_rung_shows_both_speeds_and_its_twin_one() {
        let found = result(Scope { lattice: true, ..PAPER });
        let first = &found.rungs[0].measured;
        assert_eq!((first.speed.tps, first.durability.as_str()), (1.0, "group"));
        assert_eq!(first.log_in_memory.unwrap().tps, 2.0);
        let twin = &found.lattice[0];
        assert_eq!(
            (twin.speed.tps, twin.durability.as_str()),
            (2.0, "none"),
            "points are in memory"
        );
    }

    #[test]
    fn a_speed_is_the_median_of_its_rounds_with_its_ends() {
        let found = result(PAPER);
        let in_memory = found.rungs[0].measured.log_in_memory.unwrap();
        assert_eq!((in_memory.tps, in_memory.tps_range()), (2.0, Some((1.5, 3.0))));
        let once = found.rungs[0].measured.speed;
        assert_eq!((once.tps_range(), once.ns_per_transaction_min), (None, None), "one round");
        let printed = serde_json::to_value(&found).unwrap();
        assert_eq!(printed["rungs"][1]["tps_max"], 3.0);
        assert_eq!(printed["rungs"][0].get("tps_max"), None);
    }

    #[test]
    fn one_switch_is_compared_with_the_rung_before_it() {
        let found = result(Scope { only: find_switch("S5"), ..PAPER });
        assert_eq!(found.rungs.len(), 2);
        assert_eq!(found.rungs[0].switch, None);
        let locking = found.components[&Component::Locking]["new_order"].percent_instructions;
        assert!((locking.unwrap() - 100.0 / 6.0).abs() < 1e-9, "{locking:?}");
        assert!(found.paper.is_empty() && found.alone.len() == 1);
        assert!(found.notes.iter().any(|note| note.contains("no-lsn, the rung before it")));
    }

    #[test]
    fn the_products_ladder_has_no_component() {
        let found = result(Scope { ladder: Ladder::Product, ..PAPER });
        assert!(found.components.is_empty() && found.alone.is_empty());
        assert_eq!(found.if_variant, None);
        assert_eq!(found.rungs[1].switch.as_deref(), Some("undo"));
    }
}
