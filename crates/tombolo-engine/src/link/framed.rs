//! Messages over a stream of bytes.
//!
//! ```text
//!   length, 4 bytes, little endian │ CRC-32C of length and message, 4 bytes │ message
//! ```
//!
//! The checksum detects defects of this program and of memory; a stream that loses or changes bytes reports an error
//! itself. Not here: the stream. Invariant: at most one accepted message has not been passed to the stream.

use std::io::{self, ErrorKind, Read, Write};
use std::time::Duration;

use tombolo_storage::checksum;

use super::{Link, LinkEnd};

/// The longest message: more is never sent, and taken for damage.
pub const MESSAGE_BYTES_MAX: usize = 8 << 20;

const HEADER_BYTES: usize = 8;
/// How many bytes one read of the stream asks for.
const READ_BYTES: usize = 256 << 10;

/// A stream that is never waited on.
pub trait Stream: Read + Write + Send {
    /// Sleeps until bytes may have arrived, or with `writes` until some may be written.
    fn wait(&mut self, writes: bool, time_max: Duration);

    /// Another end of the same stream, for another thread.
    ///
    /// # Errors
    /// When the system has no descriptor left, and by default: one thread reads and writes.
    fn another(&self) -> io::Result<Self>
    where
        Self: Sized,
    {
        let what = "one thread receives from and sends over a link of this kind";
        Err(io::Error::new(ErrorKind::Unsupported, what))
    }

    /// Sleeps until bytes have arrived, for `time_max` at most, and reads them, in one call of the system; none if this
    /// stream has no such call.
    fn wait_and_read(&mut self, into: &mut [u8], time_max: Duration) -> Option<io::Result<usize>> {
        let _ = (into, time_max);
        None
    }
}

/// A [`Link`] over a stream of bytes. See the module's head.
#[derive(Debug)]
pub struct Framed<S> {
    stream: S,
    /// What was taken, and from where on it is not on its way.
    out: Vec<u8>,
    written: usize,
    /// What has arrived: of `input[..filled]` what lies before `taken` was given.
    input: Vec<u8>,
    taken: usize,
    filled: usize,
    /// Whether the last wait has read all that there was: then a look at the stream would find nothing.
    has_read: bool,
    end: Option<LinkEnd>,
}

impl<S: Stream> Framed<S> {
    /// Messages over `stream`, which does not block.
    pub fn new(stream: S) -> Self {
        let (out, input) = (Vec::new(), Vec::new());
        Self { stream, out, written: 0, input, taken: 0, filled: 0, has_read: false, end: None }
    }

    /// What messages go over.
    pub(super) const fn stream(&self) -> &S {
        &self.stream
    }

    /// What messages went over; what was received and not given is lost.
    pub(super) fn into_stream(self) -> S {
        self.stream
    }

    fn refuse_if_ended(&self) -> Result<(), LinkEnd> {
        self.end.clone().map_or(Ok(()), Err)
    }

    fn ends(&mut self, end: LinkEnd) -> LinkEnd {
        self.end.get_or_insert(end).clone()
    }

