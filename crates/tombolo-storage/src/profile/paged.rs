//! The profiles of the paged store: the paper's ladder, its two rungs swapped, each main component
//! removed alone, and all combinations of the main components.
//!
//! A profile is a list of switch settings and nothing else. Names that mean the same settings are
//! the same type, so code for them is compiled once. Combinations that are not safe do not compile:
//! [`PagedStore`](crate::paged::store::PagedStore) says which.

use std::marker::PhantomData;

use super::switch::*;
use super::{PagedProfile, ProfileInfo, Switches};
use crate::latch::{Latched, Latching, Unlatched};
use crate::log::Logging;
use crate::paged::btree::{IntegerKeys, TypedColumns};
use crate::paged::page::{LargePages, SmallPages};
use crate::paged::store::Sharing;

/// A paged store of these components: keys (S1), log (S2 … S4), locks (S5), latches (S6), directory
/// (S7), pages (S8, S9), sessions (S10).
#[derive(Clone, Copy, Debug)]
pub struct Paged<K, G, T, L, D, P, N>(PhantomData<(K, G, T, L, D, P, N)>);

impl<K, G, T, L, D, P, N> PagedProfile for Paged<K, G, T, L, D, P, N>
where
    K: KeySwitch,
    G: LogSwitch,
    T: LockSwitch,
    L: Latching + Sharing,
    D: DirectorySwitch,
    P: PageSwitch,
    N: SessionSwitch,
{
    type Keys = K;
    type Log = G::Log<L>;
    type Locks = T::Locks<L>;
    type Latching = L;
    type Directory = D::Directory;
    type Pages = P::Pages<L, <G::Log<L> as Logging>::Ahead>;
    type Sessions = N::Sessions<L>;
    const SWITCHES: Switches = [
        K::ON,
        G::ON[0],
        G::ON[1],
        G::ON[2],
        T::ON,
        L::WAITS,
        D::ON,
        P::ON[0],
        P::ON[1],
        N::ON,
        true,
    ];
}

/// The buffer manager as the lattice counts it (S7, S8 and S9 together).
pub trait BufferManager: 'static {
    /// S7.
    type Directory: DirectorySwitch;
    /// S8, S9.
    type Pages: PageSwitch;
}

/// On: stores looked up by name, small pages in a pool.
#[derive(Clone, Copy, Debug)]
pub struct WithPool;
impl BufferManager for WithPool {
    type Directory = NamedStores;
    type Pages = Pooled<SmallPages>;
}

/// Off: stores resolved once, large pages in frames that stay.
#[derive(Clone, Copy, Debug)]
pub struct WithoutPool;
impl BufferManager for WithoutPool {
    type Directory = ResolvedStores;
    type Pages = Direct<LargePages>;
}

/// A combination of the main components: keys, logging, locking, latching, buffer manager. Sessions
/// belong to what remains.
pub type Lattice<K, G, T, L, B> = Paged<
    K,
    G,
    T,
    L,
    <B as BufferManager>::Directory,
    <B as BufferManager>::Pages,
    RegisteredSessions,
>;

/// The ladder with keys, log, locks and latches gone; what is left of the others.
type Stripped<D, P, N> = Paged<IntegerKeys, Unlogged, Unlocked, Unlatched, D, P, N>;

/// The same settings with another log.
type WithLog<G> = Lattice<IntegerKeys, G, Locked, Latched, WithPool>;

/// Names the paged profiles: a type each, their list, and the macro that visits them all. `$d` is a
/// dollar sign, for the macro made here.
macro_rules! paged_profiles {
    ($d:tt $($name:literal => $alias:ident = $profile:ty;)+) => {
        $(
            #[doc = concat!("`", $name, "`.")]
            pub type $alias = $profile;
        )+

        /// The profiles of the paged store.
        pub const PAGED_PROFILES: &[ProfileInfo] =
            &[$(ProfileInfo::of_paged::<$alias>($name)),+];

        /// Expands `$each!(name, Profile)` once per profile of the paged store. Some names mean the
        /// same type.
        #[macro_export]
        macro_rules! for_each_paged_profile {
            ($d each:ident) => {
                $($d each!($name, $d crate::profile::$alias);)+
            };
        }
    };
}

