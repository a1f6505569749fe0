//! The checker of the integer tree: walks every node and says which invariant does not hold.

use super::integer::IntegerTree;
use super::integer_node::{INNER_MIN, LEAF_MIN};
use super::search::PAD;

/// The range of keys a subtree may hold: `low < key <= high`, where no `low` bounds nothing.
type Range = (Option<i64>, i64);

#[derive(Default)]
struct Seen {
    leaves: usize,
    inners: usize,
    keys: usize,
}

impl IntegerTree {
    /// Walks the whole tree and its slabs.
    ///
    /// # Errors
    /// The first invariant that does not hold, in words.
    pub fn check(&self) -> Result<(), String> {
        let mut seen = Seen::default();
        self.check_node(self.root, 0, (None, i64::MAX), &mut seen)?;
        if seen.keys != self.len {
            return Err(format!("{} keys in the leaves, {} counted", seen.keys, self.len));
        }
        // As many as there are, and none twice (a node reached twice would fail its second range):
        // so each exactly once.
        if (seen.leaves, seen.inners) != (self.leaves.len(), self.inners.len()) {
            return Err(format!(
                "{} leaves and {} inner nodes reached, {} and {} are live",
                seen.leaves,
                seen.inners,
                self.leaves.len(),
                self.inners.len()
            ));
        }
        self.leaves.check()?;
        self.inners.check()?;
        self.directory.check(|key| self.get_from_root(key))
    }

    fn check_node(
        &self,
        id: u32,
        level: usize,
        range: Range,
        seen: &mut Seen,
    ) -> Result<(), String> {
        if level == self.levels {
            return self.check_leaf(id, range, seen);
        }
        if !self.inners.is_live(id) {
            return Err(format!("inner node {id} is not live"));
        }
        let node = self.inners.get(id);
        let place = format!("inner node {id}");
        check_keys(&place, &node.keys, node.len(), range)?;
        let least = if level == 0 || node.sparse != 0 { 1 } else { INNER_MIN };
        if node.len() < least {
            return Err(format!("{place} has {} separators, {least} at least", node.len()));
        }
        seen.inners += 1;
        let mut low = range.0;
        for at in 0..=node.len() {
            let high = if at < node.len() { node.keys[at] } else { range.1 };
            self.check_node(node.child(at), level + 1, (low, high), seen)?;
            low = Some(high);
        }
        Ok(())
    }

    fn check_leaf(&self, id: u32, range: Range, seen: &mut Seen) -> Result<(), String> {
        if !self.leaves.is_live(id) {
            return Err(format!("leaf {id} is not live"));
        }
        let leaf = self.leaves.get(id);
        let place = format!("leaf {id}");
        check_keys(&place, &leaf.keys, leaf.len(), range)?;
        let least = match (self.levels, leaf.sparse) {
            (0, _) => 0,
            (_, 0) => LEAF_MIN,
            _ => 1,
        };
        if leaf.len() < least {
            return Err(format!("{place} has {} keys, {least} at least", leaf.len()));
        }
        seen.leaves += 1;
        seen.keys += leaf.len();
        Ok(())
    }
}

/// Keys ascend within the range, and padding fills the rest.
fn check_keys(place: &str, keys: &[i64], len: usize, range: Range) -> Result<(), String> {
    let Some((used, padding)) = keys.split_at_checked(len) else {
        return Err(format!("{place} counts {len} keys"));
    };
    if !used.is_sorted_by(|a, b| a < b) {
        return Err(format!("{place}: keys do not ascend"));
    }
    if used.first().is_some_and(|&key| range.0.is_some_and(|low| key <= low))
        || used.last().is_some_and(|&key| key > range.1)
    {
        return Err(format!("{place}: keys outside of its separators"));
    }
    if padding.iter().any(|&key| key != PAD) {
        return Err(format!("{place}: an unused key is not padding"));
    }
    Ok(())
}
