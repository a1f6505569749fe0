//! The messages between a database's process and the process that writes its checkpoints.
//!
//! ```text
//!    executes, logs                                   has DB′, writes the image
//!        │ ◄──────────── Hello: version ─────────────────── │   has taken the image's lock
//!        │ ── Welcome: settings, where the log ends ──────► │   loads the image, reads the log
//!        │ ── Records, Position: what is durable since ───► │   installs; past a bound reads the log
//!        │ ◄──────────── Opening ────────────────────────── │   now and then, until that is done
//!        │ ── Demand, IsShort, Hold, Look, Close ─────────► │
//!        │ ◄──────────── Report: all of its state ───────── │   whenever that has changed
//!        │ ◄──────────── Refused: why it cannot ─────────── │
//! ```
//!
//! Each report has the whole state, as it is on the disk: so a report that is lost, or comes
//! from a process that has ended, does no harm. Numbers are little endian; a message that does not decode ends the
//! link. Not here: framing, checksums (`link/`). Both processes run the same program, so there is one
//! version, which changes with any message; only a program that was replaced meanwhile has another version.

use tombolo_storage::memory::Limits;
use tombolo_storage::memory::image::{ImageSettings, SecondCopy};
use tombolo_storage::value_log::{GroupNumber, LogPosition};

use crate::pipeline::policy::CheckpointPolicy;

/// The version of everything here.
pub(crate) const VERSION: u64 = 4;

/// What a process is sent when it has said hello.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Welcome {
    /// Which process of this database it is; its reports say so.
    pub(crate) connection: u64,
    /// The log's.
    pub(crate) salt: u64,
    /// The one it is in.
    pub(crate) epoch: u32,
    /// Where the log ends; what is before is read from its files.
    pub(crate) position: LogPosition,
    pub(crate) image: ImageSettings,
    pub(crate) policy: CheckpointPolicy,
    pub(crate) limits: Limits,
    /// Parts that checkpoints are written in.
    pub(crate) parts: u64,
    /// Whether the log's files are read directly.
    pub(crate) log_is_direct: bool,
}

/// What a database's process says.
#[derive(Debug, PartialEq)]
pub(crate) enum ToProcess<'a> {
    Welcome(Welcome),
    /// These are durable; the log ends there behind them.
    Records(LogPosition, &'a [u8]),
    /// The log is durable up to here; its records are read from its files.
    Position(LogPosition),
    /// So many checkpoints were asked for; one is wanted that holds all that was said before.
    Demand(u64),
    /// Whether the log runs short of room.
    IsShort(bool),
    /// No checkpoint may begin: the number of this hold; 0: one may.
    Hold(u64),
    /// A report is wanted that has this number.
    Look(u64),
    /// Nothing more comes.
    Close,
}

/// What a process says that writes checkpoints: all of its state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) connection: u64,
    /// The log may be released before this group.
    pub(crate) needed_from: GroupNumber,
    /// Demands, from the first on, that were met; and those that a full disk refused.
    pub(crate) met: u64,
    pub(crate) refused_up_to: u64,
    pub(crate) refused: String,
    /// Why no checkpoint is written any more; empty: one may be.
    pub(crate) failure: String,
    pub(crate) is_writing: bool,
    /// The last hold that was announced to it, if nothing of the image changes any more; else 0.
    pub(crate) held: u64,
    /// Nothing more is written: it was asked to close, or has failed.
    pub(crate) is_over: bool,
    /// The last look that it was asked for.
    pub(crate) seen: u64,
    /// Since it was started.
    pub(crate) counted: Counted,
}

/// What a process has counted since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) count: u64,
    pub(crate) bytes: u64,
    pub(crate) wall_ns: u64,
    pub(crate) put_off: u64,
    pub(crate) read_back_bytes: u64,
    pub(crate) busy_ns: u64,
    pub(crate) cpu_ns: u64,
    /// Not a count: what DB′ takes now.
    pub(crate) copy_bytes: u64,
}

/// What a process says that writes checkpoints.
#[derive(Debug, PartialEq)]
pub(crate) enum FromProcess {
    Hello {
        version: u64,
    },
    /// It reads the image, or the log behind it.
    Opening,
    Report(Report),
    Refused(String),
}

/// That bytes are no message.
pub(crate) const NO_MESSAGE: &str = "the other process said something that is no message";

/// Appends numbers and texts.
#[derive(Debug, Default)]
struct Out(Vec<u8>);

impl Out {
    fn of(kind: u8) -> Self {
        Self(vec![kind])
    }
    fn number(mut self, number: u64) -> Self {
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }
    fn yes(self, yes: bool) -> Self {
        self.number(yes.into())
    }
    fn position(self, LogPosition { group, checksum, transactions }: LogPosition) -> Self {
        self.number(group).number(checksum.into()).number(transactions)
    }
    fn text(self, text: &str) -> Self {
        let mut out = self.number(text.len() as u64);
        out.0.extend_from_slice(text.as_bytes());
        out
    }
}

