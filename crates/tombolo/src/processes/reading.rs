//! What islands' processes send, handed on: answers to the calls that wait, messages to other islands.
//!
//! Not here: which thread does that (`line.rs`), what follows when a process ends (`supervisor.rs`).

use std::collections::BTreeSet;
use std::time::Duration;

use tombolo_engine::link::all_counted;

use super::errors;
use super::line::{Line, Reading};
use super::seat::{Answer, Begun, ROOM_WAIT};
use super::supervisor::{Supervised, WAIT};
use super::wire::{self, In, Item};
use crate::error::Error;

impl Supervised {
    /// Sends an island a call, which `item` puts together with its number, and blocks until it is answered.
    pub(crate) fn call(&self, island: usize, item: impl FnOnce(u64) -> Vec<u8>) -> Answer {
        let seat = &self.seats[island];
        let begun = seat.begin(item)?;
        if let Some(answer) = self.read_alone(island, &begun) {
            return answer;
        }
        seat.wait(begun, None)
    }

    /// Reads what the island sends until the call is answered, if it is the only one that waits and no other thread
    /// reads.
    fn read_alone(&self, island: usize, begun: &Begun) -> Option<Answer> {
        if !begun.is_alone {
            return None;
        }
        let line = &begun.line;
        let mut reading = line.take()?;
        _ = line.outbox.send(); // if the link is full, what is left goes while this thread waits
        let answer = loop {
            let read = self.read(island, line, &mut reading, WAIT);
            // Should the process hang, its supervisor answers the call.
            if let Some(answer) = begun.sleeper.park_for(Duration::ZERO) {
                break Some(answer);
            }
            if read.is_err() {
                break None;
            }
        };
        line.leave(reading);
        // An end is the supervisor's, too.
        if answer.is_none() || !self.seats[island].is_idle() {
            line.wake_supervisor();
        }
        answer
    }

    /// Hands on what an island sends next; returns whether anything came within this time.
    ///
    /// # Errors
    /// Why the link has ended, in words.
    pub(crate) fn read(
        &self,
        island: usize,
        line: &Line,
        reading: &mut Reading,
        time_max: Duration,
    ) -> Result<bool, String> {
        let mut has_waited = false;
        loop {
            let Reading { link, reason, full, is_damaged } = &mut *reading;
            if *is_damaged {
                return Err("the link to it is damaged: no message of an island".to_owned());
            }
            match link.receive() {
                Ok(Some(bundle)) => {
                    line.hears();
                    *is_damaged = self.received(island, bundle, reason, full).is_none();
                    return Ok(true);
                }
                Ok(None) if has_waited => return Ok(false),
                Ok(None) => {
                    full.insert(island);
                    full.retain(|island| self.seats[*island].is_full());
                    let time = if full.is_empty() { time_max } else { ROOM_WAIT };
                    link.wait(time);
                    has_waited = true;
                }
                Err(end) => return Err(end.to_string()),
            }
        }
    }

    /// Hands on what an island has sent; `None` if it is nothing of that. `reason` is why it ends, if it says so;
    /// `full` are islands to which something is left to be sent.
    fn received(
        &self,
        island: usize,
        bundle: &[u8],
        reason: &mut Option<Error>,
        full: &mut BTreeSet<usize>,
    ) -> Option<()> {
        let mut said: Vec<(usize, Vec<Vec<u8>>)> = Vec::new();
        for item in all_counted(bundle)? {
            let mut from = In(item);
            match from.u8()? {
                wire::ANSWER => self.seats[island].answered(from.u64()?, Ok(from.0.to_vec())),
                wire::FAILED => {
                    let (number, error) = (from.u64()?, errors::decode(from.0, island));
                    self.seats[island].answered(number, Err(error));
                }
                wire::MESSAGE => {
                    let to = usize::from(from.u16()?);
                    self.seats.get(to)?;
                    let message = Item::new(wire::MESSAGE).u16(island as u16).rest(from.0);
                    match said.iter_mut().find(|(other, _)| *other == to) {
                        Some((_, messages)) => messages.push(message),
                        None => said.push((to, vec![message])),
                    }
                }
                wire::CLOSED if from.is_over() => {}
                wire::ALIVE => {}
                wire::CLOSED => *reason = Some(errors::decode(from.0, island)),
                _ => return None,
            }
        }
        for (to, messages) in said {
            self.seats[to].send(messages); // if it is down, its link broke
            full.insert(to);
        }
        Some(())
    }
}
