//! The checkpoint image: the rows of a store on disk, so that the log before it can be released (TPK-14 …
//! TPK-26, TPK-46, TPK-E2).
//!
//! ```text
//!   durable groups ──install──► CheckpointPart (DB′) ──step──► blocks in rings' files
//!                                     ▲                               │
//!                             Checkpoints::begin            Checkpoints::complete ──► the log may
//!                           (catalogue, new rings)             (catalogue)            be released
//!
//!   after a restart:  Image::find ─► Image::load ─► value_log::recover from Image::log_start
//!                                         │                    │
//!                                         └── ReplayPart ◄─────┘ ──finish──► store (or its rows: no DB′)
//!                                                 └──mirror, divide──► CheckpointPart::new
//! ```
//!
//! DB′ has the rows and values of the store slot by slot, as a replay of the log would make them, without indexes and
//! free lists of rows. Checkpoint i begins at a *position*: a group g that all parts have
//! installed. Blocks are written while later groups are installed, so the image is *fuzzy*: each block
//! has all changes up to g, and those later ones that were installed when it was written. Replaying
//! the log from g on brings the image to one moment, because records are physical by slot: a row that no record
//! after g names is in its block as it was at g, and has not changed since; in any other row the last record of
//! each byte decides, whatever the byte's value was before.
//!
//! *A record of a row that is no longer in the image*: the row was deleted later, by a group
//! that its block has, and its slot may have another row. That row's insertion, which is replayed later, overwrites
//! the record's bytes; a value for a deleted row is skipped. Both are allowed only up to the newest group of
//! any block; after that group a replay is strict.
//!
//! *Values.* A row's handle names a slot of another slab, whose block was written at another moment.
//! Say row R was not changed behind g, and its handle names slot v. R's value took v when a group up
//! to g was installed, and gives it back only when R changes. So from g on, in DB′, v holds R's value
//! and no other row's handle names v; blocks are written from g on, so v's block has the value, live,
//! R's block has the handle, and no other row of the image can name v. Loading keeps every slot that a
//! live row's handle names, so that R's value stays in v in the DB′ of the next process too, and blocks
//! that it writes of the same checkpoint say the same: the argument holds across restarts, as long as
//! the image is loaded as of g. (What changed between g and the position of a checkpoint that was
//! being written may lie elsewhere after the restart. That checkpoint is therefore completed as of g.)
//! A handle that leads nowhere, or to a slot another row named before, is of a row that changed
//! behind g: it *dangles*, and must have been overwritten, or its row deleted or inserted anew, when
//! the groups that blocks hold have been replayed. If it is not, opening is refused.
//!
//! *Tie to the log.* Only durable groups are installed, so the log must reach the newest group any
//! block holds. The group g itself stays in the log, and its checksum is in the catalogue: a log of
//! another database, or one that was cut before g, is refused.
//!
//! *Without DB′* the store takes its place: blocks are copied from its rows between transactions
//! (`request.rs`), and written when the log is durable up to there. So a block holds committed changes
//! only, and the log reaches them. The position g is what was durable before the store was surveyed: all
//! of g is in it then, behind no ring's end. From g on its slots are as said above: a value is put down in
//! a slot of its own and given back when its transaction has committed, an abort brings the old handle
//! back, and what follows a restart begins with the values where loading left them. Rows that died hold no
//! handle in their further pieces (`memory/columns.rs`). What is on the disk is the same.
//!
//! *Copied* for a backup (`copy.rs`): what a load would read.
//!
//! *Which blocks are a checkpoint's* is said by its number and by the epochs it was written in
//! (`stamp.rs`).
//!
//! Not here: threads, time, when a checkpoint begins, the database's lock (the engine's and the
//! log's). The state machine is in `checkpoints.rs`, the order of writes and why a crash may come
//! between any two in `ring.rs`.

mod batch;
mod block;
mod catalogue;
mod checkpoints;
mod copy;
mod directories;
mod load;
mod part;
mod request;
mod ring;
mod settings;
mod stamp;
mod survey;

pub use super::rows::RowsInPlace;
pub use batch::{Batch, Written};
pub use checkpoints::{Begun, Checkpoints};
pub(crate) use directories::restored_file;
pub use load::{Image, LoadedPart, MirroredPart};
pub use part::{CheckpointPart, Completed, Needs, PartProgress, Step};
pub use request::Request;
pub use settings::{FORMAT_VERSION, ImageFailure, ImageSettings, SecondCopy};
pub use survey::{ImageSurvey, RingSurvey};

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
