//! Transaction inputs: which rows, all different, drawn by popularity.

use tombolo_engine::command_log::{Arguments, BadArguments, Decoder, Encoder};
use tombolo_engine::rng::Rng;

use super::{READ, ROWS_MAX, Scale, UPDATE, rng};
use crate::workload::zipf::Zipf;
use crate::workload::{Kind, WorkloadInput};

/// The input of one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Input {
    is_update: bool,
    count: u8,
    keys: [i32; ROWS_MAX],
}

impl Input {
    /// A transaction that reads these rows, or updates them: at most [`ROWS_MAX`], all different.
    pub fn new(is_update: bool, keys: &[i32]) -> Self {
        let mut input = Self { is_update, count: keys.len() as u8, keys: [0; ROWS_MAX] };
        input.keys[..keys.len()].copy_from_slice(keys);
        input
    }

    /// The rows' keys, in the order in which they are reached.
    pub fn keys(&self) -> &[i32] {
        &self.keys[..usize::from(self.count)]
    }
}

/// For processes that are sent it.
impl Arguments for Input {
    fn bytes_max(&self) -> usize {
        2 + self.keys().len() * Encoder::NUMBER_BYTES_MAX
    }

    fn encode(&self, out: &mut Encoder<'_>) {
        out.byte(self.is_update.into());
        out.byte(self.count);
        self.keys().iter().for_each(|key| out.signed((*key).into()));
    }

    fn decode(from: &mut Decoder<'_>) -> Result<Self, BadArguments> {
        let (is_update, count) = (bool::decode(from)?, from.byte()?);
        let mut keys = [0; ROWS_MAX];
        let room = keys.get_mut(..usize::from(count));
        for key in room.ok_or(BadArguments::new("more keys than a transaction has"))? {
            *key = i32::decode(from)?;
        }
        Ok(Self { is_update, count, keys })
    }
}

impl WorkloadInput for Input {
    #[inline]
    fn kind(&self) -> Kind {
        if self.is_update { UPDATE } else { READ }
    }

    fn aborts(&self) -> bool {
        false
    }
}

/// How popular rows are, by their places: each rank has one place, and popular ones are scattered over all.
#[derive(Clone, Debug)]
pub struct Popularity {
    ranks: Zipf,
    rows: u64,
    /// How far the places of two ranks that follow each other lie apart: no factor of the number of rows.
    stride: u64,
}

impl Popularity {
    /// Of so many rows, by Zipf's law with `skew` hundredths as its exponent.
    pub fn new(rows: u64, skew: u32) -> Self {
        let ranks = Zipf::new(rows, f64::from(skew) / 100.0);
        Self { ranks, rows, stride: stride(rows) }
    }

    /// The place of a row, from 0.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        self.ranks.draw(rng) * self.stride % self.rows
    }
}

/// An endless stream of inputs.
#[derive(Clone, Debug)]
pub struct Generator {
    rng: Rng,
    scale: Scale,
    popularity: Popularity,
}

/// About the golden section of `rows`, and without a common factor with it.
fn stride(rows: u64) -> u64 {
    let has_no_factor = |stride: &u64| {
        let (mut a, mut b) = (rows, *stride);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a == 1
    };
    (rows * 618 / 1_000 + 1..).find(has_no_factor).expect("primes have none")
}

impl Generator {
    /// The inputs of a database.
    pub fn new(scale: Scale) -> Self {
        let popularity = Popularity::new(scale.rows.into(), scale.skew);
        Self { rng: rng(scale.seed, 1, 0), scale, popularity }
    }
}

impl Iterator for Generator {
    type Item = Input;

    fn next(&mut self) -> Option<Input> {
        let mut input = Input { is_update: self.scale.update > 0, count: 0, keys: [0; ROWS_MAX] };
        while input.keys().len() < self.scale.touched() {
            let key = 1 + self.popularity.draw(&mut self.rng) as i32;
            if !input.keys().contains(&key) {
                input.keys[usize::from(input.count)] = key;
                input.count += 1;
            }
        }
        Some(input)
    }
}
