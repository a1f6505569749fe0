//! Dates and times of `chrono` as SQL's `date` and `timestamp`.
//!
//! What is finer than a microsecond is cut off. Invariant: what is stored is what `chrono` can represent,
//! as long as it came from there.

use ::chrono::{DateTime, NaiveDate, NaiveDateTime, TimeDelta, Utc};

use super::native::UNIX_TO_SQL_US;
use super::*;

const DAY_0: NaiveDate = match NaiveDate::from_ymd_opt(2000, 1, 1) {
    Some(day) => day,
    None => panic!("that day was"),
};

impl StoredAs<Date> for NaiveDate {
    fn stored(self) -> Option<i32> {
        i32::try_from(self.signed_duration_since(DAY_0).num_days()).ok()
    }
    fn from_stored(stored: i32) -> Self {
        match DAY_0.checked_add_signed(TimeDelta::days(stored.into())) {
            Some(day) => day,
            None => panic!("day {stored} since 2000-01-01 is beyond what chrono has"),
        }
    }
}

impl StoredAs<Timestamp> for DateTime<Utc> {
    fn stored(self) -> Option<i64> {
        self.timestamp_micros().checked_sub(UNIX_TO_SQL_US)
    }
    fn from_stored(stored: i64) -> Self {
        let time = stored.checked_add(UNIX_TO_SQL_US).and_then(Self::from_timestamp_micros);
        match time {
            Some(time) => time,
            None => panic!("{stored} us since 2000-01-01 is beyond what chrono has"),
        }
    }
}

impl StoredAs<Timestamp> for NaiveDateTime {
    fn stored(self) -> Option<i64> {
        self.and_utc().stored()
    }
    fn from_stored(stored: i64) -> Self {
        DateTime::<Utc>::from_stored(stored).naive_utc()
    }
}

impl DefaultColumn for NaiveDate {
    type Sql = Date;
}

impl DefaultColumn for NaiveDateTime {
    type Sql = Timestamp;
}

impl DefaultColumn for DateTime<Utc> {
    type Sql = Timestamp;
}

field_as!(NaiveDate: Date);
field_as!(NaiveDateTime: Timestamp);
field_as!(DateTime<Utc>: Timestamp);
