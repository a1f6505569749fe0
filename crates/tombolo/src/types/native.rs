//! The standard library's types that are stored as one of SQL: small and unsigned integers, `f32`, times.

use std::time::{Duration, SystemTime};

use super::*;

/// Integers that a wider integer holds: `integers!(u8 as i16: SmallInt)`.
macro_rules! integers {
    ($($field:ty as $stored:ty: $column:ty;)+) => {$(
        impl StoredAs<$column> for $field {
            const RANGE: Option<(i64, i64)> = {
                let is_narrower = (<$field>::MAX as u128) < i64::MAX as u128;
                let most = if is_narrower { <$field>::MAX as i64 } else { i64::MAX - 1 };
                Some((<$field>::MIN as i64, most))
            };
            #[inline(always)]
            fn stored(self) -> Option<$stored> {
                <$stored>::try_from(self).ok().filter(|&stored| stored < <$stored>::MAX)
            }
            #[inline(always)]
            fn from_stored(stored: $stored) -> Self {
                let Ok(value) = stored.try_into() else {
                    panic!("{stored} is no {}", stringify!($field))
                };
                value
            }
        }

        impl DefaultColumn for $field {
            type Sql = $column;
        }

        field_as!($field: $column);
    )+};
}

integers! {
    i8 as i16: SmallInt;
    u8 as i16: SmallInt;
    u16 as i32: Integer;
    u32 as i64: BigInt;
    u64 as i64: BigInt;
}

impl StoredAs<Double> for f32 {
    #[inline(always)]
    fn stored(self) -> Option<f64> {
        Some(self.into())
    }
    #[inline(always)]
    fn from_stored(stored: f64) -> Self {
        stored as f32
    }
}

impl DefaultColumn for f32 {
    type Sql = Double;
}

field_as!(f32: Double);

/// From 1970-01-01 to 2000-01-01, in microseconds.
pub(super) const UNIX_TO_SQL_US: i64 = 10_957 * 86_400 * 1_000_000;

/// What is finer than a microsecond is cut off.
impl StoredAs<Timestamp> for SystemTime {
    fn stored(self) -> Option<i64> {
        let since_1970 = match self.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_micros()).ok()?,
            // Before: rounded down, as after.
            Err(before) => -i64::try_from(before.duration().as_nanos().div_ceil(1_000)).ok()?,
        };
        since_1970.checked_sub(UNIX_TO_SQL_US)
    }
    fn from_stored(stored: i64) -> Self {
        let since_1970 = i128::from(stored) + i128::from(UNIX_TO_SQL_US);
        let distance = Duration::from_micros(since_1970.unsigned_abs() as u64);
        match since_1970 < 0 {
            true => Self::UNIX_EPOCH - distance,
            false => Self::UNIX_EPOCH + distance,
        }
    }
}

impl DefaultColumn for SystemTime {
    type Sql = Timestamp;
}

field_as!(SystemTime: Timestamp);
