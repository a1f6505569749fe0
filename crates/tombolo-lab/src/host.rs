//! The machine and this process on it, as results name them: processor, cores, memory, system,
//! bytes written to disks.
//!
//! Read from `/proc` and `/sys` when asked, never cached. Where a limit of a control group is
//! tighter than the machine, the limit is the machine. Not here: clocks (the engine's door) and the
//! topology of caches.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tombolo_engine::threads;

/// The machine, as results describe it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Host {
    /// The processor's model.
    pub cpu: String,
    /// Threads that run simultaneously.
    pub cores: usize,
    /// Memory that this process may use, in bytes.
    pub memory_bytes: u64,
    /// The operating system and its version.
    pub os: String,
}

impl Host {
    /// This machine.
    pub fn read() -> Self {
        let memory = proc_kb(&text("/proc/meminfo"), "MemTotal").unwrap_or(0);
        let limit = control_groups().iter().filter_map(ControlGroup::limit_bytes).min();
        Self {
            cpu: field(&text("/proc/cpuinfo"), "model name").unwrap_or("unknown").to_owned(),
            cores: threads::available(),
            memory_bytes: limit.map_or(memory, |limit| limit.min(memory)),
            os: os_name(),
        }
    }
}

/// Bytes of memory that this process can still take before the system swaps or kills.
pub fn available_bytes() -> u64 {
    let machine = proc_kb(&text("/proc/meminfo"), "MemAvailable").unwrap_or(u64::MAX);
    let groups = control_groups();
    groups.iter().filter_map(ControlGroup::available_bytes).fold(machine, u64::min)
}

/// Bytes of memory this process occupies now.
pub fn resident_bytes() -> u64 {
    proc_kb(&text("/proc/self/status"), "VmRSS").unwrap_or(0)
}

/// Bytes this process has caused to be written to disks since it started; `None` where the kernel
/// does not say.
pub fn disk_bytes() -> Option<u64> {
    field(&text("/proc/self/io"), "write_bytes")?.parse().ok()
}

/// Processor time, user and system, that each thread of this process has used, by name; those of
/// one name together. Nothing where the kernel does not say.
pub fn threads_cpu() -> BTreeMap<String, Duration> {
    let mut cpu: BTreeMap<String, Duration> = BTreeMap::new();
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return cpu };
    for path in threads.flatten().map(|thread| thread.path()) {
        let ran = text(path.join("schedstat"));
        let ran = ran.split(' ').next().and_then(|ns| ns.parse().ok());
        let name = text(path.join("comm")).trim_end().to_owned();
        if let Some(ns) = ran {
            *cpu.entry(name).or_default() += Duration::from_nanos(ns);
        }
    }
    cpu
}

/// Context switches of threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// Because the thread slept.
    pub voluntary: u64,
    /// Because another thread took the core.
    pub involuntary: u64,
}

impl Switches {
    /// Those since `before`; threads that ended in between took theirs with them.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            voluntary: self.voluntary.saturating_sub(before.voluntary),
            involuntary: self.involuntary.saturating_sub(before.involuntary),
        }
    }

    /// Both kinds.
    pub fn all(self) -> u64 {
        self.voluntary + self.involuntary
    }
}

/// Context switches of all threads of this process that live; `None` where the kernel does not say.
pub fn switches() -> Option<Switches> {
    let mut all = Switches::default();
    for path in fs::read_dir("/proc/self/task").ok()?.flatten().map(|thread| thread.path()) {
        let status = text(path.join("status"));
        // A thread that ended meanwhile has none.
        let count = |name| field(&status, name).and_then(|count| count.parse::<u64>().ok());
        all.voluntary += count("voluntary_ctxt_switches").unwrap_or_default();
        all.involuntary += count("nonvoluntary_ctxt_switches").unwrap_or_default();
    }
    (all.all() > 0).then_some(all)
}

