//! Processes that get too little memory or too small a disk.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::case::{Outcome, Random};
use super::chain::{Chain, segment};
use super::strike::{endless, has_answered};
use crate::needs;
use crate::process::{Ended, MEMORY_KB, PATIENCE, Running, words};
use crate::shipped::copy;

/// How many limits are tried.
const TRIES: u32 = 6;

/// Its memory is limited: at some time it gets no more. It must say so and end, and what it answered must be there for
/// a process that has enough.
pub(super) fn memory(chain: &mut Chain<'_>, random: &mut Random) -> Result<Outcome, String> {
    let data_kb = chain.world.data_kb();
    // Between the limit at which a run cannot begin and the limit that is enough lies one at which it begins
    // but cannot finish.
    let (mut too_little_kb, mut enough_kb) = (0, (data_kb * 3 / 2).min(MEMORY_KB));
    let mut limit_kb = data_kb * (50 + random.below(60)) / 100;
    for _ in 0..TRIES {
        let (mut run, acks) = chain.next_run(&chain.data(), segment(random));
        run.extend(words("--transactions 20k"));
        let program = chain.world.program();
        let process = Running::start_within(limit_kb, program, &run, &chain.folder)?;
        let ended = process.finish(PATIENCE)?;
        chain.answers_of(&acks);
        let is_refused = ended.is_clear_refusal() && ended.status == Some(3);
        let is_abrupt = is_abrupt(&ended);
        if !ended.succeeded() && !is_refused && !is_abrupt {
            return Err(format!("{limit_kb} KB of memory ended it with {}", ended.brief()));
        }
        chain.verify(&chain.data())?;
        if is_abrupt {
            return Ok(Outcome::struck("memory, abruptly"));
        }
        if is_refused && has_answered(&acks) {
            return Ok(Outcome::struck("run memory"));
        }
        let side = if is_refused { &mut too_little_kb } else { &mut enough_kb };
        *side = limit_kb;
        limit_kb = u64::midpoint(too_little_kb, enough_kb);
    }
    Ok(match too_little_kb {
        0 => Outcome::Missed(format!("{enough_kb} KB are enough")),
        _ => Outcome::struck("start memory"),
    })
}

/// Whether memory ended it in a way that loses nothing and says what is missing, but not well: a buffer that the heap
/// has no room for. Counted separately, until each of them is a refusal (docs/recovery.md).
fn is_abrupt(ended: &Ended) -> bool {
    let has_aborted = ended.signal == Some(6) || ended.status == Some(134);
    has_aborted && ended.stderr.contains("memory allocation of ")
}

/// A file system in memory, unmounted when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: PathBuf, megabytes: u64) -> Result<Self, String> {
        std::fs::create_dir_all(&at).map_err(|error| error.to_string())?;
        mount(&["-t", "tmpfs", "-o", &format!("size={megabytes}M"), "tombolo-kills"], &at)?;
        Ok(Self(at))
    }

    fn grow(&self, megabytes: u64) -> Result<(), String> {
        mount(&["-o", &format!("remount,size={megabytes}M")], &self.0)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // The system reports what stays mounted.
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

fn mount(words: &[&str], at: &Path) -> Result<(), String> {
    let done = Command::new("mount").args(words).arg(at).stderr(Stdio::null()).status();
    match done {
        Ok(status) if status.success() => Ok(()),
        _ => Err(format!("cannot mount a tmpfs at {}", at.display())),
    }
}

/// Its disk fills up with log, without a checkpoint that makes room: the run ends and reports it, and all that was
/// answered can be read while the disk is full. A run with checkpoints then continues in the room that they
/// make or says that the disk is full. Once there is room, a run continues where the last one ended.
pub(super) fn full_disk(chain: &mut Chain<'_>, random: &mut Random) -> Result<Outcome, String> {
    if !needs::is_root() {
        return Ok(Outcome::Skipped("only root may mount a small disk".to_owned()));
    }
    let bytes: u64 = std::fs::read_dir(chain.data())
        .map_err(|error| error.to_string())?
        .flatten()
        .filter_map(|entry| entry.metadata().ok())
        .map(|file| file.len())
        .sum();
    let megabytes = (bytes >> 20) + 12;
    let disk = match SmallDisk::mount(chain.folder.join("small"), megabytes) {
        Ok(disk) => disk,
        Err(what) => return Ok(Outcome::Skipped(what)), // a container that may not mount
    };
    let data = disk.0.join("data");
    copy(&chain.data(), &data)?;
    let (mut run, acks) = chain.next_run(&data, segment(random));
    run.extend(words("--checkpoints off"));
    let program = chain.world.program().to_owned();
    chain.raise_memory();
    let ended = chain.start(&program, &endless(run))?.finish(PATIENCE)?;
    chain.answers_of(&acks);
    let is_refused = ended.is_clear_refusal() && ended.status == Some(3);
    if !is_refused || !ended.stderr.contains("full") {
        return Err(format!("a full disk ended it with {}", ended.brief()));
    }
    chain.verify(&data)?;
    let (mut run, acks) = chain.next_run(&data, segment(random));
    run.extend(words("--transactions 500"));
    let within = chain.call(&run)?;
    chain.answers_of(&acks);
    let is_refused = within.is_clear_refusal() && within.status == Some(3);
    if !(within.succeeded() || is_refused && within.stderr.contains("full")) {
        return Err(format!("with checkpoints, a full disk ended it with {}", within.brief()));
    }
    chain.verify(&data)?;
    disk.grow(megabytes + 200)?;
    let (mut run, acks) = chain.next_run(&data, segment(random));
    run.extend(words("--transactions 500"));
    let again = chain.call(&run)?;
    chain.answers_of(&acks);
    if !again.succeeded() {
        return Err(format!("with room again, it ended with {}", again.brief()));
    }
    chain.verify(&data)?;
    // The chain continues with the result.
    std::fs::remove_dir_all(chain.data()).map_err(|error| error.to_string())?;
    copy(&data, &chain.data())?;
    Ok(Outcome::struck("full disk"))
}
