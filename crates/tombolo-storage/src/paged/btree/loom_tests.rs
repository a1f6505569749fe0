//! Copies of inner nodes under loom: a descent by copies against steps that move a key to another leaf and back.
//!
//! Pages are not there: a parent that says which leaf has the key, and two leaves, each a word under a latch. What a
//! step counts and what a descent reads are the tree's own.

use loom::thread;

use super::*;
use crate::key::KeyPart;
use crate::latch::{GuardedU32, Latched, RawLatch, SharedExclusiveLatch};
use crate::paged::page::SmallPages;
use crate::paged::pool::{BufferPool, NoWriteAhead};
use crate::schema::ColumnDef;
use crate::sync::Arc;
use crate::types::SqlType;

type Tree = BTree<BufferPool<SmallPages, Latched, NoWriteAhead>, IntegerKeys>;

const PARENT: PageId = PageId(1);
const LEAVES: [PageId; 2] = [PageId(2), PageId(3)];

struct Node {
    latch: SharedExclusiveLatch,
    /// Of the parent, which leaf has the key; of a leaf, whether it has it.
    word: GuardedU32,
}

struct World {
    tree: Tree,
    parent: Node,
    leaves: [Node; 2],
}

impl World {
    fn new() -> Self {
        let column = ColumnDef {
            name: "c".into(),
            sql: SqlType::BigInt,
            nullable: false,
            range: None,
            hot: false,
            added: false,
            default: None,
        };
        let node = |word| Node { latch: Default::default(), word: GuardedU32::new(word) };
        let shape = KeyShape::new(&[KeyPart::of(&column)], true);
        let tree = Tree::with(StoreId(1), PARENT, shape);
        Self { tree, parent: node(0), leaves: [node(1), node(0)] }
    }

    /// Moves the key to a leaf, as a step does.
    fn step(&self, to: usize) {
        let _parent = self.parent.latch.exclusive();
        let _leaves = [self.leaves[0].latch.exclusive(), self.leaves[1].latch.exclusive()];
        self.leaves[1 - to].word.set(0);
        self.leaves[to].word.set(1);
        self.parent.word.set(to as u32);
        self.tree.count_step([PARENT, LEAVES[0], LEAVES[1]].into_iter());
    }

    /// A copy of the parent: its version, and which leaf it says.
    fn copy(&self) -> (u64, usize) {
        let _held = self.parent.latch.shared();
        (self.tree.version(PARENT).get(), self.parent.word.get() as usize)
    }

    /// Goes by a copy; whether it led to a leaf that has the key, if it led to one.
    fn descend(&self, (version, leaf): (u64, usize)) -> Option<bool> {
        let changes = self.tree.changes_seen();
        if self.tree.version(PARENT).get() != version {
            return None;
        }
        let leaf = &self.leaves[leaf];
        let _held = leaf.latch.shared();
        self.tree.is_unchanged(changes).then(|| leaf.word.get() == 1)
    }
}

#[test]
fn a_copy_leads_to_the_leaf_or_nowhere() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.max_branches = 10_000;
    model.check(|| {
        let world = Arc::new(World::new());
        let other = Arc::clone(&world);
        let steps = thread::spawn(move || {
            other.step(1);
            other.step(0);
        });
        let first = world.copy();
        for copy in [first, world.copy()] {
            assert_ne!(world.descend(copy), Some(false), "{copy:?}");
        }
        steps.join().unwrap();
        assert_eq!(world.descend(world.copy()), Some(true));
    });
}
