//! Histories as files: what is read, and what is refused in one line that names line and field.

use tombolo_verify::{History, Level, Transaction};

const HISTORY: &str = include_str!("history.jsonl");

#[test]
fn lines_are_transactions() {
    let history = History::read(HISTORY.as_bytes()).unwrap();
    assert_eq!((history.len(), history.operations(), history.is_empty()), (4, 7, false));
    let verdict = history.judge(Level::StrictSerializable);
    assert_eq!(verdict.strongest(), [Level::StrictSerializable], "{verdict}");
    assert_eq!(verdict.counted, 3);
    let stale = HISTORY.replace("[[7,90]]},{", "[[7,100]]},{");
    let verdict = History::read(stale.as_bytes()).unwrap().judge(Level::StrictSerializable);
    assert_eq!(verdict.anomalies[0].steps[0].line, 3, "empty lines count: {verdict}");
}

#[test]
fn what_was_read_is_written_the_same() {
    for line in HISTORY.lines().filter(|line| !line.is_empty()) {
        let transaction: Transaction = serde_json::from_str(line).unwrap();
        let again = serde_json::to_string(&transaction).unwrap();
        assert_eq!(serde_json::from_str::<Transaction>(&again).unwrap(), transaction);
    }
}

#[test]
fn bad_lines_are_one_line_errors() {
    let ops = |ops: &str| format!(r#"{{"session":1,"begin":1,"end":2,"ops":[{ops}]}}"#);
    let write = r#"{"op":"write","table":"t","key":1,"value":1}"#;
    for (text, expect) in [
        ("{", "line 1: EOF while parsing an object, column"),
        ("[]", "line 1: "),
        (r#"{"session":1,"begin":1,"end":2}"#, "missing field `ops`"),
        (r#"{"session":1,"begin":2,"end":1,"ops":[]}"#, "line 1: field end: 1 is before begin, 2"),
        (r#"{"session":1,"begin":-2,"end":1,"ops":[]}"#, "invalid value: integer `-2`"),
        (r#"{"session":1,"begin":1,"end":1,"ops":[],"outcom":1}"#, "unknown field `outcom`"),
        (r#"{"session":1,"begin":1,"end":1,"ops":[],"outcome":"lost"}"#, "unknown variant `lost`"),
        (
            &ops(r#"{"op":"read","table":"t","key":1}"#),
            "field ops, operation 1: missing field `value`",
        ),
        (&ops(&format!("{write},{}", r#"{"op":"reed"}"#)), "operation 2: unknown variant `reed`"),
        (&ops(r#"{"op":"write","table":"t","key":1,"value":1,"ovr":2}"#), "unknown field `ovr`"),
        (
            &ops(r#"{"op":"scan","table":"t","lo":1,"hi":2,"rows":[[3,1]]}"#),
            "field rows: key 3 is outside",
        ),
        (&ops(&format!("{write},{write}")), "field value: 1 is written to key t 1 on line 1 too"),
    ] {
        let error = History::read(text.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with("line 1: ") && error.contains(expect), "{text}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    let twice = format!("{}\n\n{}", ops(write), ops(write));
    let error = History::read(twice.as_bytes()).unwrap_err().to_string();
    assert!(error.starts_with("line 3: field value: 1 is written to key t 1 on line 1"), "{error}");
    let commit = r#"{"session":1,"begin":1,"end":1,"commit":5,"ops":[]}"#;
    let error = History::read(format!("{commit}\n{commit}").as_bytes()).unwrap_err().to_string();
    assert_eq!(error, "line 2: field commit: 5 is the position of line 1 too");
}
