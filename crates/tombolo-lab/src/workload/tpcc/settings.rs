//! The settings of TPC-C.

use tombolo_engine::setting_list;
use tombolo_engine::settings::{Default, Kind, Setting};

setting_list! {
    /// How large a database is.
    pub static SETTINGS;

    /// TPC-C's scale.
    pub WAREHOUSES = Setting::new("warehouses", Kind::Count(1, 65_535), Default::Is("5"), "scale of tpcc; 100 MB each")
            .of("warehouses");
}
