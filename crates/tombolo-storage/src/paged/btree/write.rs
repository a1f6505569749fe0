//! Inserting, marking and removing entries.

use std::cmp::Ordering;

use super::gaps::{Gap, GapEnd, Gaps};
use super::keys::{KeyFormat, Position, Probe};
use super::node::{Entry, Node};
use super::read::Target;
use super::run::{LastInsertion, LastInsertions};
use super::search::Found;
use super::{BTree, Structure, set_stamp};
use crate::key::KEY_BYTES_MAX;
use crate::paged::heap::{Place, Stamp};
use crate::paged::page::PageId;
use crate::paged::pool::{PageAccess, PageError, PageFailure, ReadPage, Result};
use crate::row::RowId;

/// What an entry with an equal key in a unique index means to the inserting transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meet {
    /// It is as good as gone.
    Pass,
    /// The key is there already.
    Duplicate,
    /// That depends on another transaction.
    Wait,
}

/// What an insertion finds in its way: asked about entries with an equal key and, if gaps are locked, about the
/// gap that it divides. A function that is asked about entries is one for indexes without locks on gaps.
pub trait Newcomer: Gaps {
    /// What to do about the entry of a row, marked deleted or not.
    fn meet(&mut self, row: RowId, deleted: bool) -> Meet;
}

/// What became of an insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Inserted {
    /// The entry is there.
    Done,
    /// It is not: the key, or this very entry, was there before.
    Duplicate,
    /// This very entry is there, marked deleted, and nothing else is in its way: the transaction
    /// that marked it takes the mark off ([`BTree::set_deleted`]).
    Marked,
    /// It is not: wait for this row and try again.
    Wait(RowId),
    /// It is not: its session refused to enter this gap; it waits for the gap and tries again.
    Gap(GapEnd),
}

/// For indexes whose gaps are not locked.
impl<F: FnMut(RowId, bool) -> Meet> Gaps for F {
    const LOCKED: bool = false;
}

impl<F: FnMut(RowId, bool) -> Meet> Newcomer for F {
    fn meet(&mut self, row: RowId, deleted: bool) -> Meet {
        self(row, deleted)
    }
}

/// Whether an entry may come into its gap.
enum Entrance<G> {
    /// It may, while the gap is held.
    Open(Option<Gap<G>>),
    /// It may not yet.
    Closed(GapEnd),
    /// That is to be asked while `steps` is held.
    Unsure,
}

/// What the equal keys of a leaf say.
enum Answer {
    Insert(usize),
    Refuse(Inserted),
}

impl<P: PageAccess, K: KeyFormat> BTree<P, K> {
    /// Inserts an entry. In a unique index `newcomer` first meets every entry with an equal key, in
    /// others this very entry if it is there, marked deleted: the row, and whether it is marked; it
    /// may be shown one more than once. Then it is asked whether it may enter the gap. `log` is called
    /// once with the place where the entry will be, while the leaf is held alone; the number it
    /// returns is stamped on the leaf. Both run under the leaf's latch: they may try locks, not
    /// wait, nor reach pages. `last` are the caller's last insertions into the index: an entry that comes
    /// right behind one of them needs no descent.
    ///
    /// # Errors
    /// What `log` fails with, as [`PageAccess::fix_exclusive`] and [`PageAccess::new_page`], or
    /// when the key is too long. The entry is not there then.
    #[inline]
    pub fn insert<E: From<PageError>>(
        &self,
        access: &P,
        (key, row): (&[u8], RowId),
        last: &mut LastInsertions,
        newcomer: &mut impl Newcomer,
        log: impl FnOnce(Place) -> Result<Stamp, E>,
        structure: &impl Structure,
    ) -> Result<Inserted, E> {
        if key.len() > KEY_BYTES_MAX {
            return Err(too_long(key.len()).into());
        }
        let unique = self.shape.unique();
        let probe = if unique {
            Probe::first_of(&self.keys, key)
        } else {
            Probe::entry(&self.keys, key, row)
        };
        let mut log = Some(log);
        if let Some((leaf, at)) = self.leaf_of_run(access, last, &probe)
            && let Entrance::Open(_gap) =
                self.enter(access, &leaf, (at, false), (key, row), newcomer)?
        {
            self.put(leaf, at, &probe, row, &mut log)?;
            return Ok(Inserted::Done);
        }
        let mut steps = None;
        loop {
            let Target { leaf, continues, fence } = self.leaf_alone(access, &probe, unique)?;
            if continues {
                drop((leaf, steps.take()));
                match self.insert_in_run(access, key, row, newcomer, &mut log, structure)? {
                    Some(inserted) => return Ok(inserted),
                    None => continue,
                }
            }
            let node = self.node(leaf.page());
            let found = node.search(&probe);
            let at = match self.meet_equal(node, found, &probe, row, newcomer) {
                Answer::Insert(at) => at,
                Answer::Refuse(answer) => return Ok(answer),
            };
            if node.has_room(key.len()) {
                let place = (at, steps.is_some());
                match self.enter(access, &leaf, place, (key, row), newcomer)? {
                    Entrance::Open(_gap) => {
                        let (changes, newest) = (self.changes_seen(), probe.leading);
                        last.note(LastInsertion { leaf: leaf.page().id(), changes, newest, fence });
                        self.put(leaf, at, &probe, row, &mut log)?;
                        return Ok(Inserted::Done);
                    }
                    Entrance::Closed(gap) => return Ok(Inserted::Gap(gap)),
                    Entrance::Unsure => {
                        drop(leaf);
                        steps = Some(self.steps.hold());
                        continue;
                    }
                }
            }
            drop((leaf, steps.take()));
            self.split(access, &Probe::entry(&self.keys, key, row), structure)?;
        }
    }

