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

    /// All bits flipped where negative, the sign alone where not.
    fn double(value: f64, out: &mut Vec<u8>) -> Fit {
        let bits = canonical(value).to_bits();
        let mask = if bits >> 63 == 1 { u64::MAX } else { 1 << 63 };
        out.extend_from_slice(&(bits ^ mask).to_be_bytes());
        Fit::Within
    }

    fn padded(value: &[u8], width: usize, out: &mut Vec<u8>) -> Fit {
        let end = out.len() + width;
        out.extend_from_slice(&value[..value.len().min(width)]);
        out.resize(end, b' ');
        if value.len() > width { Fit::Above } else { Fit::Within }
    }

    /// Ended so that a prefix sorts first: 0 becomes 0 255, the end is 0 1.
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

/// Where a whole number lies that should fit `width` bytes.
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
