//! What a dissection covers and refuses. That every profile leaves the same rows is a test of the
//! command, which has them all.

use super::*;

fn scope(ladder: Ladder) -> Scope {
    Scope { ladder, only: None, lattice: false }
}

fn settings() -> Settings {
    let mut settings = settings::defaults();
    settings.set("transactions", "300", Source::Flag).unwrap();
    settings.set("warehouses", "1", Source::Flag).unwrap();
    settings
}

#[test]
fn each_type_is_measured_once() {
    let plan = |scope| DissectPlan::new(&settings(), scope).unwrap();
    // Twelve rungs, four alone that are no rung, the one with an `if`, the memory store.
    let profiles = plan(scope(Ladder::Paper)).profiles();
    assert_eq!(profiles.len(), 18);
    assert_eq!((profiles[0], profiles[11], profiles[17]), ("conventional", "bare", "memory"));
    let all = plan(Scope { lattice: true, ..scope(Ladder::Paper) }).profiles();
    assert_eq!(all.len(), 18 + 32 - 9, "nine points of the lattice are there already");
    let rungs = ["bare", "memory", "memory+value-log", "memory+group-commit", "memory+pipeline"];
    assert_eq!(plan(scope(Ladder::Product)).profiles(), rungs);
    let reversed = plan(scope(Ladder::ReverseLocks));
    assert_eq!(reversed.profiles().len(), 19, "no-locking is no rung, but the if's sibling");
}

#[test]
fn one_switch_needs_few_profiles() {
    let only = |key| {
        let scope = Scope { only: ladder::find_switch(key), ..scope(Ladder::Paper) };
        DissectPlan::new(&settings(), scope).unwrap().profiles()
    };
    let locking = ["no-lsn", "no-locking", "conventional", "alone-locking", "if-locking", "memory"];
    assert_eq!(only("S5"), locking);
    assert_eq!(only("S11"), ["no-sessions", "bare", "memory"]);
}

#[test]
fn what_does_not_fit_is_refused_with_the_reason() {
    let refused = |scope| DissectPlan::new(&settings(), scope).unwrap_err().to_string();
    let only = ladder::find_switch("S5");
    let product = refused(Scope { only, ..scope(Ladder::Product) });
    assert_eq!(product, "the ladder product has no switch S5: use --ladder paper");
    let both = refused(Scope { only, lattice: true, ..scope(Ladder::Paper) });
    assert!(both.contains("leave one out"), "{both}");
}

#[test]
fn a_dissection_decides_what_runs() {
    let mut settings = settings();
    settings.set("mix", "standard", Source::Environment).unwrap();
    settings.set("threads", "4", Source::Environment).unwrap();
    let plan = DissectPlan::new(&settings, scope(Ladder::Paper)).unwrap();
    let conventional = plan.of(CONVENTIONAL).unwrap();
    assert_eq!(conventional.scale().mix.name(), "paper");
    assert_eq!((conventional.threads, conventional.durability), (1, Durability::None));
    assert_eq!(plan.durable(), ["conventional", "no-btree-keys"]);
    settings.set("durability", "none", Source::Flag).unwrap();
    let plan = DissectPlan::new(&settings, scope(Ladder::Paper)).unwrap();
    assert!(plan.durable().is_empty());
    assert_eq!(plan.name_of("no-locking"), "rung S5 (no-locking)");
    assert_eq!(plan.name_of("alone-logging"), "profile alone-logging");
}
