//! The settings of debit-credit.

use tombolo_engine::setting_list;
use tombolo_engine::settings::{Default, Kind, Setting};

setting_list! {
    /// How large a database is.
    pub static SETTINGS;

    /// Debit-credit's scale.
    pub BRANCHES = Setting::new("branches", Kind::Count(1, 1 << 30), Default::Is("10"), "scale of debit-credit")
            .of("branches");
    /// Its tellers.
    pub TELLERS_PER_BRANCH = Setting::new(
        "tellers_per_branch",
        Kind::Count(1, 1 << 30),
        Default::Is("10"),
        "tellers of each branch of debit-credit",
    ).of("tellers");
    /// Its accounts.
    pub ACCOUNTS_PER_BRANCH = Setting::new(
        "accounts_per_branch",
        Kind::Count(1, 1 << 30),
        Default::Is("100k"),
        "accounts of each branch of debit-credit; 150 bytes each, all branches up to 2,147,483,647",
    ).of("accounts");
}
