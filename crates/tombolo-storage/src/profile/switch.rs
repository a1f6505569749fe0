//! What each switch of the paged store can be set to (S2 … S10).
//!
//! Several components are latched, and one asks another (the pool asks the log): the types here
//! stand for a component before it is known what it is combined with. S1's settings and S6's,
//! [`Latched`](crate::latch::Latched) and [`Unlatched`](crate::latch::Unlatched), need no such
//! stand-in.

use std::marker::PhantomData;

use crate::latch::Latching;
use crate::lock::{Hierarchical, IfLocks, Locking, NoLocks};
use crate::log::{InMemory, Log, Logging, NoLog, Numbers, ToDisk};
use crate::paged::btree::{IntegerKeys, KeyFormat, TypedColumns};
use crate::paged::page::PageSize;
use crate::paged::pool::{BufferPool, DirectFrames, Pointers, WriteAhead};
use crate::paged::store::{
    ByName, Directory, OneSession, Registered, Resolved, RowAccess, Sessions,
};

/// S1.
pub trait KeySwitch: KeyFormat {
    /// Whether S1 is on.
    const ON: bool;
}

impl KeySwitch for TypedColumns {
    const ON: bool = true;
}

impl KeySwitch for IntegerKeys {
    const ON: bool = false;
}

/// S2, S3, S4.
pub trait LogSwitch: 'static {
    /// The log, latched or not.
    type Log<L: Latching>: Logging;
    /// Whether S2, S3 and S4 are on.
    const ON: [bool; 3];
}

/// Everything is logged, and the log goes to disk.
#[derive(Clone, Copy, Debug)]
pub struct DiskLog;
impl LogSwitch for DiskLog {
    type Log<L: Latching> = Log<ToDisk, L>;
    const ON: [bool; 3] = [true, true, true];
}

/// Everything is logged into a buffer that is never flushed (S2 off).
#[derive(Clone, Copy, Debug)]
pub struct MainLog;
impl LogSwitch for MainLog {
    type Log<L: Latching> = Log<InMemory, L>;
    const ON: [bool; 3] = [false, true, true];
}

/// Nothing is logged, but sequence numbers are kept (S2, S3 off).
#[derive(Clone, Copy, Debug)]
pub struct LogNumbers;
impl LogSwitch for LogNumbers {
    type Log<L: Latching> = Numbers<L>;
    const ON: [bool; 3] = [false, false, true];
}

/// No log at all (S2, S3, S4 off).
#[derive(Clone, Copy, Debug)]
pub struct Unlogged;
impl LogSwitch for Unlogged {
    type Log<L: Latching> = NoLog;
    const ON: [bool; 3] = [false, false, false];
}

/// S5.
pub trait LockSwitch: 'static {
    /// The lock table, latched or not.
    type Locks<L: Latching>: Locking;
    /// Whether S5 is on.
    const ON: bool;
}

/// Rows are locked.
#[derive(Clone, Copy, Debug)]
pub struct Locked;
impl LockSwitch for Locked {
    type Locks<L: Latching> = Hierarchical<L>;
    const ON: bool = true;
}

/// Rows are locked if a variable says so (LG-26), which it does not in the profile that has it.
#[derive(Clone, Copy, Debug)]
pub struct IfLocked;
impl LockSwitch for IfLocked {
    type Locks<L: Latching> = IfLocks<L>;
    const ON: bool = false;
}

/// Nothing is locked.
#[derive(Clone, Copy, Debug)]
pub struct Unlocked;
impl LockSwitch for Unlocked {
    type Locks<L: Latching> = NoLocks;
    const ON: bool = false;
}

/// S7.
pub trait DirectorySwitch: 'static {
    /// The directory of stores.
    type Directory: Directory;
    /// Whether S7 is on.
    const ON: bool;
}

/// Looked up by name at each call.
#[derive(Clone, Copy, Debug)]
pub struct NamedStores;
impl DirectorySwitch for NamedStores {
    type Directory = ByName;
    const ON: bool = true;
}

/// Resolved once.
#[derive(Clone, Copy, Debug)]
pub struct ResolvedStores;
impl DirectorySwitch for ResolvedStores {
    type Directory = Resolved;
    const ON: bool = false;
}

/// S8 and S9.
pub trait PageSwitch: 'static {
    /// How pages are reached; `W` is what has to be ahead of them.
    type Pages<L: Latching, W: WriteAhead + Send + 'static>: RowAccess<W>;
    /// Whether S8 and S9 are on.
    const ON: [bool; 2];
}

/// Fixed and unfixed in a buffer pool, rows copied out and in (S9 on).
#[derive(Clone, Copy, Debug)]
pub struct Pooled<S>(PhantomData<S>);
impl<S: PageSize> PageSwitch for Pooled<S> {
    type Pages<L: Latching, W: WriteAhead + Send + 'static> = BufferPool<S, L, W>;
    const ON: [bool; 2] = [is_small::<S>(), true];
}

/// All resident, found by arithmetic, rows changed in place (S9 off, first form).
#[derive(Clone, Copy, Debug)]
pub struct Direct<S>(PhantomData<S>);
impl<S: PageSize> PageSwitch for Direct<S> {
    type Pages<L: Latching, W: WriteAhead + Send + 'static> = DirectFrames<S, L>;
    const ON: [bool; 2] = [is_small::<S>(), false];
}

/// Records and nodes outside pages (S9 off, second form); only without log, locks and latches.
#[derive(Clone, Copy, Debug)]
pub struct ByPointer<S>(PhantomData<S>);
impl<S: PageSize> PageSwitch for ByPointer<S> {
    type Pages<L: Latching, W: WriteAhead + Send + 'static> = Pointers<S>;
    const ON: [bool; 2] = [is_small::<S>(), false];
}

const fn is_small<S: PageSize>() -> bool {
    S::BYTES == crate::paged::page::SmallPages::BYTES
}

/// S10.
pub trait SessionSwitch: 'static {
    /// What knows the transactions under way, latched or not.
    type Sessions<L: Latching>: Sessions<L>;
    /// Whether S10 is on.
    const ON: bool;
}

/// Transactions are registered, monitored and torn down.
#[derive(Clone, Copy, Debug)]
pub struct RegisteredSessions;
impl SessionSwitch for RegisteredSessions {
    type Sessions<L: Latching> = Registered<L>;
    const ON: bool = true;
}

/// There is one session.
#[derive(Clone, Copy, Debug)]
pub struct SingleSession;
impl SessionSwitch for SingleSession {
    type Sessions<L: Latching> = OneSession;
    const ON: bool = false;
}
