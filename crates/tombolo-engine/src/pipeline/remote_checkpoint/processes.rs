//! The door to processes: the only place of the engine that starts one and ends one.
//!
//! A *companion* is a process that does a part of a database's work, is given one end of a link, and
//! ends when the link does. The simulator starts simulated ones. Not here: what they do
//! (`mod.rs`), messages (`link/`). Invariant: dropping a companion
//! ends its process and waits for that.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, getppid, pidfd_open};

use crate::link::{self, Link, UnixLink};

/// A process that was started, and the link to it.
pub struct Companion {
    /// To it.
    pub link: Box<dyn Link>,
    /// The process itself.
    pub process: Box<dyn Process>,
}

/// A process that was started.
pub trait Process: Send {
    /// How it ended, in words, if it has.
    fn ended(&mut self) -> Option<String>;

    /// Ends it, wherever it is, and returns when it is gone.
    fn kill(&mut self);
}

/// Starts companions of one kind.
pub trait StartCompanion: Send {
    /// Starts one.
    ///
    /// # Errors
    /// Why the system does not, in words.
    fn start(&mut self) -> Result<Companion, String>;
}

/// A program that is started with the link as its standard input.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its file.
    pub path: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

impl Program {
    /// Starts it; the link to it, and the process.
    ///
    /// # Errors
    /// Why the system does not, in words.
    pub fn spawn(&self) -> Result<(UnixLink, Box<dyn Process>), String> {
        self.spawn_with(None)
    }

    /// The same with a variable in its environment.
    ///
    /// # Errors
    /// As there.
    pub fn spawn_with(
        &self,
        variable: Option<(&str, &str)>,
    ) -> Result<(UnixLink, Box<dyn Process>), String> {
        let (link, other) = link::unix_pair().map_err(|error| {
            format!("no socket pair for another process: {error}; raise the limit on open files")
        })?;
        let mut command = Command::new(&self.path);
        // What it complains of is the user's to see; its results go over the link.
        command.envs(variable);
        command.args(&self.arguments).stdin(Stdio::from(other)).stdout(Stdio::null());
        let started = command.spawn();
        let child = started.map_err(|error| format!("cannot start {:?}: {error}", self.path))?;
        Ok((link, Box::new(Running(child))))
    }
}

impl StartCompanion for Program {
    fn start(&mut self) -> Result<Companion, String> {
        let (link, process) = self.spawn()?;
        Ok(Companion { link: Box::new(link), process })
    }
}

/// Waits until the process that has started this one has ended; returns `false` if the system cannot say.
pub fn wait_for_parent() -> bool {
    let parent = getppid().map(|parent| pidfd_open(parent, PidfdFlags::empty()));
    match parent {
        Some(Ok(parent)) => loop {
            match poll(&mut [PollFd::new(&parent, PollFlags::IN)], None) {
                Err(Errno::INTR) => {}
                ended => return ended.is_ok(),
            }
        },
        Some(Err(error)) => error == Errno::SRCH,
        None => false,
    }
}

/// A process of the system.
struct Running(Child);

impl Process for Running {
    fn ended(&mut self) -> Option<String> {
        match self.0.try_wait() {
            Ok(None) => None,
            Ok(Some(status)) => Some(format!("it ended with {status}")),
            Err(error) => Some(format!("the system does not know it any more: {error}")),
        }
    }

    fn kill(&mut self) {
        // Both fail only when it has ended and was waited for.
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::LinkEnd;

    #[test]
    fn a_companions_end_is_noticed_and_none_is_left_behind() {
        let mut program = Program { path: "cat".into(), arguments: Vec::new() };
        let Companion { mut link, mut process } = program.start().unwrap();
        assert_eq!((process.ended(), link.receive()), (None, Ok(None)));
        process.kill();
        assert_eq!(link.receive(), Err(LinkEnd::Gone));
        assert!(process.ended().unwrap().contains("signal"));
        // A process that reads from a link ends when the link goes.
        let Companion { link, mut process } = program.start().unwrap();
        drop(link);
        while process.ended().is_none() {
            std::thread::yield_now();
        }
        let mut none = Program { path: "/no/such/program".into(), arguments: Vec::new() };
        let Err(why) = none.start() else { panic!("it is not there") };
        assert!(why.contains("/no/such/program"), "{why}");
    }
}
