//! Something for each order or each customer, by warehouse, district and number in the district.
//!
//! Numbers run from 1 without gaps in a sound database, so what belongs to neighbours lies together:
//! one look-up in a small table, and none where the last one was of a neighbour. Any number will do,
//! at the price of a block for it. Not here: what is kept.

use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// A district and the number of an order or a customer in it.
pub(super) type InDistrict = (i32, i16, i32);

/// Neighbours that lie together, as a power of two.
const BLOCK_BITS: u32 = 8;
const BLOCK: usize = 1 << BLOCK_BITS;

/// A `T` for each number of each district; what was not asked for is the default.
#[derive(Debug)]
pub(super) struct ByNumber<T> {
    /// By district and the numbers' higher bits: where the block begins.
    blocks: HashMap<InDistrict, usize, FixedState>,
    /// The one asked for last.
    last: Option<(InDistrict, usize)>,
    values: Vec<T>,
}

impl<T> Default for ByNumber<T> {
    fn default() -> Self {
        Self { blocks: HashMap::default(), last: None, values: Vec::new() }
    }
}

/// The block a number is in, and its place there.
fn place_of((w_id, d_id, number): InDistrict) -> (InDistrict, usize) {
    ((w_id, d_id, number >> BLOCK_BITS), number as usize % BLOCK)
}

impl<T: Clone + Default> ByNumber<T> {
    /// The value of `id`.
    pub(super) fn at(&mut self, id: InDistrict) -> &mut T {
        let (block, place) = place_of(id);
        let start = match self.last {
            Some((last, start)) if last == block => start,
            _ => {
                let end = self.values.len();
                let start = *self.blocks.entry(block).or_insert(end);
                if start == end {
                    self.values.resize(end + BLOCK, T::default());
                }
                self.last = Some((block, start));
                start
            }
        };
        &mut self.values[start + place]
    }

    /// The value of `id`, if it or a neighbour was asked for before.
    pub(super) fn get(&self, id: InDistrict) -> Option<&T> {
        let (block, place) = place_of(id);
        self.blocks.get(&block).map(|start| &self.values[start + place])
    }

    /// Adds the values of `other`, each to that of the same number.
    pub(super) fn add_each(&mut self, other: &Self, add: impl Fn(&mut T, &T)) {
        for (id, value) in other.iter() {
            add(self.at(id), value);
        }
    }

    /// All values of the blocks there are, those never asked for too, in the order of what they
    /// belong to.
    pub(super) fn iter(&self) -> impl Iterator<Item = (InDistrict, &T)> {
        let mut blocks: Vec<(InDistrict, usize)> =
            self.blocks.iter().map(|(&block, &start)| (block, start)).collect();
        blocks.sort_unstable();
        blocks.into_iter().flat_map(|((w_id, d_id, high), start)| {
            let numbers = (0..).map(move |place: i32| (high << BLOCK_BITS) | place);
            let values = &self.values[start..start + BLOCK];
            numbers.zip(values).map(move |(number, value)| ((w_id, d_id, number), value))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tombolo_engine::rng::Rng;

    use super::*;

    /// Like a map, whatever the numbers are.
    #[test]
    fn it_holds_what_a_map_holds() {
        let mut rng = Rng::from_seed(1);
        let (mut map, mut own) = (BTreeMap::new(), ByNumber::<u64>::default());
        for step in 1..20_000 {
            let number = match rng.below(20) {
                0 => i32::MAX - rng.below(3) as i32,
                1 => i32::MIN + rng.below(300) as i32,
                2 => -(rng.below(300) as i32),
                _ => rng.below(3_000) as i32,
            };
            let id = (rng.below(3) as i32 - 1, rng.below(2) as i16, number);
            assert_eq!(own.get(id).copied().unwrap_or(0), map.get(&id).copied().unwrap_or(0));
            *own.at(id) += step;
            *map.entry(id).or_insert(0) += step;
        }
        let held: Vec<_> = own.iter().filter(|(_, value)| **value > 0).collect();
        let expected: Vec<_> = map.iter().map(|(id, value)| (*id, value)).collect();
        assert_eq!(held, expected);
    }
}
