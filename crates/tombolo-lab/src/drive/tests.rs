//! Every profile opens, and says what it cannot do.

use tombolo_storage::profile::PROFILES;

use super::*;
use crate::plan::Options;
use crate::workload::tpcc::loader::Scale;

#[test]
fn every_profile_that_is_listed_opens_or_is_in_another_build() {
    let mut opened = Vec::new();
    for profile in PROFILES {
        match create::<Scale>(profile.name, &Options::default()) {
            Ok(_) => opened.push(profile.name),
            Err(failure) => {
                assert!(failure.to_string().contains("--features every-profile"), "{failure}");
            }
        }
    }
    for always in ["bare", "memory", "conventional", "no-sessions"] {
        assert!(opened.contains(&always), "{always}");
    }
    assert!(create::<Scale>("fast", &Options::default()).is_err());
}

#[test]
fn nothing_runs_before_it_is_loaded() {
    let mut instance = create::<Scale>("bare", &Options::default()).unwrap();
    let error = instance.run(&[], &mut Tally::default()).unwrap_err();
    assert!(error.to_string().contains("nothing was loaded"), "{error}");
}
