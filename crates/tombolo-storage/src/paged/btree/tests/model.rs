//! Random operations against an ordered map whose keys compare as the memory store's do.

use super::*;
use crate::key::{Dynamic, Edge, Fit, IndexShape, IndexType, KEY_BYTES_MAX};
use crate::memory::test_random::Random;
use crate::schema::{IndexDef, IndexKind, TableDef};
use crate::value::Value;
use std::collections::BTreeMap;

/// The columns of an index, and how random values for them are made.
struct Case {
    table: TableDef,
    values: fn(&mut Random) -> Vec<Value<'static>>,
}

fn column(sql: SqlType, nullable: bool, range: Option<(i64, i64)>) -> ColumnDef {
    ColumnDef { name: "c".into(), sql, nullable, range, hot: false, added: false, default: None }
}

fn case(
    columns: Vec<ColumnDef>,
    unique: bool,
    values: fn(&mut Random) -> Vec<Value<'static>>,
) -> Case {
    let positions = (0..columns.len()).collect();
    let index = IndexDef { name: "i".into(), columns: positions, unique, kind: IndexKind::Tree };
    Case { table: TableDef { name: "t".into(), columns, indexes: vec![index] }, values }
}

fn number(random: &mut Random) -> i64 {
    match random.below(4) {
        0 => random.below(7) as i64 - 3,
        1 => random.below(1_000) as i64,
        2 => random.next() as i32 as i64,
        _ => random.below(60) as i64 * 1_000,
    }
}

fn leaked(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

fn text(random: &mut Random) -> Value<'static> {
    let length = [0, 1, 3, 20, 200, 900][random.below(6) as usize] as usize;
    let letters = ["a", "b", "\0", "\u{1}", "é"];
    let mut text = String::new();
    while text.len() < length {
        text.push_str(letters[random.below(if length > 20 { 2 } else { 5 }) as usize]);
    }
    Value::Text(leaked(text))
}

fn double(random: &mut Random) -> Value<'static> {
    let some = [0.0, -0.0, f64::NAN, -f64::NAN, f64::INFINITY, -1.5, 1e300, f64::MIN_POSITIVE];
    match random.below(2) {
        0 => Value::Double(some[random.below(8) as usize]),
        _ => Value::Double(number(random) as f64 / 8.0),
    }
}

