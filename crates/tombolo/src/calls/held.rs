//! The memory that an input owns outside itself, counted for the queue's bound in bytes.
//!
//! Numbers, strings and byte vectors are counted, and vectors, options and pairs of these. Any other type
//! that owns memory counts as nothing unless the program states its size
//! ([`Registered::input_bytes`](super::Registered::input_bytes)). The choice is made at compile time.
//!
//! Not here: the queue's bound itself; answers, which are the callers' responsibility.

use std::any::Any;

/// A value whose memory elsewhere can be counted.
trait Held {
    /// The number of bytes.
    fn held(&self) -> usize;
}

macro_rules! plain {
    ($($type:ty)*) => { $(
        impl Held for $type {
            fn held(&self) -> usize {
                0
            }
        }
    )* };
}
plain!(u8 u16 u32 u64 u128 i8 i16 i32 i64 i128 usize f32 f64 bool);

impl Held for String {
    fn held(&self) -> usize {
        self.capacity()
    }
}

impl Held for Box<str> {
    fn held(&self) -> usize {
        self.len()
    }
}

impl<T: Held> Held for Box<[T]> {
    fn held(&self) -> usize {
        size_of_val::<[T]>(self) + self.iter().map(Held::held).sum::<usize>()
    }
}

impl<T: Held> Held for Vec<T> {
    fn held(&self) -> usize {
        self.capacity() * size_of::<T>() + self.iter().map(Held::held).sum::<usize>()
    }
}

impl<T: Held> Held for Option<T> {
    fn held(&self) -> usize {
        self.as_ref().map_or(0, Held::held)
    }
}

impl<A: Held, B: Held> Held for (A, B) {
    fn held(&self) -> usize {
        self.0.held() + self.1.held()
    }
}

/// The bytes an input of one of these types holds.
macro_rules! first_of {
    ($input:expr; $($type:ty),* $(,)?) => {
        $( if let Some(input) = $input.downcast_ref::<$type>() {
            return input.held();
        } )*
    };
}

/// The bytes an input of a string type holds, alone or with a number.
macro_rules! first_with {
    ($input:expr; $($text:ty),*) => {
        first_of!($input; $(
            $text, Option<$text>, Vec<$text>, (i32, $text), (i64, $text), (u32, $text), (u64, $text),
            (usize, $text), ($text, i32), ($text, i64), ($text, u64), (u128, $text),
            (i32, Option<$text>), (i64, Option<$text>), (u64, Option<$text>), ($text, $text),
            Vec<(i32, $text)>, Vec<(i64, $text)>, Vec<(u64, $text)>, Vec<($text, $text)>,
        )*);
    };
}

/// The bytes that an input owns outside itself, as far as its type shows.
pub(super) fn held_bytes<I: 'static>(input: &I) -> usize {
    let input: &dyn Any = input;
    first_with!(input; String, Vec<u8>, Box<str>, Box<[u8]>);
    first_of!(
        input;
        (String, Vec<u8>), (Vec<u8>, String), Vec<i16>, Vec<u16>, Vec<i32>, Vec<u32>, Vec<i64>,
        Vec<u64>, Vec<u128>, Vec<usize>, Vec<f32>, Vec<f64>, Vec<bool>, Vec<(i32, i32)>,
        Vec<(i32, i64)>, Vec<(i64, i32)>, Vec<(i64, i64)>, Vec<(u64, u64)>,
    );
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_counted_where_the_type_tells() {
        let text = "n".repeat(100);
        assert_eq!(held_bytes(&7u64), 0);
        assert_eq!(held_bytes(&text), 100);
        assert_eq!(held_bytes(&vec![0u8; 1_000]), 1_000);
        assert_eq!(held_bytes(&vec![0i64; 1_000]), 8_000);
        assert_eq!(held_bytes(&(7i64, text.clone())), 100);
        assert_eq!(held_bytes(&Some(text.clone())), 100);
        assert_eq!(held_bytes(&None::<String>), 0);
        assert_eq!(held_bytes(&vec![text.clone(); 10]), 10 * (100 + size_of::<String>()));
        assert_eq!(held_bytes(&text.clone().into_boxed_str()), 100);
        struct Other(#[expect(dead_code, reason = "it only is held")] String);
        assert_eq!(held_bytes(&Other(text)), 0);
    }
}
