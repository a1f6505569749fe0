//! Strings of TPC-C: held inline, and generated in bulk (4.3.2).
//!
//! # What it is
//! [`Text`] is a string of at most `N` bytes inside its row: no pointer, no allocation, `Copy`.
//! The free functions generate the specification's strings: alphanumeric (*a-string*), numeric
//! (*n-string*), zip codes, last names, and data with "ORIGINAL" inside.
//!
//! # Uniformity
//! A character takes 16 random bits, four characters a draw, scaled to the alphabet by a
//! multiplication: every character's probability lies within 0.1 % of 1/62 (or 1/10). The loop has
//! no branch and becomes vector instructions, about a third of a nanosecond a character; a
//! warehouse has some fifty million.
//!
//! # Invariants
//! The bytes of a [`Text`] are ASCII; those beyond its length are 0, so equal strings are equal
//! values.

use std::fmt;

use tombolo_engine::rng::Rng;

/// A string of at most `N` bytes, held inline.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Text<const N: usize> {
    len: u16,
    bytes: [u8; N],
}

impl<const N: usize> Text<N> {
    /// The empty string.
    pub const EMPTY: Self = Self { len: 0, bytes: [0; N] };

    /// The string `value`.
    ///
    /// # Panics
    /// If `value` is longer than `N` bytes or not ASCII.
    #[must_use]
    pub fn new(value: &str) -> Self {
        let mut text = Self::EMPTY;
        text.push_str(value);
        text
    }

    /// The string that a row holds as `bytes`.
    ///
    /// # Panics
    /// If there are more than `N` bytes. That they are ASCII is for the row to guarantee.
    #[inline(always)]
    #[must_use]
    pub fn from_row(bytes: &[u8]) -> Self {
        debug_assert!(bytes.is_ascii(), "not ASCII: {bytes:?}");
        let mut text = Self::EMPTY;
        text.push_short(bytes);
        text
    }

    /// Appends bytes that a row holds, few of them.
    ///
    /// # Panics
    /// If the string would become longer than `N` bytes. That they are ASCII is for the row to guarantee.
    #[inline(always)]
    pub(super) fn push_short(&mut self, bytes: &[u8]) {
        const { assert!(N <= u16::MAX as usize) };
        let (start, end) = (self.len(), self.len() + bytes.len());
        copy_short(&mut self.bytes[start..end], bytes);
        self.len = end as u16;
    }

    /// Appends `value`.
    ///
    /// # Panics
    /// If the string would become longer than `N` bytes, or `value` is not ASCII.
    pub fn push_str(&mut self, value: &str) {
        assert!(value.is_ascii(), "not ASCII: {value:?}");
        let (start, end) = (self.len(), self.len() + value.len());
        assert!(end <= N, "a text of {N} bytes has no room for {value:?}");
        self.bytes[start..end].copy_from_slice(value.as_bytes());
        self.len = end as u16;
    }

    /// The bytes of the string.
    #[inline]
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len()]
    }

    /// The string.
    ///
    /// # Panics
    /// If a row held other bytes than ASCII.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).expect("a text holds ASCII only")
    }

    /// The number of bytes.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// Whether the string has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A string of `len` bytes that `fill` writes.
    #[inline(always)]
    pub(super) fn filled(len: usize, fill: impl FnOnce(&mut [u8])) -> Self {
        const { assert!(N <= u16::MAX as usize) };
        let mut text = Self::EMPTY;
        fill(&mut text.bytes[..len]);
        text.len = len as u16;
        text
    }
}

impl<const N: usize> fmt::Debug for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// Copies `from` to `to`, which is as long: for the short strings of rows a call of memcpy costs
/// more than two overlapping copies of a fixed length.
#[inline(always)]
pub(super) fn copy_short(to: &mut [u8], from: &[u8]) {
    let len = from.len();
    match len {
        8..=16 => {
            to[..8].copy_from_slice(&from[..8]);
            to[len - 8..].copy_from_slice(&from[len - 8..]);
        }
        4..8 => {
            to[..4].copy_from_slice(&from[..4]);
            to[len - 4..].copy_from_slice(&from[len - 4..]);
        }
        _ => to.copy_from_slice(from),
    }
}

/// The `v`-th character of `0…9A…Za…z`, without a branch.
#[inline]
fn alphanumeric(v: u8) -> u8 {
    b'0' + v + u8::from(v > 9) * (b'A' - b'9' - 1) + u8::from(v > 35) * (b'a' - b'Z' - 1)
}

