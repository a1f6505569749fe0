//! Every profile opens, and says what it cannot do.

use tombolo_storage::profile::PROFILES;

use super::*;

#[test]
fn every_profile_that_is_listed_opens() {
    for profile in PROFILES {
        assert!(open(profile.name).is_some(), "{}", profile.name);
    }
    assert!(open("fast").is_none());
}

#[test]
fn nothing_runs_before_it_is_loaded() {
    let mut instance = open("bare").unwrap();
    let error = instance.run(&[], &mut Tally::default()).unwrap_err();
    assert!(error.to_string().contains("nothing was loaded"), "{error}");
}
