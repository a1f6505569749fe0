//! Files that are spoilt while no process has them.

use std::path::{Path, PathBuf};

use super::case::{Outcome, Random};
use super::chain::Chain;
use crate::process::Ended;

/// How many places are spoilt until one is found that is read.
const TRIES: u32 = 4;

/// A closed directory in which one byte is another, or whose file is cut short: refused with the place, or nothing is
/// missing. Then the loss is accepted, and what is left must be whole.
pub(super) fn damage(chain: &mut Chain<'_>, random: &mut Random) -> Result<Outcome, String> {
    chain.verify(&chain.data())?;
    let closed = recover(chain, None)?;
    if !closed.succeeded() {
        return Err(format!("recover ended with {}", closed.brief()));
    }
    let files = segments(&chain.data())?;
    for _ in 0..TRIES {
        let file = &files[random.below(files.len() as u64) as usize];
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (at, how) = spoil(file, random)?;
        let refused = recover(chain, None)?;
        if refused.succeeded() {
            // It struck what nobody reads.
            chain.verify(&chain.data())?;
            continue;
        }
        let is_clear = refused.is_clear_refusal() && refused.status == Some(3);
        if !is_clear || !refused.stderr.contains(&name) || !refused.stderr.contains("offset") {
            let brief = refused.brief();
            return Err(format!("{name} was {how} at {at}, and recover ended with {brief}"));
        }
        let accepted = recover(chain, Some("--accept-loss"))?;
        if !accepted.succeeded() || !accepted.stderr.contains("--accept-loss says") {
            return Err(format!("recover --accept-loss ended with {}", accepted.brief()));
        }
        let again = recover(chain, None)?;
        if !again.succeeded() {
            let brief = again.brief();
            return Err(format!("after the loss was accepted, recover ended with {brief}"));
        }
        return Ok(Outcome::struck(how));
    }
    Ok(Outcome::Missed("what was spoilt is read by nobody".to_owned()))
}

fn recover(chain: &Chain<'_>, flag: Option<&str>) -> Result<Ended, String> {
    let mut words = vec!["recover".to_owned(), chain.data().display().to_string()];
    words.extend(flag.map(str::to_owned));
    chain.world.call(&words, &chain.folder)
}

fn segments(data: &Path) -> Result<Vec<PathBuf>, String> {
    let is_segment = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("log-"))
    };
    let entries = std::fs::read_dir(data).map_err(|error| error.to_string())?;
    let mut files: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(is_segment).collect();
    files.sort();
    match files.is_empty() {
        true => Err(format!("{} holds no segment", data.display())),
        false => Ok(files),
    }
}

/// Changes a byte of a file or cuts it; where and how.
fn spoil(file: &Path, random: &mut Random) -> Result<(usize, &'static str), String> {
    let mut bytes = std::fs::read(file).map_err(|error| error.to_string())?;
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
