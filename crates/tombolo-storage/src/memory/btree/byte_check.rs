//! The checker of the byte tree: walks every node and says which invariant does not hold.

use super::byte_node::{ByteNode, KEY_BYTES_MAX};
use super::bytes::ByteTree;

/// The range of keys a subtree may hold: `low <= key < high`, where no `high` bounds nothing.
type Range<'a> = (&'a [u8], Option<&'a [u8]>);

#[derive(Default)]
struct Seen {
    nodes: usize,
    keys: usize,
}

impl ByteTree {
    /// Walks the whole tree and its slab.
    ///
    /// # Errors
    /// The first invariant that does not hold, in words.
    pub fn check(&self) -> Result<(), String> {
        let mut seen = Seen::default();
        self.check_node(self.root, 0, (&[], None), &mut seen)?;
        if seen.keys != self.len {
            return Err(format!("{} keys in the leaves, {} counted", seen.keys, self.len));
        }
        // As many as there are, and none twice (a node reached twice would fail its second range):
        // so each exactly once.
        if seen.nodes != self.slab.len() {
            return Err(format!("{} nodes reached, {} are live", seen.nodes, self.slab.len()));
        }
        self.slab.check()
    }

    fn check_node(
        &self,
        id: u32,
        level: usize,
        range: Range<'_>,
        seen: &mut Seen,
    ) -> Result<(), String> {
        if !self.slab.is_live(id) {
            return Err(format!("node {id} is not live"));
        }
        let node = self.node(id);
        node.check_space().map_err(|error| format!("node {id}: {error}"))?;
        check_keys(node, range).map_err(|error| format!("node {id}: {error}"))?;
        seen.nodes += 1;
        if level == self.levels {
            seen.keys += node.len();
            return match node.len() {
                0 if level > 0 => Err(format!("leaf {id} is empty")),
                _ => Ok(()),
            };
        }
        if level == 0 && node.len() == 0 {
            return Err("the root has only one child".to_owned());
        }
        let (mut low, mut high) = ([0; KEY_BYTES_MAX], [0; KEY_BYTES_MAX]);
        for at in 0..=node.len() {
            let low = if at == 0 { range.0 } else { node.key(at - 1, &mut low) };
            let high = if at < node.len() { Some(node.key(at, &mut high)) } else { range.1 };
            self.check_node(node.child(at), level + 1, (low, high), seen)?;
        }
        Ok(())
    }
}

/// Keys ascend within the range, and a search finds each where it is.
fn check_keys(node: &ByteNode, (low, high): Range<'_>) -> Result<(), String> {
    let (mut buffer, mut before) = ([0; KEY_BYTES_MAX], [0; KEY_BYTES_MAX]);
    for at in 0..node.len() {
        let key = node.key(at, &mut buffer);
        if at > 0 && node.key(at - 1, &mut before) >= key {
            return Err("keys do not ascend".to_owned());
        }
        if key < low || high.is_some_and(|high| key >= high) {
            return Err("a key lies outside of the separators".to_owned());
        }
        if node.search(key) != (at, true) {
            return Err(format!("the key at {at} is not found"));
        }
    }
    Ok(())
}
