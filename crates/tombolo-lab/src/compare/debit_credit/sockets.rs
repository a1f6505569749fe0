//! Callers of a server: one thread, a socket per caller, in a closed loop.
//!
//! A call that is answered is followed immediately by the caller's next. The thread waits for readable sockets
//! (edge-triggered), takes all answers that have come on one, makes as many calls, and writes them together. Its own
//! processor time is the callers', not the server's.
//!
//! # Why not the clients of the libraries
//! The messages are made and read by the libraries ([`Protocol`]), the loop is our own. With their asynchronous clients
//! in its place a call took a quarter (PostgreSQL) to a half (Redis) more of its caller's processor time, on cores that
//! the server needs: with 16 callers of 16 calls Redis executed 7 % less a second, and then a ratio measures the
//! client.
//!
//! Not here: starting servers (`server.rs`).

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::slice::Iter;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use rustix::event::{Timespec, epoll};
use tombolo_engine::clock::{Clock, SystemClock};

use super::server::Server;
use crate::compare::{Batch, Calls};
use crate::failure::Failure;
use crate::histogram::Latencies;
use crate::workload::debit_credit::input::Input;

/// How long a server may say nothing before it is given up.
const SILENCE_MAX: Timespec = Timespec { tv_sec: 60, tv_nsec: 0 };
/// Bytes read from a socket at a time.
const READ_BYTES: usize = 64 << 10;

/// The messages of a caller's calls and answers.
pub(super) trait Protocol {
    /// Appends the call of one transaction.
    fn call(&mut self, input: &Input, to: &mut BytesMut);

    /// Takes the first answer off `bytes`, if all of it is there: whether the transaction committed.
    ///
    /// # Errors
    /// When it is an error, or none that this knows.
    fn answer(&mut self, bytes: &mut BytesMut) -> Result<Option<bool>, Failure>;
}

/// A caller.
struct Caller<P> {
    socket: UnixStream,
    protocol: P,
    /// Calls that are not written yet.
    calls: BytesMut,
    /// Answers that are not taken yet.
    answers: BytesMut,
    /// When the calls under way were made, the oldest first.
    made_ns: VecDeque<u64>,
}

/// The callers of one server.
pub(super) struct Callers<P> {
    clock: SystemClock,
    in_flight: usize,
    poll: OwnedFd,
    callers: Vec<Caller<P>>,
    buffer: Vec<u8>,
}

/// The rest of a batch, and the outcomes so far.
struct Turn<'b> {
    inputs: Iter<'b, Input>,
    latencies: &'b mut Latencies,
    batch: Batch,
}

fn broken(error: &std::io::Error) -> Failure {
    Failure::environment(format!("the server's socket broke: {error}: see whether it has ended"))
}

impl<P: Protocol> Callers<P> {
    /// Callers on sockets that `connect` opens and makes ready for calls.
    ///
    /// # Errors
    /// When one cannot be had.
    pub(super) fn new(
        calls: Calls,
        clock: SystemClock,
        mut connect: impl FnMut() -> Result<(UnixStream, P), Failure>,
    ) -> Result<Self, Failure> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|e| broken(&e.into()))?;
        let mut callers = Vec::with_capacity(calls.clients);
        for at in 0..calls.clients {
            let (socket, protocol) = connect()?;
            socket.set_nonblocking(true).map_err(|error| broken(&error))?;
            let events = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
            let data = epoll::EventData::new_u64(at as u64);
            epoll::add(&poll, &socket, data, events).map_err(|error| broken(&error.into()))?;
            let (calls, answers) = (BytesMut::new(), BytesMut::new());
            callers.push(Caller { socket, protocol, calls, answers, made_ns: VecDeque::new() });
        }
        let (in_flight, buffer) = (calls.in_flight, vec![0; READ_BYTES]);
        Ok(Self { clock, in_flight, poll, callers, buffer })
    }

    /// Runs a transaction for each of `inputs` on `server`.
    ///
    /// # Errors
    /// When the server answers an error, ends or says nothing.
    pub(super) fn run(
        &mut self,
        server: &Server,
        inputs: &[Input],
        latencies: &mut Latencies,
    ) -> Result<Batch, Failure> {
        let (cpu, client_cpu) = (server.cpu(), self.clock.process_cpu());
        let start_ns = self.clock.now_ns();
        let mut turn = Turn { inputs: inputs.iter(), latencies, batch: Batch::default() };
        for at in 0..self.callers.len() {
            self.attend(at, &mut turn)?;
        }
        let mut events = Vec::with_capacity(self.callers.len());
        while turn.batch.committed + turn.batch.aborted < inputs.len() as u64 {
            events.clear();
            let space = rustix::buffer::spare_capacity(&mut events);
            match epoll::wait(&self.poll, space, Some(&SILENCE_MAX)) {
                Ok(0) => {
                    let why = "the server has said nothing for a minute: see whether it hangs";
                    return Err(Failure::environment(why));
                }
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(broken(&error.into())),
            }
            for event in &events {
                let data = event.data;
                self.attend(data.u64() as usize, &mut turn)?;
            }
        }
        let mut batch = turn.batch;
        batch.wall = Duration::from_nanos(self.clock.now_ns() - start_ns);
        batch.client_cpu = self.clock.process_cpu().saturating_sub(client_cpu);
        batch.cpu = server.cpu().saturating_sub(cpu);
        Ok(batch)
    }

    /// Takes the answers of a caller, makes its next calls, and writes what can be written.
    fn attend(&mut self, at: usize, turn: &mut Turn<'_>) -> Result<(), Failure> {
        let Self { clock, in_flight, callers, buffer, .. } = self;
        let caller = &mut callers[at];
        caller.read(buffer)?;
        let now_ns = clock.now_ns();
        while let Some(is_committed) = caller.protocol.answer(&mut caller.answers)? {
            let Some(made_ns) = caller.made_ns.pop_front() else {
                return Err(Failure::check("the server sent an answer that no call asked for"));
            };
            turn.latencies.record(now_ns - made_ns);
            turn.batch.committed += u64::from(is_committed);
            turn.batch.aborted += u64::from(!is_committed);
        }
        while caller.made_ns.len() < *in_flight {
            let Some(input) = turn.inputs.next() else { break };
            caller.protocol.call(input, &mut caller.calls);
            caller.made_ns.push_back(now_ns);
        }
        caller.write()
    }
}

impl<P> Caller<P> {
    /// Reads what there is.
    fn read(&mut self, buffer: &mut [u8]) -> Result<(), Failure> {
        loop {
            match self.socket.read(buffer) {
                Ok(0) => {
                    let why = "the server closed a socket: see whether it has ended";
                    return Err(Failure::environment(why));
                }
                Ok(bytes) => {
                    self.answers.extend_from_slice(&buffer[..bytes]);
                    // Less than there is room for is all there is; more to come is announced.
                    if bytes < buffer.len() {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(broken(&error)),
            }
        }
    }

    /// Writes what the socket takes; the rest when it reports that there is room again.
    fn write(&mut self) -> Result<(), Failure> {
        while !self.calls.is_empty() {
            match self.socket.write(&self.calls) {
                Ok(bytes) => self.calls.advance(bytes),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(broken(&error)),
            }
        }
        Ok(())
    }
}
