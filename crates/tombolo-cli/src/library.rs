//! Whose fault an error of the library is: it decides the command's exit status.
//!
//! Not here: the errors' words, which the library has.

use tombolo::Error;
use tombolo_lab::failure::Failure;

/// An error of the library as the command's.
pub(crate) fn failed(error: Error) -> Failure {
    let text = error.to_string();
    match error {
        Error::Setting(_) | Error::Schema(_) | Error::Directory(_) | Error::Definition(_) => {
            Failure::usage(text)
        }
        Error::LogFull
        | Error::DiskFull(_)
        | Error::Disk { .. }
        | Error::InUse { .. }
        | Error::OtherVersion(_)
        | Error::System(_)
        | Error::InIsland { .. }
        | Error::IslandStopped(_)
        | Error::IslandRestarts { .. }
        | Error::AnswerLost { .. }
        | Error::Poisoned(_)
        | Error::Unknown(_) => Failure::environment(text),
        _ => Failure::check(text),
    }
}