paged_profiles! { $
    "conventional" => Conventional = Lattice11111;
    "no-btree-keys" => NoBtreeKeys = Lattice01111;
    "no-disk-log" => NoDiskLog = WithLog<MainLog>;
    "no-main-log" => NoMainLog = WithLog<LogNumbers>;
    "no-lsn" => NoLsn = Lattice00111;
    "no-locking" => NoLocking = Lattice00011;
    "no-latching" => NoLatching = Lattice00001;
    "no-directory" => NoDirectory = Stripped<ResolvedStores, Pooled<SmallPages>, RegisteredSessions>;
    "no-small-page" => NoSmallPage = Stripped<ResolvedStores, Pooled<LargePages>, RegisteredSessions>;
    "no-page-access" => NoPageAccess = Stripped<ResolvedStores, ByPointer<LargePages>, RegisteredSessions>;
    "no-sessions" => NoSessions = Stripped<ResolvedStores, ByPointer<LargePages>, SingleSession>;
    "swap-no-latching" => SwapNoLatching = Lattice00101;
    "swap-no-locking" => SwapNoLocking = Lattice00001;
    "alone-btree-keys" => AloneBtreeKeys = Lattice01111;
    "alone-logging" => AloneLogging = Lattice10111;
    "alone-locking" => AloneLocking = Lattice11011;
    "alone-latching" => AloneLatching = Lattice11101;
    "alone-buffer-manager" => AloneBufferManager = Lattice11110;
    "if-locking" => IfLocking = Lattice<IntegerKeys, Unlogged, IfLocked, Latched, WithPool>;
    "lattice-11111" => Lattice11111 = Lattice<TypedColumns, DiskLog, Locked, Latched, WithPool>;
    "lattice-11110" => Lattice11110 = Lattice<TypedColumns, DiskLog, Locked, Latched, WithoutPool>;
    "lattice-11101" => Lattice11101 = Lattice<TypedColumns, DiskLog, Locked, Unlatched, WithPool>;
    "lattice-11100" => Lattice11100 = Lattice<TypedColumns, DiskLog, Locked, Unlatched, WithoutPool>;
    "lattice-11011" => Lattice11011 = Lattice<TypedColumns, DiskLog, Unlocked, Latched, WithPool>;
    "lattice-11010" => Lattice11010 = Lattice<TypedColumns, DiskLog, Unlocked, Latched, WithoutPool>;
    "lattice-11001" => Lattice11001 = Lattice<TypedColumns, DiskLog, Unlocked, Unlatched, WithPool>;
    "lattice-11000" => Lattice11000 = Lattice<TypedColumns, DiskLog, Unlocked, Unlatched, WithoutPool>;
    "lattice-10111" => Lattice10111 = Lattice<TypedColumns, Unlogged, Locked, Latched, WithPool>;
    "lattice-10110" => Lattice10110 = Lattice<TypedColumns, Unlogged, Locked, Latched, WithoutPool>;
    "lattice-10101" => Lattice10101 = Lattice<TypedColumns, Unlogged, Locked, Unlatched, WithPool>;
    "lattice-10100" => Lattice10100 = Lattice<TypedColumns, Unlogged, Locked, Unlatched, WithoutPool>;
    "lattice-10011" => Lattice10011 = Lattice<TypedColumns, Unlogged, Unlocked, Latched, WithPool>;
    "lattice-10010" => Lattice10010 = Lattice<TypedColumns, Unlogged, Unlocked, Latched, WithoutPool>;
    "lattice-10001" => Lattice10001 = Lattice<TypedColumns, Unlogged, Unlocked, Unlatched, WithPool>;
    "lattice-10000" => Lattice10000 = Lattice<TypedColumns, Unlogged, Unlocked, Unlatched, WithoutPool>;
    "lattice-01111" => Lattice01111 = Lattice<IntegerKeys, DiskLog, Locked, Latched, WithPool>;
    "lattice-01110" => Lattice01110 = Lattice<IntegerKeys, DiskLog, Locked, Latched, WithoutPool>;
    "lattice-01101" => Lattice01101 = Lattice<IntegerKeys, DiskLog, Locked, Unlatched, WithPool>;
    "lattice-01100" => Lattice01100 = Lattice<IntegerKeys, DiskLog, Locked, Unlatched, WithoutPool>;
    "lattice-01011" => Lattice01011 = Lattice<IntegerKeys, DiskLog, Unlocked, Latched, WithPool>;
    "lattice-01010" => Lattice01010 = Lattice<IntegerKeys, DiskLog, Unlocked, Latched, WithoutPool>;
    "lattice-01001" => Lattice01001 = Lattice<IntegerKeys, DiskLog, Unlocked, Unlatched, WithPool>;
    "lattice-01000" => Lattice01000 = Lattice<IntegerKeys, DiskLog, Unlocked, Unlatched, WithoutPool>;
    "lattice-00111" => Lattice00111 = Lattice<IntegerKeys, Unlogged, Locked, Latched, WithPool>;
    "lattice-00110" => Lattice00110 = Lattice<IntegerKeys, Unlogged, Locked, Latched, WithoutPool>;
    "lattice-00101" => Lattice00101 = Lattice<IntegerKeys, Unlogged, Locked, Unlatched, WithPool>;
    "lattice-00100" => Lattice00100 = Lattice<IntegerKeys, Unlogged, Locked, Unlatched, WithoutPool>;
    "lattice-00011" => Lattice00011 = Lattice<IntegerKeys, Unlogged, Unlocked, Latched, WithPool>;
    "lattice-00010" => Lattice00010 = Lattice<IntegerKeys, Unlogged, Unlocked, Latched, WithoutPool>;
    "lattice-00001" => Lattice00001 = Lattice<IntegerKeys, Unlogged, Unlocked, Unlatched, WithPool>;
    "lattice-00000" => Lattice00000 = Lattice<IntegerKeys, Unlogged, Unlocked, Unlatched, WithoutPool>;
}