/// The contents of a small file of the system; empty when it is not there.
fn text(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The value behind `name:` in the first line that begins with it.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let value_of = |line: &'a str| line.strip_prefix(name)?.trim_start().strip_prefix(':');
    text.lines().find_map(value_of).map(str::trim)
}

/// Bytes of a field that is given in kB.
fn proc_kb(text: &str, name: &str) -> Option<u64> {
    let kb: u64 = field(text, name)?.strip_suffix("kB")?.trim().parse().ok()?;
    Some(kb * 1024)
}

fn os_name() -> String {
    let kernel = text("/proc/sys/kernel/osrelease");
    let release = text("/etc/os-release");
    let pretty = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    let kernel = format!("Linux {}", kernel.trim());
    match pretty.map(|name| name.trim_matches('"')) {
        Some(name) if !name.is_empty() => format!("{name}, {kernel}"),
        _ => kernel,
    }
}

/// A control group this process is in, or one above it.
struct ControlGroup {
    /// The file with the limit of memory.
    limit: String,
    /// The file with the memory in use.
    used: String,
    /// Its statistics.
    statistics: String,
}

impl ControlGroup {
    fn limit_bytes(&self) -> Option<u64> {
        // `max`, or in the first version a number near 2^63, is no limit.
        self.limit.trim().parse().ok().filter(|&limit| limit < 1 << 60)
    }

    fn available_bytes(&self) -> Option<u64> {
        let limit = self.limit_bytes()?;
        let used: u64 = self.used.trim().parse().ok()?;
        // Unused file pages are given back when memory is asked for.
        let is_idle = |line: &&str| {
            line.starts_with("inactive_file ") || line.starts_with("total_inactive_file ")
        };
        let idle = self.statistics.lines().find(is_idle);
        let idle = idle.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0);
        Some(limit.saturating_sub(used.saturating_sub(idle)))
    }
}

/// The groups that limit this process's memory, of either version of the interface.
fn control_groups() -> Vec<ControlGroup> {
    let mut groups = Vec::new();
    for line in text("/proc/self/cgroup").lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (root, limit, used) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max", "memory.current"),
            c if c.split(',').any(|c| c == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes")
            }
            _ => continue,
        };
        let leaf = PathBuf::from(format!("{root}{path}"));
        for directory in leaf.ancestors().take_while(|directory| directory.starts_with(root)) {
            groups.push(ControlGroup {
                limit: text(directory.join(limit)),
                used: text(directory.join(used)),
                statistics: text(directory.join("memory.stat")),
            });
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_described() {
        let host = Host::read();
        assert!(host.cores > 0 && host.memory_bytes > 1 << 20, "{host:?}");
        assert!(host.os.contains("Linux") && !host.cpu.is_empty(), "{host:?}");
        assert!(available_bytes() <= host.memory_bytes);
        assert!(resident_bytes() > 0);
    }

    #[test]
    fn fields_are_read_as_the_kernel_writes_them() {
        let info =
            "MemTotal:       24650004 kB\nMemAvailable:   20000 kB\nmodel name\t: A CPU @ 2 GHz\n";
        assert_eq!(proc_kb(info, "MemAvailable"), Some(20_000 * 1024));
        assert_eq!(field(info, "model name"), Some("A CPU @ 2 GHz"));
        assert_eq!(proc_kb(info, "Mem"), None, "a name is matched whole");
    }

    #[test]
    fn a_group_without_limit_limits_nothing() {
        let group = |limit: &str| ControlGroup {
            limit: limit.to_owned(),
            used: "600\n".to_owned(),
            statistics: "anon 1\ninactive_file 100\n".to_owned(),
        };
        assert_eq!(group("1000\n").available_bytes(), Some(500));
        assert_eq!(group("max\n").available_bytes(), None);
        assert_eq!(group("9223372036854771712\n").available_bytes(), None);
        assert_eq!(group("").available_bytes(), None);
    }
}
