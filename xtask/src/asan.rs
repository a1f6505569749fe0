//! `cargo xtask asan`: runs the storage crate's tests, including the memory store's model tests, under the address
//! sanitizer.
//!
//! The storage crate contains nearly all `unsafe` code of the project, and its model tests exercise it with random
//! operations. The sanitizer is an unstable compiler flag, hence `RUSTC_BOOTSTRAP`; the pinned toolchain keeps
//! that predictable. Objects go to a target folder of their own so that other builds are kept.
//! It is not part of `ci`: the instrumented build and run take minutes and need not be repeated for each change.

use crate::failure::Failure;
use crate::folders::target_folder;
use crate::invocation::Invocation;
use std::path::Path;

/// Naming the target keeps the sanitizer out of build scripts and procedural macros.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Runs the tests whose names contain `filter`, or all of them.
pub(crate) fn run(root: &Path, filter: Option<&str>) -> Result<(), Failure> {
    let flags = workspace_flags(root)?;
    let call = call(root, &flags, filter);
    eprintln!("xtask: {call}");
    match call.succeed(root)?.tests_passed {
        0 => Err(Failure::check("asan ran no test; does the filter match any?")),
        passed => {
            println!("asan: {passed} tests passed, no bad access");
            Ok(())
        }
    }
}

fn call(root: &Path, workspace_flags: &str, filter: Option<&str>) -> Invocation {
    Invocation::cargo("test -p tombolo-storage --lib --tests --profile quick")
        .with(["--target".to_string(), TARGET.to_string()])
        .with(["--target-dir".to_string(), target_folder(root).join("asan").display().to_string()])
        .with(filter.map(ToString::to_string))
        .env("RUSTC_BOOTSTRAP", "1")
        // A log's failure is leaked on purpose, once in its life, and tests leak some values: not a bad access.
        .env("ASAN_OPTIONS", "detect_leaks=0")
        // RUSTFLAGS replaces the flags of .cargo/config.toml, so they are repeated here.
        .env("RUSTFLAGS", format!("-Zsanitizer=address {workspace_flags}").trim_end())
        // Little optimisation: the tests of all profiles compile for minutes, and run for seconds.
        .env("CARGO_PROFILE_QUICK_OPT_LEVEL", "1")
        // The asserts of the debug build stay in.
        .env("CARGO_PROFILE_QUICK_DEBUG_ASSERTIONS", "true")
}

/// The flags every other build uses, from `.cargo/config.toml`.
pub(crate) fn workspace_flags(root: &Path) -> Result<String, Failure> {
    let path = root.join(".cargo/config.toml");
    let text = std::fs::read_to_string(&path)
        .map_err(|error| Failure::machine(format!("cannot read {}: {error}", path.display())))?;
    rustflags(&text).ok_or_else(|| {
        Failure::check(format!(
            "{} has no line `rustflags = [\"…\"]`, which has to be repeated",
            path.display()
        ))
    })
}

fn rustflags(config: &str) -> Option<String> {
    let line = config.lines().find(|line| line.trim_start().starts_with("rustflags"))?;
    let list = line.split_once('[')?.1.split_once(']')?.0;
    let flags: Vec<&str> = list.split(',').map(|flag| flag.trim().trim_matches('"')).collect();
    Some(flags.join(" ").trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::{call, rustflags, workspace_flags};
    use std::path::Path;

    #[test]
    fn the_workspace_flags_are_repeated() {
        let config = "[build]\n# why\nrustflags = [\"-Ctarget-cpu=x86-64-v3\", \"-Cforce-frame-pointers\"]\n";
        assert_eq!(rustflags(config).unwrap(), "-Ctarget-cpu=x86-64-v3 -Cforce-frame-pointers");
        assert_eq!(rustflags("[build]\n"), None);
        assert!(
            workspace_flags(&crate::folders::repository_root()).unwrap().contains("target-cpu")
        );
    }

    #[test]
    fn the_call_instruments_the_target_only() {
        let shown = call(Path::new("/r"), "-Ctarget-cpu=x86-64-v3", Some("model")).to_string();
        assert!(
            shown.contains("RUSTFLAGS='-Zsanitizer=address -Ctarget-cpu=x86-64-v3'"),
            "{shown}"
        );
        assert!(shown.contains("--target x86_64-unknown-linux-gnu"), "{shown}");
        assert!(shown.contains("/asan model"), "{shown}");
    }
}
