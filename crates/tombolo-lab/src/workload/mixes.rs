//! The setting `mix`: one for all workloads, whose choices are theirs.

use tombolo_engine::settings::{Default, Kind, Setting, Settings, Source};

use super::interface::Workload;
use super::list::for_each_workload;
use crate::failure::Failure;

macro_rules! join {
    ($($name:ident => $scale:ty,)*) => {
        /// The mixes of all workloads.
        const LISTS: &[&[&str]] = &[$(<$scale>::MIXES,)*];

        /// What they are, in pieces.
        const HELP: &[&[&str]] = &[&["transactions "], $(help::<$scale>(),)*];
    };
}
for_each_workload!(join);

const fn help<W: Workload>() -> &'static [&'static str] {
    if W::MIXES.is_empty() { &[] } else { &["of ", W::NAME, ": ", W::MIXES_HELP, "; "] }
}

const fn count<T>(lists: &[&[T]]) -> usize {
    let (mut count, mut i) = (0, 0);
    while i < lists.len() {
        (count, i) = (count + lists[i].len(), i + 1);
    }
    count
}

/// All of `lists` one after the other; `N` is their [`count`].
const fn joined<T: Copy, const N: usize>(lists: &[&[T]], filler: T) -> [T; N] {
    let (mut all, mut next, mut list) = ([filler; N], 0, 0);
    while list < lists.len() {
        let mut i = 0;
        while i < lists[list].len() {
            all[next] = lists[list][i];
            (next, i) = (next + 1, i + 1);
        }
        list += 1;
    }
    assert!(next == N);
    all
}

const fn bytes<'t, const N: usize>(texts: &[&'t str; N]) -> [&'t [u8]; N] {
    let (mut all, mut i): ([&[u8]; N], _) = ([&[]; N], 0);
    while i < N {
        (all[i], i) = (texts[i].as_bytes(), i + 1);
    }
    all
}

const NAMES: [&str; count(LISTS)] = joined(LISTS, "");
const PIECES: [&str; count(HELP)] = joined(HELP, "");
const ABOUT: [u8; count(&bytes(&PIECES))] = joined(&bytes(&PIECES), 0);

/// Which transactions run.
pub static MIX: Setting =
    Setting::new("mix", Kind::Choice(&NAMES), Default::Is("standard"), about(&ABOUT));

/// Without what separates one workload from the next.
const fn about(bytes: &[u8]) -> &str {
    match str::from_utf8(bytes.split_at(bytes.len() - 2).0) {
        Ok(text) => text,
        Err(_) => panic!("made of texts"),
    }
}

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
