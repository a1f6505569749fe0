//! Numbers, texts, bytes, lists and tuples as bytes, so that most inputs need no encoding of their own.
//!
//! A length precedes the items that it counts; an optional value follows a byte that says whether it exists. Not here:
//! how a number is written (`arguments.rs`).

use super::arguments::{Arguments, BadArguments, Decoder, Encoder};

/// The most bytes of a length.
const LENGTH_BYTES_MAX: usize = Encoder::NUMBER_BYTES_MAX;

macro_rules! numbers {
    ($($number:ty)*) => {$(
        impl Arguments for $number {
            fn bytes_max(&self) -> usize {
                Encoder::NUMBER_BYTES_MAX
            }
            #[inline]
            fn encode(&self, out: &mut Encoder<'_>) {
                out.number(u64::from(*self));
            }
            #[inline]
            fn decode(from: &mut Decoder<'_>) -> Result<Self, BadArguments> {
                from.number()
            }
        }
    )*};
}

macro_rules! signed_numbers {
    ($($number:ty)*) => {$(
        impl Arguments for $number {
            fn bytes_max(&self) -> usize {
                Encoder::NUMBER_BYTES_MAX
            }
            #[inline]
            fn encode(&self, out: &mut Encoder<'_>) {
                out.signed(i64::from(*self));
            }
            #[inline]
            fn decode(from: &mut Decoder<'_>) -> Result<Self, BadArguments> {
                Self::try_from(from.signed()?).map_err(|_| BadArguments::new("a number is too large"))
            }
        }
    )*};
}

numbers!(u8 u16 u32 u64);
signed_numbers!(i8 i16 i32 i64);

impl Arguments for bool {
    fn bytes_max(&self) -> usize {
        1
    }
    fn encode(&self, out: &mut Encoder<'_>) {
        out.byte((*self).into());
    }
    fn decode(from: &mut Decoder<'_>) -> Result<Self, BadArguments> {
        match from.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(BadArguments::new("a byte that is neither 0 nor 1")),
        }
    }
}

impl Arguments for String {
    fn bytes_max(&self) -> usize {
        LENGTH_BYTES_MAX + self.len()
    }
    fn encode(&self, out: &mut Encoder<'_>) {
        out.number(self.len() as u64);
        out.bytes(self.as_bytes());
    }
    fn decode(from: &mut Decoder<'_>) -> Result<Self, BadArguments> {
        let length = from.number()?;
        let text = std::str::from_utf8(from.bytes(length)?);
        text.map(str::to_owned).map_err(|_| BadArguments::new("a text is not UTF-8"))
    }
}

impl<T: Arguments> Arguments for Vec<T> {
    fn bytes_max(&self) -> usize {
        LENGTH_BYTES_MAX + self.iter().map(T::bytes_max).sum::<usize>()
    }
    fn encode(&self, out: &mut Encoder<'_>) {
        out.number(self.len() as u64);
        self.iter().for_each(|one| one.encode(out));
    }
    fn decode(from: &mut Decoder<'_>) -> Result<Self, BadArguments> {
        let length: u64 = from.number()?;
        let mut all = Self::new(); // no room is made for a length that may be wrong
        for _ in 0..length {
            let before = from.left();
            all.push(T::decode(from)?);
            if from.left() == before && length > 1 {
                return Err(BadArguments::new("a list of values that have no bytes"));
            }
        }
        Ok(all)
    }
}

impl<T: Arguments> Arguments for Option<T> {
    fn bytes_max(&self) -> usize {
        1 + self.as_ref().map_or(0, T::bytes_max)
    }
    fn encode(&self, out: &mut Encoder<'_>) {
        out.byte(self.is_some().into());
        self.iter().for_each(|one| one.encode(out));
    }
    fn decode(from: &mut Decoder<'_>) -> Result<Self, BadArguments> {
        bool::decode(from)?.then(|| T::decode(from)).transpose()
    }
}

macro_rules! tuples {
    ($(($($name:ident $at:tt),*))*) => {$(
        impl<$($name: Arguments),*> Arguments for ($($name,)*) {
            fn bytes_max(&self) -> usize {
                0 $(+ self.$at.bytes_max())*
            }
            #[inline]
            fn encode(&self, out: &mut Encoder<'_>) {
                $(self.$at.encode(out);)*
            }
            #[inline]
            fn decode(from: &mut Decoder<'_>) -> Result<Self, BadArguments> {
                Ok(($($name::decode(from)?,)*))
            }
        }
    )*};
}

tuples! {
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use super::*;

    fn stays<T: Arguments + PartialEq + Debug>(value: &T) {
        let mut room = vec![0; value.bytes_max()];
        let mut out = Encoder::new(&mut room);
        value.encode(&mut out);
        let bytes = out.len();
        let mut from = Decoder::new(&room[..bytes]);
        assert_eq!(T::decode(&mut from).as_ref(), Ok(value));
        assert_eq!(from.end(), Ok(()));
        for cut in 0..bytes {
            let mut from = Decoder::new(&room[..cut]);
            assert!(T::decode(&mut from).is_err(), "{value:?}, {cut} of {bytes} bytes");
        }
    }

    #[test]
    fn values_stay_and_what_is_cut_off_is_refused() {
        stays(&(0u8, u16::MAX, u32::MAX, u64::MAX));
        stays(&(i8::MIN, i16::MIN, -1i32, i64::MIN));
        stays(&(String::from("Lübeck"), vec![1u8, 0, 255], Some(7i64)));
        stays(&(true, None::<u32>, vec![(1u64, String::new())], 300u16, 5i8, [(); 0].to_vec()));
        assert!(u8::decode(&mut Decoder::new(&[0x80, 2])).is_err());
        assert!(bool::decode(&mut Decoder::new(&[2])).is_err());
        assert!(String::decode(&mut Decoder::new(&[1, 0xff])).is_err());
        // A length without values costs neither memory nor time.
        let endless = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert!(Vec::<()>::decode(&mut Decoder::new(&endless)).is_err());
        assert!(Vec::<u8>::decode(&mut Decoder::new(&endless)).is_err());
    }
}
