//! The setting `mix`: one for all workloads, whose choices are theirs.

use tombolo_engine::settings::{Default, Kind, Setting, Settings, Source};

use super::interface::Workload;
use super::list::for_each_workload;
use crate::failure::Failure;

macro_rules! join {
    ($($name:ident => $scale:ty,)*) => {
        /// How many mixes there are.
        const COUNT: usize = 0 $(+ <$scale>::MIXES.len())*;

        /// The mixes of all workloads.
        const NAMES: [&str; COUNT] = {
            let mut names = [""; COUNT];
            let mut next = 0;
            $({
                let mut i = 0;
                while i < <$scale>::MIXES.len() {
                    names[next] = <$scale>::MIXES[i];
                    (next, i) = (next + 1, i + 1);
                }
            })*
            assert!(next == COUNT);
            names
        };
    };
}
for_each_workload!(join);

/// Which transactions run.
pub static MIX: Setting = Setting::new(
    "mix",
    Kind::Choice(&NAMES),
    Default::Is("standard"),
    "transactions of tpcc: the paper's New Order and Payment, or the specification's five; of ycsb: \
     workload a (its default), b, c, d, e or f",
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
