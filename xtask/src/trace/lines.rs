//! What `strace -f -y -x` writes, as events: a thread enters a call, a call returns.
//!
//! strace writes a line when a call is entered and ends it when the call returns; if anything happens in between, it
//! writes `<unfinished ...>` and later a line `<... NAME resumed>`. The order of the lines is the order in which strace
//! let threads continue: what a call does is done after its line began and before the line that ends it was
//! written.
//!
//! Not here: what calls mean (`rules.rs`). Only calls whose first argument is a file are read.

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A thread enters a call.
    Enter { thread: u32, call: Call },
    /// A call returns: what, or none where it failed.
    Return { thread: u32, name: String, value: Option<u64> },
}

/// A call of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) name: String,
    /// The path behind the file's number.
    pub(super) path: String,
    /// The bytes that are written, or their beginning.
    pub(super) data: Vec<u8>,
    /// How much is written.
    pub(super) bytes: u64,
    /// The offset, if the call has one.
    pub(super) offset: Option<u64>,
}

/// The events of one line; none where it is about something else.
///
/// # Errors
/// When the line is no such line.
pub(super) fn events(line: &str) -> Result<Vec<Event>, String> {
    let wrong = |what: &str| format!("{what} in the trace: {line}");
    let (thread, rest) = line.trim_end().split_once(' ').ok_or_else(|| wrong("no thread"))?;
    let thread: u32 = thread.parse().map_err(|_| wrong("no thread"))?;
    let rest = rest.trim_start();
    if rest.starts_with("+++") || rest.starts_with("---") {
        return Ok(Vec::new());
    }
    if let Some(resumed) = rest.strip_prefix("<... ") {
        let (name, rest) = resumed.split_once(" resumed>").ok_or_else(|| wrong("no name"))?;
        let value = returned(rest).ok_or_else(|| wrong("no value"))?;
        return Ok(vec![Event::Return { thread, name: name.to_owned(), value }]);
    }
    let (name, arguments) = rest.split_once('(').ok_or_else(|| wrong("no call"))?;
    let Some(call) = call(name, arguments) else { return Ok(Vec::new()) };
    let mut events = vec![Event::Enter { thread, call }];
    // strace lets go of a thread that ends with its process.
    if !rest.ends_with("<unfinished ...>") && !rest.ends_with("<detached ...>") {
        let value = returned(arguments).ok_or_else(|| wrong("no value"))?;
        events.push(Event::Return { thread, name: name.to_owned(), value });
    }
    Ok(events)
}

/// What is behind the last ` = `; `None` inside where the call failed or never came back.
fn returned(text: &str) -> Option<Option<u64>> {
    let (_, value) = text.rsplit_once(" = ")?;
    let value = value.split_whitespace().next()?;
    Some(value.parse().ok())
}

/// A call whose first argument is a file: `7</data/log-000001>, "\x74"..., 4096, 8192) = 4096`.
fn call(name: &str, arguments: &str) -> Option<Call> {
    let (number, rest) = arguments.split_once('<')?;
    number.parse::<u32>().ok()?;
    let (path, rest) = rest.split_once('>')?;
    let (data, rest) = match rest.strip_prefix(", \"") {
        Some(text) => string(text)?,
        None => (Vec::new(), rest),
    };
    let mut numbers = rest.trim_start_matches("...").split(',').skip(1).map(|word| {
        let end = word.find([')', '<']).unwrap_or(word.len());
        word[..end].trim().parse::<u64>().ok()
    });
    let bytes = numbers.next().flatten().unwrap_or_default();
    let offset = numbers.next().flatten();
    Some(Call { name: name.to_owned(), path: path.to_owned(), data, bytes, offset })
}

/// The bytes of a string up to its closing quote, and what is behind it.
fn string(text: &str) -> Option<(Vec<u8>, &str)> {
    let (mut bytes, mut rest) = (Vec::new(), text);
    loop {
        let character = rest.chars().next()?;
        rest = &rest[character.len_utf8()..];
        match character {
            '"' => return Some((bytes, rest)),
            '\\' => {
                let kind = rest.chars().next()?;
                let (byte, length) = match kind {
                    'x' => (u8::from_str_radix(rest.get(1..3)?, 16).ok()?, 3),
                    'n' => (b'\n', 1),
                    't' => (b'\t', 1),
                    'r' => (b'\r', 1),
                    'v' => (0x0b, 1),
                    'f' => (0x0c, 1),
                    '0'..='7' => {
                        let digits = rest.bytes().take(3).take_while(|b| (b'0'..=b'7').contains(b));
                        let length = digits.count();
                        (u8::from_str_radix(&rest[..length], 8).ok()?, length)
                    }
                    other => (u8::try_from(other).ok()?, other.len_utf8()),
                };
                bytes.push(byte);
                rest = &rest[length..];
            }
            other => bytes.push(u8::try_from(other).ok()?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Call, Event, events};

    fn enter(thread: u32, name: &str, data: &[u8], bytes: u64, offset: Option<u64>) -> Event {
        let (name, path, data) = (name.to_owned(), "/d/log-000001".to_owned(), data.to_vec());
        Event::Enter { thread, call: Call { name, path, data, bytes, offset } }
    }

    fn back(thread: u32, name: &str, value: Option<u64>) -> Event {
        Event::Return { thread, name: name.to_owned(), value }
    }

    #[test]
    fn whole_and_broken_lines_are_read() {
        let line = r#"71 pwrite64(7</d/log-000001>, "\x74\x67\x00\xff"..., 4096, 8192) = 4096"#;
        let written = enter(71, "pwrite64", b"tg\0\xff", 4096, Some(8192));
        assert_eq!(events(line).unwrap(), [written, back(71, "pwrite64", Some(4096))]);
        let line = "72 fdatasync(7</d/log-000001> <unfinished ...>";
        assert_eq!(events(line).unwrap(), [enter(72, "fdatasync", b"", 0, None)]);
        let line = "72 <... fdatasync resumed>)           = 0";
        assert_eq!(events(line).unwrap(), [back(72, "fdatasync", Some(0))]);
        let line = "72 fdatasync(7</d/log-000001>) = -1 EIO (Input/output error) (INJECTED)";
        let failed = [enter(72, "fdatasync", b"", 0, None), back(72, "fdatasync", None)];
        assert_eq!(events(line).unwrap(), failed);
    }

    #[test]
    fn text_is_read_as_it_was_written() {
        let line = r#"9  write(5</d/log-000001>, "3 17\n4 \"\\\1", 12) = 12"#;
        let Event::Enter { call, .. } = &events(line).unwrap()[0] else { panic!() };
        assert_eq!((call.data.as_slice(), call.bytes), (&b"3 17\n4 \"\\\x01"[..], 12));
    }

    #[test]
    fn other_lines_say_nothing_and_wrong_ones_are_refused() {
        for line in ["9 +++ exited with 0 +++", "9 --- SIGCHLD {} ---", "9 fsync(AT_FDCWD) = 0"] {
            assert_eq!(events(line).unwrap(), [], "{line}");
        }
        for line in ["", "x y", "9 what is this", "9 fdatasync(7</d/log-1>)", "9 <... x>) = 0"] {
            assert!(events(line).is_err(), "{line}");
        }
    }
}
