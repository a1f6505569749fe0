//! Packed, normalised and typed keys against ladders of values written down in their order.

use std::cmp::Ordering;

use super::*;
use crate::memory::test_random::Random;
use crate::schema::DeclaredIndex;
use crate::schema::IndexKind;

/// Values of a column's kind in ascending order; those of one rung are equal. The last rung is
/// null, and some have values no such column holds.
type Ladder = Vec<Vec<Value<'static>>>;

fn rungs(values: impl IntoIterator<Item = Value<'static>>) -> Ladder {
    values.into_iter().map(|value| vec![value]).collect()
}

fn ladder(column: &ColumnDef) -> Ladder {
    let (low, high) = column.range.or(column.sql.integer_range()).unwrap_or((0, 0));
    let mut integers = vec![low, low / 2 + high / 2, high, -1, 0, 1, i64::MIN, i64::MAX];
    for near in [low, high, 0, 255] {
        integers.extend([1, 2, 70_000].map(|away| near.saturating_sub(away)));
        integers.extend([1, 2, 70_000].map(|away| near.saturating_add(away)));
    }
    integers.sort();
    integers.dedup();
    let mut ladder: Ladder = match column.sql {
        SqlType::Boolean => rungs([false, true].map(Value::Boolean)),
        SqlType::SmallInt | SqlType::Integer | SqlType::BigInt => {
            rungs(integers.into_iter().map(Value::Integer))
        }
        SqlType::Timestamp => rungs(integers.into_iter().map(Value::Timestamp)),
        SqlType::Date => {
            rungs(integers.into_iter().filter_map(|i| i32::try_from(i).ok()).map(Value::Date))
        }
        SqlType::Decimal { precision, scale } => {
            let most = 10i128.pow(precision as u32) - 1;
            let mut units: Vec<_> = integers.into_iter().map(i128::from).collect();
            units.extend([most, -most, i64::MAX as i128 + 1, i64::MIN as i128 - 1]);
            units.extend([i128::MIN, i128::MAX]);
            units.sort();
            units.dedup();
            rungs(units.into_iter().map(|units| Value::Decimal { units, scale }))
        }
        SqlType::Double => doubles(),
        SqlType::Char(_) => chars(),
        SqlType::Varchar(_) | SqlType::Text => rungs(
            ["", "\0", "\0\0", "\0\u{1}", "\0a", "\u{1}", " ", "a", "a\0", "a\0b", "a\u{1}", "a "]
                .into_iter()
                .chain(["aa", "ab", "abcdefghi", "b", "é", "\u{10ffff}"])
                .map(Value::Text),
        ),
        SqlType::Bytes => rungs(
            [&[][..], &[0], &[0, 0], &[0, 1], &[0, 255], &[1], &[254], &[255], &[255, 0]]
                .map(Value::Bytes),
        ),
        SqlType::Uuid => {
            let mut low = [0; 16];
            low[15] = 1;
            rungs([[0; 16], low, [127; 16], [128; 16], [255; 16]].map(Value::Uuid))
        }
    };
    ladder.push(vec![Value::Null]);
    ladder
}

fn doubles() -> Ladder {
    let mut ladder = rungs(
        [f64::NEG_INFINITY, f64::MIN, -1.5, -f64::MIN_POSITIVE, -f64::from_bits(1)]
            .map(Value::Double),
    );
    ladder.push([0.0, -0.0].map(Value::Double).to_vec());
    let positive = [f64::from_bits(1), f64::MIN_POSITIVE, 1.0, 1.5, f64::MAX, f64::INFINITY];
    ladder.extend(rungs(positive.map(Value::Double)));
    ladder.push([f64::NAN, -f64::NAN, f64::from_bits(!0 >> 1)].map(Value::Double).to_vec());
    ladder
}