/// Takes numbers and texts; `None` when there are none.
struct In<'a>(&'a [u8]);

impl<'a> In<'a> {
    fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }
    fn size<N: TryFrom<u64>>(&mut self) -> Option<N> {
        N::try_from(self.number()?).ok()
    }
    fn yes(&mut self) -> Option<bool> {
        match self.number()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
    fn position(&mut self) -> Option<LogPosition> {
        let (group, checksum, transactions) = (self.number()?, self.size()?, self.number()?);
        Some(LogPosition { group, checksum, transactions })
    }
    fn text(&mut self) -> Option<String> {
        let bytes = self.size()?;
        let text = self.0.get(..bytes)?;
        self.0 = &self.0[bytes..];
        String::from_utf8(text.to_vec()).ok()
    }
    /// `what`, if nothing is left.
    fn ends<T>(self, what: T) -> Option<T> {
        self.0.is_empty().then_some(what)
    }
    fn rest(self) -> &'a [u8] {
        self.0
    }
}

const WELCOME: u8 = 1;
const RECORDS: u8 = 2;
const POSITION: u8 = 3;
const DEMAND: u8 = 4;
const IS_SHORT: u8 = 5;
const HOLD: u8 = 6;
const CLOSE: u8 = 7;
const HELLO: u8 = 8;
const REPORT: u8 = 9;
const REFUSED: u8 = 10;
const LOOK: u8 = 11;
const OPENING: u8 = 12;

/// What comes before the bytes of records that end at a position.
pub(crate) fn records_head(position: LogPosition) -> Vec<u8> {
    Out::of(RECORDS).position(position).0
}

impl ToProcess<'_> {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let out = match self {
            Self::Welcome(welcome) => welcome.encode(),
            Self::Records(position, records) => {
                let mut out = Out(records_head(*position));
                out.0.extend_from_slice(records);
                out
            }
            Self::Position(position) => Out::of(POSITION).position(*position),
            Self::Demand(asked) => Out::of(DEMAND).number(*asked),
            Self::IsShort(is_short) => Out::of(IS_SHORT).yes(*is_short),
            Self::Hold(hold) => Out::of(HOLD).number(*hold),
            Self::Look(look) => Out::of(LOOK).number(*look),
            Self::Close => Out::of(CLOSE),
        };
        out.0
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<ToProcess<'_>> {
        let (&kind, bytes) = bytes.split_first()?;
        let mut from = In(bytes);
        let message = match kind {
            WELCOME => ToProcess::Welcome(Welcome::decode(&mut from)?),
            RECORDS => return Some(ToProcess::Records(from.position()?, from.rest())),
            POSITION => ToProcess::Position(from.position()?),
            DEMAND => ToProcess::Demand(from.number()?),
            IS_SHORT => ToProcess::IsShort(from.yes()?),
            HOLD => ToProcess::Hold(from.number()?),
            LOOK => ToProcess::Look(from.number()?),
            CLOSE => ToProcess::Close,
            _ => return None,
        };
        from.ends(message)
    }
}

impl Welcome {
    fn encode(&self) -> Out {
        let Self { connection, salt, epoch, position, image, policy, limits, parts, log_is_direct } =
            *self;
        let CheckpointPolicy { log_bytes, device_percent, queue_bytes_max, at_close } = policy;
        Out::of(WELCOME)
            .number(connection)
            .number(salt)
            .number(epoch.into())
            .position(position)
            .number(image.block_bytes.into())
            .number(image.spare_blocks.into())
            .yes(image.direct)
            .number(log_bytes)
            .number(device_percent)
            .number(queue_bytes_max)
            .yes(at_close)
            .number(limits.structure_bytes_max as u64)
            .number(limits.memory_bytes_max)
            .number(limits.snapshot_bytes_max)
            .number(parts)
            .yes(log_is_direct)
    }

    fn decode(from: &mut In<'_>) -> Option<Self> {
        Some(Self {
            connection: from.number()?,
            salt: from.number()?,
            epoch: from.size()?,
            position: from.position()?,
            image: ImageSettings {
                block_bytes: from.size()?,
                spare_blocks: from.size()?,
                direct: from.yes()?,
                // The rows are in the other process.
                copy: SecondCopy::Memory,
            },
            policy: CheckpointPolicy {
                log_bytes: from.number()?,
                device_percent: from.number()?,
                queue_bytes_max: from.number()?,
                at_close: from.yes()?,
            },
            limits: Limits {
                structure_bytes_max: from.size()?,
                memory_bytes_max: from.number()?,
                snapshot_bytes_max: from.number()?,
                // The second copy has no indexes.
                hash_seed: None,
            },
            parts: from.number()?,
            log_is_direct: from.yes()?,
        })
    }
}

