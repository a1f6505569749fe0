//! Numbers with units, as users write them: `1_000`, `50k`, `1.5M`, `512 MB`, `500ms`.
//!
//! Exact: a number that is no whole multiple of the smallest unit is refused, never rounded. Not
//! here: limits.

use std::fmt;

/// A unit's name and size, the smallest first.
type Units = &'static [(&'static str, u128)];

/// Of counts.
pub(super) const COUNT_UNITS: Units =
    &[("", 1), ("k", 1_000), ("K", 1_000), ("M", 1_000_000), ("G", 1_000_000_000)];
/// Of numbers with two decimal places.
pub(super) const HUNDREDTHS: Units = &[("", 100)];
/// Of sizes; KB = 1,024 bytes.
pub(super) const BYTE_UNITS: Units =
    &[("B", 1), ("", 1), ("KB", 1 << 10), ("MB", 1 << 20), ("GB", 1 << 30)];
/// Of times, in nanoseconds.
pub(super) const DURATION_UNITS: Units =
    &[("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000), ("m", 60_000_000_000)];

/// The most digits behind a point.
const FRACTION_DIGITS_MAX: usize = 9;

/// Reads a number and its unit as a multiple of 1; `None` when it is no such thing or not whole.
///
/// Units are written exactly as listed: `m` is not `M`.
pub(super) fn parse_scaled(text: &str, units: Units) -> Option<u128> {
    let is_digit = |c: char| c.is_ascii_digit() || c == '_' || c == '.';
    let end = text.find(|c| !is_digit(c)).unwrap_or(text.len());
    let (number, unit) = (&text[..end], text[end..].trim());
    let (_, scale) = *units.iter().find(|(name, _)| *name == unit)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if !whole.starts_with(|c: char| c.is_ascii_digit()) || fraction.contains(['_', '.']) {
        return None;
    }
    let whole: u128 = whole.replace('_', "").parse().ok()?;
    let value = whole.checked_mul(scale)?;
    if fraction.is_empty() {
        // `5.` is a typing error, not five.
        return (!number.ends_with('.')).then_some(value);
    }
    if fraction.len() > FRACTION_DIGITS_MAX {
        return None;
    }
    let parts = fraction.parse::<u128>().ok()?.checked_mul(scale)?;
    let per = 10u128.pow(fraction.len() as u32);
    parts.is_multiple_of(per).then(|| value.checked_add(parts / per))?
}

/// Writes `n` in the largest unit that divides it.
pub(super) fn with_unit(f: &mut fmt::Formatter<'_>, n: u128, units: Units) -> fmt::Result {
    let fitting = units.iter().rev().find(|(_, scale)| n >= *scale && n.is_multiple_of(*scale));
    match fitting.or(units.first()) {
        Some((unit, scale)) if !unit.is_empty() => write!(f, "{} {unit}", n / scale),
        _ => write!(f, "{n}"),
    }
}
