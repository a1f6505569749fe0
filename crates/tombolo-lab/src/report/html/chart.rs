//! The chart: rows with a bar of parts or some points each, all on one scale, next to the row's figures.
//!
//! What is shown is decided here; `chart.html` draws it. Positions are percentages of a plot's width, so that
//! a chart is as wide as its page while its text keeps its size.

use serde::{Deserialize, Serialize};

/// A chart.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Chart {
    /// A caption: one sentence.
    pub(super) caption: String,
    /// The palette of the parts: `c` for components, `k` for calls.
    pub(super) palette: char,
    /// The scale of all bars.
    pub(super) scale: Scale,
    /// The heads of the rows' figures.
    pub(super) heads: Vec<&'static str>,
    /// Its rows.
    pub(super) bars: Vec<Bar>,
    /// The legend of the fills.
    pub(super) legend: Vec<(usize, &'static str)>,
}

/// A row with a stacked bar.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Bar {
    /// The row's head.
    pub(super) name: String,
    /// Its figures.
    pub(super) figures: Vec<String>,
    /// The bar's parts, from the left.
    pub(super) parts: Vec<Part>,
    /// A mark on the same scale.
    pub(super) mark: Option<Mark>,
}

/// A part of a bar.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Part {
    /// Its place in the palette.
    pub(super) at: usize,
    /// How long it is, in the scale's unit.
    pub(super) value: f64,
    /// Its name.
    pub(super) name: String,
    /// Its figure.
    pub(super) figure: String,
}

/// A value that is marked on a bar.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Mark {
    /// Where.
    pub(super) value: f64,
    /// Its name.
    pub(super) name: String,
}

/// Where values stand on a plot's width.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Scale {
    /// The value at the left end; its power of ten on a logarithmic scale.
    low: f64,
    /// The same at the right end.
    high: f64,
    is_logarithmic: bool,
    ticks: Vec<Tick>,
}

/// A value that the axis names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Tick {
    value: f64,
    text: String,
}

/// Room at both ends of a logarithmic scale for the halves of points.
const MARGIN_PERCENT: f64 = 2.0;
/// Values whose quotient is larger than this are shown on a logarithmic scale.
const QUOTIENT_MAX: f64 = 60.0;
/// The most intervals that the ticks of a linear scale make.
const INTERVALS_MAX: f64 = 5.0;

impl Scale {
    /// From 0 to `most`.
    pub(super) fn linear(most: f64) -> Self {
        let high = if most > 0.0 { most } else { 1.0 };
        let power = 10f64.powf((high / INTERVALS_MAX).log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
        let step = steps.into_iter().find(|step| high / step <= INTERVALS_MAX).unwrap_or(high);
        let last = (high / step + 1e-9).floor() as u32;
        let ticks = (0..=last).map(|i| f64::from(i) * step);
        Self { low: 0.0, high, is_logarithmic: false, ticks: ticks.map(Tick::at).collect() }
    }

    /// In powers of ten around those of `values` that are above 0.
    pub(super) fn logarithmic(values: &[f64]) -> Self {
        let usable = || values.iter().copied().filter(|value| *value > 0.0);
        let least = usable().reduce(f64::min).unwrap_or(1.0);
        let most = usable().reduce(f64::max).unwrap_or(1.0);
        let low = least.log10().floor();
        let high = most.log10().ceil().max(low + 1.0);
        let ticks = (low as i32..=high as i32).map(|power| Tick::at(10f64.powi(power))).collect();
        Self { low, high, is_logarithmic: true, ticks }
    }

    /// Linear, or logarithmic where the least of `values` would be invisible next to the most.
    pub(super) fn of(values: &[f64]) -> Self {
        let usable = || values.iter().copied().filter(|value| *value > 0.0);
        let most = usable().fold(0.0, f64::max);
        let least = usable().fold(most, f64::min);
        match most > QUOTIENT_MAX * least {
            true => Self::logarithmic(values),
            false => Self::linear(most),
        }
    }

    /// Where `value` stands, in percent; at the left end where it is below the scale.
    pub(super) fn place(&self, value: f64) -> f64 {
        let part = |value: f64| ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        match self.is_logarithmic {
            true if value <= 0.0 => MARGIN_PERCENT,
            true => MARGIN_PERCENT + (100.0 - 2.0 * MARGIN_PERCENT) * part(value.log10()),
            false => 100.0 * part(value),
        }
    }
}

impl Tick {
    /// `1`, `20k`, `1M`: a round value in few characters.
    fn at(value: f64) -> Self {
        let round = |value: f64| format!("{}", (value * 1e9).round() / 1e9);
        let text = match value {
            v if v >= 1e9 => format!("{}G", round(v / 1e9)),
            v if v >= 1e6 => format!("{}M", round(v / 1e6)),
            v if v >= 1e3 => format!("{}k", round(v / 1e3)),
            v => round(v),
        };
        Self { value, text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(scale: &Scale) -> Vec<&str> {
        scale.ticks.iter().map(|tick| tick.text.as_str()).collect()
    }

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(ticks(&Scale::linear(117_771.0)), ["0", "50k", "100k"]);
        assert_eq!(ticks(&Scale::linear(100.0)), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(ticks(&Scale::linear(0.3)), ["0", "0.1", "0.2", "0.3"]);
        assert_eq!(ticks(&Scale::linear(0.0)).first(), Some(&"0"));
        assert_eq!(
            ticks(&Scale::logarithmic(&[0.2, 0.0, 3_000.0])).join(" "),
            "0.1 1 10 100 1k 10k"
        );
    }

    #[test]
    fn values_stand_within_the_plot() {
        let scale = Scale::linear(200.0);
        assert_eq!([-1.0, 0.0, 50.0, 300.0].map(|v| scale.place(v)), [0.0, 0.0, 25.0, 100.0]);
        let scale = Scale::of(&[1.0, 100.0]);
        assert_eq!([0.0, 1.0, 10.0, 100.0].map(|v| scale.place(v)), [2.0, 2.0, 50.0, 98.0]);
        assert!(!Scale::of(&[10.0, 100.0]).is_logarithmic);
    }
}
