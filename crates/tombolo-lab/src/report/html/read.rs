//! Results as they stand in files: one object after the other, on one line each or on many.
//!
//! A file that holds anything else is refused with its name and a line. What is not known of a
//! result is ignored, what must be known and is not there is named.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};

use crate::experiment::looking_glass::result::{Dissection, Reproduction};
use crate::failure::Failure;

/// The common fields, as far as a page shows them.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub(super) struct Head {
    #[serde(default)]
    pub(super) command: String,
    #[serde(default)]
    pub(super) version: String,
    #[serde(default)]
    pub(super) commit: String,
    #[serde(default)]
    pub(super) settings: Map<String, Json>,
    #[serde(default)]
    pub(super) settings_hash: String,
    #[serde(default)]
    pub(super) host: HostRead,
    #[serde(default)]
    pub(super) seed: Option<u64>,
}

/// The machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct HostRead {
    pub(super) cpu: String,
    pub(super) cores: u64,
    pub(super) memory_bytes: u64,
    pub(super) os: String,
}

/// Latencies in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub(super) struct LatencyRead {
    pub(super) p50: f64,
    pub(super) p95: f64,
    pub(super) p99: f64,
    pub(super) p999: f64,
    pub(super) max: f64,
}

/// One type of transaction in a run.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct KindRead {
    pub(super) committed: u64,
    pub(super) aborted: u64,
    pub(super) latency_us: Option<LatencyRead>,
    pub(super) instructions: Option<f64>,
    pub(super) calls: Option<BTreeMap<String, f64>>,
}

/// A result of `run`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct RunRead {
    pub(super) workload: String,
    pub(super) mix: String,
    pub(super) profile: String,
    pub(super) durability: String,
    #[serde(default)]
    pub(super) warehouses: Option<u64>,
    #[serde(default)]
    pub(super) threads: Option<u64>,
    pub(super) committed: u64,
    pub(super) tps: f64,
    pub(super) tps_per_cpu_s: f64,
    #[serde(default)]
    pub(super) latency_us: Option<LatencyRead>,
    pub(super) by_transaction: BTreeMap<String, KindRead>,
    #[serde(default)]
    pub(super) miss_ns: Option<f64>,
    pub(super) consistent: bool,
    pub(super) state_hash: Option<String>,
    #[serde(default)]
    pub(super) point: Option<Map<String, Json>>,
    #[serde(default)]
    pub(super) round: Option<u64>,
    #[serde(default)]
    pub(super) notes: Vec<String>,
}

/// The middle and the ends.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub(super) struct SpreadRead {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

/// A point of a sweep.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct PointRead {
    pub(super) point: Map<String, Json>,
    pub(super) tps_per_cpu_s: SpreadRead,
    pub(super) ratio_to_first: SpreadRead,
}

/// The last object of a sweep.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct SummaryRead {
    pub(super) summary: Vec<PointRead>,
}

/// An engine of `compare`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct EngineRead {
    pub(super) engine: String,
    pub(super) engine_version: String,
    pub(super) durability: String,
    pub(super) transport: String,
    pub(super) committed: u64,
    pub(super) us_per_transaction_cpu: f64,
    #[serde(default)]
    pub(super) us_per_transaction_cpu_rounds: Option<SpreadRead>,
    pub(super) tps: f64,
    pub(super) consistent: bool,
}

/// The last object of `compare`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct RatiosRead {
    pub(super) ratios: BTreeMap<String, SpreadRead>,
}

/// What a result is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Found {
    Dissection(Box<Dissection>),
    Reproduction(Reproduction),
    Run(Box<RunRead>),
    Summary(SummaryRead),
    Engine(EngineRead),
    Ratios(RatiosRead),
    /// A result of a command that has no section of its own.
    Other,
}

/// A result out of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    pub(super) head: Head,
    pub(super) found: Found,
    /// All its fields.
    pub(super) fields: Map<String, Json>,
}

/// The results in a file that holds `bytes`, in order; `file` is its name in errors.
///
/// # Errors
/// When there is none, or something in it is no result.
pub fn read(file: &str, bytes: &[u8]) -> Result<Vec<Stored>, Failure> {
    let text = str::from_utf8(bytes).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
        refused(file, line, "this is no text in UTF-8")
    })?;
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Json>();
    let mut results = Vec::new();
    loop {
        let line = line_of(text, stream.byte_offset());
        let Some(read) = stream.next() else { break };
        let object = match read {
            Ok(Json::Object(object)) => object,
            Ok(_) => {
                return Err(refused(file, line, "this is no result, which is a JSON object"));
            }
            Err(error) => {
                let what = format!("this is no JSON: {}", without_place(&error));
                return Err(refused(file, error.line(), &what));
            }
        };
        results.push(stored(file, line, object)?);
    }
    if results.is_empty() {
        return Err(refused(file, 1, "there is no result in it"));
    }
    Ok(results)
}

