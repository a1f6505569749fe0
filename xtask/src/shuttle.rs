//! `cargo xtask shuttle`: whole transactions of the paged store's sessions, in random interleavings, also on disks that
//! fail.
//!
//! Built against shuttle's scheduler in place of the standard library (`sync.rs`), in a target folder of its own. A
//! seed determines one interleaving; the same seed repeats it. The conditions are those of the test.

use crate::asan;
use crate::failure::Failure;
use crate::folders::target_folder;
use crate::invocation::Invocation;
use crate::options::Options;
use std::path::Path;

/// The default number of interleavings.
const SEEDS: u64 = 2_000;

/// Runs interleavings, with the options in `words`.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<(), Failure> {
    let (first, seeds) = options(words)?;
    let call = call(root, &asan::workspace_flags(root)?, first, seeds);
    eprintln!("xtask: {call}");
    let outcome = call.run(root).map_err(Failure::machine)?;
    if !outcome.success || outcome.tests_passed == 0 {
        return Err(Failure::check(
            "shuttle failed: the line with TOMBOLO_SEED has the failing seed",
        ));
    }
    println!(
        "{seeds} drawn orders of the sessions' steps from seed {first} on: all are serializable, and keep what they \
         confirmed when the disk fails"
    );
    Ok(())
}

/// The first seed, and how many.
fn options(words: &[&str]) -> Result<(u64, u64), Failure> {
    let given = Options::read("shuttle", &["--seed", "--seeds"], words)?;
    Ok((given.number("--seed", 0)?, given.number("--seeds", SEEDS)?))
}

fn call(root: &Path, workspace_flags: &str, first: u64, seeds: u64) -> Invocation {
    Invocation::cargo("test -p tombolo-storage --test interleavings --profile loom")
        .with([
            "--target-dir".to_string(),
            target_folder(root).join("shuttle").display().to_string(),
        ])
        // RUSTFLAGS replaces the flags of .cargo/config.toml, so they are repeated here.
        .env("RUSTFLAGS", format!("--cfg shuttle {workspace_flags}").trim_end())
        .env("TOMBOLO_SEED", first.to_string())
        .env("TOMBOLO_SEEDS", seeds.to_string())
}

#[cfg(test)]
mod tests {
    use super::{SEEDS, call, options};
    use std::path::Path;

    #[test]
    fn seeds_are_numbers() {
        assert_eq!(options(&[]).unwrap(), (0, SEEDS));
        assert_eq!(options(&["--seeds", "9", "--seed", "7"]).unwrap(), (7, 9));
        for words in [&["--seeds"][..], &["--seed", "x"], &["--only", "log"]] {
            assert_eq!(options(words).unwrap_err().status(), 2, "{words:?}");
        }
    }

    #[test]
    fn the_call_names_the_scheduler_and_the_seeds() {
        let shown = call(Path::new("/r"), "-Ctarget-cpu=x86-64-v3", 7, 9).to_string();
        assert!(shown.contains("RUSTFLAGS='--cfg shuttle -Ctarget-cpu=x86-64-v3'"), "{shown}");
        assert!(shown.contains("TOMBOLO_SEED=7") && shown.contains("TOMBOLO_SEEDS=9"), "{shown}");
    }
}
