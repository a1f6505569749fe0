//! Files that are damaged while no process has them.

use std::path::{Path, PathBuf};

use super::case::{Outcome, Random};
use super::chain::Chain;
use crate::process::Ended;

/// How many places are damaged until one is found that is read: the log before the image is not, nor is one place of
/// each ring.
const TRIES: u32 = 12;

/// A closed directory in which one byte is another, or whose file is cut short: refused with the place, or nothing is
/// missing. Then the loss is accepted, and what is left must be whole. Of the image none can be accepted, since the log
/// that had its rows is gone, nor of groups whose changes some block of it holds: that is refused again, and the
/// database is whole once the file is.
pub(super) fn damage(chain: &mut Chain<'_>, random: &mut Random) -> Result<Outcome, String> {
    chain.verify(&chain.data())?;
    let closed = recover(chain, None)?;
    if !closed.succeeded() {
        return Err(format!("recover ended with {}", closed.brief()));
    }
    for _ in 0..TRIES {
        let is_image = random.below(2) == 0;
        let files = files(&chain.data(), if is_image { "image-" } else { "log-" })?;
        let file = &files[random.below(files.len() as u64) as usize];
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let whole = std::fs::read(file).map_err(|error| error.to_string())?;
        let (at, how) = spoil(file, &whole, random)?;
        let refused = recover(chain, None)?;
        if refused.succeeded() {
            // It struck bytes that are not read.
            chain.verify(&chain.data())?;
            continue;
        }
        let is_clear = names_damage(&refused);
        if !is_clear || !refused.stderr.contains(&name) || !refused.stderr.contains("offset") {
            let brief = refused.brief();
            return Err(format!("{name} was {how} at {at}, and recover ended with {brief}"));
        }
        let accepted = recover(chain, Some("--accept-loss"))?;
        if !accepted.succeeded() {
            let is_clear = names_damage(&accepted);
            // A file that cannot be read is left out then, and the place is where the log ends without it.
            if !is_clear || !accepted.stderr.contains("offset") {
                return Err(format!("recover --accept-loss ended with {}", accepted.brief()));
            }
            std::fs::write(file, &whole).map_err(|error| error.to_string())?;
            chain.verify(&chain.data())?;
            let place = if is_image { "image" } else { "log that the image needs" };
            return Ok(Outcome::struck(format!("{how} {place}")));
        }
        if is_image || !accepted.stderr.contains("--accept-loss says") {
            let brief = accepted.brief();
            return Err(format!("{name} was {how}, and recover --accept-loss ended with {brief}"));
        }
        let again = recover(chain, None)?;
        if !again.succeeded() {
            let brief = again.brief();
            return Err(format!("after the loss was accepted, recover ended with {brief}"));
        }
        return Ok(Outcome::struck(format!("{how} log")));
    }
    Ok(Outcome::Missed("what was spoilt is not read".to_owned()))
}

/// Whether it ended with one line and the status of damage, or of a file that reads as another version's.
fn names_damage(ended: &Ended) -> bool {
    ended.is_clear_refusal() && matches!(ended.status, Some(1 | 3))
}

fn recover(chain: &Chain<'_>, flag: Option<&str>) -> Result<Ended, String> {
    let mut words = vec!["recover".to_owned(), chain.data().display().to_string()];
    words.extend(flag.map(str::to_owned));
    chain.call(&words)
}

/// The files in `data` whose names begin so.
fn files(data: &Path, beginning: &str) -> Result<Vec<PathBuf>, String> {
    let begins = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(beginning))
    };
    let entries = std::fs::read_dir(data).map_err(|error| error.to_string())?;
    let mut files: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(begins).collect();
    files.sort();
    match files.is_empty() {
        true => Err(format!("{} holds no file {beginning}…", data.display())),
        false => Ok(files),
    }
}

/// Changes a byte of a file, which holds `whole`, or cuts it; where and how.
fn spoil(file: &Path, whole: &[u8], random: &mut Random) -> Result<(usize, &'static str), String> {
    let mut bytes = whole.to_vec();
    let at = random.below(bytes.len() as u64) as usize;
    let how = match random.below(4) {
        0 => "cut",
        _ => "changed",
    };
    match bytes.get_mut(at) {
        Some(byte) if how == "changed" => *byte ^= 1 << random.below(8),
        _ => bytes.truncate(at),
    }
    std::fs::write(file, &bytes).map_err(|error| error.to_string())?;
    Ok((at, how))
}
