//! `rust_decimal::Decimal` as SQL's `numeric(P, S)`.
//!
//! A value with more digits behind the point than the column has is refused, not rounded: the
//! application decides where money is rounded.

use super::*;

impl<const P: u8, const S: u8> StoredAs<Decimal<P, S>> for ::rust_decimal::Decimal {
    fn stored(self) -> Option<i64> {
        let value = self.normalize();
        let missing = u32::from(S).checked_sub(value.scale())?;
        let units = value.mantissa().checked_mul(10i128.checked_pow(missing)?)?;
        i64::try_from(units).ok()
    }
    /// # Panics
    /// When the value has more digits behind the point than the column: a key or an edge between two values
    /// that a column holds.
    fn is_below(self) -> bool {
        let digits = self.normalize().scale();
        assert!(digits <= S.into(), "{self} has more digits behind the point than {S}: round it");
        self.is_sign_negative()
    }
    fn from_stored(stored: i64) -> Self {
        Self::new(stored, S.into())
    }
}

field_as!(::rust_decimal::Decimal: Decimal<P, S>, [const P: u8, const S: u8]);
