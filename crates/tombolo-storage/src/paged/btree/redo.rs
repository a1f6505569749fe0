//! Redoing a change of an entry in its leaf, by position.

use super::change::NodeMut;
use super::keys::{KeyFormat, KeyShape, PACKED_BYTES, StoredKeys};
use super::node::{Entry, Node};
use crate::log::{Change, ChangeKind};
use crate::paged::page::{PageKind, PageMut, PageSize};

/// Redoes changes of one index.
#[derive(Debug)]
pub(in crate::paged) struct EntryRedo<K: KeyFormat>(StoredKeys<K>);

impl<K: KeyFormat> EntryRedo<K> {
    /// For an index of keys like that.
    pub(in crate::paged) fn new(shape: &KeyShape) -> Self {
        Self(StoredKeys::of(shape.parts()))
    }

    /// Makes a logged change once more, in a leaf that is as it was before; `false` if it is not.
    pub(in crate::paged) fn redo<S: PageSize>(
        &self,
        page: &mut PageMut<'_, S>,
        change: &Change,
        before: &[u8],
        after: &[u8],
    ) -> bool {
        let (keys, at, row) = (&self.0, usize::from(change.place.slot), change.row);
        if page.read().kind() != PageKind::Leaf {
            return false;
        }
        let mut node = NodeMut::new(page.body_mut(), keys);
        if change.kind == ChangeKind::EntryInserted {
            let has_form = !keys.packed || after.len() == PACKED_BYTES;
            let fits = has_form && node.read().has_room(after.len());
            if !fits || at > node.read().count() {
                return false;
            }
            node.insert(at, &Entry::leaf(after, row), keys.leading(after));
            return true;
        }
        let key = if before.is_empty() { after } else { before };
        let is_there = |node: Node<'_, K>| {
            at < node.count() && node.row(at) == row.location() && node.key(at) == key
        };
        if !is_there(node.read()) {
            return false;
        }
        match change.kind {
            ChangeKind::EntryDeleted => node.set_deleted(at, true),
            ChangeKind::EntryRevived => node.set_deleted(at, false),
            ChangeKind::EntryRemoved => node.remove(at),
            _ => return false,
        }
        true
    }
}
