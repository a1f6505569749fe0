//! What a dissection covers: which profiles are measured, with which settings.
//!
//! Not here: measuring them (`dissect.rs`, `measure.rs`).

use std::path::PathBuf;
use std::time::Duration;

use crate::settings::{self, Settings, Source};
use serde_json::Value as Json;
use tombolo_storage::log::Durability;

use super::ladder::{self, CONVENTIONAL, IF_VARIANT, Ladder, MEMORY, Step};
use super::paper::Switch;
use super::result::Component;
use crate::failure::Failure;
use crate::plan::{Counter, Part, Plan, profiles};

/// The extent of a dissection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scope {
    /// The ladder.
    pub ladder: Ladder,
    /// Only this switch, and what it is compared with.
    pub only: Option<&'static Switch>,
    /// All points of the lattice.
    pub lattice: bool,
}

impl Scope {
    /// The settings that it adds to the head of a result.
    pub fn header(self) -> Vec<(&'static str, Json)> {
        vec![
            ("ladder", self.ladder.name().into()),
            ("only", self.only.map(|switch| switch.key).into()),
            ("lattice", self.lattice.into()),
        ]
    }
}

/// The plan of `dissect`: its settings, parsed and checked against each other.
#[derive(Clone, Debug)]
pub struct DissectPlan {
    /// Its extent.
    pub scope: Scope,
    /// Points of the lattice that are measured besides.
    pub points: Vec<String>,
    /// The settings; the profile is that of the first rung.
    pub settings: Settings,
    /// Whether components are also removed alone, and a switch by an `if`.
    pub variants: bool,
    /// The durability of commits on the rungs that log to a disk.
    pub durability: Durability,
    /// A disk that makes every commit wait is timed no longer than this.
    pub durable_max: Duration,
    /// Where files go for the time being.
    pub parent: PathBuf,
    /// Whether they may go where nothing is kept.
    pub volatile_ok: bool,
}

/// How long a slow disk may take.
const DURABLE_MAX: Duration = Duration::from_secs(15);

/// Settings of a run that a dissection decides itself: one thread runs the paper's transactions.
const DECIDED: [(&settings::Setting, &str); 4] = [
    (&settings::MIX, "paper"),
    (&settings::THREADS, "1"),
    (&settings::ISLANDS, "1"),
    (&settings::PROFILE, CONVENTIONAL),
];

impl DissectPlan {
    /// Reads the settings of a dissection.
    ///
    /// # Errors
    /// When they do not fit each other, with the reason.
    pub fn new(settings: &Settings, scope: Scope) -> Result<Self, Failure> {
        if let Some(only) = scope.only {
            if scope.ladder.pair(only.key).is_none() {
                return Err(Failure::usage(format!(
                    "the ladder {} has no switch {}: use --ladder paper",
                    scope.ladder.name(),
                    only.key
                )));
            }
            if scope.lattice {
                return Err(Failure::usage(
                    "--only measures one switch and --lattice all of them: leave one out",
                ));
            }
        }
        let mut settings = settings.clone();
        for (setting, value) in DECIDED {
            settings.set(setting.name, value, Source::Flag)?;
        }
        let conventional = Plan::new(&settings)?;
        let parent = match settings.word(&settings::DATA) {
            "" => PathBuf::from("."),
            path => PathBuf::from(path),
        };
        let plan = Self {
            scope,
            points: Vec::new(),
            variants: true,
            durable_max: DURABLE_MAX,
            durability: conventional.durability,
            settings,
            parent,
            volatile_ok: false,
        };
        // Whatever is wrong with any profile is found before the first one runs.
        for profile in plan.profiles() {
            plan.of(profile)?.verify_machine()?;
        }
        Counter::choose(plan.settings.word(&settings::COUNTER))?;
        Ok(plan)
    }