/// For `char(3)`: four bytes are one too many.
fn chars() -> Ladder {
    let equal: [&[&str]; 14] = [
        &["\0\0\0"],
        &["\0"],
        &["", " ", "   "],
        &["   x"],
        &["  a"],
        &["a\0"],
        &["a", "a "],
        &["ab"],
        &["abc"],
        &["abcd"],
        &["abd"],
        &["ab\u{7f}"],
        &["é", "é "],
        &["\u{10ffff}"],
    ];
    equal.iter().map(|rung| rung.iter().copied().map(Value::Text).collect()).collect()
}

/// Whether `column` can hold `value`.
fn holds(column: &ColumnDef, value: &Value<'_>) -> bool {
    let range = column.range.or(column.sql.integer_range());
    match (value, column.sql) {
        (Value::Null, _) => column.nullable,
        (Value::Text(text), SqlType::Char(n) | SqlType::Varchar(n)) => text.len() <= n as usize,
        (Value::Decimal { units, .. }, SqlType::Decimal { precision, .. }) if precision > 18 => {
            units.unsigned_abs() < 10u128.pow(precision as u32)
        }
        (Value::Decimal { units, .. }, _) => {
            range.is_some_and(|(low, high)| (low as i128..=high as i128).contains(units))
        }
        _ => match (range, value.integer()) {
            (Some((low, high)), Some(integer)) => (low..=high).contains(&integer),
            _ => true,
        },
    }
}

fn any_column(random: &mut Random) -> ColumnDef {
    let types = [
        SqlType::Boolean,
        SqlType::SmallInt,
        SqlType::Integer,
        SqlType::BigInt,
        SqlType::Double,
        SqlType::Decimal { precision: 2, scale: 0 },
        SqlType::Decimal { precision: 9, scale: 3 },
        SqlType::Decimal { precision: 18, scale: 2 },
        SqlType::Decimal { precision: 38, scale: 10 },
        SqlType::Char(3),
        SqlType::Varchar(9),
        SqlType::Text,
        SqlType::Bytes,
        SqlType::Date,
        SqlType::Timestamp,
        SqlType::Uuid,
    ];
    let sql = types[random.below(types.len() as u64) as usize];
    let range = match sql.integer_range() {
        Some((least, most)) if random.below(2) == 0 => {
            let span = [0, 1, 6, 7, 8, 255, 256][random.below(7) as usize];
            let low = [-5, 0, 1, least, most][random.below(5) as usize].clamp(least, most);
            Some((low, low.saturating_add(span).min(most)))
        }
        _ => None,
    };
    ColumnDef {
        name: "c".into(),
        sql,
        nullable: random.below(3) == 0,
        range,
        hot: false,
        added: false,
        default: None,
    }
}

fn shape(columns: &[ColumnDef]) -> IndexShape {
    let parts = columns.iter().map(KeyPart::of).collect();
    IndexShape { name: "i".into(), parts, unique: true }
}

/// A key drawn from ladders, with the rung of each value.
fn draw(
    random: &mut Random,
    columns: &[ColumnDef],
    ladders: &[Ladder],
    held: bool,
) -> (Vec<usize>, Vec<Value<'static>>) {
    let one = |(column, ladder): (&ColumnDef, &Ladder)| loop {
        let rung = random.below(ladder.len() as u64) as usize;
        let value = ladder[rung][random.below(ladder[rung].len() as u64) as usize];
        if !held || holds(column, &value) {
            return (rung, value);
        }
    };
    columns.iter().zip(ladders).map(one).unzip()
}

/// Whether `key` lies behind the edge that `edge`'s bytes and `fit` make.
fn is_behind(key: &[u8], edge: &[u8], fit: Fit, after: bool) -> bool {
    let after = match fit {
        Fit::Within => after,
        Fit::Below => false,
        Fit::Above => true,
    };
    if after { key > edge && !key.starts_with(edge) } else { key >= edge }
}