fn or_null(random: &mut Random, value: Value<'static>) -> Value<'static> {
    if random.below(4) == 0 { Value::Null } else { value }
}

/// Keys that are identified by their heads in nodes of neighbours, and not where they lie far apart.
fn whole_cases() -> Vec<Case> {
    use SqlType::*;
    vec![
        case(vec![column(Integer, false, None), column(SmallInt, false, None)], false, |random| {
            let first = number(random) as i32;
            vec![Value::Integer(first.into()), Value::Integer(random.below(9) as i64 - 4)]
        }),
        case(
            vec![
                column(Integer, false, None),
                column(SmallInt, false, None),
                column(BigInt, false, None),
                column(SmallInt, false, None),
            ],
            true,
            |random| {
                let below = |random: &mut Random, count| random.below(count) as i64 - 2;
                let numbers = match random.below(3) {
                    0 => [below(random, 4), below(random, 4), number(random), below(random, 4)],
                    1 => [1, 1, below(random, 900), below(random, 20)],
                    _ => [number(random) as i32 as i64, 0, 0, below(random, 9)],
                };
                numbers.map(Value::Integer).to_vec()
            },
        ),
    ]
}

fn cases() -> Vec<Case> {
    use SqlType::*;
    vec![
        case(vec![column(BigInt, false, None)], true, |random| {
            vec![Value::Integer(number(random))]
        }),
        case(
            vec![column(Integer, false, Some((0, 99))), column(SmallInt, true, Some((-3, 3)))],
            false,
            |random| {
                let second = Value::Integer(random.below(9) as i64 - 4);
                vec![Value::Integer(random.below(110) as i64 - 5), or_null(random, second)]
            },
        ),
        case(
            vec![
                column(BigInt, true, None),
                column(Integer, false, None),
                column(Date, true, None),
            ],
            true,
            |random| {
                let (first, last) = (number(random), random.below(30) as i32);
                vec![
                    or_null(random, Value::Integer(first)),
                    Value::Integer(number(random)),
                    or_null(random, Value::Date(last)),
                ]
            },
        ),
        case(
            vec![column(Varchar(1_000), true, None), column(Integer, false, None)],
            false,
            |random| {
                let value = text(random);
                vec![or_null(random, value), Value::Integer(number(random))]
            },
        ),
        case(
            vec![
                column(Double, true, None),
                column(Char(5), false, None),
                column(Decimal { precision: 30, scale: 2 }, false, None),
                column(Uuid, false, None),
                column(Boolean, true, None),
            ],
            true,
            |random| {
                let number = double(random);
                let code = format!("{}", random.below(40));
                let flag = Value::Boolean(random.below(2) == 0);
                vec![
                    or_null(random, number),
                    Value::Text(leaked(code)),
                    Value::Decimal { units: random.next() as i64 as i128 * 3, scale: 2 },
                    Value::Uuid([random.below(3) as u8; 16]),
                    or_null(random, flag),
                ]
            },
        ),
    ]
}

/// What the memory store orders by: the normalised key.
fn normal(shape: &IndexShape, values: &[Value<'_>]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let fit = Dynamic::encode(shape, values, usize::MAX, &mut bytes);
    let packs = crate::key::packed_bits(Dynamic::parts(shape)).is_some();
    let fits = !packs || Dynamic::pack(shape, values).is_some();
    (fit == Fit::Within && bytes.len() <= KEY_BYTES_MAX && fits).then_some(bytes)
}

/// Whether a normalised key lies before an edge.
fn before_edge(shape: &IndexShape, key: &[u8], edge: &Edge<&[Value<'_>]>, open: bool) -> bool {
    let (values, columns, after) = match *edge {
        Edge::Open => return open,
        Edge::Before(values, columns) => (values, columns, false),
        Edge::After(values, columns) => (values, columns, true),
    };
    let mut bytes = Vec::new();
    let after = match Dynamic::encode(shape, values, columns, &mut bytes) {
        Fit::Within => after,
        Fit::Below => false,
        Fit::Above => true,
    };
    if key.starts_with(&bytes) { after } else { key < bytes.as_slice() }
}

/// An entry of the model: the values of its key, and whether it is marked.
type Kept = (Vec<Value<'static>>, bool);

/// Where the model has an entry: its normalised key, and its row.
type At = (Vec<u8>, u64);

struct Model<'a, P: PageAccess, K: KeyFormat> {
    access: &'a P,
    tree: BTree<P, K>,
    shape: IndexShape,
    values: fn(&mut Random) -> Vec<Value<'static>>,
    random: Random,
    entries: BTreeMap<At, Kept>,
    leaves: Vec<PageId>,
    routes: Routes,
    /// How many leaves were still right.
    hints: u64,
    /// Of several callers.
    last: [LastInsertions; 3],
}

impl<P: PageAccess, K: KeyFormat> Model<'_, P, K> {
    fn stored(&self, values: &[Value<'_>]) -> Option<Vec<u8>> {
        let mut out = vec![7];
        let fits = K::encode::<Dynamic>(&self.shape, values, &mut out);
        fits.then_some(out)
    }

    /// An entry that is there.
    fn any(&mut self) -> Option<(At, Kept)> {
        let nth = self.random.below(self.entries.len().max(1) as u64) as usize;
        // Mostly from the front, so that leaves run empty there.
        let nth = if self.random.below(3) > 0 { nth % 50 } else { nth };
        self.entries.iter().nth(nth).map(|(at, entry)| (at.clone(), entry.clone()))
    }

    fn insert_one(&mut self) {
        let values = (self.values)(&mut self.random);
        let Some(normal) = normal(&self.shape, &values) else { return };
        let row = self.random.below(5_000) + 1;
        let stored = self.stored(&values).unwrap();
        let equal = (normal.clone(), 0)..=(normal.clone(), u64::MAX);
        let equal: Vec<_> = self.entries.range(equal).map(|(at, e)| (at.1, e.1)).collect();
        let mut met = Vec::new();
        let mut meet = |row: RowId, deleted| {
            met.push((row.location(), deleted));
            if deleted { Meet::Pass } else { Meet::Duplicate }
        };
        let own = RowId::new(row);
        let last = &mut self.last[row as usize % 3];
        let inserted =
            self.tree.insert(self.access, (&stored, own), last, &mut meet, unlogged, &()).unwrap();
        let live = self.shape.unique && equal.iter().any(|entry| !entry.1);
        let same = equal.iter().find(|entry| entry.0 == row);
        if live || same.is_some() {
            let is_marked = !live && same.is_some_and(|entry| entry.1);
            let expected = if is_marked { Inserted::Marked } else { Inserted::Duplicate };
            assert_eq!(inserted, expected);
            return;
        }
        assert_eq!(inserted, Inserted::Done);
        met.dedup();
        if self.shape.unique {
            assert!(equal.iter().all(|entry| met.contains(entry)), "{equal:?} {met:?}");
        } else {
            assert_eq!(met, []);
        }
        self.entries.insert((normal, row), (values, false));
    }

    fn step(&mut self) {
        match self.random.below(40) {
            0..20 => self.insert_one(),
            20..34 => {
                let Some((at, (values, deleted))) = self.any() else { return };
                let (stored, row) = (self.stored(&values).unwrap(), RowId::new(at.1));
                if self.random.below(3) > 0 {
                    remove(&self.tree, self.access, &stored, at.1);
                    self.entries.remove(&at);
                    let again = self.tree.remove(self.access, &stored, row, unlogged, &(), &());
                    assert_eq!(again, Ok(false));
                } else {
                    let set = |wanted| {
                        self.tree.set_deleted(self.access, &stored, row, wanted, unlogged).unwrap()
                    };
                    assert!(!set(deleted));
                    // A unique key has one entry that is not marked.
                    if !deleted || !self.shape.unique {
                        assert!(set(!deleted));
                        self.entries.get_mut(&at).unwrap().1 = !deleted;
                    }
                }
            }
            34..39 => self.look_up(),
            _ => self.scan_some(),
        }
    }

    fn leaf_of(&mut self, key: &[u8]) -> LeafHint {
        self.tree.leaf_of(self.access, &mut self.routes, &mut None, key).unwrap()
    }

    fn look_up(&mut self) {
        let values = match self.any() {
            Some((_, (values, _))) if self.random.below(2) == 0 => values,
            _ => (self.values)(&mut self.random),
        };
        let Some(normal) = normal(&self.shape, &values) else { return };
        let rows = self.entries.range((normal.clone(), 0)..=(normal, u64::MAX));
        let expected: Vec<_> = rows.map(|(at, _)| at.1).collect();
        let stored = self.stored(&values).unwrap();
        let found = find_by(&self.tree, self.access, &mut self.routes, &stored);
        assert_eq!(found, expected);
        // Leaves that were right for some key once: right for this one, divided since, or freed.
        let leaf = self.leaf_of(&stored).leaf;
        self.leaves.push(leaf);
        let other = self.leaves[self.random.below(self.leaves.len() as u64) as usize];
        for leaf in [*self.leaves.last().unwrap(), other, PageId(0), PageId(u32::MAX)] {
            let mut found = Vec::new();
            let visit = |row: RowId, _| {
                found.push(row.location());
                ControlFlow::Continue(())
            };
            let hint = LeafHint { leaf, ..self.leaf_of(&stored) };
            if self.tree.find_in(self.access, hint, &stored, visit, &()).unwrap() {
                assert_eq!(found, expected, "{leaf:?}");
                self.hints += 1;
            } else {
                assert_eq!(found, [0; 0], "{leaf:?}");
            }
        }
    }

    fn scan_some(&mut self) {
        let (low, high) = ((self.values)(&mut self.random), (self.values)(&mut self.random));
        let mut edge = |values| -> Edge<&[Value<'_>]> {
            let columns = self.random.below(self.shape.parts.len() as u64 + 1) as usize;
            match self.random.below(5) {
                0 => Edge::Open,
                1 | 2 => Edge::Before(values, columns),
                _ => Edge::After(values, columns),
            }
        };
        let (lower, upper) = (edge(low.as_slice()), edge(high.as_slice()));
        let (mut from, mut to) = (Vec::new(), Vec::new());
        let from = K::position::<Dynamic>(&self.shape, &lower, &mut from);
        let to = K::position::<Dynamic>(&self.shape, &upper, &mut to);
        let within = |key: &[u8]| {
            !before_edge(&self.shape, key, &lower, false)
                && before_edge(&self.shape, key, &upper, true)
        };
        let entries = self.entries.iter().filter(|(at, _)| within(&at.0));
        let entry = |(at, entry): (&At, &Kept)| (self.stored(&entry.0).unwrap(), at.1, entry.1);
        let mut expected: Vec<_> = entries.map(entry).collect();
        for order in [Order::Forward, Order::Backward] {
            let found = scan(&self.tree, self.access, from, to, order);
            assert_eq!(found, expected, "{lower:?} {upper:?} {order:?}");
            self.resume(from, to, order, &found);
            expected.reverse();
        }
    }

    /// A scan that continues at one of its entries.
    fn resume(
        &mut self,
        from: Position<'_>,
        to: Position<'_>,
        order: Order,
        found: &[(Vec<u8>, u64, bool)],
    ) {
        if found.is_empty() {
            return;
        }
        let nth = self.random.below(found.len() as u64) as usize;
        let at = Position::At(&found[nth].0, RowId::new(found[nth].1));
        let rest = match order {
            Order::Forward => scan(&self.tree, self.access, at, to, order),
            Order::Backward => scan(&self.tree, self.access, from, at, order),
        };
        assert_eq!(rest, found[nth..]);
    }

    fn compare_all(&self) {
        let expected =
            self.entries.iter().map(|(at, entry)| (self.stored(&entry.0).unwrap(), at.1, entry.1));
        assert!(everything(&self.tree, self.access).into_iter().eq(expected));
        assert_eq!(self.tree.check(self.access), []);
    }
}

/// Inserts `first` random entries, does `steps` random things, removes everything.
fn run<P: PageAccess, K: KeyFormat>(access: &P, first: u64, steps: u64) {
    for (seed, case) in (1..).zip(cases().into_iter().chain(whole_cases())) {
        let index = &case.table.indexes[0];
        let shape = KeyShape::of(&case.table, index);
        let mut model = Model::<P, K> {
            access,
            tree: BTree::create(access, STORE, shape, &()).unwrap(),
            shape: IndexShape::of(&case.table, index),
            values: case.values,
            random: Random::new(seed),
            entries: BTreeMap::new(),
            leaves: Vec::new(),
            routes: Routes::default(),
            hints: 0,
            last: Default::default(),
        };
        (0..first).for_each(|_| model.insert_one());
        for step in 0..steps {
            model.step();
            if step % (steps / 4) == 0 {
                model.compare_all();
            }
        }
        let size = model.tree.measure(access).unwrap();
        assert!(size.levels > 1 && model.hints > 0, "{size:?} {}", model.hints);
        model.compare_all();
        while let Some((at, (values, _))) = model.any() {
            remove(&model.tree, access, &model.stored(&values).unwrap(), at.1);
            model.entries.remove(&at);
        }
        model.compare_all();
        let size = model.tree.measure(access).unwrap();
        assert_eq!((size.levels, size.leaves), (1, 1), "{size:?}");
    }
    assert_eq!(access.check(), []);
}

#[test]
fn typed_columns_in_a_pool_smaller_than_the_tree() {
    run::<_, TypedColumns>(&small_pool(8), 2_000, 4_000);
}

#[test]
fn integer_keys_in_a_pool_smaller_than_the_tree() {
    run::<_, IntegerKeys>(&small_pool(8), 2_000, 4_000);
}

#[test]
fn typed_columns_in_direct_frames() {
    let disk = MemDisk::new();
    let frames = DirectFrames::<SmallPages, Latched>::create(&disk, LIMIT_BYTES).unwrap();
    run::<_, TypedColumns>(&frames, 2_000, 2_000);
}

#[test]
fn integer_keys_in_unlatched_direct_frames() {
    let disk = MemDisk::new();
    let frames = DirectFrames::<LargePages, Unlatched>::create(&disk, LIMIT_BYTES).unwrap();
    run::<_, IntegerKeys>(&frames, 12_000, 4_000);
}

#[test]
fn both_formats_without_pages_for_rows() {
    run::<_, IntegerKeys>(&Pointers::<LargePages>::new(LIMIT_BYTES).unwrap(), 12_000, 4_000);
    run::<_, TypedColumns>(&Pointers::<SmallPages>::new(LIMIT_BYTES).unwrap(), 2_000, 2_000);
}
