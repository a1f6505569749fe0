//! TPC-C compiled for each profile of the paged store, for the measurements of the ladders and the lattice
//! (Looking Glass, section 3.2).
//!
//! Compiling the workload for some forty types of store takes minutes. This crate is compiled in parallel with the
//! laboratory, and not at all in a build that has only the memory store. Not here: the compiled code
//! (`drive/benchmark.rs` of the laboratory), the list of profiles (`profile/paged.rs` of storage).

use tombolo_lab::drive::{How, Made, paged};
use tombolo_lab::plan::Options;
use tombolo_lab::workload::tpcc::loader::Scale;
use tombolo_storage::for_each_paged_profile;

/// A database of TPC-C on pages, of the profile with this name; `None` if there is no such profile.
pub fn on_pages(profile: &str, options: &Options, how: How<'_>) -> Made<Scale> {
    macro_rules! if_named {
        ($name:literal, $type:ty) => {
            if profile == $name {
                return Some(paged::<Scale, $type>(options, how));
            }
        };
    }
    for_each_paged_profile!(if_named);
    None
}
