//! What can go wrong with a disk: the kinds, how often each strikes, and how often it did.
//!
//! Frequencies are "one in n", 0 is never. Which kinds a seed has is the swarm's choice
//! (`swarm.rs`); what each does to the bytes is the disk's (`disk/`).

use tombolo_engine::rng::Rng;

/// Something that went wrong, as counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The process and the machine stopped at an I/O step.
    Crash,
    /// The same, while recovery ran.
    CrashInRecovery,
    /// An unsynced sector was gone after a crash.
    SectorLost,
    /// An unsynced sector was half there after a crash.
    SectorTorn,
    /// Of an unsynced sector an earlier version was there after a crash.
    SectorStale,
    /// A file's unsynced length was gone after a crash.
    LengthLost,
    /// A file made but not synced into its directory was gone after a crash.
    EntryLost,
    /// A file removed was back after a crash.
    EntryBack,
    /// A sync failed; what was dirty is called clean.
    SyncFailed,
    /// A sync succeeded and did nothing.
    SyncLied,
    /// A write failed half-way.
    WriteFailed,
    /// A write was refused for lack of space.
    DiskFull,
    /// A write that succeeded never reached the medium.
    WriteLost,
    /// A write that succeeded reached another place of the medium.
    WriteMisdirected,
    /// Bits of the medium changed unnoticed.
    Rot,
    /// A read failed once.
    ReadFailed,
    /// A read ended early once.
    ReadShort,
    /// One bit was flipped in a copy of what was just recovered, to see what comes of it.
    RotRehearsed,
    /// A file was put in the place of another copy's, to see what comes of it.
    FilesMixed,
    /// A database was restored from a backup and the archive, to see what comes of it.
    Restored,
    /// An island's log lost what was not durable.
    TailLost,
    /// A link between islands broke.
    LinkBroken,
    /// A message between islands was lost.
    MessageLost,
    /// It came again by the next link.
    MessageRepeated,
    /// A preparation or a commit on an island found no room.
    CommitRefused,
    /// A part that only read gave its locks up: its coordinator stayed away.
    LocksGivenUp,
    /// A group was cut off an island's log, because another island lacked a transaction of it.
    LogCutOff,
}

impl FaultKind {
    /// All of them with their names in reports, in the order they are reported.
    const NAMED: [(Self, &str); 27] = [
        (Self::Crash, "crash"),
        (Self::CrashInRecovery, "crash-in-recovery"),
        (Self::SectorLost, "sector-lost"),
        (Self::SectorTorn, "sector-torn"),
        (Self::SectorStale, "sector-stale"),
        (Self::LengthLost, "length-lost"),
        (Self::EntryLost, "entry-lost"),
        (Self::EntryBack, "entry-back"),
        (Self::SyncFailed, "sync-failed"),
        (Self::SyncLied, "sync-lied"),
        (Self::WriteFailed, "write-failed"),
        (Self::DiskFull, "disk-full"),
        (Self::WriteLost, "write-lost"),
        (Self::WriteMisdirected, "write-misdirected"),
        (Self::Rot, "rot"),
        (Self::ReadFailed, "read-failed"),
        (Self::ReadShort, "read-short"),
        (Self::RotRehearsed, "rot-rehearsed"),
        (Self::FilesMixed, "files-mixed"),
        (Self::Restored, "restored"),
        (Self::TailLost, "tail-lost"),
        (Self::LinkBroken, "link-broken"),
        (Self::MessageLost, "message-lost"),
        (Self::MessageRepeated, "message-repeated"),
        (Self::CommitRefused, "commit-refused"),
        (Self::LocksGivenUp, "locks-given-up"),
        (Self::LogCutOff, "log-cut-off"),
    ];

    /// All of them, in the order they are reported.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::NAMED.into_iter().map(|(kind, _)| kind)
    }

    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        Self::NAMED[self as usize].1
    }

    /// Whether it befalls islands that commit together by messages.
    pub const fn is_between_islands(self) -> bool {
        self as usize >= Self::TailLost as usize && !matches!(self, Self::LogCutOff)
    }

    /// Whether the medium broke a promise: what was synced may be gone, without an error.
    pub const fn breaks_promise(self) -> bool {
        matches!(self, Self::SyncLied | Self::WriteLost | Self::WriteMisdirected | Self::Rot)
    }
}

/// How often each kind struck.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts([u64; FaultKind::NAMED.len()]);

