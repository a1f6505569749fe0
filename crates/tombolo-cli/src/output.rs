//! Output of results: one JSON object per line for scripts, text for people. Messages go to standard
//! error.
//!
//! If the reader stops reading (`| head`), the command ends quietly.

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::Mutex;

use serde::Serialize;
use tombolo_lab::failure::Failure;
use tombolo_lab::host::Host;
use tombolo_lab::report::canvas::Canvas;
use tombolo_lab::report::terminal::Style;
use tombolo_lab::report::{Build, Headed, Header};
use tombolo_lab::settings::Settings;

/// The width of output that is not a terminal: a file, a pager.
const WIDTH: usize = 100;

/// The identity of this build.
const BUILD: Build =
    Build { version: env!("CARGO_PKG_VERSION"), commit: env!("BUILT_FROM_COMMIT") };

/// What a result of `command` under `settings` begins with.
pub(crate) fn result_header(command: &str, settings: &Settings) -> Header {
    Header::new(command, BUILD, settings, &Host::read())
}

/// Standard output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    json: bool,
    style: Style,
}

impl Output {
    /// Output for scripts if `json`, otherwise for people.
    pub(crate) fn new(json: bool) -> Self {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let colour = io::stdout().is_terminal() && !is_set("NO_COLOR") && !dumb;
        Self { json, style: Style { colour } }
    }

    /// The canvas for bars and tables: as wide as the terminal; ASCII if the locale is not UTF-8.
    pub(crate) fn canvas(self) -> Canvas {
        let terminal = console::Term::stdout();
        let columns = terminal.size_checked().filter(|_| terminal.is_term());
        let width = columns.map_or(WIDTH, |(_, columns)| usize::from(columns));
        Canvas::new(self.style, is_utf8(|name| std::env::var(name).ok()), width)
    }

    /// Prints one result: its object behind the header, or the text of `for_people`.
    pub(crate) fn result<T: Serialize>(
        self,
        header: &Header,
        result: &T,
        for_people: impl FnOnce(&T, Style) -> String,
    ) -> Result<(), Failure> {
        let text = if self.json { json(header, result)? } else { for_people(result, self.style) };
        self.write(&text)
    }

    /// Prints an object, which has no header; not printed for people.
    pub(crate) fn object(self, object: &impl Serialize) -> Result<(), Failure> {
        if self.json { self.write(&line(object)?) } else { Ok(()) }
    }

    /// Prints text for people; not printed for scripts.
    pub(crate) fn people(self, text: impl FnOnce(Style) -> String) -> Result<(), Failure> {
        if self.json { Ok(()) } else { self.write(&text(self.style)) }
    }

    fn write(self, text: &str) -> Result<(), Failure> {
        if text.is_empty() {
            return Ok(());
        }
        let mut stdout = io::stdout().lock();
        let end = if text.ends_with('\n') { "" } else { "\n" };
        let written = stdout
            .write_all(text.as_bytes())
            .and_then(|()| stdout.write_all(end.as_bytes()))
            .and_then(|()| stdout.flush());
        match written {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
            Err(error) => Err(Failure::environment(format!(
                "standard output cannot be written: {error}: free space or redirect it elsewhere"
            ))),
        }
    }
}

/// Whether the locale's characters are UTF-8: the first of its three variables that is set decides.
fn is_utf8(variable: impl Fn(&str) -> Option<String>) -> bool {
    let set = |name| variable(name).filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default();
    let locale = locale.to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// A result as one line of JSON.
pub(crate) fn json(header: &Header, found: &impl Serialize) -> Result<String, Failure> {
    line(&Headed { header: header.clone(), found })
}

fn line(object: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(object)
        .map_err(|error| Failure::check(format!("a result cannot be written as JSON: {error}")))
}

/// One line to standard error. If even that cannot be written, the failure is not reported.
pub(crate) fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// The one line of an error.
pub(crate) fn complain(message: &str) {
    say(&format!("tombolo: {message}"));
}

/// Ends the process with one line and the failure's status. If several threads fail simultaneously, for example
/// because the system is out of memory, only the first one writes its line.
pub(crate) fn end(failure: &Failure) -> ! {
    static SPEAKING: Mutex<()> = Mutex::new(());
    // Never unlocked.
    let _speaking = SPEAKING.lock();
    complain(&failure.to_string());
    std::process::exit(failure.blame().status().into())
}

#[cfg(test)]
mod tests {
    use super::is_utf8;

    #[test]
    fn the_first_variable_that_is_set_names_the_characters() {
        let locale = |all: &str, lang: &str| {
            let (all, lang) = (all.to_owned(), lang.to_owned());
            is_utf8(|name| match name {
                "LC_ALL" => Some(all.clone()),
                "LANG" => Some(lang.clone()),
                _ => None,
            })
        };
        assert!(locale("", "de_DE.UTF-8") && locale("C.utf8", "C"));
        assert!(!locale("C", "de_DE.UTF-8") && !locale("", "") && !locale("", "en_GB"));
    }
}
