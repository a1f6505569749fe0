//! Every profile of the paged store against the model of `tests/model.rs`, and against each other.
//!
//! A test binary of its own: it takes long to compile. Profiles whose names mean the same type are
//! tested once.

#![expect(clippy::unwrap_used, reason = "a failing test may panic anywhere")]

#[path = "model/cell.rs"]
mod cell;
#[path = "model/definition.rs"]
mod definition;
#[path = "model/map.rs"]
mod map;
#[path = "model/random.rs"]
mod random;
#[path = "model/reads.rs"]
mod reads;
#[path = "model/run.rs"]
mod run;
#[path = "model/seeds.rs"]
mod seeds;

use std::any::TypeId;
use std::collections::BTreeSet;

use tombolo_storage::disk::MemDisk;
use tombolo_storage::for_each_paged_profile;
use tombolo_storage::paged::store::{PagedSettings, PagedStore};
use tombolo_storage::profile::PagedProfile;
use tombolo_storage::store::Store;

use run::{Counts, Run};
use seeds::for_seeds;

/// A paged store in memory, with fewer frames than pages where it has frames.
fn paged_store<P: PagedProfile>() -> PagedStore<P> {
    let settings = PagedSettings {
        pool_bytes: 512 << 10,
        structure_bytes_max: 64 << 20,
        ..PagedSettings::default()
    };
    PagedStore::create(&MemDisk::new(), &settings).unwrap()
}

/// What the profile of type `P`, which may have several names, does under a few seeds.
fn agrees<P: PagedProfile>(name: &str, tested: &mut BTreeSet<TypeId>, sum: &mut Counts) {
    if !tested.insert(TypeId::of::<P>()) {
        return;
    }
    println!("profile {name}");
    let run = |seed| {
        let mut run = Run::new(seed, paged_store::<P>());
        run.transactions(if seed % 10 == 9 { 150 } else { 40 });
        assert!(PagedStore::<P>::UNDO || run.counts.aborted == 0);
        run.counts
    };
    // Other seeds for each profile.
    let first = tested.len() as u64 * 10 + 7;
    let counts = for_seeds("every_paged_profile_agrees", 4, |seed| run(first + seed));
    sum.add(&counts.unwrap_or_default());
}

#[test]
fn every_paged_profile_agrees() {
    let (mut tested, mut sum) = (BTreeSet::new(), Counts::default());
    macro_rules! agrees {
        ($name:literal, $profile:ty) => {
            agrees::<$profile>($name, &mut tested, &mut sum);
        };
    }
    for_each_paged_profile!(agrees);
    assert!(tested.len() > 35, "{} profiles", tested.len());
    sum.assert_tested_everything();
}