    /// The run of one profile on which everything else depends: in memory, and not counted by
    /// itself.
    ///
    /// # Errors
    /// When the settings do not fit the profile.
    pub(super) fn of(&self, profile: &str) -> Result<Plan, Failure> {
        let part = Part::find(profile);
        let mut settings = self.settings.clone();
        let own = [
            (&settings::PROFILE, if part.is_some() { MEMORY } else { profile }),
            (&settings::DURABILITY, "none"),
            (&settings::COUNTER, "none"),
            (&settings::DATA, ""),
            // Only a rung without pages gains by it, and no rung has it for its name.
            (&settings::LOCATE_AHEAD, "0"),
        ];
        for (setting, value) in own {
            settings.set(setting.name, value, Source::Flag)?;
        }
        let part = part.map(|part| (part, self.parent.clone()));
        Ok(Plan { part, ..Plan::new(&settings)? })
    }

    /// The rungs.
    pub(super) fn steps(&self) -> Vec<Step> {
        let pair = self.scope.only.and_then(|only| self.scope.ladder.pair(only.key));
        pair.map_or_else(|| self.scope.ladder.steps(), |pair| pair.to_vec())
    }

    /// Whether the ladder is one that goes down from the conventional engine.
    fn goes_down(&self) -> bool {
        self.scope.ladder != Ladder::Product
    }

    /// The components that are removed alone, with the profile for each.
    pub(super) fn alone(&self) -> Vec<(Component, &'static str)> {
        let is_wanted = |component: &Component| match self.scope.only {
            _ if !self.variants => false,
            Some(only) => only.component == *component,
            None => self.goes_down(),
        };
        let wanted = Component::MAIN.into_iter().filter(is_wanted);
        wanted.filter_map(|component| Some((component, ladder::alone(component)?))).collect()
    }

    /// Whether the switch that is an `if` is measured.
    pub(super) fn if_variant(&self) -> bool {
        let (switch, ..) = IF_VARIANT;
        self.variants && self.scope.only.map_or(self.goes_down(), |only| only.key == switch)
    }

    /// The points of the lattice.
    pub(super) fn lattice(&self) -> Vec<String> {
        match self.scope.lattice {
            true => (0..ladder::LATTICE_POINTS).map(ladder::lattice_point).collect(),
            false => self.points.clone(),
        }
    }

    /// All profiles to be measured, each type once, in the order they are; the last ones only for
    /// the rows they leave.
    pub(super) fn profiles(&self) -> Vec<&'static str> {
        let mut names: Vec<String> =
            self.steps().iter().map(|step| step.profile.to_owned()).collect();
        if !self.alone().is_empty() {
            names.push(CONVENTIONAL.to_owned()); // what the savings are a part of
        }
        names.extend(self.alone().iter().map(|(_, profile)| (*profile).to_owned()));
        if self.if_variant() {
            let (_, with_if, typed) = IF_VARIANT;
            names.extend([with_if, typed].map(str::to_owned));
        }
        names.extend(self.lattice());
        names.push(MEMORY.to_owned());
        let mut profiles = Vec::new();
        for name in &names {
            let name = profiles::same_type(name);
            if !profiles.contains(&name) {
                profiles.push(name);
            }
        }
        profiles
    }

    /// Whether costs of a profile are part of the result, not only the rows it leaves.
    pub(super) fn is_counted(&self, profile: &str) -> bool {
        profile != MEMORY || self.steps().iter().any(|step| step.profile == MEMORY)
    }

    /// The rungs whose log goes to a disk, if any does.
    pub(super) fn durable(&self) -> Vec<&'static str> {
        if self.durability == Durability::None {
            return Vec::new();
        }
        let rungs = self.steps().into_iter().map(|step| step.profile);
        rungs.filter(|name| profiles::has_log(name)).map(profiles::same_type).collect()
    }

    /// The name of a profile in messages: its rung, if it is one.
    pub(super) fn name_of(&self, profile: &str) -> String {
        let steps = self.steps();
        let step = steps.iter().find(|step| profiles::same_type(step.profile) == profile);
        step.map_or_else(|| format!("profile {profile}"), Step::name)
    }
}

#[cfg(test)]
mod tests;
