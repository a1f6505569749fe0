//! Where a strike struck: which file a call was about, and whether a checkpoint was under way.
//!
//! strace's output lists every call of the kind that strikes; the call that struck is the n-th of a thread.
//! Where a kill at some time struck is read from the newest catalogue of the image, which names the checkpoint
//! that is being written (docs/format.md). Both are only counted: whether the database held is found elsewhere.

use std::collections::BTreeMap;
use std::path::Path;

/// Where the catalogue has the number of the checkpoint that is being written, 0 for none.
const WRITING: std::ops::Range<usize> = 72..80;

/// A kind of file that a call was about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    Log,
    Image,
    /// The image's catalogue.
    Catalogue,
    /// The data file, or the copies of its pages.
    Pages,
    Directory,
    Answers,
    /// Anything else, or not known.
    Other,
}

impl Of {
    fn path(path: &str) -> Self {
        let name = path.rsplit('/').next().unwrap_or_default();
        let kinds = [
            ("log-", Self::Log),
            ("image-", Self::Image),
            ("checkpoint-", Self::Catalogue),
            ("pages", Self::Pages),
            ("data", Self::Directory),
            ("acks-", Self::Answers),
        ];
        let found = kinds.into_iter().find(|(start, _)| name.starts_with(start));
        found.map_or(Self::Other, |(_, kind)| kind)
    }

    /// Whether its failure may end checkpoints, and nothing else.
    pub(super) fn is_of_checkpoints(self) -> bool {
        matches!(self, Self::Image | Self::Catalogue | Self::Pages)
    }

    /// The place of a `call` about it.
    pub(super) fn place(self, call: &str) -> String {
        match self {
            Self::Log => format!("{call} log"),
            Self::Image => format!("{call} image"),
            Self::Catalogue => format!("{call} catalogue"),
            Self::Pages => format!("{call} pages"),
            Self::Directory => format!("{call} directory"),
            Self::Answers => format!("{call} answers"),
            Self::Other => call.to_owned(),
        }
    }
}

/// What the first `call` that was the `nth` of its thread was about, as strace wrote to `trace`; none if no thread
/// came so far.
pub(super) fn of_call(trace: &Path, call: &str, nth: u64) -> Option<Of> {
    // What strace wrote so far may end within a line, and paths may be anything.
    let text = std::fs::read(trace).unwrap_or_default();
    find(&String::from_utf8_lossy(&text), call, nth)
}

fn find(text: &str, call: &str, nth: u64) -> Option<Of> {
    let mut made: BTreeMap<&str, u64> = BTreeMap::new();
    for line in text.lines() {
        let Some((thread, rest)) = line.split_once(' ') else { continue };
        let rest = rest.trim_start().strip_prefix(call);
        let Some(arguments) = rest.and_then(|rest| rest.strip_prefix('(')) else { continue };
        let count = made.entry(thread).or_default();
        *count += 1;
        if *count == nth {
            let path = arguments.split_once('<').and_then(|(_, rest)| rest.split_once('>'));
            return Some(path.map_or(Of::Other, |(path, _)| Of::path(path)));
        }
    }
    None
}

/// The place of a kill at a random time, with `what` in front.
pub(super) fn of_time(data: &Path, what: &str) -> String {
    match is_writing(data) {
        true => format!("{what} in a checkpoint"),
        false => what.to_owned(),
    }
}

/// Whether the newest catalogue in `data` says that a checkpoint is being written.
fn is_writing(data: &Path) -> bool {
    let entries = std::fs::read_dir(data).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let newest = names.filter(|name| name.starts_with("checkpoint-")).max();
    let bytes = newest.and_then(|name| std::fs::read(data.join(name)).ok()).unwrap_or_default();
    bytes.get(WRITING).is_some_and(|number| number.iter().any(|&byte| byte != 0))
}

#[cfg(test)]
mod tests {
    use super::{Of, find, is_writing};
    use crate::tidy::scratch::Scratch;

    #[test]
    fn the_call_that_struck_is_found_with_its_file() {
        let text = "11 fdatasync(7</d/data/log-000001>) = 0\n\
                    12 fdatasync(9</d/data/image-000002> <unfinished ...>\n\
                    11 fdatasync(7</d/data/log-000001>) = 0\n\
                    12 <... fdatasync resumed>) = 0\n\
                    13 fdatasync(3</d/data/checkpoint-000004>) = 0\n\
                    12 fdatasync(9</d/data/image-000003>) = ?\n";
        assert_eq!(find(text, "fdatasync", 1), Some(Of::Log));
        assert_eq!(find(text, "fdatasync", 2), Some(Of::Log));
        assert_eq!(find(&text[40..], "fdatasync", 2), Some(Of::Image));
        assert_eq!(find(text, "fdatasync", 3), None);
        assert_eq!(find(text, "sync", 1), None);
        assert_eq!(find("1 openat(AT_FDCWD</d>, \"x\") = 3", "openat", 1), Some(Of::Other));
        assert_eq!(Of::path("/d/data/checkpoint-000004").place("fdatasync"), "fdatasync catalogue");
        assert_eq!(Of::path("/d/data").place("fsync"), "fsync directory");
    }

    #[test]
    fn the_newest_catalogue_says_whether_a_checkpoint_is_written() {
        let catalogue =
            |number: char| [&"\0".repeat(72), &*number.to_string(), &"\0".repeat(40)].concat();
        let scratch = Scratch::new(&[("log-000001", "x")]);
        assert!(!is_writing(scratch.root()));
        scratch.write("checkpoint-000001", &catalogue('\u{1}'));
        assert!(is_writing(scratch.root()));
        scratch.write("checkpoint-000002", &catalogue('\0'));
        assert!(!is_writing(scratch.root()));
    }
}