#[test]
fn keys_order_as_their_values_do_and_edges_lie_between() {
    let mut random = Random::new(11);
    let mut packed_keys = 0;
    for _ in 0..400 {
        let wanted = 1 + random.below(6);
        let columns: Vec<_> = (0..wanted).map(|_| any_column(&mut random)).collect();
        let ladders: Vec<_> = columns.iter().map(ladder).collect();
        let shape = shape(&columns);
        for _ in 0..60 {
            let (key_rungs, key) = draw(&mut random, &columns, &ladders, true);
            let (edge_rungs, edge) = draw(&mut random, &columns, &ladders, false);
            let is_held = columns.iter().zip(&edge).all(|(column, value)| holds(column, value));
            let counted = random.below(wanted + 1) as usize;
            let order = key_rungs[..counted].cmp(&edge_rungs[..counted]);
            let what = || format!("{key:?} and {edge:?} by {counted} of {columns:?}");

            let (mut bytes, mut edge_bytes) = (Vec::new(), Vec::new());
            assert_eq!(Dynamic::encode(&shape, &key, usize::MAX, &mut bytes), Fit::Within);
            let fit = Dynamic::encode(&shape, &edge, counted, &mut edge_bytes);
            assert_eq!(is_behind(&bytes, &edge_bytes, fit, false), order.is_ge(), "{}", what());
            assert_eq!(is_behind(&bytes, &edge_bytes, fit, true), order.is_gt(), "{}", what());

            if packed_bits(&shape.parts).is_some() {
                packed_keys += 1;
                let packed = Dynamic::pack(&shape, &key).unwrap();
                let before = Dynamic::position(&shape, &edge, counted, false);
                let after = Dynamic::position(&shape, &edge, counted, true);
                assert_eq!(packed as u128 >= before, order.is_ge(), "{}", what());
                assert_eq!(packed as u128 >= after, order.is_gt(), "{}", what());
                assert!(before <= after && after <= 1 << 64, "{}", what());
                assert_eq!(Dynamic::pack(&shape, &edge).is_some(), is_held, "{}", what());
            }
            if is_held {
                let mut edge_bytes = Vec::new();
                let fit = Dynamic::encode(&shape, &edge, usize::MAX, &mut edge_bytes);
                assert_eq!(fit, Fit::Within);
                let order = key_rungs.cmp(&edge_rungs);
                assert_eq!(bytes.cmp(&edge_bytes), order, "{}", what());
                let is_prefix = edge_bytes.starts_with(&bytes);
                assert!(!is_prefix || order == Ordering::Equal, "{}", what());
                if packed_bits(&shape.parts).is_some() {
                    let packed = [&key, &edge].map(|key| Dynamic::pack(&shape, key));
                    assert_eq!(packed[0].cmp(&packed[1]), order, "{}", what());
                }
            }
        }
    }
    assert!(packed_keys > 1_000, "{packed_keys}");
}

/// Whether a key lies behind an edge, from how it compares to the bytes the edge has.
fn is_behind_typed(order: Ordering, fit: Fit, after: bool) -> bool {
    match fit {
        Fit::Within if after => order.is_gt(),
        Fit::Within | Fit::Below => order.is_ge(),
        Fit::Above => order.is_gt(),
    }
}

