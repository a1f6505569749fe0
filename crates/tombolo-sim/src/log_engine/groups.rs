//! The production log, with what is recorded in it, as a [`Subject`].
//!
//! Not here: checkpoints of its image (`by_hand.rs`).

use tombolo_engine::pipeline::Records;
use tombolo_storage::value_log::{LogWriter, Reservation};

use super::by_hand::{ByHand, Synced};
use super::{LogRefusal, Subject};
use crate::database::log::TRANSACTION_BYTES_MAX;
use crate::database::{Recording, Refused, StoreOf};
use crate::faults::FaultyDisk;
use crate::swarm::Swarm;
use crate::workload::step::Step;

/// The real log with what is recorded in it.
#[derive(Debug)]
pub struct Groups<R: Recording> {
    writer: LogWriter,
    by_hand: Option<ByHand>,
    recording: R,
    /// What was taken from the recording and is not written.
    unwritten: R::Buffer,
    reservation: Option<Reservation>,
    syncs: u64,
}

impl<R: Recording> Subject for Groups<R> {
    type Profile = R::Profile;

    fn recover(
        disk: &FaultyDisk,
        swarm: &Swarm,
        accept_loss: bool,
    ) -> Result<(Self, StoreOf<R>), Refused> {
        let (log, store) = R::recover(disk, swarm, accept_loss)?;
        let (recording, unwritten, reservation) = (R::default(), R::Buffer::default(), None);
        let writer = log.writer;
        let by_hand = log.checkpointing.map(ByHand::new);
        Ok((Self { writer, by_hand, recording, unwritten, reservation, syncs: 0 }, store))
    }

    fn ran(&mut self, step: &Step) {
        self.recording.ran(step);
    }

    fn has_room(&mut self, store: &StoreOf<R>) -> bool {
        let pending = (self.recording.bytes(store) + self.unwritten.bytes().len()) as u64;
        let bytes = pending + TRANSACTION_BYTES_MAX;
        let space = self.writer.space();
        if self.reservation.as_ref().is_some_and(|held| held.bytes() >= bytes) {
            return true;
        }
        if pending == 0 {
            self.reservation = None;
        }
        let reserved = space.reserve(bytes).or_else(|_| {
            _ = self.writer.preparer().prepare();
            space.reserve(bytes)
        });
        let has_room = reserved.is_ok();
        if let Ok(reservation) = reserved {
            self.reservation = Some(reservation);
        }
        has_room
    }

    fn append(&mut self, store: &mut StoreOf<R>) -> Result<(), LogRefusal> {
        if self.unwritten.bytes().is_empty() {
            self.recording.take(store, &mut self.unwritten);
        }
        let bytes = self.unwritten.bytes();
        if bytes.is_empty() {
            return Ok(());
        }
        let reservation = self.reservation.take();
        let (head, tail) = bytes.split_at(bytes.len() / 2);
        let transactions = self.unwritten.transactions();
        match self.writer.append_group(&[head, tail], transactions, reservation) {
            Ok(_) => {
                if let Some(by_hand) = &mut self.by_hand {
                    by_hand.wrote(self.writer.position(), bytes);
                }
                self.unwritten.clear();
                Ok(())
            }
            Err(failure) if failure.is_full() => Err(LogRefusal::Full),
            Err(failure) => Err(LogRefusal::Failed(failure.to_string())),
        }
    }

    fn sync(&mut self, store: &StoreOf<R>) -> Result<(), LogRefusal> {
        self.syncs += 1;
        let synced = match self.syncs % 5 {
            0 => self.writer.seal(),
            _ => self.writer.sync(),
        };
        synced.map_err(|failure| LogRefusal::Failed(failure.to_string()))?;
        let unwritten = self.recording.bytes(store) + self.unwritten.bytes().len();
        let synced = Synced {
            rows: store.rows_in_place(),
            is_ahead: unwritten > 0,
            newest: self.writer.durable(),
        };
        if let Some(first) = self.by_hand.as_mut().and_then(|by_hand| by_hand.synced(synced)) {
            self.writer.release_before(first);
        }
        Ok(())
    }
}
