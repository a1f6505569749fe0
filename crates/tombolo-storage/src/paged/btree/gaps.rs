//! Which gap between entries it is that a search found nothing in, an insertion divides, or a removal makes
//! larger: the one below the next entry, which may lie in the next leaf.
//!
//! While a caller decides on a gap, two leaves are held: the one that an entry of the gap would be in, and that
//! of the entry above. Leaves without entries between the two are passed over only while `steps` is held, and an
//! entry is put into such a leaf only then, too, where gaps may be locked: so none comes in between meanwhile.
//!
//! Not here: locks.

use super::BTree;
use super::keys::KeyFormat;
use crate::paged::page::PageId;
use crate::paged::pool::{PageAccess, ReadPage, Result};
use crate::row::RowId;

/// What a session does about gaps. A gap is known by the row of the entry above it; `None`: behind all entries.
/// All runs under the latches of leaves: it may try locks, not wait, nor reach pages.
pub trait Gaps {
    /// Whether gaps are locked at all. If not, nothing else is asked.
    const LOCKED: bool;

    /// Whether any gap may be locked.
    fn in_use(&self) -> bool {
        false
    }

    /// From now on gaps may be locked.
    fn announce(&self) {}

    /// A search saw that nothing of what it looked for is in the gap.
    fn read(&self, _above: Option<RowId>) {}

    /// A search comes from above: it reads the gap as soon as it has seen the entry below, or none.
    fn expect(&self, _above: Option<RowId>) {}

    /// It has: it reads the gap it expected to read, if any.
    fn read_expected(&self) {}

    /// Whether the entry of `row` may come into the gap, which it divides.
    fn enter(&self, _above: Option<RowId>, _row: RowId) -> bool {
        true
    }

    /// Whether others have to know if the gap below the entry of `row` vanishes.
    fn is_locked(&self, _row: RowId) -> bool {
        false
    }

    /// The entry of `row` has gone, and the gap below `above` reaches as far down as its own did.
    fn hand_on(&self, _row: RowId, _above: Option<RowId>) {}
}

/// For searches that lock nothing.
impl Gaps for () {
    const LOCKED: bool = false;
}

/// What is to the right of a leaf.
pub(super) enum Beyond<G> {
    /// The next leaf that has entries.
    Leaf(G),
    /// None.
    End,
    /// That is to be asked while `steps` is held.
    Unsure,
}

/// The gap at a place in a leaf, while it is held.
pub(super) struct Gap<G> {
    pub(super) above: Option<RowId>,
    /// The leaf of the entry above, if it is another one.
    pub(super) right: Option<G>,
}

impl<P: PageAccess, K: KeyFormat> BTree<P, K> {
    /// The next leaf with entries, from `next` on. The caller holds the leaf before `next`, and says whether it
    /// may pass over leaves without entries.
    #[inline]
    pub(super) fn beyond<'a>(
        &self,
        access: &'a P,
        mut next: Option<PageId>,
        passes: bool,
    ) -> Result<Beyond<P::Shared<'a>>> {
        let mut passed = None;
        while let Some(id) = next {
            let leaf = access.fix_shared(id)?;
            drop(passed.take());
            let node = self.node(leaf.page());
            self.verify_level(node, id, 0)?;
            if node.count() > 0 {
                return Ok(Beyond::Leaf(leaf));
            }
            if !passes {
                return Ok(Beyond::Unsure);
            }
            next = leaf.page().next();
            passed = Some(leaf);
        }
        Ok(Beyond::End)
    }

    /// The gap below the entry at `at` of a leaf, which may be the next leaf's first; `None` where `steps` has
    /// to be held to know it.
    pub(super) fn gap_at<'a>(
        &self,
        access: &'a P,
        leaf: &impl ReadPage<Size = P::Size>,
        at: usize,
        has_steps: bool,
    ) -> Result<Option<Gap<P::Shared<'a>>>> {
        let node = self.node(leaf.page());
        if at < node.count() {
            return Ok(Some(Gap { above: Some(RowId::new(node.row(at))), right: None }));
        }
        Ok(match self.beyond(access, leaf.page().next(), has_steps)? {
            Beyond::Leaf(right) => {
                let above = Some(RowId::new(self.node(right.page()).row(0)));
                Some(Gap { above, right: Some(right) })
            }
            Beyond::End => Some(Gap { above: None, right: None }),
            Beyond::Unsure => None,
        })
    }
}