/// Every column type, alone and behind others, null or not.
#[test]
fn typed_keys_order_as_their_values_do_and_edges_lie_between() {
    let mut random = Random::new(12);
    let (mut equal, mut nulls) = (0, 0);
    for _ in 0..400 {
        let wanted = 1 + random.below(6);
        let columns: Vec<_> = (0..wanted).map(|_| any_column(&mut random)).collect();
        let ladders: Vec<_> = columns.iter().map(ladder).collect();
        let shape = shape(&columns);
        let typed = TypedOrder::of(&shape.parts);
        let encode = |key: &[Value<'_>], counted| {
            let mut bytes = Vec::new();
            let fit = Dynamic::encode_as::<Typed>(&shape, key, counted, &mut bytes);
            (bytes, fit)
        };
        for _ in 0..60 {
            let (key_rungs, key) = draw(&mut random, &columns, &ladders, true);
            let (mut edge_rungs, mut edge) = draw(&mut random, &columns, &ladders, false);
            // Equal beginnings are rare by chance.
            let common = random.below(wanted + 1) as usize;
            edge_rungs[..common].copy_from_slice(&key_rungs[..common]);
            edge[..common].copy_from_slice(&key[..common]);
            let is_held = columns.iter().zip(&edge).all(|(column, value)| holds(column, value));
            let counted = random.below(wanted + 1) as usize;
            let order = key_rungs[..counted].cmp(&edge_rungs[..counted]);
            let what = || format!("{key:?} and {edge:?} by {counted} of {columns:?}");
            nulls += usize::from(key.contains(&Value::Null));

            let (mut bytes, fit) = encode(&key, usize::MAX);
            assert_eq!(fit, Fit::Within);
            let length = bytes.len();
            // What follows a key in memory does not count.
            bytes.extend((0..random.below(40)).map(|_| random.next() as u8));
            let (edge_bytes, fit) = encode(&edge, counted);
            let found = typed.compare(&bytes, &edge_bytes);
            assert_eq!(is_behind_typed(found, fit, false), order.is_ge(), "{}", what());
            assert_eq!(is_behind_typed(found, fit, true), order.is_gt(), "{}", what());
            if fit == Fit::Within {
                assert_eq!(found, order, "{}", what());
            }
            if is_held {
                let (edge_bytes, fit) = encode(&edge, usize::MAX);
                assert_eq!(fit, Fit::Within);
                let order = key_rungs.cmp(&edge_rungs);
                equal += usize::from(order == Ordering::Equal);
                assert_eq!(typed.compare(&bytes[..length], &edge_bytes), order, "{}", what());
                assert_eq!(typed.compare(&bytes, &edge_bytes), order, "{}", what());
            }
        }
    }
    assert!(equal > 1_000 && nulls > 1_000, "{equal} {nulls}");
}

/// What heads are made of: the same of both forms, ordered as the keys are.
#[test]
fn keys_begin_with_numbers_that_order_as_they_do() {
    let mut random = Random::new(14);
    let (mut equal, mut told_apart, mut told_whole) = (0, 0, 0);
    for _ in 0..400 {
        let wanted = 1 + random.below(6);
        let columns: Vec<_> = (0..wanted).map(|_| any_column(&mut random)).collect();
        let ladders: Vec<_> = columns.iter().map(ladder).collect();
        let shape = shape(&columns);
        let order = TypedOrder::of(&shape.parts);
        // The smallest and the largest number of the keys that begin with some values of one.
        let numbers = |key: &[Value<'_>], counted: usize| {
            let (mut typed, mut normalised) = (Vec::new(), Vec::new());
            let fit = Dynamic::encode_as::<Typed>(&shape, key, counted, &mut typed);
            assert_eq!(fit, Fit::Within);
            assert_eq!(Dynamic::encode(&shape, key, counted, &mut normalised), Fit::Within);
            let of = |fill| order.leading(&typed, fill);
            let expected = |fill| Normalised::leading(&normalised, fill);
            assert_eq!([of(false), of(true)], [expected(false), expected(true)], "{key:?}");
            [of(false), of(true)]
        };
        for _ in 0..60 {
            let (key_rungs, key) = draw(&mut random, &columns, &ladders, true);
            let (mut other_rungs, mut other) = draw(&mut random, &columns, &ladders, true);
            let common = random.below(wanted + 1) as usize;
            other_rungs[..common].copy_from_slice(&key_rungs[..common]);
            other[..common].copy_from_slice(&key[..common]);
            let counted = random.below(wanted + 1) as usize;
            let [least, _] = numbers(&key, usize::MAX);
            let [first, last] = numbers(&other, counted);
            if order.whole_bits() > 0 && counted == wanted as usize {
                assert_eq!(least == first, key_rungs == other_rungs, "{key:?} {other:?}");
                told_whole += 1;
            }
            match key_rungs[..counted].cmp(&other_rungs[..counted]) {
                Ordering::Less => assert!(least <= first, "{key:?} {other:?}"),
                Ordering::Equal => assert!(first <= least && least <= last, "{key:?} {other:?}"),
                Ordering::Greater => assert!(last <= least, "{key:?} {other:?}"),
            }
            *if least < first || last < least { &mut told_apart } else { &mut equal } += 1;
        }
    }
    assert!(equal > 5_000 && told_apart > 5_000, "{equal} {told_apart}");
    assert!(told_whole > 0);
}

