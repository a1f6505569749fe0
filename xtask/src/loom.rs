//! `cargo xtask loom`: runs concurrent code of storage and engine in every interleaving up to a bound.
//!
//! Each module's `loom_tests` are built against the model checker in place of the standard library
//! (`sync.rs`) and run with a bounded number of preemptions, because an unbounded number never ends.
//! Objects go to a target folder of their own so that other builds are kept.

use crate::asan;
use crate::failure::Failure;
use crate::folders::target_folder;
use crate::invocation::Invocation;
use crate::stopwatch::Stopwatch;
use std::path::Path;

/// The explored modules: a name, the package, and the filter of its tests.
const MODULES: [(&str, &str, &str); 10] = [
    ("latch", "tombolo-storage", "latch::loom_tests"),
    ("lock", "tombolo-storage", "lock::loom_tests"),
    ("pool", "tombolo-storage", "paged::pool::loom_tests"),
    ("log", "tombolo-storage", "log::loom_tests"),
    ("tree", "tombolo-storage", "paged::btree::loom_tests"),
    ("queue", "tombolo-engine", "pipeline::transport::queue::loom_tests"),
    ("seat", "tombolo-engine", "pipeline::transport::seat::loom_tests"),
    ("carry", "tombolo-engine", "pipeline::callers::carrying::loom_tests"),
    ("slots", "tombolo-engine", "pipeline::transport::slots::loom_tests"),
    ("outbox", "tombolo-engine", "link::outbox::loom_tests"),
];

/// The default number of preemptions that are explored; a test can choose another.
const PREEMPTIONS_MAX: &str = "2";

/// One line of the table.
#[derive(Clone, Copy, Debug)]
struct Row {
    name: &'static str,
    tests: u64,
    seconds: u64,
    is_well: bool,
}

/// Explores the module called `only`, or all of them.
pub(crate) fn run(root: &Path, only: Option<&str>) -> Result<(), Failure> {
    let chosen = chosen(only)?;
    let flags = asan::workspace_flags(root)?;
    let mut rows = Vec::new();
    for (name, package, filter) in chosen {
        let call = call(root, &flags, package, filter);
        eprintln!("xtask: {call}");
        let start = Stopwatch::start();
        let outcome = call.run(root).map_err(Failure::machine)?;
        rows.push(Row {
            name,
            tests: outcome.tests_passed,
            seconds: start.elapsed().as_secs(),
            // A filter that matches nothing explores nothing.
            is_well: outcome.success && outcome.tests_passed > 0,
        });
    }
    print!("{}", table(&rows));
    let failed: Vec<&str> = rows.iter().filter(|row| !row.is_well).map(|row| row.name).collect();
    match failed.as_slice() {
        [] => Ok(()),
        failed => Err(Failure::check(format!("loom failed for {}", failed.join(", ")))),
    }
}

fn chosen(only: Option<&str>) -> Result<Vec<(&'static str, &'static str, &'static str)>, Failure> {
    let wanted = |(name, ..): &(&str, &str, &str)| only.is_none_or(|only| only == *name);
    let chosen: Vec<_> = MODULES.into_iter().filter(wanted).collect();
    if chosen.is_empty() {
        let names = MODULES.map(|(name, ..)| name).join(", ");
        return Err(Failure::usage(format!("loom explores {names}, one of them with --only")));
    }
    Ok(chosen)
}

fn call(root: &Path, workspace_flags: &str, package: &str, filter: &str) -> Invocation {
    Invocation::cargo(&format!("test -p {package} --lib --profile loom"))
        .with(["--target-dir".to_string(), target_folder(root).join("loom").display().to_string()])
        .with(["--".to_string(), filter.to_string()])
        // RUSTFLAGS replaces the flags of .cargo/config.toml, so they are repeated here.
        .env("RUSTFLAGS", format!("--cfg loom {workspace_flags}").trim_end())
        .env("LOOM_MAX_PREEMPTIONS", PREEMPTIONS_MAX)
}

fn table(rows: &[Row]) -> String {
    let mut text = format!("{:<8}{:>6}{:>9}  result\n", "module", "tests", "seconds");
    for Row { name, tests, seconds, is_well } in rows {
        let result = if *is_well { "ok" } else { "FAILED" };
        text.push_str(&format!("{name:<8}{tests:>6}{seconds:>9}  {result}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{MODULES, Row, call, chosen, table};
    use std::path::Path;

    #[test]
    fn one_or_all_are_chosen() {
        assert_eq!(chosen(None).unwrap(), MODULES);
        let log = ("log", "tombolo-storage", "log::loom_tests");
        assert_eq!(chosen(Some("log")).unwrap(), [log]);
        assert_eq!(chosen(Some("nonsense")).unwrap_err().status(), 2);
    }

    #[test]
    fn every_module_that_has_such_tests_is_listed() {
        let mut found = Vec::new();
        for package in ["tombolo-storage", "tombolo-engine"] {
            let source = crate::folders::repository_root().join("crates").join(package).join("src");
            let mut folders = vec![source.clone()];
            while let Some(folder) = folders.pop() {
                for entry in std::fs::read_dir(folder).unwrap() {
                    let path = entry.unwrap().path();
                    if path.is_dir() {
                        folders.push(path);
                    } else if path.file_name().is_some_and(|name| name == "loom_tests.rs") {
                        let module = path.strip_prefix(&source).unwrap().with_extension("");
                        let module = module.display().to_string().replace('/', "::");
                        found.push((package.to_string(), module));
                    }
                }
            }
        }
        found.sort_unstable();
        let mut listed =
            MODULES.map(|(_, package, filter)| (package.to_string(), filter.to_string()));
        listed.sort_unstable();
        assert_eq!(found, listed);
    }

    #[test]
    fn the_call_names_the_checker_and_its_bound() {
        let (package, filter) = ("tombolo-storage", "log::loom_tests");
        let shown = call(Path::new("/r"), "-Ctarget-cpu=x86-64-v3", package, filter).to_string();
        assert!(shown.contains("RUSTFLAGS='--cfg loom -Ctarget-cpu=x86-64-v3'"), "{shown}");
        assert!(shown.contains("LOOM_MAX_PREEMPTIONS=2"), "{shown}");
        assert!(shown.ends_with("/loom -- log::loom_tests"), "{shown}");
    }

    #[test]
    fn the_table_has_a_line_for_each() {
        let row = Row { name: "latch", tests: 6, seconds: 12, is_well: true };
        let rows = [row, Row { name: "log", is_well: false, ..row }];
        let expected = "module   tests  seconds  result\n\
                        latch        6       12  ok\n\
                        log          6       12  FAILED\n";
        assert_eq!(table(&rows), expected);
    }
}
