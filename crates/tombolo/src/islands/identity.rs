//! Which island of which database a directory holds: each opening compares it with what the program asks for.
//!
//! Islands of memory stores and of paged stores are refused in the same words. Not here: where a store keeps it
//! (engine `islands/membership.rs`). Invariant: of a new database island 0 is made last, so if it is there, an island
//! that is missing was lost.

use std::path::{Path, PathBuf};

use tombolo_engine::islands::membership::{Membership, island_directory, islands_in};

use super::key::Keys;
use crate::error::Error;

/// The islands that a program asks for.
pub(crate) struct Asked<'a> {
    pub(crate) directory: &'a Path,
    pub(crate) islands: usize,
}

/// An island that is there; its database and its openings so far, unless it was not made to its end.
pub(crate) type Found = (usize, Option<(u128, u32)>);

impl Asked<'_> {
    /// The directory of an island.
    pub(crate) fn place(&self, island: usize) -> PathBuf {
        self.directory.join(island_directory(island))
    }

    /// Refuses a directory that has more islands.
    pub(crate) fn refuse_more(&self) -> Result<(), Error> {
        match islands_in(self.directory) {
            there if there > self.islands => Err(self.other_number(there)),
            _ => Ok(()),
        }
    }

    fn other_number(&self, there: usize) -> Error {
        Error::Directory(format!(
            "{} holds a database of {there} islands, not {}: open it with islands({there}), or give it another number \
             first (tombolo repartition)",
            self.directory.display(),
            self.islands
        ))
    }

    /// Refuses an island of another number of islands, and one in the place of another.
    pub(crate) fn compare(&self, own: &Membership, island: usize) -> Result<(), Error> {
        let there = usize::from(own.islands);
        if there != self.islands {
            return Err(match islands_in(self.directory) {
                lost @ 1.. if lost < there => self.missing(lost),
                _ => self.other_number(there),
            });
        }
        if own.island.index() != island {
            let what = format!("holds {}: give the directory its own name again", own.island);
            return Err(self.refusal(island, &what));
        }
        Ok(())
    }

    /// Refuses an island whose keys are spread otherwise.
    pub(crate) fn compare_keys(
        &self,
        own: &Membership,
        island: usize,
        keys: &Keys,
    ) -> Result<(), Error> {
        if own.keys == keys.to_string() {
            return Ok(());
        }
        let what = format!(
            "spreads keys by {}, not by {keys}: open the database as it was made",
            own.keys
        );
        Err(self.refusal(island, &what))
    }

    fn missing(&self, island: usize) -> Error {
        self.refusal(island, "is missing: restore it, or a backup")
    }

    fn refusal(&self, island: usize, what: &str) -> Error {
        Error::Directory(format!("{} {what}", self.place(island).display()))
    }

    /// The database of the islands that are there, if one of them knows it. Refuses those of different databases, and
    /// a database that has lost an island.
    pub(crate) fn database_of(&self, found: &[Found]) -> Result<Option<u128>, Error> {
        let mut database = None;
        for &(island, own) in found {
            let Some((own, opening)) = own else { continue };
            let (first, newest) = database.unwrap_or((own, 0));
            if first != own {
                let what = "belongs to another database than the islands next to it";
                return Err(self.refusal(island, what));
            }
            database = Some((own, opening.max(newest)));
        }
        let is_there = |island: usize| found.iter().any(|(there, _)| *there == island);
        // Island 0 is made last, so a database that has it, or was opened, had them all.
        let was_complete = is_there(0) || database.is_some_and(|(_, opening)| opening > 0);
        match (0..self.islands).find(|island| !is_there(*island)).filter(|_| was_complete) {
            None => Ok(database.map(|(database, _)| database)),
            Some(missing) => Err(match islands_in(self.directory) {
                there if database.is_some() && there > 0 && missing >= there => {
                    self.missing(missing)
                }
                there => self.other_number(there),
            }),
        }
    }
}
