//! Results read from files: one object after the other, on one line each or on many.
//!
//! They are read as the types that commands print. A file that holds anything else is refused with its name and a
//! line. Unknown fields are ignored; a missing field is an error that names it.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use crate::compare::{EngineResult, RatioResult, calls};
use crate::experiment::islands::advice::AdviceResult;
use crate::experiment::islands::deployments::DeploymentResult;
use crate::experiment::looking_glass::result::{Dissection, Reproduction};
use crate::failure::Failure;
use crate::machine::counters::CountersResult;
use crate::machine::links::LinksResult;
use crate::machine::topology::TopologyResult;
use crate::report::check::CheckResult;
use crate::report::listed::{
    Listed, RepartitionResult, ReportResult, SettingsResult, VerifyResult,
};
use crate::report::recovery::{
    InspectPagesResult, InspectResult, RecoverPagesResult, RecoverResult,
};
use crate::report::run::{ProfileResult, RunResult};
use crate::report::{Headed, Header};
use crate::sweep::Summary;

/// A result as the type that its command prints.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(super) enum Found {
    Dissection(Box<Dissection>),
    Reproduction(Reproduction),
    Listed(Listed),
    Run(Box<RunResult>),
    Summary(Summary),
    Profile(ProfileResult),
    Engine(Box<EngineResult>),
    Ratios(RatioResult),
    Call(Box<calls::CallResult>),
    CallRatios(calls::RatioResult),
    Check(CheckResult),
    Recover(Box<RecoverResult>),
    RecoverPages(Box<RecoverPagesResult>),
    Inspect(Box<InspectResult>),
    InspectPages(InspectPagesResult),
    Settings(SettingsResult),
    Report(ReportResult),
    Topology(TopologyResult),
    Counters(CountersResult),
    Links(LinksResult),
    Deployment(Box<DeploymentResult>),
    Advice(Box<AdviceResult>),
    Verify(Box<VerifyResult>),
    Repartition(RepartitionResult),
    /// A result of anything else, such as a chore of this repository.
    Other,
}

/// A result out of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    pub(super) head: Header,
    pub(super) found: Found,
    /// All its fields.
    pub(super) fields: Map<String, Json>,
}

impl Found {
    /// Whether it belongs to a comparison.
    pub(super) const fn is_compared(&self) -> bool {
        matches!(self, Self::Engine(_) | Self::Ratios(_) | Self::Call(_) | Self::CallRatios(_))
    }
}

impl Stored {
    /// The result as its command would print what was read of it; `None` where no command prints such
    /// results.
    pub fn printed(&self) -> Option<Json> {
        let printed = match &self.found {
            Found::Other => return None,
            Found::Summary(summary) => serde_json::to_value(summary),
            found => serde_json::to_value(Headed { header: self.head.clone(), found }),
        };
        Some(printed.unwrap_or_default())
    }
}

/// The results in a file that holds `bytes`, in order; `file` is its name in errors.
///
/// # Errors
/// When the file is missing or empty, or a line of it is not a result.
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
    let has = |field: &str| object.contains_key(field);
    let text = |field: &str| object.get(field).and_then(Json::as_str);
    let command = text("command").or_else(|| text("experiment")).unwrap_or_default();
    if command.is_empty() && !has("summary") {
        return Err(refused(file, line, "this is no result: it names no command"));
    }
    let read = match command {
        _ if has("summary") => from(&object, Found::Summary),
        "dissect" => from(&object, Found::Dissection),
        "paper" if has("title") => from(&object, Found::Listed),
        "paper" => from(&object, Found::Reproduction),
        "run" if has("switches") => from(&object, Found::Profile),
        "run" => from(&object, Found::Run),
        "compare" if has("wall_ratios") => from(&object, Found::CallRatios),
        "compare" if has("ratios") => from(&object, Found::Ratios),
        "compare" if has("what") => from(&object, Found::Call),
        "compare" => from(&object, Found::Engine),
        "check" | "dump" => from(&object, Found::Check),
        "recover" if has("restart") => from(&object, Found::RecoverPages),
        "recover" => from(&object, Found::Recover),
        "inspect" if has("files") => from(&object, Found::InspectPages),
        "inspect" => from(&object, Found::Inspect),
        "settings" => from(&object, Found::Settings),
        "report" => from(&object, Found::Report),
        "topology" => from(&object, Found::Topology),
        "counters" => from(&object, Found::Counters),
        "links" => from(&object, Found::Links),
        "islands" => from(&object, Found::Deployment),
        "advise" => from(&object, Found::Advice),
        "verify" => from(&object, Found::Verify),
        "repartition" => from(&object, Found::Repartition),
        _ => Ok(Found::Other),
    };
    let head = Header::deserialize(&object);
    let (found, head) = read.and_then(|found| Ok((found, head?))).map_err(|error| {
        let what = format!("this result of {command} cannot be read: {}", without_place(&error));
        refused(file, line, &what)
    })?;
    if let Found::Dissection(dissection) = &found
        && dissection.rungs.is_empty()
    {
        return Err(refused(file, line, "this result of dissect has no rungs"));
    }
    Ok(Stored { head, found, fields: object })
}

/// The result as the type that its command prints.
fn from<T: DeserializeOwned>(
    object: &Map<String, Json>,
    found: fn(T) -> Found,
) -> Result<Found, serde_json::Error> {
    T::deserialize(object).map(found)
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
        let text = "\n{\"command\": \"a chore\",\n \"a\": 1}\n\n{\"command\":\"a chore\"} ";
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