#[test]
fn the_length_of_a_typed_key_is_known() {
    let mut random = Random::new(13);
    for _ in 0..400 {
        let wanted = 1 + random.below(6);
        let columns: Vec<_> = (0..wanted).map(|_| any_column(&mut random)).collect();
        let ladders: Vec<_> = columns.iter().map(ladder).collect();
        let shape = shape(&columns);
        let (_, key) = draw(&mut random, &columns, &ladders, true);
        let (mut typed, mut normalised) = (Vec::new(), Vec::new());
        let fit = Dynamic::encode_as::<Typed>(&shape, &key, usize::MAX, &mut typed);
        assert_eq!(fit, Fit::Within);
        assert_eq!(Dynamic::encode(&shape, &key, usize::MAX, &mut normalised), Fit::Within);
        let length = key_length(&shape.parts, &typed).unwrap();
        assert_eq!((length.typed, length.normalised), (typed.len(), normalised.len()), "{key:?}");
        assert!(length.typed <= length.normalised && length.normalised <= 2 * length.typed);
        for end in 0..typed.len() {
            assert_eq!(key_length(&shape.parts, &typed[..end]), None, "{key:?}");
        }
    }
    let column = ColumnDef {
        name: "c".into(),
        sql: SqlType::Date,
        nullable: true,
        range: None,
        hot: false,
        added: false,
        default: None,
    };
    assert_eq!(key_length(&[KeyPart::of(&column)], &[2, 0, 0, 0, 0]), None);
}

/// Bytes that are no keys, as damaged pages have: any order will do, a panic will not.
#[test]
fn comparing_typed_keys_reads_nothing_outside_them() {
    let mut random = Random::new(14);
    for _ in 0..4_000 {
        let columns: Vec<_> = (0..1 + random.below(6)).map(|_| any_column(&mut random)).collect();
        let order = TypedOrder::of(&shape(&columns).parts);
        // Bytes seldom above one, so that the lengths among them are short and values are equal.
        let mut bytes = |most: u64| -> Vec<u8> {
            (0..random.below(40)).map(|_| random.below(most) as u8).collect()
        };
        let (key, other) = (bytes(2), bytes(2));
        let _any = order.compare(&key, &other);
        let _any = order.compare(&bytes(256), &other);
    }
}

crate::table! {
    /// Columns of every type a key can have.
    struct Everything = "everything" {
        FLAG: Boolean;
        SMALL: SmallInt [-3..=12];
        WORD: Integer;
        OTHER: Integer;
        MAYBE_WORD: Nullable<Integer>;
        MAYBE_FEW: Nullable<Integer> [0..=6];
        WIDE: BigInt;
        POSITIVE: BigInt [0..=9_223_372_036_854_775_807];
        DAY: Date [-1..=1];
        MOMENT: Timestamp;
        RATE: Decimal<2, 0>;
        PRICE: Decimal<12, 2>;
        CODE: Char<3>;
        NAME: Varchar<9>;
        MAYBE_NAME: Nullable<Varchar<9>>;
        NOTE: Text;
        RAW: Bytes;
        TOKEN: Uuid;
        FIXED: SmallInt [7..=7];
    }
}

