//! The list of all settings: complete, consistent, and in the order in which they are printed.

use super::*;
use tombolo_storage::value_log::LogKind;

#[test]
fn the_list_is_complete_and_consistent() {
    verify(all());
    assert!(all().iter().all(|setting| find(&setting.flag()) == Some(*setting)));
}

#[test]
fn each_setting_stands_where_it_stood() {
    let names: Vec<_> = all().iter().map(|setting| setting.name).collect();
    let follows = |first: &str, second: &str| {
        let at = names.iter().position(|name| *name == first).unwrap();
        assert_eq!(names[at + 1], second);
    };
    assert_eq!(names.first(), Some(&"profile"));
    follows("lock_wait_max", "pipeline_threads");
    follows("pipeline_threads", "input_threads");
    follows("checkpoint_threads", "checkpoint_process");
    follows("memory_bytes_max", "snapshot_bytes_max");
    follows("request_ids_s_min", "clients");
    follows("rate", "warehouses");
    follows("warehouses", "mix");
    follows("mix", "branches");
    assert_eq!(names.last(), Some(&"repeat"));
}

#[test]
fn many_choices_are_shortened() {
    let error = PROFILE.parse("fast").unwrap_err();
    assert_eq!(
        error.to_string(),
        "setting profile: \"fast\" is not known: give one of bare, memory, conventional, \
         no-btree-keys, … (53 in all)"
    );
}

#[test]
fn the_setting_names_both_kinds_of_log() {
    let mut settings = defaults();
    assert_eq!(settings.word(&LOG), LogKind::Value.name());
    for kind in [LogKind::Command, LogKind::Value] {
        settings.set("log", kind.name(), Source::Flag).unwrap();
        assert_eq!(settings.word(&LOG), kind.name());
    }
}

#[test]
fn the_mixes_of_all_workloads_are_choices_of_one_setting() {
    assert_eq!(MIX.kind, Kind::Choice(&["paper", "standard", "a", "b", "c", "d", "e", "f"]));
    assert_eq!(
        MIX.about,
        "transactions of tpcc: the paper's New Order and Payment, or the specification's five; of ycsb: \
         workload a (its default), b, c, d, e or f"
    );
}
