//! The ladders: which profile stands on which rung, and which other profiles belong to a
//! dissection.
//!
//! Not here: measuring them.

use super::paper::{PRINTED, Switch};
use super::result::Component;
use crate::plan::Part;

/// The ladder that goes up, from the bare store to what a user runs.
pub const PRODUCT_LADDER: &str = "product";

/// The first rung of the ladders that go down.
pub const CONVENTIONAL: &str = "conventional";
/// The last one.
pub const BARE: &str = "bare";
/// The profile that every dissection is compared with besides its own: the product's default.
pub const MEMORY: &str = "memory";

/// The profile with a switch and all before it off, for S1 to S11.
const PROFILES: [&str; 11] = [
    "no-btree-keys",
    "no-disk-log",
    "no-main-log",
    "no-lsn",
    "no-locking",
    "no-latching",
    "no-directory",
    "no-small-page",
    "no-page-access",
    "no-sessions",
    BARE,
];

/// The profile with the switch S5 as an `if`, and the one that has it off by type (LG-26).
pub const IF_VARIANT: (&str, &str, &str) = ("S5", "if-locking", "no-locking");

named! {
    /// Which ladder, and so its direction.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Ladder by name {
        /// The paper's: down from the conventional engine, in the paper's order.
        Paper = "paper",
        /// The same with latching removed before locking (LG-25).
        ReverseLocks = "reverse-locks",
        /// The product's: up from the bare store to what a user runs.
        Product = "product",
    }
}

/// A rung's switch and profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The switch or part that is turned; none on the first rung.
    pub switch: Option<&'static str>,
    /// Its name.
    pub label: Option<&'static str>,
    /// Its component, where it belongs to one of the six.
    pub component: Option<Component>,
    /// The profile.
    pub profile: &'static str,
}

impl Step {
    const fn first(profile: &'static str) -> Self {
        Self { switch: None, label: None, component: None, profile }
    }

    fn turned(switch: &Switch, profile: &'static str) -> Self {
        Self {
            switch: Some(switch.key),
            label: Some(switch.label),
            component: Some(switch.component),
            profile,
        }
    }

    /// The name of the rung in messages.
    pub fn name(&self) -> String {
        match self.switch {
            Some(switch) => format!("rung {switch} ({})", self.profile),
            None => format!("the first rung ({})", self.profile),
        }
    }
}

impl Ladder {
    /// Its rungs.
    pub fn steps(self) -> Vec<Step> {
        let mut steps = vec![Step::first(CONVENTIONAL)];
        let switches = &PRINTED.switches;
        let down = switches.iter().zip(PROFILES).map(|(switch, name)| Step::turned(switch, name));
        steps.extend(down);
        match self {
            Self::Paper => {}
            Self::ReverseLocks => {
                steps[5] = Step::turned(&switches[5], "swap-no-latching");
                steps[6] = Step::turned(&switches[4], "swap-no-locking");
            }
            Self::Product => {
                let with = |switch, label, profile| Step {
                    switch: Some(switch),
                    label: Some(label),
                    ..Step::first(profile)
                };
                steps = vec![
                    Step::first(BARE),
                    with("undo", "undo copies", MEMORY),
                    with("value-log", "value log", Part::ValueLog.rung()),
                    with("group-commit", "group commit", Part::GroupCommit.rung()),
                    with("pipeline", "pipeline", Part::Pipeline.rung()),
                ];
            }
        }
        steps
    }

    /// The rung of one switch and the one before it; `None` where the ladder has no such switch.
    pub fn pair(self, switch: &str) -> Option<[Step; 2]> {
        let steps = self.steps();
        let at = steps.iter().position(|step| step.switch == Some(switch))?;
        Some([Step::first(steps[at - 1].profile), steps[at]])
    }
}

/// The switch a user names: by its key (`S5`), by its name in results (`locking`), or as the paper
/// labels it.
pub fn find_switch(name: &str) -> Option<&'static Switch> {
    let wanted = name.to_ascii_lowercase().replace(['_', ' '], "-");
    let is_named = |switch: &&Switch| {
        let label = switch.label.to_ascii_lowercase().replace(' ', "-");
        let profile = PROFILES[place(switch)].trim_start_matches("no-");
        [switch.key.to_ascii_lowercase().as_str(), &label, profile].contains(&wanted.as_str())
    };
    PRINTED.switches.iter().find(is_named)
}

fn place(switch: &Switch) -> usize {
    PRINTED.switches.iter().position(|other| other.key == switch.key).unwrap_or_default()
}

