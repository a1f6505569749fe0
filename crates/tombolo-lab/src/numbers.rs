//! Rounding numbers for results, and formatting them for people.

/// Rounds to `digits` behind the point: results need no sixteen.
pub fn rounded(value: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (value * scale).round() / scale
}

/// The mean, and the standard deviation in percent of it; zeros where there is nothing.
pub fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    (mean, if mean == 0.0 { 0.0 } else { 100.0 * variance.sqrt() / mean })
}

/// A whole number with separators: `1,234,567`.
pub fn separated(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A quantity with separators and no more digits than mean something: `712,000`, `8,940`, `12.4`.
pub fn quantity(value: f64) -> String {
    match value.abs() {
        v if v >= 100_000.0 => separated((v / 1_000.0).round() as u64 * 1_000),
        v if v >= 1_000.0 => separated((v / 10.0).round() as u64 * 10),
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// A number of bytes: `412 MB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [(&str, u32); 4] = [("TB", 40), ("GB", 30), ("MB", 20), ("KB", 10)];
    for (unit, shift) in UNITS {
        let value = bytes as f64 / (1u64 << shift) as f64;
        if value >= 1_000.0 {
            return format!("{} {unit}", separated(value.round() as u64));
        }
        if value >= 100.0 {
            return format!("{value:.0} {unit}");
        }
        if value >= 1.0 {
            return format!("{value:.1} {unit}");
        }
    }
    format!("{bytes} bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(separated(0), "0");
        assert_eq!(separated(1_234_567), "1,234,567");
        assert_eq!(quantity(712_345.0), "712,000");
        assert_eq!(quantity(8_943.0), "8,940");
        assert_eq!((quantity(12.34), quantity(0.5)), ("12.3".to_owned(), "0.50".to_owned()));
        assert_eq!(size(1023), "1023 bytes");
        assert_eq!((size(1536), size(412 << 20)), ("1.5 KB".to_owned(), "412 MB".to_owned()));
        assert_eq!(size(6_700 << 30), "6.5 TB");
    }
}
