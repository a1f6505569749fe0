//! The normalised form of a key: bytes that compare as the columns do, whatever their types.

use super::{Encoding, Fit};

/// The form that compares as bytes.
#[derive(Clone, Copy, Debug)]
pub struct Normalised;

impl Encoding for Normalised {
    /// Big-endian with the sign flipped: negative numbers sort before positive ones.
    #[inline]
    fn integer(value: i128, width: usize, out: &mut Vec<u8>) -> Fit {
        let outside = outside_width(value, width);
        if outside == Fit::Within {
            let mut bytes = value.to_be_bytes();
            bytes[16 - width] ^= 0x80;
            out.extend_from_slice(&bytes[16 - width..]);
        }
        outside
    }

    fn double(value: f64, out: &mut Vec<u8>) -> Fit {
        out.extend_from_slice(&double_bits(value).to_be_bytes());
        Fit::Within
    }

    fn padded(value: &[u8], width: usize, out: &mut Vec<u8>) -> Fit {
        let end = out.len() + width;
        out.extend_from_slice(&value[..value.len().min(width)]);
        out.resize(end, b' ');
        if value.len() > width { Fit::Above } else { Fit::Within }
    }

    /// Terminated so that a prefix sorts first: a byte 0 becomes 0 255, and the end is 0 1.
    fn bytes(value: &[u8], out: &mut Vec<u8>) -> Fit {
        for (i, piece) in value.split(|&byte| byte == 0).enumerate() {
            if i > 0 {
                out.extend_from_slice(&[0, 255]);
            }
            out.extend_from_slice(piece);
        }
        out.extend_from_slice(&[0, 1]);
        Fit::Within
    }
}

impl Normalised {
    /// The first sixteen bytes of a key, or of the first bytes of one, as a number; `fill` is the
    /// value of the bits that it has not. Such numbers are ordered as the keys are, or equal.
    #[inline]
    pub(crate) fn leading(key: &[u8], fill: bool) -> u128 {
        if let Some(&bytes) = key.first_chunk() {
            return u128::from_be_bytes(bytes);
        }
        let mut leading = Leading::new();
        leading.push_bytes(key);
        leading.filled(fill)
    }
}

/// The first sixteen bytes of a normalised key, value by value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leading {
    number: u128,
    /// Bits that are not known yet.
    left: u32,
}

impl Leading {
    #[inline(always)]
    pub(super) fn new() -> Self {
        Self { number: 0, left: u128::BITS }
    }

    #[inline(always)]
    pub(super) fn is_full(&self) -> bool {
        self.left == 0
    }

    /// Appends the lowest `bits` bits of `value`, or as many of their first ones as there is room
    /// for.
    #[inline(always)]
    pub(super) fn push(&mut self, value: u64, bits: u32) {
        if bits <= self.left {
            self.number = self.number << bits | u128::from(value);
            self.left -= bits;
        } else {
            self.number = self.number << self.left | u128::from(value >> (bits - self.left));
            self.left = 0;
        }
    }

    /// Appends bytes as they are.
    pub(super) fn push_bytes(&mut self, bytes: &[u8]) {
        for &byte in &bytes[..bytes.len().min(size_of::<u128>())] {
            self.push(byte.into(), u8::BITS);
        }
    }

    /// Appends bytes as [`Encoding::bytes`] does.
    pub(super) fn push_ended(&mut self, bytes: &[u8]) {
        for &byte in &bytes[..bytes.len().min(size_of::<u128>())] {
            self.push(byte.into(), u8::BITS);
            if byte == 0 {
                self.push(255, u8::BITS);
            }
        }
        self.push(1, u16::BITS);
    }

    /// The number, with `fill` as the value of the bits that are not known.
    #[inline(always)]
    pub(super) fn filled(self, fill: bool) -> u128 {
        let missing = if fill { u128::MAX.unbounded_shr(u128::BITS - self.left) } else { 0 };
        self.number.unbounded_shl(self.left) | missing
    }
}

/// All bits flipped where negative, the sign alone where not.
pub(super) fn double_bits(value: f64) -> u64 {
    let bits = canonical(value).to_bits();
    let mask = if bits >> 63 == 1 { u64::MAX } else { 1 << 63 };
    bits ^ mask
}

/// Whether a whole number fits `width` bytes, or lies below or above.
#[inline]
pub(super) fn outside_width(value: i128, width: usize) -> Fit {
    let unused = u128::BITS - 8 * width as u32;
    match value << unused >> unused == value {
        true => Fit::Within,
        false if value < 0 => Fit::Below,
        false => Fit::Above,
    }
}

/// One zero, one NaN.
pub(super) fn canonical(value: f64) -> f64 {
    match value {
        0.0 => 0.0,
        value if value.is_nan() => f64::NAN,
        value => value,
    }
}
