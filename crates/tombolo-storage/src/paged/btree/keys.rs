//! What a B+tree's keys are, and how they are compared (LG-S1).

use std::cmp::Ordering;
use std::fmt::Debug;

use crate::key::{
    Edge, Fit, IndexType, KEY_BYTES_MAX, KeyPart, Normalised, Typed, TypedOrder, key_length,
    packed_bits,
};
use crate::row::RowId;
use crate::schema::{IndexDef, TableDef};

/// Bytes of a packed key.
pub(super) const PACKED_BYTES: usize = 8;

/// What a tree knows of its keys at run time.
#[derive(Clone, Debug)]
pub struct KeyShape {
    parts: Box<[KeyPart]>,
    unique: bool,
}

impl KeyShape {
    /// Keys of these parts.
    pub fn new(parts: &[KeyPart], unique: bool) -> Self {
        Self { parts: parts.into(), unique }
    }

    /// The keys of `index` of `table`.
    pub fn of(table: &TableDef, index: &IndexDef) -> Self {
        let part = |&column: &usize| KeyPart::of(&table.columns[column]);
        Self { parts: index.columns.iter().map(part).collect(), unique: index.unique }
    }

    /// How the columns enter the key.
    #[inline(always)]
    pub fn parts(&self) -> &[KeyPart] {
        &self.parts
    }

    /// Whether a key may occur once only.
    #[inline(always)]
    pub fn unique(&self) -> bool {
        self.unique
    }
}

/// S1: how keys are stored and compared.
pub trait KeyFormat: Copy + Debug + Default + Send + Sync + 'static {
    /// What it is called.
    const NAME: &'static str;

    /// What comparing needs to know of the keys at run time.
    type Order: Clone + Debug + Send + Sync;

    /// The order of keys of these parts.
    fn order(parts: &[KeyPart]) -> Self::Order;

    /// Whether nodes hold keys of these parts as packed integers, in one array without slots.
    fn is_packed(parts: &[KeyPart]) -> bool;

    /// Puts the stored form of a whole key into `out`, in place of what was there; `false` if no
    /// index has such a key: it has no stored form, or is longer than
    /// [`KEY_BYTES_MAX`](crate::key::KEY_BYTES_MAX).
    #[inline]
    fn encode<I: IndexType>(shape: &I::Shape, key: I::Key<'_>, out: &mut Vec<u8>) -> bool {
        out.clear();
        Self::append::<I>(shape, key, out)
    }

    /// The same behind what is there; if it is `false`, some bytes may come behind that.
    fn append<I: IndexType>(shape: &I::Shape, key: I::Key<'_>, out: &mut Vec<u8>) -> bool;

    /// The position of an edge among stored keys; its bytes go into `out`, in place of what was
    /// there. Values outside their columns' ranges lie where the memory store has them.
    fn position<'a, I: IndexType>(
        shape: &I::Shape,
        edge: &Edge<I::Key<'_>>,
        out: &'a mut Vec<u8>,
    ) -> Position<'a>;

    /// Compares the stored key that `key` begins with to another, or to the first bytes of one:
    /// equal then if it begins with them. Not asked of packed keys.
    fn compare(order: &Self::Order, key: &[u8], other: &[u8]) -> Ordering;

    /// The first sixteen bytes of a stored key's normalised form, whatever form it is stored in, as
    /// a number; `fill` is the value of the bits that the first bytes of a key do not decide. A
    /// smaller number is a smaller key. Not asked of packed keys.
    fn leading(order: &Self::Order, key: &[u8], fill: bool) -> u128;

    /// How many bits of [`KeyFormat::leading`] identify a whole key; 0 if it does not identify keys.
    fn whole_bits(_: &Self::Order) -> u32 {
        0
    }

    /// Whether a stored key can be compared at all.
    ///
    /// # Errors
    /// Why it cannot, in words.
    fn verify(parts: &[KeyPart], key: &[u8]) -> Result<(), String>;
}

/// S1 on: columns keep the form their types store, and are compared type by type wherever heads do
/// not decide (`node.rs`): usually once in a search. Heads belong to the conventional engine as much
/// as slots do, whatever form its keys have; S1 is about the keys.
#[derive(Clone, Copy, Debug, Default)]
pub struct TypedColumns;

/// S1 off: integers where the key packs, bytes where it does not; comparing needs no types.
#[derive(Clone, Copy, Debug, Default)]
pub struct IntegerKeys;

/// The position of an edge of keys in the form `encode` appends.
#[inline]
fn byte_position<'a, K: Copy>(
    edge: &Edge<K>,
    out: &'a mut Vec<u8>,
    encode: impl FnOnce(K, usize, &mut Vec<u8>) -> Fit,
) -> Position<'a> {
    out.clear();
    let (key, columns, after) = match *edge {
        Edge::Open => return Position::Open,
        Edge::Before(key, columns) => (key, columns, false),
        Edge::After(key, columns) => (key, columns, true),
    };
    let after = match encode(key, columns, out) {
        Fit::Within => after,
        Fit::Below => false,
        Fit::Above => true,
    };
    if after { Position::After(out) } else { Position::Before(out) }
}