fn refused(file: &str, line: usize, what: &str) -> Failure {
    Failure::usage(format!("{file}: line {line}: {what}: give what a command printed with --json"))
}

/// An error of the parser without its own line and column.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or_default().to_owned()
}

/// The line, from 1, of what comes first behind this place.
fn line_of(text: &str, offset: usize) -> usize {
    let rest = text.get(offset..).unwrap_or_default();
    let blank = rest.len() - rest.trim_start().len();
    let before = text.get(..offset + blank).unwrap_or(text);
    1 + before.bytes().filter(|&byte| byte == b'\n').count()
}

fn stored(file: &str, line: usize, object: Map<String, Json>) -> Result<Stored, Failure> {
    let is_summary = object.contains_key("summary");
    let command = object.get("command").and_then(Json::as_str).unwrap_or_default().to_owned();
    if command.is_empty() && !is_summary {
        return Err(refused(file, line, "this is no result: it names no command"));
    }
    let (ratios, engine) = (object.contains_key("ratios"), object.contains_key("engine"));
    let typed = |error: serde_json::Error| {
        let what = format!("this result of {command} cannot be read: {}", without_place(&error));
        refused(file, line, &what)
    };
    let head: Head = from(&object).map_err(typed)?;
    let found = match command.as_str() {
        "dissect" => Found::Dissection(from(&object).map_err(typed)?),
        "paper" => Found::Reproduction(from(&object).map_err(typed)?),
        "compare" if ratios => Found::Ratios(from(&object).map_err(typed)?),
        "compare" if engine => Found::Engine(from(&object).map_err(typed)?),
        _ if is_summary => Found::Summary(from(&object).map_err(typed)?),
        "run" => Found::Run(from(&object).map_err(typed)?),
        _ => Found::Other,
    };
    if let Found::Dissection(dissection) = &found
        && dissection.rungs.is_empty()
    {
        return Err(refused(file, line, "this result of dissect has no rungs"));
    }
    Ok(Stored { head, found, fields: object })
}

fn from<T: DeserializeOwned>(object: &Map<String, Json>) -> Result<T, serde_json::Error> {
    T::deserialize(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refuses(text: &str, expect: &str) {
        let failure = read("a.json", text.as_bytes()).unwrap_err();
        assert_eq!(failure.blame().status(), 2);
        assert!(failure.to_string().starts_with(expect), "{failure}");
    }

    #[test]
    fn objects_are_read_however_they_stand() {
        let text = "\n{\"command\": \"topology\",\n \"a\": 1}\n\n{\"command\":\"topology\"} ";
        let results = read("a.json", text.as_bytes()).unwrap();
        assert_eq!(results.len(), 2);
        assert_eq!(results[0].found, Found::Other);
        assert_eq!(results[0].fields["a"], 1);
    }

    #[test]
    fn what_is_no_result_is_refused_with_its_line() {
        refuses("", "a.json: line 1: there is no result in it");
        refuses("{\"command\":\"x\"}\n\n[1]", "a.json: line 3: this is no result, which");
        refuses("{\"command\":\"x\"}\n{\"a\": 1}", "a.json: line 2: this is no result: it names");
        refuses(
            "{\"command\":\"x\"}\n{\n\"a\" 1}",
            "a.json: line 3: this is no JSON: expected `:`",
        );
        refuses("{\"command\": \"x\"", "a.json: line 1: this is no JSON: EOF while");
        let failure = read("a.json", b"\n\xff").unwrap_err().to_string();
        assert!(failure.starts_with("a.json: line 2: this is no text"), "{failure}");
        refuses("<html>", "a.json: line 1: this is no JSON");
        refuses("{\"command\": 7}", "a.json: line 1: this is no result: it names no command");
    }

    #[test]
    fn what_is_missing_is_named() {
        refuses("{\"command\":\"dissect\"}", "a.json: line 1: this result of dissect cannot be");
        refuses("\n{\"command\":\"paper\",\"id\":\"lg/fig1\"}", "a.json: line 2: this result of");
        let failure = read("a", b"{\"command\":\"run\"}").unwrap_err().to_string();
        assert!(failure.contains("missing field `workload`"), "{failure}");
        let dissect = include_str!("../tests/dissect.json");
        let mut object: Map<String, Json> = serde_json::from_str(dissect).unwrap();
        object.insert("rungs".to_owned(), Json::Array(Vec::new()));
        refuses(&Json::Object(object).to_string(), "a.json: line 1: this result of dissect has no");
    }
}