    fn fails(&mut self, error: &io::Error) -> LinkEnd {
        let is_gone = matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset);
        self.ends(if is_gone { LinkEnd::Gone } else { LinkEnd::Failed(error.to_string()) })
    }

    /// The length of the message that lies at `taken`, if all of it has arrived.
    fn arrived(&mut self) -> Result<Option<usize>, LinkEnd> {
        let bytes = &self.input[self.taken..self.filled];
        let Some((length, rest)) = bytes.split_first_chunk::<4>() else { return Ok(None) };
        let bytes_max = u32::from_le_bytes(*length) as usize;
        if bytes_max > MESSAGE_BYTES_MAX {
            let what = format!("a message of {bytes_max} bytes, more than any may have");
            return Err(self.ends(LinkEnd::Damaged(what)));
        }
        let Some((expected, rest)) = rest.split_first_chunk::<4>() else { return Ok(None) };
        let Some(message) = rest.get(..bytes_max) else { return Ok(None) };
        if checksum::of(&[length, message]) != u32::from_le_bytes(*expected) {
            return Err(self.ends(LinkEnd::Damaged("a wrong checksum".to_owned())));
        }
        Ok(Some(bytes_max))
    }

    /// Reads more; whether there was any.
    fn fill(&mut self) -> Result<bool, LinkEnd> {
        self.make_room();
        let read = self.stream.read(&mut self.input[self.filled..]);
        self.took(read)
    }

    /// Moves what was not given to the front, and makes room behind it.
    fn make_room(&mut self) {
        self.input.copy_within(self.taken..self.filled, 0);
        (self.filled, self.taken) = (self.filled - self.taken, 0);
        if self.input.len() < self.filled + READ_BYTES {
            self.input.resize(self.filled + READ_BYTES, 0);
        }
    }

    /// What a read has found; whether that was anything.
    fn took(&mut self, read: io::Result<usize>) -> Result<bool, LinkEnd> {
        match read {
            Ok(0) => Err(self.ends(LinkEnd::Gone)),
            Ok(bytes) => {
                self.filled += bytes;
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(true),
            Err(error) => Err(self.fails(&error)),
        }
    }
}

impl<S: Stream + 'static> Link for Framed<S> {
    fn send(&mut self, message: &[&[u8]]) -> Result<bool, LinkEnd> {
        if !self.flush()? {
            return Ok(false);
        }
        let bytes: usize = message.iter().map(|part| part.len()).sum();
        assert!(bytes <= MESSAGE_BYTES_MAX, "a message of {bytes} bytes");
        let length = (bytes as u32).to_le_bytes();
        let append = |sum, part: &&[u8]| checksum::append(sum, part);
        let checksum = message.iter().fold(checksum::of(&[&length]), append);
        self.out.extend_from_slice(&length);
        self.out.extend_from_slice(&checksum.to_le_bytes());
        message.iter().for_each(|part| self.out.extend_from_slice(part));
        self.flush()?;
        Ok(true)
    }

    fn flush(&mut self) -> Result<bool, LinkEnd> {
        self.refuse_if_ended()?;
        while self.written < self.out.len() {
            match self.stream.write(&self.out[self.written..]) {
                Ok(0) => return Err(self.ends(LinkEnd::Gone)),
                Ok(bytes) => self.written += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.fails(&error)),
            }
        }
        self.out.clear();
        self.written = 0;
        Ok(true)
    }

    fn receive(&mut self) -> Result<Option<&[u8]>, LinkEnd> {
        // A peer that is gone may have left messages, which are given first.
        if matches!(self.end, Some(LinkEnd::Damaged(_))) {
            self.refuse_if_ended()?;
        }
        let bytes = loop {
            if let Some(bytes) = self.arrived()? {
                break bytes;
            }
            if std::mem::take(&mut self.has_read) || !self.fill()? {
                return Ok(None);
            }
        };
        let from = self.taken + HEADER_BYTES;
        self.taken = from + bytes;
        Ok(Some(&self.input[from..from + bytes]))
    }

    fn split(self: Box<Self>) -> io::Result<(Box<dyn Link>, Box<dyn Link>)> {
        let sending = Self::new(self.stream.another()?);
        Ok((self, Box::new(sending)))
    }

    fn wait(&mut self, time_max: Duration) {
        if self.end.is_some() {
            return;
        }
        if self.out.is_empty() {
            self.make_room();
            let into = &mut self.input[self.filled..];
            let room = into.len();
            if let Some(read) = self.stream.wait_and_read(into, time_max) {
                // A read that filled the room may have left something, and one that found an end is made again.
                self.has_read = read.as_ref().is_ok_and(|bytes| (1..room).contains(bytes));
                _ = self.took(read);
                return;
            }
        }
        self.stream.wait(!self.out.is_empty(), time_max);
    }
}