impl KeyFormat for TypedColumns {
    const NAME: &'static str = "typed columns";

    type Order = TypedOrder;

    fn order(parts: &[KeyPart]) -> TypedOrder {
        TypedOrder::of(parts)
    }

    #[inline(always)]
    fn is_packed(_: &[KeyPart]) -> bool {
        false
    }

    #[inline]
    fn append<I: IndexType>(shape: &I::Shape, key: I::Key<'_>, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        I::encode_as::<Typed>(shape, key, usize::MAX, out) == Fit::Within
            && (out.len() - start <= KEY_BYTES_MAX / 2
                || is_whole_key(I::parts(shape), &out[start..]))
    }

    #[inline]
    fn position<'a, I: IndexType>(
        shape: &I::Shape,
        edge: &Edge<I::Key<'_>>,
        out: &'a mut Vec<u8>,
    ) -> Position<'a> {
        byte_position(edge, out, |key, n, out| I::encode_as::<Typed>(shape, key, n, out))
    }

    #[inline(always)]
    fn compare(order: &TypedOrder, key: &[u8], other: &[u8]) -> Ordering {
        order.compare(key, other)
    }

    #[inline(always)]
    fn leading(order: &TypedOrder, key: &[u8], fill: bool) -> u128 {
        order.leading(key, fill)
    }

    #[inline(always)]
    fn whole_bits(order: &TypedOrder) -> u32 {
        order.whole_bits()
    }

    fn verify(parts: &[KeyPart], key: &[u8]) -> Result<(), String> {
        if is_whole_key(parts, key) {
            return Ok(());
        }
        Err(format!("{} bytes are no key of the index", key.len()))
    }
}

/// Whether typed bytes are one whole key, and not too long.
#[cold]
fn is_whole_key(parts: &[KeyPart], key: &[u8]) -> bool {
    key_length(parts, key)
        .is_some_and(|length| length.typed == key.len() && length.normalised <= KEY_BYTES_MAX)
}

impl KeyFormat for IntegerKeys {
    const NAME: &'static str = "integer keys";

    type Order = ();

    fn order(_: &[KeyPart]) {}

    #[inline(always)]
    fn is_packed(parts: &[KeyPart]) -> bool {
        packed_bits(parts).is_some()
    }

    #[inline]
    fn append<I: IndexType>(shape: &I::Shape, key: I::Key<'_>, out: &mut Vec<u8>) -> bool {
        if packed_bits(I::parts(shape)).is_none() {
            let start = out.len();
            return I::encode_as::<Normalised>(shape, key, usize::MAX, out) == Fit::Within
                && out.len() - start <= KEY_BYTES_MAX;
        }
        match I::pack(shape, key) {
            Some(packed) => {
                out.extend_from_slice(&packed.to_le_bytes());
                true
            }
            None => false,
        }
    }

    #[inline]
    fn position<'a, I: IndexType>(
        shape: &I::Shape,
        edge: &Edge<I::Key<'_>>,
        out: &'a mut Vec<u8>,
    ) -> Position<'a> {
        if packed_bits(I::parts(shape)).is_none() {
            return byte_position(edge, out, |key, n, out| {
                I::encode_as::<Normalised>(shape, key, n, out)
            });
        }
        out.clear();
        let position = match *edge {
            Edge::Open => return Position::Open,
            Edge::Before(key, columns) => I::position(shape, key, columns, false),
            Edge::After(key, columns) => I::position(shape, key, columns, true),
        };
        match u64::try_from(position) {
            Ok(packed) => {
                out.extend_from_slice(&packed.to_le_bytes());
                Position::Before(out)
            }
            // As many keys lie before it as there are.
            Err(_) => Position::After(out),
        }
    }

    #[inline(always)]
    fn compare((): &(), key: &[u8], other: &[u8]) -> Ordering {
        // Where the page ends too early, the key was no beginning of the other anyway.
        key.get(..other.len()).unwrap_or(key).cmp(other)
    }

    #[inline(always)]
    fn leading((): &(), key: &[u8], fill: bool) -> u128 {
        Normalised::leading(key, fill)
    }

    fn verify(_: &[KeyPart], key: &[u8]) -> Result<(), String> {
        if key.len() <= KEY_BYTES_MAX {
            return Ok(());
        }
        Err(format!("a key of {} bytes", key.len()))
    }
}