macro_rules! indexes {
    ($($index:ident ($($column:ident : $type:ty),+);)+) => {$(
        crate::index! { struct $index = "i" on Everything ($($column: $type),+) unique Tree; }
    )+};
}
indexes! {
    OneWord (WORD: Integer);
    OneFixed (FIXED: SmallInt);
    OneWide (WIDE: BigInt);
    TwoWords (WORD: Integer, OTHER: Integer);
    Nullables (MAYBE_FEW: Nullable<Integer>, MAYBE_WORD: Nullable<Integer>);
    TooWide (MAYBE_WORD: Nullable<Integer>, WORD: Integer);
    FlagAndWide (FLAG: Boolean, POSITIVE: BigInt);
    Six (FLAG: Boolean, SMALL: SmallInt, DAY: Date, RATE: Decimal<2, 0>, FIXED: SmallInt,
        MAYBE_FEW: Nullable<Integer>);
    Mixed (RATE: Decimal<2, 0>, CODE: Char<3>, NAME: Varchar<9>, MOMENT: Timestamp);
    Texts (MAYBE_NAME: Nullable<Varchar<9>>, NOTE: Text, RAW: Bytes, TOKEN: Uuid);
    Prices (PRICE: Decimal<12, 2>, RATE: Decimal<2, 0>);
}

/// The typed and the dynamic form of a key are the same to the bit, whole and as an edge.
fn assert_agree<I: DeclaredIndex>(key: <I as IndexType>::Key<'_>, values: &[Value<'_>]) {
    let table = TableDef::of::<Everything>().with::<I>();
    let shape = IndexShape::of(&table, &table.indexes[0]);
    assert_eq!(I::parts(&()), &*shape.parts);
    assert_eq!(table.indexes[0].kind, IndexKind::Tree);
    let is_packed = packed_bits(I::PARTS).is_some();
    for columns in (0..=values.len()).chain([usize::MAX]) {
        let (mut typed, mut dynamic) = (Vec::new(), Vec::new());
        let typed_fit = I::encode(&(), key, columns, &mut typed);
        let dynamic_fit = Dynamic::encode(&shape, values, columns, &mut dynamic);
        assert_eq!((typed_fit, typed), (dynamic_fit, dynamic), "{values:?}");
        for after in [false, true] {
            if is_packed {
                let typed = I::position(&(), key, columns, after);
                assert_eq!(typed, Dynamic::position(&shape, values, columns, after), "{values:?}");
            }
        }
    }
    if is_packed {
        assert_eq!(I::pack(&(), key), Dynamic::pack(&shape, values), "{values:?}");
    }
}