impl FaultCounts {
    /// Counts one.
    pub fn add(&mut self, kind: FaultKind) {
        self.0[kind as usize] += 1;
    }

    /// How often `kind` struck.
    pub const fn of(&self, kind: FaultKind) -> u64 {
        self.0[kind as usize]
    }

    /// Whether a call to the disk failed after these counts were `before`.
    pub(crate) fn has_failed_since(&self, before: &Self) -> bool {
        use FaultKind::{ReadFailed, ReadShort, SyncFailed, WriteFailed};
        let failing = [ReadFailed, ReadShort, SyncFailed, WriteFailed];
        failing.into_iter().any(|kind| self.of(kind) > before.of(kind))
    }

    /// Whether the medium broke a promise.
    pub fn any_broken_promise(&self) -> bool {
        self.broke_promise_since(&Self::default())
    }

    /// Whether the medium broke a promise after these counts were `before`.
    pub fn broke_promise_since(&self, before: &Self) -> bool {
        let more = |kind: FaultKind| self.of(kind) > before.of(kind);
        FaultKind::all().any(|kind| kind.breaks_promise() && more(kind))
    }

    /// Adds another's counts to these.
    pub fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(own, other)| *own += other);
    }
}

/// Which unsynced sectors a crash leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survival {
    /// None: the device kept everything in its cache.
    Nothing,
    /// All but what the crash interrupted.
    Everything,
    /// Each by itself, with this chance in 1,024.
    Each(u16),
}

/// How often what strikes; "one in n", 0 is never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// Bytes that the device writes as a unit: 512 or 4,096.
    pub sector_bytes: usize,
    /// What direct access demands of offsets, lengths and addresses: 1, 512 or 4,096.
    pub alignment: usize,
    /// What a crash leaves of what was not synced.
    pub survival: Survival,
    /// Surviving sectors that are half old and half new.
    pub torn: u32,
    /// Syncs that fail.
    pub sync_fails: u32,
    /// Syncs that do nothing and succeed.
    pub sync_lies: u32,
    /// Writes that fail half-way.
    pub write_fails: u32,
    /// Writes that never arrive.
    pub write_lost: u32,
    /// Writes that arrive elsewhere.
    pub write_misdirected: u32,
    /// Restarts that find flipped bits.
    pub rot: u32,
    /// Reads that fail once.
    pub read_fails: u32,
    /// Reads that end early once.
    pub read_short: u32,
    /// Nanoseconds of the shortest write or read, and of the shortest sync.
    pub latency_ns: (u64, u64),
}

impl Faults {
    /// A disk that loses what was not synced and does nothing else wrong.
    pub const fn crashes_only() -> Self {
        Self {
            sector_bytes: 512,
            alignment: 1,
            survival: Survival::Each(512),
            torn: 4,
            sync_fails: 0,
            sync_lies: 0,
            write_fails: 0,
            write_lost: 0,
            write_misdirected: 0,
            rot: 0,
            read_fails: 0,
            read_short: 0,
            latency_ns: (20_000, 120_000),
        }
    }

    /// The same disk when no call fails and no promise is broken any more; what a crash leaves stays as bad as it
    /// was.
    pub(crate) const fn patient(self) -> Self {
        Self {
            sync_fails: 0,
            write_fails: 0,
            read_fails: 0,
            read_short: 0,
            sync_lies: 0,
            write_lost: 0,
            write_misdirected: 0,
            ..self
        }
    }
}

/// Whether something that happens once in `n` happens now; never where `n` is 0.
pub fn one_in(rng: &mut Rng, n: u32) -> bool {
    n > 0 && rng.below(u64::from(n)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_counted_by_themselves() {
        let mut counts = FaultCounts::default();
        for (position, kind) in FaultKind::all().enumerate() {
            assert_eq!(kind as usize, position);
            counts.add(kind);
            counts.merge(&counts.clone());
            assert_eq!(counts.of(kind), 2);
            counts = FaultCounts::default();
            counts.add(kind);
            assert_eq!(counts.any_broken_promise(), kind.breaks_promise());
            counts = FaultCounts::default();
        }
    }

    #[test]
    fn never_is_never_and_always_is_always() {
        let mut rng = Rng::from_seed(1);
        assert!((0..100).all(|_| !one_in(&mut rng, 0) && one_in(&mut rng, 1)));
    }
}
