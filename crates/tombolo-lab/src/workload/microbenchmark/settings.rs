//! The settings of the microbenchmark: how many rows there are, and what a transaction does with how many of them.

use tombolo_engine::setting_list;
use tombolo_engine::settings::{Default, Kind, Setting};

use super::ROWS_MAX;

setting_list! {
    /// How large a database is, and what runs on it.
    pub static SETTINGS;

    /// Rows that are loaded.
    pub ROWS = Setting::new(
        "rows",
        Kind::Count(1, 100_000_000),
        Default::Is("240k"),
        "scale of rows: rows that are loaded, of 250 bytes each",
    ).of("rows");
    /// Rows that a transaction reads.
    pub READ = Setting::new(
        "read",
        Kind::Count(0, ROWS_MAX as u64),
        Default::Is("0"),
        "rows: how many rows each transaction reads; 10 if it neither reads nor updates any",
    ).of("rows");
    /// Rows that a transaction updates.
    pub UPDATE = Setting::new(
        "update",
        Kind::Count(0, ROWS_MAX as u64),
        Default::Is("0"),
        "rows: how many rows each transaction updates",
    ).of("rows");
    /// How unequal rows are in popularity.
    pub SKEW = Setting::new(
        "skew",
        Kind::Hundredths(0, 300),
        Default::Is("0"),
        "rows: the exponent of Zipf's law for the rows' popularity; at 0 all are alike",
    );
}