/// A position in a tree: between its entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position<'a> {
    /// Before or after everything, at whichever end of a range it stands.
    Open,
    /// Before all keys that begin with these bytes of the stored form.
    Before(&'a [u8]),
    /// After all such keys.
    After(&'a [u8]),
    /// At the entry of this key and row, whether or not it is there; within the range, at either
    /// end. Where a scan that broke off continues.
    At(&'a [u8], RowId),
}

/// How a tree's nodes hold their keys.
#[derive(Clone, Debug)]
pub(super) struct StoredKeys<K: KeyFormat> {
    order: K::Order,
    /// As integers, in one array without slots.
    pub(super) packed: bool,
}

impl<K: KeyFormat> StoredKeys<K> {
    pub(super) fn of(parts: &[KeyPart]) -> Self {
        Self { order: K::order(parts), packed: K::is_packed(parts) }
    }

    #[inline(always)]
    pub(super) fn compare(&self, key: &[u8], other: &[u8]) -> Ordering {
        K::compare(&self.order, key, other)
    }

    /// In nodes whose unit is a smaller power of two than this, heads of whole keys are equal only if the keys are.
    #[inline(always)]
    fn units_that_decide(&self) -> u8 {
        let bits = K::whole_bits(&self.order);
        if bits == 0 { 0 } else { (u128::BITS - bits + 1) as u8 }
    }

    /// What a whole key begins with: [`KeyFormat::leading`].
    #[inline(always)]
    pub(super) fn leading(&self, key: &[u8]) -> u128 {
        if self.packed { 0 } else { K::leading(&self.order, key, false) }
    }
}

/// The row of no entry, above all others.
const LAST_ROW: u64 = u64::MAX;

/// What a search looks for: the first entry that is not before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe<'a> {
    /// The key, or the first bytes of one.
    pub(super) key: &'a [u8],
    /// The key as an integer, where keys are packed; elsewhere the leading number of the key. If the probe has only
    /// the first bytes of a key, that of the smallest key with these first bytes, or of the largest if the probe is
    /// behind all of them.
    pub(super) leading: u128,
    /// The row, in a leaf.
    pub(super) row: u64,
    /// The row, in an inner node, whose separators must lie before the probe: 0 if there may be
    /// equal ones on its left.
    pub(super) inner_row: u64,
    /// In nodes whose unit is a smaller power of two than this, no other key has the head of this one
    /// (`StoredKeys::units_that_decide`).
    pub(super) decided_below: u8,
}

impl<'a> Probe<'a> {
    #[inline(always)]
    fn new<K: KeyFormat>(keys: &StoredKeys<K>, key: &'a [u8], row: u64, inner_row: u64) -> Self {
        let is_behind = row == LAST_ROW;
        let leading = if keys.packed {
            match key.first_chunk::<PACKED_BYTES>() {
                Some(&bytes) => u64::from_le_bytes(bytes).into(),
                // Of packed keys only the empty beginning is asked for: before or after all.
                None if is_behind => u64::MAX.into(),
                None => 0,
            }
        } else {
            K::leading(&keys.order, key, is_behind)
        };
        Self { key, leading, row, inner_row, decided_below: 0 }
    }

    /// The same of a whole key.
    #[inline(always)]
    fn whole<K: KeyFormat>(keys: &StoredKeys<K>, key: &'a [u8], row: u64, inner_row: u64) -> Self {
        Self { decided_below: keys.units_that_decide(), ..Self::new(keys, key, row, inner_row) }
    }

    /// An entry.
    #[inline(always)]
    pub(super) fn entry<K: KeyFormat>(keys: &StoredKeys<K>, key: &'a [u8], row: RowId) -> Self {
        let row = row.location();
        Self::whole(keys, key, row, row + 1)
    }

    /// The first entry of a whole key.
    #[inline(always)]
    pub(super) fn first_of<K: KeyFormat>(keys: &StoredKeys<K>, key: &'a [u8]) -> Self {
        Self::whole(keys, key, 0, 1)
    }

    /// The same of a key that begins with `leading`.
    #[inline(always)]
    pub(super) fn first_with<K: KeyFormat>(
        keys: &StoredKeys<K>,
        leading: u128,
        key: &'a [u8],
    ) -> Self {
        Self { key, leading, row: 0, inner_row: 1, decided_below: keys.units_that_decide() }
    }

    /// The last entry of a whole key, and behind.
    pub(super) fn behind<K: KeyFormat>(keys: &StoredKeys<K>, key: &'a [u8], row: u64) -> Self {
        Self::new(keys, key, row, row)
    }

    /// Where a range starts.
    #[inline]
    pub(super) fn lower<K: KeyFormat>(keys: &StoredKeys<K>, position: Position<'a>) -> Self {
        match position {
            Position::Open => Self::new(keys, &[], 0, 0),
            Position::Before(key) => Self::new(keys, key, 0, 0),
            Position::After(key) => Self::new(keys, key, LAST_ROW, LAST_ROW),
            Position::At(key, row) => Self::entry(keys, key, row),
        }
    }

    /// Where a range ends: the first entry outside.
    #[inline]
    pub(super) fn upper<K: KeyFormat>(keys: &StoredKeys<K>, position: Position<'a>) -> Self {
        match position {
            Position::Open => Self::new(keys, &[], LAST_ROW, LAST_ROW),
            Position::Before(key) => Self::new(keys, key, 0, 0),
            Position::After(key) => Self::new(keys, key, LAST_ROW, LAST_ROW),
            Position::At(key, row) => Self::new(keys, key, row.location() + 1, row.location() + 1),
        }
    }
}