#[test]
fn typed_and_dynamic_keys_are_the_same() {
    let mut random = Random::new(5);
    let integer = |value: i32| Value::Integer(value as i64);
    let maybe = |value: Option<i32>| value.map_or(Value::Null, integer);
    let texts = ["", "\0", "a", "ab", "abc", "abcd", "a\0b", "é", "   "];
    for _ in 0..2_000 {
        let mut word = || match random.below(4) {
            0 => [i32::MIN, -4, -1, 0, 7, 12, 13, i32::MAX][random.below(8) as usize],
            1 => random.next() as i32,
            _ => random.below(20) as i32 - 6,
        };
        let [a, b, c, d, e] = std::array::from_fn(|_| word());
        let small = a as i16;
        let wide = (b as i64) << 32 | c as i64;
        let maybe_b = (b % 3 != 0).then_some(b);
        let flag = a % 2 == 0;
        let rate = d as i64;
        let mut text = || texts[random.below(texts.len() as u64) as usize];
        let (x, y, z) = (text(), text(), text());
        let maybe_x = (e % 3 != 0).then_some(x);
        let token = (wide as u128).wrapping_mul(0x1_0000_0001).to_be_bytes();
        let decimal = |units: i64, scale| Value::Decimal { units: units as i128, scale };

        assert_agree::<OneWord>(a, &[integer(a)]);
        assert_agree::<OneFixed>(small, &[Value::Integer(small as i64)]);
        assert_agree::<OneWide>(wide, &[Value::Integer(wide)]);
        assert_agree::<TwoWords>((a, b), &[integer(a), integer(b)]);
        assert_agree::<Nullables>((maybe_b, Some(c)), &[maybe(maybe_b), integer(c)]);
        assert_agree::<Nullables>((Some(c), maybe_b), &[integer(c), maybe(maybe_b)]);
        assert_agree::<TooWide>((maybe_b, c), &[maybe(maybe_b), integer(c)]);
        assert_agree::<FlagAndWide>((flag, wide), &[Value::Boolean(flag), Value::Integer(wide)]);
        assert_agree::<Six>(
            (flag, small, c, rate, 7, maybe_b),
            &[
                Value::Boolean(flag),
                Value::Integer(small as i64),
                Value::Date(c),
                decimal(rate, 0),
                Value::Integer(7),
                maybe(maybe_b),
            ],
        );
        assert_agree::<Mixed>(
            (rate, x.as_bytes(), y.as_bytes(), wide),
            &[decimal(rate, 0), Value::Text(x), Value::Text(y), Value::Timestamp(wide)],
        );
        assert_agree::<Texts>(
            (maybe_x.map(str::as_bytes), y.as_bytes(), z.as_bytes(), token),
            &[
                maybe_x.map_or(Value::Null, Value::Text),
                Value::Text(y),
                Value::Bytes(z.as_bytes()),
                Value::Uuid(token),
            ],
        );
        assert_agree::<Prices>((wide, rate), &[decimal(wide, 2), decimal(rate, 0)]);
    }
}

#[test]
fn bits_follow_the_declared_ranges() {
    let bits = |parts: &[KeyPart]| packed_bits(parts);
    assert_eq!(bits(OneFixed::PARTS), Some(0));
    assert_eq!(bits(OneWide::PARTS), Some(64));
    assert_eq!(bits(TwoWords::PARTS), Some(64));
    assert_eq!(bits(FlagAndWide::PARTS), Some(64));
    // Seven values and null take three bits, all integers and null one more than 32.
    assert_eq!(bits(Nullables::PARTS), Some(3 + 33));
    assert_eq!(bits(TooWide::PARTS), None);
    assert_eq!(bits(Mixed::PARTS), None);
}

#[test]
fn keys_of_exactly_64_bits_reach_from_zero_to_the_largest() {
    let whole = |key| OneWide::pack(&(), key);
    assert_eq!(
        (whole(i64::MIN), whole(-1), whole(0)),
        (Some(0), Some(u64::MAX / 2), Some(1 << 63))
    );
    assert_eq!(whole(i64::MAX), Some(u64::MAX));
    assert_eq!(OneWide::position(&(), i64::MAX, 1, true), 1 << 64);
    assert_eq!(OneWide::position(&(), 0, 0, true), 1 << 64);
    assert_eq!(OneWide::position(&(), 0, 0, false), 0);
    assert_eq!(TwoWords::pack(&(), (i32::MAX, i32::MAX)), Some(u64::MAX));
    assert_eq!(FlagAndWide::pack(&(), (true, i64::MAX)), Some(u64::MAX));
    assert_eq!(FlagAndWide::pack(&(), (true, -1)), None);
    assert_eq!(FlagAndWide::position(&(), (false, -1), 2, true), 0);
    assert_eq!(FlagAndWide::position(&(), (true, -1), 2, true), 1 << 63);
}

#[test]
#[should_panic(expected = "one value per column")]
fn a_packed_key_with_too_few_values_is_refused() {
    let table = TableDef::of::<Everything>().with::<TwoWords>();
    let shape = IndexShape::of(&table, &table.indexes[0]);
    let _ = Dynamic::pack(&shape, &[Value::Integer(1)]);
}