/// Fills `out` with random characters: `symbol(v)` for `v` in `0..symbols`.
#[inline]
fn fill(rng: &mut Rng, out: &mut [u8], symbols: u16, symbol: impl Fn(u8) -> u8) {
    let mut draw = || {
        let mut lanes = [0_u16; 8];
        for half in lanes.chunks_exact_mut(4) {
            let bits = rng.next_u64();
            for (position, lane) in half.iter_mut().enumerate() {
                *lane = (bits >> (16 * position)) as u16;
            }
        }
        lanes.map(|lane| symbol(((u32::from(lane) * u32::from(symbols)) >> 16) as u8))
    };
    let mut chunks = out.chunks_exact_mut(8);
    for chunk in &mut chunks {
        chunk.copy_from_slice(&draw());
    }
    let rest = chunks.into_remainder();
    if !rest.is_empty() {
        rest.copy_from_slice(&draw()[..rest.len()]);
    }
}

/// A random alphanumeric string of `min` to `N` characters, every length equally likely.
#[inline]
pub fn a_string<const N: usize>(rng: &mut Rng, min: usize) -> Text<N> {
    let len = if min == N { N } else { rng.between(min as i64, N as i64) as usize };
    Text::filled(len, |out| fill(rng, out, 62, alphanumeric))
}

/// A random string of `N` digits.
#[inline]
pub fn n_string<const N: usize>(rng: &mut Rng) -> Text<N> {
    Text::filled(N, |out| fill(rng, out, 10, |v| b'0' + v))
}

/// A zip code: four random digits and "11111" (4.3.2.7).
pub fn zip(rng: &mut Rng) -> Text<9> {
    let mut zip = Text::new(n_string::<4>(rng).as_str());
    zip.push_str("11111");
    zip
}

/// What I_DATA or S_DATA holds where the item is an original.
const ORIGINAL: &[u8; 8] = b"ORIGINAL";

/// By byte: how far [`is_original`] may move on when its window ends in that byte.
const STEPS: [u8; 256] = {
    let mut steps = [ORIGINAL.len() as u8; 256];
    let mut place = 0;
    while place < ORIGINAL.len() - 1 {
        steps[ORIGINAL[place] as usize] = (ORIGINAL.len() - 1 - place) as u8;
        place += 1;
    }
    steps
};

/// Whether I_DATA or S_DATA holds "ORIGINAL". Its first two letters are looked for at all places together;
/// next to no other text has them.
#[inline(always)]
#[must_use]
pub fn is_original(data: &[u8]) -> bool {
    let may_be = match data.len() {
        // What two overlapping looks cover: all I_DATA and S_DATA, of 26 to 50 bytes.
        33..=65 => has_first_letters::<32>(data),
        17..=32 => has_first_letters::<16>(data),
        _ => true,
    };
    may_be && holds_original(data)
}

/// Whether the first two letters of "ORIGINAL" follow each other among the first or the last `N` + 1
/// bytes: vector instructions without a loop.
#[inline(always)]
fn has_first_letters<const N: usize>(data: &[u8]) -> bool {
    let look = |start: usize| <&[u8; N]>::try_from(&data[start..start + N]);
    let end = data.len() - N;
    let (Ok(a), Ok(b), Ok(c), Ok(d)) = (look(0), look(1), look(end - 1), look(end)) else {
        return true;
    };
    let mut found = [0; N];
    for i in 0..N {
        let first = u8::from(a[i] == ORIGINAL[0]) & u8::from(b[i] == ORIGINAL[1]);
        found[i] = first | u8::from(c[i] == ORIGINAL[0]) & u8::from(d[i] == ORIGINAL[1]);
    }
    found != [0; N]
}

/// Horspool's search: about one byte in seven is read.
#[inline(never)]
fn holds_original(data: &[u8]) -> bool {
    let mut end = ORIGINAL.len();
    while let Some(window) = data.get(end.wrapping_sub(ORIGINAL.len())..end) {
        if window == ORIGINAL {
            return true;
        }
        end += usize::from(STEPS[usize::from(window[ORIGINAL.len() - 1])]);
    }
    false
}

/// I_DATA or S_DATA: 26 to 50 characters, with "ORIGINAL" at a random place if `original`.
pub fn data(rng: &mut Rng, original: bool) -> Text<50> {
    let mut text = a_string::<50>(rng, 26);
    if original {
        let start = rng.below((text.len() - ORIGINAL.len() + 1) as u64) as usize;
        text.bytes[start..start + ORIGINAL.len()].copy_from_slice(ORIGINAL);
    }
    text
}

/// The syllables of a last name, by decimal digit (4.3.2.3).
const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

