//! The closing table of `ci`: a line for each step that ran, with its start and its duration.

use std::time::Duration;

/// The end of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Ok,
    NothingToDo,
    Failed,
    CouldNotRun,
    /// Another step had failed.
    Stopped,
}

impl End {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::NothingToDo => "nothing to do",
            Self::Failed => "FAILED",
            Self::CouldNotRun => "COULD NOT RUN",
            Self::Stopped => "stopped",
        }
    }
}

/// One step that ran.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) name: &'static str,
    /// Since the first step began.
    pub(super) began: Duration,
    pub(super) took: Duration,
    pub(super) end: End,
    pub(super) tests_passed: u64,
}

/// The rows as text, with the `total` time in the last line.
pub(super) fn text(rows: &[Row], total: Duration) -> String {
    let mut text = format!("\n{:<10}{:>8}{:>9}\n", "step", "began", "took");
    for row in rows {
        let began = minutes(row.began);
        text += &line(row.name, &began, row.took, row.end.word(), row.tests_passed);
    }
    let tests_passed = rows.iter().map(|row| row.tests_passed).sum();
    text + &line("total", "", total, "", tests_passed)
}

fn line(name: &str, began: &str, took: Duration, word: &str, tests_passed: u64) -> String {
    let tests =
        if tests_passed > 0 { format!("{tests_passed} tests passed") } else { String::new() };
    let words: Vec<&str> = [word, &tests].into_iter().filter(|word| !word.is_empty()).collect();
    let line = format!("{name:<10}{began:>8}{:>9}  {}", minutes(took), words.join(", "));
    line.trim_end().to_string() + "\n"
}

pub(super) fn minutes(duration: Duration) -> String {
    let tenths = duration.as_millis() / 100;
    format!("{}:{:02}.{}", tenths / 600, tenths / 10 % 60, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::{End, Row, minutes, text};
    use std::time::Duration;

    #[test]
    fn tests_add_up_and_time_runs_once() {
        let (none, later) = (Duration::ZERO, Duration::from_secs(61));
        let fmt = Row {
            name: "fmt",
            began: none,
            took: Duration::from_millis(1_250),
            end: End::Ok,
            tests_passed: 0,
        };
        let test = Row { name: "test", took: Duration::from_secs(75), tests_passed: 12, ..fmt };
        let kills = Row { name: "kills", began: later, end: End::Stopped, ..fmt };
        let expected = "\nstep         began     took\n\
                        fmt         0:00.0   0:01.2  ok\n\
                        test        0:00.0   1:15.0  ok, 12 tests passed\n\
                        kills       1:01.0   0:01.2  stopped\n\
                        total                1:15.0  12 tests passed\n";
        assert_eq!(text(&[fmt, test, kills], Duration::from_secs(75)), expected);
        assert_eq!(minutes(Duration::from_secs(3_599)), "59:59.0");
    }
}
