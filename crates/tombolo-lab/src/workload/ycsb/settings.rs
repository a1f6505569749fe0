//! The setting of YCSB: how many records there are at first.

use tombolo_engine::setting_list;
use tombolo_engine::settings::{Default, Kind, Setting};

setting_list! {
    /// How large a database is.
    pub static SETTINGS;

    /// YCSB's scale.
    pub RECORDS = Setting::new(
        "records",
        Kind::Count(1, 100_000_000),
        Default::Is("100k"),
        "scale of ycsb: records that are loaded, of ten fields with 100 bytes each",
    ).of("records");
}