/// The last name of a number from 0 to 999: a syllable for each of its three digits.
///
/// # Panics
/// If `number` is not in that range.
#[must_use]
pub fn last_name(number: i64) -> Text<16> {
    assert!((0..=999).contains(&number), "no last name has the number {number}");
    let mut name = Text::EMPTY;
    for digit in [number / 100, number / 10 % 10, number % 10] {
        name.push_str(SYLLABLES[digit as usize]);
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_names_are_syllables_of_the_digits() {
        assert_eq!(last_name(0).as_str(), "BARBARBAR");
        assert_eq!(last_name(371).as_str(), "PRICALLYOUGHT");
        assert_eq!(last_name(999).as_str(), "EINGEINGEING");
        let names: std::collections::BTreeSet<_> =
            (0..1_000).map(|number| last_name(number).as_str().to_owned()).collect();
        assert_eq!(names.len(), 1_000);
        assert_eq!(names.iter().map(String::len).max(), Some(15));
    }

    #[test]
    fn alphabet_is_the_62_letters_and_digits() {
        let alphabet: Vec<u8> = (0..62).map(alphanumeric).collect();
        assert!(alphabet.iter().all(u8::is_ascii_alphanumeric));
        assert!(alphabet.is_sorted() && alphabet.windows(2).all(|pair| pair[0] != pair[1]));
    }

    /// Counts `draws` characters of `fill` and checks each symbol against the uniform share.
    fn check_uniform(symbols: u16, text: impl Fn(&mut Rng) -> Text<24>) {
        let mut rng = Rng::from_seed(1);
        let mut counts = [0_u32; 128];
        // Every place of the string on its own would hide a dead lane in the sum: fold by lane.
        let mut lanes = [[0_u32; 128]; 8];
        for _ in 0..100_000 {
            for (place, &byte) in text(&mut rng).as_bytes().iter().enumerate() {
                counts[usize::from(byte)] += 1;
                lanes[place % 8][usize::from(byte)] += 1;
            }
        }
        let near = |count: u32, total: f64| {
            let expected = total / f64::from(symbols);
            (f64::from(count) - expected).abs() < 5.0 * expected.sqrt() + 0.001 * expected
        };
        assert_eq!(counts.iter().filter(|&&count| count > 0).count(), usize::from(symbols));
        assert!(counts.iter().filter(|&&count| count > 0).all(|&count| near(count, 2_400_000.0)));
        for lane in lanes {
            assert!(lane.iter().filter(|&&count| count > 0).all(|&count| near(count, 300_000.0)));
        }
    }

    #[test]
    fn characters_are_uniform() {
        check_uniform(62, |rng| a_string::<24>(rng, 24));
        check_uniform(10, n_string::<24>);
    }

    #[test]
    fn lengths_are_uniform_and_padding_is_zero() {
        let mut rng = Rng::from_seed(1);
        let mut lengths = [0_u32; 21];
        for _ in 0..22_000 {
            let text = a_string::<20>(&mut rng, 10);
            lengths[text.len()] += 1;
            assert_eq!(text, Text::new(text.as_str()));
        }
        assert_eq!(lengths[..10], [0; 10]);
        assert!(lengths[10..].iter().all(|count| (1_800..2_200).contains(count)), "{lengths:?}");
    }

    #[test]
    fn zip_codes_end_in_five_ones() {
        let mut rng = Rng::from_seed(1);
        let zip = zip(&mut rng);
        assert_eq!(zip.len(), 9);
        assert_eq!(&zip.as_str()[4..], "11111");
        assert!(zip.as_bytes().iter().all(u8::is_ascii_digit));
    }

    #[test]
    fn original_stands_anywhere_but_only_when_asked() {
        let mut rng = Rng::from_seed(1);
        let mut places = std::collections::BTreeSet::new();
        for _ in 0..20_000 {
            let with = data(&mut rng, true);
            places.insert(with.as_str().find("ORIGINAL").expect("it was asked for"));
            assert!((26..=50).contains(&with.len()));
            assert!(is_original(with.as_bytes()));
            let without = data(&mut rng, false);
            assert!(!without.as_str().contains("ORIGINAL") && !is_original(without.as_bytes()));
        }
        assert_eq!(places, (0..=42).collect());
    }

    #[test]
    fn short_copies_copy_every_byte() {
        let from: Vec<u8> = (b'A'..b'a').collect();
        for len in 0..from.len() {
            let mut to = vec![0; len];
            copy_short(&mut to, &from[..len]);
            assert_eq!(to, from[..len]);
        }
    }

    #[test]
    fn original_is_found_wherever_it_stands() {
        // Letters of the word itself lead the search astray most.
        let mut rng = Rng::from_seed(1);
        let mut found = 0;
        for _ in 0..200_000 {
            let length = rng.below(80) as usize;
            let mut bytes: Vec<u8> = (0..length).map(|_| ORIGINAL[rng.below(8) as usize]).collect();
            let place = rng.below(90) as usize;
            if let Some(window) = bytes.get_mut(place..place + ORIGINAL.len()) {
                window.copy_from_slice(ORIGINAL);
            }
            let expected = bytes.windows(ORIGINAL.len()).any(|window| window == ORIGINAL);
            assert_eq!(is_original(&bytes), expected, "{bytes:?}");
            found += u32::from(expected);
        }
        assert!(found > 10_000);
    }
}
