//! Properties of profiles: where they keep rows, how they lay them out, which names mean the same type.
//!
//! Not here: which settings fit a profile (`plan/mod.rs`), databases of them (`drive/open.rs`).

use std::any::TypeId;

use tombolo_storage::for_each_paged_profile;
use tombolo_storage::paged::btree::KeyFormat;
use tombolo_storage::paged::page::PageSize;
use tombolo_storage::paged::pool::PageAccess;
use tombolo_storage::paged::store::PagedStore;
use tombolo_storage::profile::{PROFILES, PagedProfile, ProfileInfo, Switches};

use super::Part;

/// Whether a profile has everything on.
pub(crate) const fn all_on(switches: &Switches) -> bool {
    let mut i = 0;
    while i < switches.len() && switches[i] {
        i += 1;
    }
    i == switches.len()
}

/// The profile called `name`.
pub(crate) fn find(name: &str) -> Option<&'static ProfileInfo> {
    PROFILES.iter().find(|info| info.name == name)
}

/// Whether a profile keeps its rows on pages.
pub fn has_pages(profile: &str) -> bool {
    find(profile).is_some_and(|info| info.store == "paged")
}

/// Whether a profile can keep its log in files.
pub(crate) fn has_log(profile: &str) -> bool {
    find(profile).is_some_and(|info| info.switches[1])
}

/// Whether what a profile keeps can be saved and opened again.
pub fn can_be_saved(profile: &str) -> bool {
    layout(profile).is_some()
}

/// Whether all transactions of the standard mix run on a profile as it is, not only the paper's two.
/// Only there natively read counters distinguish calls.
pub fn runs_all_natively(profile: &str) -> bool {
    find(profile).is_some_and(|info| info.store == "memory" || all_on(&info.switches))
}

/// How a profile lays data out on pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Its format of keys.
    pub keys: &'static str,
    /// Bytes of a page.
    pub page_bytes: usize,
}

/// How the profile called `profile` lays data out; `None` where that cannot be saved.
pub fn layout(profile: &str) -> Option<Layout> {
    let mut layout = None;
    macro_rules! ask {
        ($name:literal, $profile:ty) => {
            if profile == $name && PagedStore::<$profile>::can_be_saved() {
                let keys = <<$profile as PagedProfile>::Keys as KeyFormat>::NAME;
                let page_bytes =
                    <<<$profile as PagedProfile>::Pages as PageAccess>::Size as PageSize>::BYTES;
                layout = Some(Layout { keys, page_bytes });
            }
        };
    }
    for_each_paged_profile!(ask);
    layout
}

/// The first of the names that mean the same type as `profile`.
pub fn same_type(profile: &str) -> &'static str {
    let mut types: Vec<(&'static str, TypeId)> = Vec::new();
    macro_rules! note {
        ($name:literal, $profile:ty) => {
            types.push(($name, TypeId::of::<$profile>()));
        };
    }
    for_each_paged_profile!(note);
    let wanted = types.iter().find(|(name, _)| *name == profile).map(|(_, id)| *id);
    if let Some((name, _)) = types.iter().find(|(_, id)| Some(*id) == wanted) {
        return name;
    }
    if let Some(part) = Part::find(profile) {
        return part.rung();
    }
    find(profile).map_or("", |info| info.name)
}

/// The profile that makes the files of a layout: the one that does least besides.
pub(crate) fn maker(layout: Layout) -> Option<&'static str> {
    let makers = PROFILES.iter().filter(|info| self::layout(info.name) == Some(layout));
    let work = |info: &&ProfileInfo| info.switches.iter().filter(|on| **on).count();
    makers.min_by_key(work).map(|info| info.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_told_by_keys_and_page_size() {
        let same = |a, b| layout(a) == layout(b);
        assert!(same("conventional", "alone-locking") && same("no-btree-keys", "no-directory"));
        assert!(same("no-small-page", "lattice-00000") && layout("no-small-page").is_some());
        assert!(!same("conventional", "no-btree-keys") && !same("no-directory", "no-small-page"));
        for none in ["no-page-access", "no-sessions", "bare", "memory", "no-such-profile"] {
            assert_eq!(layout(none), None, "{none}");
        }
    }

    #[test]
    fn every_layout_has_a_maker_that_does_little() {
        let of = |profile: &str| layout(profile).and_then(maker);
        assert_eq!(of("conventional"), Some("lattice-10001"));
        assert_eq!(of("alone-buffer-manager"), Some("lattice-10000"));
        for info in PROFILES {
            let Some(layout) = layout(info.name) else { continue };
            let maker = maker(layout).unwrap_or_else(|| panic!("no profile makes {layout:?}"));
            assert_eq!(self::layout(maker), Some(layout));
        }
    }

    #[test]
    fn names_of_one_type_have_one_name() {
        assert_eq!(same_type("lattice-11111"), "conventional");
        assert_eq!(same_type("alone-btree-keys"), "no-btree-keys");
        assert_eq!(same_type("swap-no-locking"), "no-latching");
        assert_eq!(same_type("no-sessions"), "no-sessions");
        assert_eq!(same_type("memory"), "memory");
        assert_ne!(same_type("if-locking"), same_type("no-locking"));
    }
}