impl FromProcess {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let out = match self {
            Self::Hello { version } => Out::of(HELLO).number(*version),
            Self::Opening => Out::of(OPENING),
            Self::Report(report) => report.encode(),
            Self::Refused(why) => Out::of(REFUSED).text(why),
        };
        out.0
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (&kind, bytes) = bytes.split_first()?;
        let mut from = In(bytes);
        let message = match kind {
            HELLO => Self::Hello { version: from.number()? },
            OPENING => Self::Opening,
            REPORT => Self::Report(Report::decode(&mut from)?),
            REFUSED => Self::Refused(from.text()?),
            _ => return None,
        };
        from.ends(message)
    }
}

impl Report {
    fn encode(&self) -> Out {
        let Counted {
            count,
            bytes,
            wall_ns,
            put_off,
            read_back_bytes,
            busy_ns,
            cpu_ns,
            copy_bytes,
        } = self.counted;
        let out = Out::of(REPORT)
            .number(self.connection)
            .number(self.needed_from)
            .number(self.met)
            .number(self.refused_up_to)
            .text(&self.refused)
            .text(&self.failure)
            .yes(self.is_writing)
            .number(self.held)
            .yes(self.is_over)
            .number(self.seen);
        [count, bytes, wall_ns, put_off, read_back_bytes, busy_ns, cpu_ns, copy_bytes]
            .into_iter()
            .fold(out, Out::number)
    }

    fn decode(from: &mut In<'_>) -> Option<Self> {
        Some(Self {
            connection: from.number()?,
            needed_from: from.number()?,
            met: from.number()?,
            refused_up_to: from.number()?,
            refused: from.text()?,
            failure: from.text()?,
            is_writing: from.yes()?,
            held: from.number()?,
            is_over: from.yes()?,
            seen: from.number()?,
            counted: Counted {
                count: from.number()?,
                bytes: from.number()?,
                wall_ns: from.number()?,
                put_off: from.number()?,
                read_back_bytes: from.number()?,
                busy_ns: from.number()?,
                cpu_ns: from.number()?,
                copy_bytes: from.number()?,
            },
        })
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;

    const POSITION: LogPosition = LogPosition { group: 7, checksum: 0xfeed, transactions: 90 };

    fn welcome() -> Welcome {
        let (log_bytes, device_percent) = (1 << 30, 40);
        Welcome {
            connection: 3,
            salt: 0x5eed,
            epoch: 6,
            position: POSITION,
            image: ImageSettings {
                block_bytes: 8192,
                spare_blocks: 2,
                direct: false,
                copy: SecondCopy::Memory,
            },
            policy: CheckpointPolicy {
                log_bytes,
                device_percent,
                queue_bytes_max: 9,
                at_close: true,
            },
            limits: Limits { memory_bytes_max: 77, ..Limits::default() },
            parts: 2,
            log_is_direct: true,
        }
    }

    fn report() -> Report {
        Report {
            connection: 3,
            needed_from: 5,
            met: 2,
            refused_up_to: 4,
            refused: "the disk is full".into(),
            failure: "größer".into(),
            is_writing: true,
            held: 8,
            is_over: true,
            seen: 9,
            counted: Counted { count: 1, bytes: 2, wall_ns: 3, put_off: 4, ..Counted::default() },
        }
    }

    #[test]
    fn what_is_said_is_what_is_heard_and_nothing_else_is() {
        let said = [
            ToProcess::Welcome(welcome()),
            ToProcess::Records(POSITION, b"records"),
            ToProcess::Records(POSITION, b""),
            ToProcess::Position(POSITION),
            ToProcess::Demand(4),
            ToProcess::IsShort(true),
            ToProcess::Hold(8),
            ToProcess::Look(9),
            ToProcess::Close,
        ];
        for message in said {
            let mut bytes = message.encode();
            assert_eq!(ToProcess::decode(&bytes).unwrap(), message);
            assert_eq!(FromProcess::decode(&bytes), None);
            if !matches!(message, ToProcess::Records(..)) {
                (0..bytes.len()).for_each(|end| assert_eq!(ToProcess::decode(&bytes[..end]), None));
                bytes.push(0);
                assert_eq!(ToProcess::decode(&bytes), None);
            }
        }
        let heard = [
            FromProcess::Hello { version: VERSION },
            FromProcess::Opening,
            FromProcess::Report(report()),
            FromProcess::Refused("no memory".into()),
        ];
        for message in heard {
            let mut bytes = message.encode();
            assert_eq!(FromProcess::decode(&bytes).unwrap(), message);
            (0..bytes.len()).for_each(|end| assert_eq!(FromProcess::decode(&bytes[..end]), None));
            bytes.push(0);
            assert_eq!((FromProcess::decode(&bytes), ToProcess::decode(&bytes)), (None, None));
        }
    }
}
