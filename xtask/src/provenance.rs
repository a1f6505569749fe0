//! The origin of a result: the fields `host` and `commit` of every row in `results/`.
//!
//! It does not record whether the working folder had changes; results are to be recorded from a clean one.

use std::path::Path;
use std::process::Command;

use serde::Serialize;

/// This machine, as rows name it.
#[derive(Debug, Serialize)]
pub(crate) struct Host {
    /// The processors' model.
    cpu: String,
    /// The number of processors.
    cores: usize,
}

impl Host {
    pub(crate) fn read() -> Self {
        let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { cpu: model(&cpu).unwrap_or("unknown").to_string(), cores }
    }
}

/// A row with commit and machine as its first fields.
#[derive(Debug, Serialize)]
struct Stamped<T> {
    commit: String,
    host: Host,
    #[serde(flatten)]
    row: T,
}

/// `row`, an object, in one line of JSON with commit and machine.
pub(crate) fn stamped(root: &Path, row: impl Serialize) -> String {
    line(&Stamped { commit: commit(root), host: Host::read(), row })
}

/// `row` in one line of JSON.
pub(crate) fn line(row: &impl Serialize) -> String {
    serde_json::to_string(row).expect("a row's keys are texts")
}

/// A number of seconds, rounded to a tenth, for rows.
pub(crate) fn tenths(seconds: f64) -> f64 {
    (seconds * 10.0).round_ties_even() / 10.0
}

fn model(cpuinfo: &str) -> Option<&str> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, model)| model.trim())
}

/// The commit that the working folder is at.
pub(crate) fn commit(root: &Path) -> String {
    let output = Command::new("git").arg("-C").arg(root).args(["rev-parse", "HEAD"]).output();
    let output = output.ok().filter(|output| output.status.success());
    output.map_or_else(
        || "unknown".to_string(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_string(),
    )
}

#[cfg(test)]
mod tests {
    use super::{model, stamped};

    #[test]
    fn a_row_says_where_it_comes_from() {
        let row = serde_json::json!({ "command": "soak" });
        let row = stamped(&crate::folders::repository_root(), row);
        let row: serde_json::Value = serde_json::from_str(&row).unwrap();
        assert!(!row["host"]["cpu"].as_str().unwrap().is_empty(), "{row}");
        assert!(row["host"]["cores"].as_u64().unwrap() > 0, "{row}");
        assert_eq!(row["command"], "soak");
        assert!(row["commit"].is_string(), "{row}");
    }

    #[test]
    fn the_model_is_found() {
        assert_eq!(model("processor : 0\nmodel name\t: AMD EPYC\n"), Some("AMD EPYC"));
        assert_eq!(model("processor : 0\n"), None);
    }
}
