//! Requests: what a client can ask, drawn from a seeded generator.
//!
//! A request holds everything its transaction needs; strings are described, not held, so that a
//! history of thousands stays small. Not here: what a request does.

use tombolo_engine::rng::Rng;

/// Accounts are numbered from 0 to one below this.
pub const ACCOUNTS: i32 = 24;

/// Groups of items are numbered from 0 to one below this, and so are the items of a group.
pub const GROUPS: i16 = 4;
/// Items of a group are numbered from 0 to one below this.
pub const ITEMS_PER_GROUP: i32 = 16;

/// What an account holds when it is opened.
pub const OPENING_BALANCE: i64 = 1_000;

/// A string by its description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text {
    /// Its length.
    pub bytes: u16,
    /// Which string of that length.
    pub fill: u8,
}

impl Text {
    /// The string itself: letters, different for every description but those of length 0.
    pub fn to_vec(self) -> Vec<u8> {
        let letter = |i: usize| b'a' + ((usize::from(self.fill) + i * (1 + i / 26)) % 26) as u8;
        let mut text: Vec<u8> = (0..usize::from(self.bytes)).map(letter).collect();
        if let Some(first) = text.first_mut() {
            *first = b'!' + self.fill % 90;
        }
        text
    }

    fn draw(rng: &mut Rng, long: bool) -> Self {
        let bytes = match rng.below(8) {
            0 => 0,
            1..=2 => rng.below(60),
            // All of one size class, and few to a block of an image.
            _ if long => 2_100 + rng.below(900),
            3..=5 => rng.below(60),
            6 => rng.below(400),
            _ => rng.below(1_500),
        };
        Self { bytes: bytes as u16, fill: rng.below(90) as u8 }
    }
}

/// An item's key: its group and its number there.
pub type ItemKey = (i16, i32);

/// What a transaction does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Opens all accounts; aborts if they are open.
    Open,
    /// Moves an amount from one account to another; aborts if there is not so much.
    Transfer {
        /// The payer.
        from: i32,
        /// The payee.
        to: i32,
        /// How much.
        amount: i64,
    },
    /// Sets or clears an account's note.
    Note {
        /// The account.
        account: i32,
        /// The note; `None` clears it.
        note: Option<Text>,
    },
    /// Adds an item; aborts if it is there.
    Insert {
        /// Its key.
        item: ItemKey,
        /// Its name.
        name: u8,
        /// Its body.
        body: Text,
    },
    /// Renames an item and changes its body; aborts if it is not there.
    Change {
        /// Its key.
        item: ItemKey,
        /// Its new name.
        name: u8,
        /// Its new body, if that changes too.
        body: Option<Text>,
    },
    /// Takes an item away; aborts if it is not there.
    Delete {
        /// Its key.
        item: ItemKey,
    },
    /// Sets or clears an item's rating; aborts if the item is not there, or the column.
    Rate {
        /// Its key.
        item: ItemKey,
        /// The rating; `None` clears it.
        rating: Option<i16>,
    },
    /// Sets or clears the remark on an item; aborts if the item is not there, or the column.
    Remark {
        /// Its key.
        item: ItemKey,
        /// The remark; of no length where it is cleared.
        remark: Text,
    },
    /// Replaces a whole group by some items and lets an account pay one for each: many rows in two
    /// tables.
    Restock {
        /// The group.
        group: i16,
        /// How many items it has afterwards.
        items: i32,
        /// The payer.
        account: i32,
        /// The payee.
        to: i32,
        /// Their bodies.
        body: Text,
    },
    /// Reads an account.
    ReadAccount {
        /// Which.
        account: i32,
    },
    /// Reads all items of a group, in order.
    ReadGroup {
        /// Which.
        group: i16,
    },
    /// Adds up all balances.
    Audit,
    /// Changes an account and an item, then aborts or panics.
    Fail {
        /// The account.
        account: i32,
        /// The item.
        item: ItemKey,
        /// Whether it panics.
        panics: bool,
    },
    /// Asks what became of a request with an id.
    Outcome {
        /// Whose it was.
        client: i32,
        /// Its number.
        number: i64,
    },
}

/// Which kinds of requests there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kinds {
    /// Procedures that panic.
    pub panics: bool,
    /// Writes to columns that are added.
    pub columns: bool,
    /// Requests that carry an id.
    pub ids: bool,
    /// Texts that are mostly long, so that a table's values take many blocks of an image.
    pub long_texts: bool,
}

/// One request of one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The client that asks.
    pub client: i32,
    /// The client's own count of requests, from 1.
    pub number: i64,
    /// What is asked.
    pub work: Work,
    /// Of a request that carries an id, how often it was sent before.
    pub sent_before: Option<u32>,
}

/// The id of a client's request, if it carries one.
pub const fn request_id(client: i32, number: i64) -> u128 {
    (client as u128) << 64 | number as u128
}

impl Request {
    /// Its id, if it carries one.
    pub fn id(&self) -> Option<u128> {
        self.sent_before.map(|_| request_id(self.client, self.number))
    }
}

impl Work {
    /// Whether it changes nothing in any case.
    pub const fn only_reads(&self) -> bool {
        matches!(
            self,
            Self::ReadAccount { .. } | Self::ReadGroup { .. } | Self::Audit | Self::Outcome { .. }
        )
    }

    /// Draws what a client asks next.
    pub fn draw(rng: &mut Rng, kinds: Kinds) -> Self {
        let account = rng.below(ACCOUNTS as u64) as i32;
        let other = (account + 1 + rng.below(ACCOUNTS as u64 - 1) as i32) % ACCOUNTS;
        let group = rng.below(GROUPS as u64) as i16;
        let item = (group, rng.below(ITEMS_PER_GROUP as u64) as i32);
        let name = rng.below(12) as u8;
        if kinds.columns && rng.below(5) == 0 {
            return Self::draw_later(rng, item, kinds);
        }
        match rng.below(32) {
            0..=7 => Self::Transfer { from: account, to: other, amount: rng.between(1, 400) },
            8..=10 => {
                let note = (rng.below(4) > 0).then(|| Text::draw(rng, kinds.long_texts));
                Self::Note { account, note }
            }
            11..=15 => Self::Insert { item, name, body: Text::draw(rng, kinds.long_texts) },
            16..=18 => {
                let body = (rng.below(2) > 0).then(|| Text::draw(rng, kinds.long_texts));
                Self::Change { item, name, body }
            }
            19..=21 => Self::Delete { item },
            22..=23 => {
                let items = rng.below(ITEMS_PER_GROUP as u64) as i32;
                let drawn = Text::draw(rng, kinds.long_texts);
                let body = Text { bytes: drawn.bytes % 200, ..drawn };
                Self::Restock { group, items, account, to: other, body }
            }
            24..=25 => Self::ReadAccount { account },
            26..=27 => Self::ReadGroup { group },
            28 => Self::Audit,
            29..=30 => Self::Fail { account, item, panics: false },
            _ => Self::Fail { account, item, panics: kinds.panics },
        }
    }

    /// Draws a write to a column that is added.
    fn draw_later(rng: &mut Rng, item: ItemKey, kinds: Kinds) -> Self {
        match rng.below(8) {
            0..=3 => {
                Self::Rate { item, rating: (rng.below(4) > 0).then(|| rng.between(-9, 9) as i16) }
            }
            _ => Self::Remark { item, remark: Text::draw(rng, kinds.long_texts) },
        }
    }
}
