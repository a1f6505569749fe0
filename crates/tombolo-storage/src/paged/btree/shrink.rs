//! Uniting nodes that entries were removed from.

use super::keys::{KeyFormat, Probe};
use super::{BTree, Structure};
use crate::paged::pool::{PageAccess, Result};

impl<P: PageAccess, K: KeyFormat> BTree<P, K> {
    /// Unites nodes on the way to the probe that are nearly empty.
    #[cold]
    #[inline(never)]
    pub(super) fn shrink(
        &self,
        _access: &P,
        _probe: &Probe<'_>,
        _structure: &impl Structure,
    ) -> Result<()> {
        Ok(())
    }
}
