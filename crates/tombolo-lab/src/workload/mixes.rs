//! The setting `mix`: one for all workloads, whose choices are theirs.

use tombolo_engine::settings::{Default, Kind, Setting, Settings, Source};

use super::interface::Workload;
use super::list::for_each_workload;
use crate::failure::Failure;

macro_rules! join {
    ($($name:ident => $scale:ty,)*) => {
        /// The mixes of all workloads.
        const NAMES: &[&str] = constcat::concat_slices!([&str]: $(<$scale>::MIXES),*);

        /// What they are, each followed by what separates it from the next.
        const ABOUT: &str = constcat::concat!(
            "transactions ",
            $(
                if_mixed::<$scale>("of "),
                if_mixed::<$scale>(<$scale>::NAME),
                if_mixed::<$scale>(": "),
                if_mixed::<$scale>(<$scale>::MIXES_HELP),
                if_mixed::<$scale>("; "),
            )*
        );
    };
}
for_each_workload!(join);

/// `text` if the workload has mixes.
const fn if_mixed<W: Workload>(text: &'static str) -> &'static str {
    if W::MIXES.is_empty() { "" } else { text }
}

/// Which transactions run.
pub static MIX: Setting = Setting::new(
    "mix",
    Kind::Choice(NAMES),
    Default::Is("standard"),
    ABOUT.split_at(ABOUT.len() - "; ".len()).0,
);

/// The place of the mix of `W` that `settings` choose: its first where it has none of the default's name.
///
/// # Errors
/// When a mix of another workload was asked for.
pub(super) fn chosen<W: Workload>(settings: &Settings) -> Result<usize, Failure> {
    let word = settings.word(&MIX);
    let found = W::MIXES.iter().position(|mix| *mix == word);
    if found.is_none() && !W::MIXES.is_empty() && settings.source(&MIX) != Source::Default {
        return Err(Failure::usage(format!(
            "setting mix: {word:?} is not known to {}: give one of {}",
            W::NAME,
            W::MIXES.join(", ")
        )));
    }
    Ok(found.unwrap_or(0))
}