    /// Asks whether an entry of a key and a row may be put into a leaf with room for it, at a place; `steps` is
    /// held, or not.
    #[inline(always)]
    fn enter<'a, G: Gaps>(
        &self,
        access: &'a P,
        leaf: &impl ReadPage<Size = P::Size>,
        (at, has_steps): (usize, bool),
        entry: (&[u8], RowId),
        gaps: &G,
    ) -> Result<Entrance<P::Shared<'a>>> {
        if !G::LOCKED || !gaps.in_use() {
            return Ok(Entrance::Open(None));
        }
        self.enter_gap(access, leaf, (at, has_steps), entry, gaps)
    }

    #[inline(never)]
    fn enter_gap<'a>(
        &self,
        access: &'a P,
        leaf: &impl ReadPage<Size = P::Size>,
        (at, has_steps): (usize, bool),
        (key, row): (&[u8], RowId),
        gaps: &impl Gaps,
    ) -> Result<Entrance<P::Shared<'a>>> {
        // Others pass over a leaf without entries while they hold `steps`, and so it is filled.
        let is_passed = self.node(leaf.page()).count() == 0 && leaf.page().id() != self.root;
        if is_passed && !has_steps {
            return Ok(Entrance::Unsure);
        }
        let Some(gap) = self.gap_at(access, leaf, at, has_steps)? else {
            return Ok(Entrance::Unsure);
        };
        match gaps.enter(gap.end, GapEnd::below(key, row)) {
            true => Ok(Entrance::Open(Some(gap))),
            false => Ok(Entrance::Closed(gap.end)),
        }
    }

    /// Shows `newcomer` the entries of a leaf whose key is the probe's, from `at` on; returns where the
    /// entry of `row` belongs.
    #[inline(always)]
    fn meet_equal(
        &self,
        node: Node<'_, K>,
        found: Found,
        probe: &Probe<'_>,
        row: RowId,
        newcomer: &mut impl Newcomer,
    ) -> Answer {
        let Found { mut at, mut is_equal } = found;
        let (mut place, mut is_marked) = (at, false);
        while is_equal {
            let (other, deleted) = (RowId::new(node.row(at)), node.is_deleted(at));
            if other == row && !deleted {
                return Answer::Refuse(Inserted::Duplicate);
            }
            if other != row && !self.shape.unique() {
                break;
            }
            match newcomer.meet(other, deleted) {
                Meet::Pass => is_marked |= other == row,
                Meet::Duplicate => return Answer::Refuse(Inserted::Duplicate),
                Meet::Wait => return Answer::Refuse(Inserted::Wait(other)),
            }
            at += 1;
            if other.location() < row.location() {
                place = at;
            }
            is_equal = at < node.count() && node.compare(at, probe) == Ordering::Equal;
        }
        if is_marked { Answer::Refuse(Inserted::Marked) } else { Answer::Insert(place) }
    }

    /// Writes the entry of the probe's key and a row into a leaf with room for it.
    #[inline(always)]
    fn put<E: From<PageError>>(
        &self,
        mut leaf: P::Exclusive<'_>,
        at: usize,
        probe: &Probe<'_>,
        row: RowId,
        log: &mut Option<impl FnOnce(Place) -> Result<Stamp, E>>,
    ) -> Result<(), E> {
        let stamp = match log.take() {
            Some(log) => log(place_in(&leaf, at))?,
            None => None,
        };
        let entry = Entry::leaf(probe.key, row);
        self.change(&mut leaf, |node| node.insert(at, &entry, probe.leading));
        set_stamp(&mut leaf, stamp);
        Ok(())
    }

    /// Inserts an entry of a unique index whose key's entries lie in several leaves, as happens
    /// when a key was deleted and inserted many times by one transaction. No leaf is divided
    /// meanwhile. `None` if there was no room and now there is.
    #[cold]
    fn insert_in_run<E: From<PageError>>(
        &self,
        access: &P,
        key: &[u8],
        row: RowId,
        newcomer: &mut impl Newcomer,
        log: &mut Option<impl FnOnce(Place) -> Result<Stamp, E>>,
        structure: &impl Structure,
    ) -> Result<Option<Inserted>, E> {
        let held = self.steps.hold();
        let (first, own) = (Probe::first_of(&self.keys, key), Probe::entry(&self.keys, key, row));
        let target = self.leaf(access, &own)?.page().id();
        // Held to the end, so that no other thread inserts the key: they begin in the first leaf.
        let begin = self.leaf(access, &first)?.page().id();
        let begin = access.fix_exclusive(begin)?;
        let behind = Probe::upper(&self.keys, Position::After(key));
        let (mut is_found, mut is_marked) = (false, false);
        let mut following = None;
        loop {
            let leaf = following.as_ref().unwrap_or(&begin);
            let node = self.node(leaf.page());
            let found = node.search(&first);
            match self.meet_equal(node, found, &first, row, newcomer) {
                Answer::Refuse(Inserted::Marked) => is_marked = true,
                Answer::Refuse(answer) => return Ok(Some(answer)),
                Answer::Insert(_) => {}
            }
            is_found |= leaf.page().id() == target;
            let ends = node.search(&behind).at < node.count();
            match leaf.page().next() {
                Some(next) if !ends || !is_found => {
                    following = Some(access.fix_exclusive(next)?);
                }
                _ => break,
            }
        }
        if !is_found {
            return Err(self.lost_leaf(target).into());
        }
        if is_marked {
            return Ok(Some(Inserted::Marked));
        }
        drop(following);
        let (begin, leaf) = match begin.page().id() == target {
            true => (None, begin),
            false => (Some(begin), access.fix_exclusive(target)?),
        };
        let node = self.node(leaf.page());
        if node.has_room(key.len()) {
            let at = node.search(&own).at;
            return match self.enter(access, &leaf, (at, true), (key, row), newcomer)? {
                Entrance::Open(_gap) => {
                    self.put(leaf, at, &own, row, log)?;
                    Ok(Some(Inserted::Done))
                }
                Entrance::Closed(gap) => Ok(Some(Inserted::Gap(gap))),
                Entrance::Unsure => unreachable!("steps are held"),
            };
        }
        drop((leaf, begin));
        self.split_while_held(access, &own, structure)?;
        drop(held);
        Ok(None)
    }

    #[cold]
    fn lost_leaf(&self, id: PageId) -> PageError {
        PageError::damaged_page::<P::Size>(id, "its left neighbours do not lead to it")
    }

    /// Marks an entry deleted, or takes the mark off; `false` if there is no such entry, or it is
    /// so already. `log` runs as in [`BTree::insert`].
    ///
    /// # Errors
    /// What `log` fails with, or as [`PageAccess::fix_exclusive`]; nothing changes then.
    #[inline]
    pub fn set_deleted<E: From<PageError>>(
        &self,
        access: &P,
        key: &[u8],
        row: RowId,
        deleted: bool,
        log: impl FnOnce(Place) -> Result<Stamp, E>,
    ) -> Result<bool, E> {
        let probe = Probe::entry(&self.keys, key, row);
        let Some((mut leaf, at)) = self.entry_alone(access, &probe)? else { return Ok(false) };
        if self.node(leaf.page()).is_deleted(at) == deleted {
            return Ok(false);
        }
        let stamp = log(place_in(&leaf, at))?;
        self.change(&mut leaf, |node| node.set_deleted(at, deleted));
        set_stamp(&mut leaf, stamp);
        Ok(true)
    }

    /// Removes an entry, marked or not; `false` if there is none. `log` runs as in
    /// [`BTree::insert`], and `gaps` hands on what is locked of the gap below the entry. A leaf
    /// that becomes empty is given back, one that becomes nearly empty joins a neighbour; should that
    /// fail, it stays as it is until entries near it are removed.
    ///
    /// # Errors
    /// What `log` fails with, or as [`PageAccess::fix_exclusive`]; nothing changes then.
    #[inline]
    pub fn remove<E: From<PageError>>(
        &self,
        access: &P,
        key: &[u8],
        row: RowId,
        log: impl FnOnce(Place) -> Result<Stamp, E>,
        structure: &impl Structure,
        gaps: &impl Gaps,
    ) -> Result<bool, E> {
        self.take_out(access, &Probe::entry(&self.keys, key, row), false, log, structure, gaps)
    }

    /// The same for an entry that is marked deleted; `false` if there is none, or it has no mark.
    ///
    /// # Errors
    /// As [`BTree::remove`].
    pub fn purge<E: From<PageError>>(
        &self,
        access: &P,
        key: &[u8],
        row: RowId,
        log: impl FnOnce(Place) -> Result<Stamp, E>,
        structure: &impl Structure,
        gaps: &impl Gaps,
    ) -> Result<bool, E> {
        self.take_out(access, &Probe::entry(&self.keys, key, row), true, log, structure, gaps)
    }

    #[inline]
    fn take_out<E: From<PageError>, G: Gaps>(
        &self,
        access: &P,
        probe: &Probe<'_>,
        marked_only: bool,
        log: impl FnOnce(Place) -> Result<Stamp, E>,
        structure: &impl Structure,
        gaps: &G,
    ) -> Result<bool, E> {
        let mut steps = None;
        let (mut leaf, at, joined) = loop {
            let Some((leaf, at)) = self.entry_alone(access, probe)? else { return Ok(false) };
            if marked_only && !self.node(leaf.page()).is_deleted(at) {
                return Ok(false);
            }
            if !G::LOCKED || !gaps.in_use() {
                break (leaf, at, None);
            }
            let gap = GapEnd::below(probe.key, RowId::new(probe.row));
            if !gaps.is_locked(gap) {
                break (leaf, at, None);
            }
            if let Some(above) = self.gap_at(access, &leaf, at + 1, steps.is_some())? {
                break (leaf, at, Some((gap, above)));
            }
            drop(leaf);
            steps = Some(self.steps.hold());
        };
        let stamp = log(place_in(&leaf, at))?;
        let before = self.node(leaf.page()).emptiness();
        self.change(&mut leaf, |node| node.remove(at));
        set_stamp(&mut leaf, stamp);
        if let Some((gap, above)) = joined {
            gaps.hand_on(gap, above.end);
        }
        let sinks = self.node(leaf.page()).emptiness() > before;
        let is_root = leaf.page().id() == self.root;
        drop((leaf, steps));
        if sinks && !is_root {
            // The entry is gone and logged: an error here must not be reported as a failure to
            // remove it.
            if let Err(error) = self.shrink(access, probe, structure) {
                structure.is_left(&error);
            }
        }
        Ok(true)
    }

    /// The leaf of an entry, held alone, and where the entry is in it.
    #[inline(always)]
    fn entry_alone<'a>(
        &self,
        access: &'a P,
        probe: &Probe<'_>,
    ) -> Result<Option<(P::Exclusive<'a>, usize)>> {
        let leaf = self.leaf_alone(access, probe, false)?.leaf;
        let node = self.node(leaf.page());
        let Found { at, is_equal } = node.search(probe);
        let is_there = is_equal && node.row(at) == probe.row;
        Ok(is_there.then_some((leaf, at)))
    }
}

#[inline(always)]
pub(super) fn place_in(leaf: &impl ReadPage, at: usize) -> Place {
    Place::of_record(leaf.page().id(), at as u16)
}

#[cold]
fn too_long(bytes: usize) -> PageError {
    PageFailure::RecordTooLong { bytes, bytes_max: KEY_BYTES_MAX }.into()
}
