//! `uuid::Uuid` as SQL's `uuid`.

use super::*;

impl StoredAs<Uuid> for ::uuid::Uuid {
    #[inline(always)]
    fn stored(self) -> Option<[u8; 16]> {
        Some(self.into_bytes())
    }
    #[inline(always)]
    fn from_stored(stored: [u8; 16]) -> Self {
        Self::from_bytes(stored)
    }
}

impl DefaultColumn for ::uuid::Uuid {
    type Sql = Uuid;
}

field_as!(::uuid::Uuid: Uuid);
