//! The requirements of the checks besides the Rust toolchain, and their installation.
//!
//! If everything is installed, nothing is fetched, so a second run works without a network. Only apt is supported;
//! on other systems, or without root, the exact command is printed and nothing is changed. Not here: the
//! crates in `Cargo.lock`, which `cargo` fetches, and the toolchain in `rust-toolchain.toml`, which rustup fetches.

use crate::failure::Failure;
use crate::invocation::Invocation;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// A program or file that a check needs, and its Debian package.
struct Need {
    /// A name on the path, or the file's whole path, in which `*` stands for any folder.
    what: &'static str,
    package: &'static str,
    why: &'static str,
}

const NEEDS: [Need; 8] = [
    Need { what: "valgrind", package: "valgrind", why: "instruction counts (--counter callgrind)" },
    Need {
        what: "python3",
        package: "python3",
        why: "verify_dump.py, the independent verification",
    },
    Need {
        what: "strace",
        package: "strace",
        why: "processes killed at chosen system calls (cargo xtask kills)",
    },
    Need {
        what: "redis-server",
        package: "redis-server",
        why: "a server to be compared with (compare debit-credit --with redis)",
    },
    Need {
        what: "/usr/lib/postgresql/*/bin/postgres",
        package: "postgresql",
        why: "a server to be compared with (compare debit-credit --with postgres)",
    },
    Need {
        what: "/usr/include/rocksdb/c.h",
        package: "librocksdb-dev",
        why: "a library to be compared with (compare debit-credit --with rocksdb)",
    },
    Need { what: "gdb", package: "gdb", why: "where the threads of a test stand that hangs" },
    Need { what: "clang", package: "clang", why: "that library's declarations in Rust (bindgen)" },
];

/// The action for missing packages.
#[derive(Debug, PartialEq, Eq)]
enum Plan {
    Nothing,
    Install(Vec<Invocation>),
    Refuse(String),
}

/// Installs missing packages, or prints the command for that.
pub(crate) fn provide() -> Result<(), Failure> {
    let missing: Vec<&Need> = NEEDS.iter().filter(|need| !is_there(need.what)).collect();
    for need in &missing {
        eprintln!("xtask: {} is missing; it serves {}", need.what, need.why);
    }
    match plan(&missing, is_root(), on_path("apt-get")) {
        Plan::Nothing => {
            let found: Vec<&str> = NEEDS.iter().map(|need| need.what).collect();
            eprintln!("xtask: nothing to install ({} found)", found.join(", "));
            Ok(())
        }
        Plan::Refuse(message) => Err(Failure::machine(message)),
        Plan::Install(calls) => calls.iter().try_for_each(|call| {
            eprintln!("xtask: {call}");
            match call.run(Path::new("/")) {
                Ok(outcome) if outcome.success => Ok(()),
                Ok(_) => Err(Failure::machine(format!("`{call}` failed; see its message above"))),
                Err(message) => Err(Failure::machine(message)),
            }
        }),
    }
}

fn plan(missing: &[&Need], root: bool, apt: bool) -> Plan {
    if missing.is_empty() {
        return Plan::Nothing;
    }
    let packages: Vec<&str> = missing.iter().map(|need| need.package).collect();
    if !apt {
        return Plan::Refuse(format!(
            "install {} with this system's package manager",
            packages.join(" and ")
        ));
    }
    let update = Invocation::new("apt-get", &["update", "-q"]);
    // Recommended packages would bring documentation and servers along; the checks need none.
    let install = Invocation::new("apt-get", &["install", "-q", "-y", "--no-install-recommends"])
        .with(packages.iter().map(ToString::to_string))
        .env("DEBIAN_FRONTEND", "noninteractive");
    if root {
        Plan::Install(vec![update, install])
    } else {
        let packages = packages.join(" ");
        Plan::Refuse(format!(
            "not root; run `sudo apt-get update && sudo apt-get install -y --no-install-recommends {packages}`"
        ))
    }
}

pub(crate) fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

fn is_there(what: &str) -> bool {
    match what.split_once("/*/") {
        Some((folder, file)) => {
            let folders = std::fs::read_dir(folder).into_iter().flatten().flatten();
            folders.into_iter().any(|folder| folder.path().join(file).is_file())
        }
        None if what.starts_with('/') => Path::new(what).is_file(),
        None => on_path(what),
    }
}

pub(crate) fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| {
        let file = std::fs::metadata(folder.join(program));
        file.is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    })
}

#[cfg(test)]
mod tests {
    use super::{NEEDS, Plan, is_there, on_path, plan};

    #[test]
    fn a_complete_machine_is_left_alone() {
        assert_eq!(plan(&[], true, true), Plan::Nothing);
        assert_eq!(plan(&[], false, false), Plan::Nothing);
    }

    #[test]
    fn root_updates_once_and_installs_only_what_is_missing() {
        let Plan::Install(calls) = plan(&[&NEEDS[0]], true, true) else {
            panic!("not an installation")
        };
        let shown: Vec<String> = calls.iter().map(ToString::to_string).collect();
        assert_eq!(shown[0], "apt-get update -q");
        assert!(shown[1].ends_with("--no-install-recommends valgrind"), "{}", shown[1]);
        assert_eq!(shown.len(), 2);
    }

    #[test]
    fn without_root_or_apt_the_command_is_reported() {
        let Plan::Refuse(message) = plan(&[&NEEDS[0], &NEEDS[1]], false, true) else {
            panic!("acted")
        };
        assert!(message.contains("sudo apt-get update && sudo apt-get install"), "{message}");
        assert!(message.contains("valgrind python3"), "{message}");
        let Plan::Refuse(message) = plan(&[&NEEDS[1]], true, false) else { panic!("acted") };
        assert!(message.contains("python3"), "{message}");
    }

    #[test]
    fn programs_are_found_on_the_path_and_files_by_theirs() {
        assert!(on_path("sh") && is_there("sh"));
        assert!(!on_path("no-such-program") && !is_there("no-such-program"));
        assert!(is_there("/proc/self/status") && !is_there("/proc/self") && !is_there("/no-file"));
        assert!(is_there("/proc/*/status") && !is_there("/proc/*/no-file"));
    }
}
