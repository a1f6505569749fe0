//! Inputs as bytes: the arguments of a procedure, written to a log and read back.
//!
//! Numbers take seven bits a byte, the lowest first, so that small ones are short. Each number has exactly one
//! encoding: bytes that no [`Encoder`] wrote are refused, or read as another value.
//!
//! Not here: checksums (a group has one), the type that a procedure expects (its version determines it).

use std::fmt;

/// The most bytes a number takes.
const NUMBER_BYTES_MAX: usize = 10;

/// What a procedure is called with, as bytes that mean the same for ever: a procedure whose input
/// changes is registered under a new version.
pub trait Arguments: Sized {
    /// The most bytes [`Arguments::encode`] puts out for this value.
    fn bytes_max(&self) -> usize;

    /// Puts out what [`Arguments::decode`] makes the same value of.
    fn encode(&self, out: &mut Encoder<'_>);

    /// Reads a value back.
    ///
    /// # Errors
    /// When the bytes are none.
    fn decode(from: &mut Decoder<'_>) -> Result<Self, BadArguments>;
}

/// Bytes that are no arguments of the procedure they are given to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadArguments {
    what: &'static str,
}

impl BadArguments {
    /// Because of `what`: "a number is too large".
    pub const fn new(what: &'static str) -> Self {
        Self { what }
    }
}

impl fmt::Display for BadArguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the arguments cannot be read: {}", self.what)
    }
}

impl std::error::Error for BadArguments {}

/// Where arguments are put.
#[derive(Debug)]
pub struct Encoder<'a> {
    room: &'a mut [u8],
    at: usize,
}

impl<'a> Encoder<'a> {
    /// The most bytes [`Encoder::number`] and [`Encoder::signed`] take.
    pub const NUMBER_BYTES_MAX: usize = NUMBER_BYTES_MAX;

    /// Puts bytes into `room`, from its beginning on.
    pub const fn new(room: &'a mut [u8]) -> Self {
        Self { room, at: 0 }
    }

    /// How many bytes were put.
    pub const fn len(&self) -> usize {
        self.at
    }

    /// Whether none was.
    pub const fn is_empty(&self) -> bool {
        self.at == 0
    }

    /// Puts one byte.
    ///
    /// # Panics
    /// When there is no room: [`Arguments::bytes_max`] promised fewer. That holds of all calls.
    #[inline(always)]
    pub fn byte(&mut self, byte: u8) {
        self.room[self.at] = byte;
        self.at += 1;
    }

    /// Puts bytes as they are. How many there are has to follow from what was put before.
    #[inline(always)]
    pub fn bytes(&mut self, bytes: &[u8]) {
        let end = self.at + bytes.len();
        self.room[self.at..end].copy_from_slice(bytes);
        self.at = end;
    }

    /// Puts a number: a byte up to 127, ten at most.
    #[inline(always)]
    pub fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.byte(number as u8 | 0x80);
            number >>= 7;
        }
        self.byte(number as u8);
    }

    /// Puts a number that may be negative: a byte from −64 to 63, ten at most.
    #[inline(always)]
    pub fn signed(&mut self, number: i64) {
        self.number(((number << 1) ^ (number >> 63)) as u64);
    }
}

/// Where arguments are read from.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    /// Reads `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The next byte.
    ///
    /// # Errors
    /// When there is none.
    #[inline(always)]
    pub fn byte(&mut self) -> Result<u8, BadArguments> {
        let (&byte, rest) = self.rest.split_first().ok_or(BadArguments::new("they are cut off"))?;
        self.rest = rest;
        Ok(byte)
    }

    /// The next `length` bytes.
    ///
    /// # Errors
    /// When there are fewer.
    #[inline(always)]
    pub fn bytes(&mut self, length: usize) -> Result<&'a [u8], BadArguments> {
        let split = self.rest.split_at_checked(length);
        let (bytes, rest) = split.ok_or(BadArguments::new("they are cut off"))?;
        self.rest = rest;
        Ok(bytes)
    }

    /// The next number, in a type that may be too small for it.
    ///
    /// # Errors
    /// When there is none, or it does not fit.
    #[inline(always)]
    pub fn number<T: TryFrom<u64>>(&mut self) -> Result<T, BadArguments> {
        const TOO_LARGE: BadArguments = BadArguments::new("a number is too large");
        let mut number = 0;
        for at in 0..NUMBER_BYTES_MAX {
            let byte = self.byte()?;
            // The tenth byte has room for the topmost bit only.
            if at == NUMBER_BYTES_MAX - 1 && byte > 1 {
                return Err(TOO_LARGE);
            }
            number |= u64::from(byte & 0x7f) << (7 * at);
            if byte < 0x80 {
                if byte == 0 && at > 0 {
                    return Err(BadArguments::new("a number is longer than it must be"));
                }
                return T::try_from(number).map_err(|_| TOO_LARGE);
            }
        }
        Err(TOO_LARGE)
    }

    /// The next number that may be negative.
    ///
    /// # Errors
    /// When there is none.
    #[inline(always)]
    pub fn signed(&mut self) -> Result<i64, BadArguments> {
        let number: u64 = self.number()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// How many bytes are left.
    pub const fn left(&self) -> usize {
        self.rest.len()
    }

    /// Says that nothing more is expected.
    ///
    /// # Errors
    /// When there is more.
    #[inline(always)]
    pub fn end(&self) -> Result<(), BadArguments> {
        if self.rest.is_empty() { Ok(()) } else { Err(BadArguments::new("there are too many")) }
    }
}

/// Of procedures that take no input.
impl Arguments for () {
    fn bytes_max(&self) -> usize {
        0
    }
    fn encode(&self, _: &mut Encoder<'_>) {}
    fn decode(_: &mut Decoder<'_>) -> Result<Self, BadArguments> {
        Ok(())
    }
}
