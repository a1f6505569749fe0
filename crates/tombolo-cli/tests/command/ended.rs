//! Starting the command and looking at what it gives back. Every result that a test makes it print is read
//! as `report` reads it, must be the same when it is printed again, and has only fields that `docs/cli.md` names.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::process::{Command, Output};

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use tombolo_lab::report::html;

/// What the command gave back.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    fn new(output: Output) -> Self {
        Self {
            status: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).expect("results are UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("messages are UTF-8"),
        }
    }
}

/// The command, its environment free of settings.
pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tombolo"));
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("TOMBOLO_")) {
            command.env_remove(name);
        }
    }
    command.env_remove("RUST_BACKTRACE");
    command
}

/// Runs the command with these arguments.
pub(crate) fn tombolo<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Ended {
    let arguments: Vec<OsString> = arguments.into_iter().map(|a| a.as_ref().to_owned()).collect();
    let ended = Ended::new(command().args(&arguments).output().expect("the command starts"));
    if arguments.iter().any(|argument| argument == "--json") && !ended.stdout.is_empty() {
        assert_read_back(&ended.stdout);
    }
    ended
}

/// The fields of an object, which `Value` would keep only the last of where several have one name.
struct Fields(Vec<String>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct OfObject;
        impl<'de> Visitor<'de> for OfObject {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Fields, M::Error> {
                let mut names = Vec::new();
                while let Some((name, _)) = map.next_entry::<String, IgnoredAny>()? {
                    names.push(name);
                }
                Ok(Fields(names))
            }
        }
        from.deserialize_map(OfObject)
    }
}

/// Fields whose own fields are named by settings, checks, profiles or engines.
const NAMED_BY_OTHERS: [&str; 7] =
    ["settings", "checks", "counts", "switches", "ratios", "wall_ratios", "tps_ratios"];

/// The command line's contract names each field, in backticks.
fn assert_documented(printed: &Value) {
    const CONTRACT: &str = include_str!("../../../../docs/cli.md");
    let is_word = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    let is_named = |field: &str| {
        let mut code = CONTRACT.split('`').skip(1).step_by(2);
        code.any(|code| code.split(|c| !is_word(c)).any(|word| word == field))
    };
    match printed {
        Value::Object(fields) => {
            for (name, value) in fields {
                assert!(is_named(name), "docs/cli.md does not name the field {name}");
                if !NAMED_BY_OTHERS.contains(&name.as_str()) {
                    assert_documented(value);
                }
            }
        }
        Value::Array(values) => values.iter().for_each(assert_documented),
        _ => {}
    }
}

/// Each result is read by the type that printed it, and has each field once.
fn assert_read_back(stdout: &str) {
    let results = html::read("the output", stdout.as_bytes()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(results.len(), stdout.lines().count());
    for (result, line) in results.iter().zip(stdout.lines()) {
        let printed: Value = serde_json::from_str(line).expect("a line is JSON");
        assert_documented(&printed);
        assert_eq!(result.printed(), Some(printed));
        let Fields(mut names) = serde_json::from_str(line).expect("a line is an object");
        names.sort_unstable();
        assert!(names.windows(2).all(|two| two[0] != two[1]), "a field twice: {names:?}");
    }
}

/// Runs a command line without quotes.
pub(crate) fn line(line: &str) -> Ended {
    tombolo(line.split_whitespace())
}

/// The command refuses with this status and one line that contains `expect`.
pub(crate) fn refused(arguments: &str, status: i32, expect: &str) {
    let ended = line(arguments);
    assert_eq!(ended.status, status, "{arguments}: {ended:?}");
    assert_eq!(ended.stdout, "", "{arguments}");
    assert_eq!(ended.stderr.lines().count(), 1, "{arguments}: {ended:?}");
    assert!(ended.stderr.starts_with("tombolo: "), "{arguments}: {ended:?}");
    assert!(ended.stderr.contains(expect), "{arguments}: {expect:?} is not in {}", ended.stderr);
    assert!(!ended.stderr.contains("panicked"), "{arguments}: {ended:?}");
}

/// The only object of a command that succeeded and had nothing to say.
pub(crate) fn object(ended: &Ended) -> Value {
    assert_eq!((ended.status, ended.stderr.as_str()), (0, ""), "{ended:?}");
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}

/// A field of a result that is a number.
pub(crate) fn number(result: &Value, field: &str) -> f64 {
    result[field].as_f64().unwrap_or_else(|| panic!("{field} is {}", result[field]))
}
