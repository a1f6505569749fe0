//! Where a result comes from: the fields `host` and `commit` that every row in `results/` has.
//!
//! What it does not do: say whether the working folder had changes. A result is recorded from a clean one.

use std::path::Path;
use std::process::Command;

/// `"host":{…}`: model and number of this machine's processors.
pub(crate) fn host() -> String {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let host = serde_json::json!({ "cpu": model(&cpu).unwrap_or("unknown"), "cores": cores });
    format!("\"host\":{host}")
}

/// `row`, an object in JSON, with commit and machine as its first fields.
pub(crate) fn stamped(root: &Path, row: &str) -> String {
    match row.strip_prefix('{') {
        Some(rest) => format!("{{\"commit\":\"{}\",{},{rest}", commit(root), host()),
        None => row.to_string(),
    }
}

fn model(cpuinfo: &str) -> Option<&str> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, model)| model.trim())
}

fn commit(root: &Path) -> String {
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
        let row = stamped(&crate::folders::repository_root(), "{\"command\":\"soak\"}");
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