/// The names that [`find_switch`] knows: one for each.
pub fn switch_names() -> Vec<String> {
    let name = |(switch, profile): (&Switch, &str)| {
        format!("{} ({})", switch.key, profile.trim_start_matches("no-"))
    };
    PRINTED.switches.iter().zip(PROFILES).map(name).collect()
}

/// The profile with one component removed alone.
pub const fn alone(component: Component) -> Option<&'static str> {
    Some(match component {
        Component::BtreeKeys => "alone-btree-keys",
        Component::Logging => "alone-logging",
        Component::Locking => "alone-locking",
        Component::Latching => "alone-latching",
        Component::BufferManager => "alone-buffer-manager",
        Component::Remaining => return None,
    })
}

/// The point of the lattice in which the components of `mask` are off: bit `i` of it is
/// [`Component::MAIN`]`[i]`.
pub fn lattice_point(mask: usize) -> String {
    let bit = |i: usize| if mask >> i & 1 == 1 { '0' } else { '1' };
    format!("lattice-{}", (0..Component::MAIN.len()).map(bit).collect::<String>())
}

/// The point of the lattice in which only these components are off.
pub fn lattice_without(off: &[Component]) -> String {
    let mask = Component::MAIN.iter().enumerate().filter(|(_, component)| off.contains(component));
    lattice_point(mask.map(|(i, _)| 1 << i).sum())
}

/// How many points the lattice has.
pub const LATTICE_POINTS: usize = 1 << Component::MAIN.len();

#[cfg(test)]
mod tests {
    use super::*;
    use tombolo_storage::profile::{PROFILES as ALL, ProfileInfo};

    fn info(name: &str) -> &'static ProfileInfo {
        ALL.iter().find(|info| info.name == name).unwrap_or_else(|| panic!("no {name}"))
    }

    #[test]
    fn each_rung_turns_one_more_switch_off() {
        for ladder in [Ladder::Paper, Ladder::ReverseLocks] {
            let steps = ladder.steps();
            assert_eq!(steps.len(), 12);
            for pair in steps.windows(2) {
                let (before, after) = (info(pair[0].profile), info(pair[1].profile));
                let turned: Vec<_> = (0..11)
                    .filter(|&i| before.switches[i] != after.switches[i])
                    .map(|i| format!("S{}", i + 1))
                    .collect();
                assert_eq!(turned, [pair[1].switch.unwrap()], "{} rung", pair[1].profile);
                assert!(steps[0].switch.is_none() && info(CONVENTIONAL).switches == [true; 11]);
            }
        }
    }

    #[test]
    fn a_component_is_removed_alone_with_all_its_switches() {
        for (at, component) in Component::MAIN.into_iter().enumerate() {
            let switches = info(alone(component).unwrap()).switches;
            for (switch, on) in PRINTED.switches.iter().zip(switches) {
                assert_eq!(on, switch.component != component, "{component} {}", switch.key);
            }
            assert_eq!(info(&lattice_point(1 << at)).switches, switches);
        }
        assert_eq!(lattice_point(0), "lattice-11111");
        assert_eq!(lattice_point(LATTICE_POINTS - 1), "lattice-00000");
    }

    #[test]
    fn switches_are_found_by_any_of_their_names() {
        let key = |name| find_switch(name).map(|switch| switch.key);
        assert_eq!((key("S5"), key("s5"), key("locking")), (Some("S5"), Some("S5"), Some("S5")));
        assert_eq!(
            (key("disk log"), key("disk_log"), key("lsn")),
            (Some("S2"), Some("S2"), Some("S4"))
        );
        assert_eq!(
            (key("sessions"), key("Xactions"), key("bare")),
            (Some("S10"), Some("S10"), Some("S11"))
        );
        assert_eq!((key("S12"), key("")), (None, None));
        assert_eq!(switch_names().len(), 11);
    }

    #[test]
    fn a_switch_is_measured_against_the_rung_before_it() {
        let profiles =
            |ladder: Ladder, switch| ladder.pair(switch).map(|pair| pair.map(|s| s.profile));
        assert_eq!(profiles(Ladder::Paper, "S5"), Some(["no-lsn", "no-locking"]));
        assert_eq!(
            profiles(Ladder::ReverseLocks, "S5"),
            Some(["swap-no-latching", "swap-no-locking"])
        );
        assert_eq!(profiles(Ladder::Product, "S5"), None);
        for ladder in Ladder::ALL {
            assert_eq!(Ladder::find(ladder.name()), Some(ladder));
        }
    }
}
