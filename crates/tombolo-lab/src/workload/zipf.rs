//! Random ranks by Zipf's law: rank k is drawn with a frequency proportional to k to the power of minus the exponent.
//!
//! Drawn by rejection from the integral of that power (Hörmann and Derflinger, *Rejection-inversion to generate
//! variates from monotone discrete distributions*, 1996): exact for any exponent from 0 (all ranks alike), in constant
//! time and memory, so a further rank costs nothing.

use tombolo_engine::rng::Rng;

/// The distribution over some ranks.
#[derive(Clone, Debug)]
pub struct Zipf {
    ranks: u64,
    exponent: f64,
    /// The integral at the left edge of rank 1, whose weight is all to the right of that, and behind the last rank.
    edges: (f64, f64),
    /// Whatever lies so near below its rank is never rejected.
    near: f64,
}

impl Zipf {
    /// Over `ranks` ranks.
    ///
    /// # Panics
    /// When there are none, or the exponent is negative.
    pub fn new(ranks: u64, exponent: f64) -> Self {
        assert!(ranks > 0 && exponent >= 0.0, "{ranks} ranks with the exponent {exponent}");
        let mut zipf = Self { ranks, exponent, edges: (0.0, 0.0), near: 0.0 };
        let second = zipf.integral(2.5) - zipf.weight(2.0);
        zipf.near = 2.0 - zipf.inverse(second);
        zipf.edges = (zipf.integral(1.5) - 1.0, zipf.integral(ranks as f64 + 0.5));
        zipf
    }

    /// One rank more, the least popular.
    pub fn grow(&mut self) {
        self.ranks += 1;
        self.edges.1 = self.integral(self.ranks as f64 + 0.5);
    }

    /// A rank, from 1.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        let (first, last) = self.edges;
        loop {
            let part = (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
            let area = last + part * (first - last);
            let at = self.inverse(area);
            let rank = (at.round() as u64).clamp(1, self.ranks);
            let k = rank as f64;
            if k - at <= self.near || area >= self.integral(k + 0.5) - self.weight(k) {
                return rank;
            }
        }
    }

    fn weight(&self, x: f64) -> f64 {
        x.powf(-self.exponent)
    }

    /// The integral of the weight from 1 to `x`; its limit where the exponent is 1.
    fn integral(&self, x: f64) -> f64 {
        let (log, power) = (x.ln(), 1.0 - self.exponent);
        if power == 0.0 { log } else { (power * log).exp_m1() / power }
    }

    fn inverse(&self, area: f64) -> f64 {
        let power = 1.0 - self.exponent;
        if power == 0.0 { area.exp() } else { ((area * power).max(-1.0).ln_1p() / power).exp() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_as_popular_as_the_law_says() {
        const DRAWN: usize = 200_000;
        const RANKS: usize = 1_000;
        for exponent in [0.0, 0.25, 0.5, 0.99, 1.0, 1.5] {
            let (mut zipf, mut rng) = (Zipf::new(1, exponent), Rng::from_seed(7));
            (1..RANKS).for_each(|_| zipf.grow());
            let mut drawn = [0_usize; RANKS];
            (0..DRAWN).for_each(|_| drawn[zipf.draw(&mut rng) as usize - 1] += 1);
            let weight = |rank: usize| (rank as f64).powf(-exponent);
            let all: f64 = (1..=RANKS).map(weight).sum();
            // Each group of ranks within five standard deviations.
            for group in [0..1, 1..2, 2..10, 10..100, 100..500, 500..RANKS] {
                let share = group.clone().map(|rank| weight(rank + 1)).sum::<f64>() / all;
                let (expected, found) =
                    (share * DRAWN as f64, drawn[group.clone()].iter().sum::<usize>());
                let deviation = (expected * (1.0 - share)).sqrt();
                let off = (found as f64 - expected).abs();
                assert!(off < 5.0 * deviation, "{exponent}, {group:?}: {found} of {expected}");
            }
        }
    }
}
