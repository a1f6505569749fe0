//! What the machine does, measured apart from any engine (ISL-1, ISL-8, ISL-9, ISL-11).
//!
//! Not here: the machine's name and memory (`host.rs`), which cores share what (the engine's `islands/`).

pub mod counters;
pub mod links;
pub mod topology;

/// The mean, and the standard deviation in percent of it.
fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    (mean, 100.0 * (squares / values.len() as f64).sqrt() / mean)
}
