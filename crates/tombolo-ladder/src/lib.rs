//! TPC-C on each profile of the paged store: what the ladders and the lattice are measured with
//! (Looking Glass, section 3.2).
//!
//! Compiled for some forty types of store, the workload takes minutes. In a crate of its own it is
//! compiled next to the laboratory, by several threads, and not at all where only the memory store is
//! wanted. Not here: what is compiled (`drive/benchmark.rs` of the laboratory), which profiles there
//! are (`profile/paged.rs` of storage).

use tombolo_lab::drive::{How, Made, paged};
use tombolo_lab::plan::Options;
use tombolo_lab::workload::tpcc::loader::Scale;
use tombolo_storage::for_each_paged_profile;

/// A database of TPC-C on pages, of the profile called `profile`; none of that name: `None`.
pub fn on_pages(profile: &str, options: &Options, how: How) -> Made<Scale> {
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
