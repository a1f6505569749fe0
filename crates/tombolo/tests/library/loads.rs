//! Many rows: loaded in the order they come, whatever their size, and up to the first that is refused.

use tombolo::{Database, Error, LoadError, Order, Table};

#[derive(Table, Clone, Debug, PartialEq)]
pub(crate) struct Word {
    #[key]
    pub(crate) id: u32,
    pub(crate) text: Option<String>,
}

impl Word {
    /// Some are short, some have `longest` bytes.
    pub(crate) fn of(id: u32, longest: usize) -> Self {
        let length = if id % 500 == 3 { longest } else { id as usize % 90 };
        Self { id, text: (!id.is_multiple_of(5)).then(|| "w".repeat(length)) }
    }
}

/// Loads words into a new database of either store, in order, up to one that is there: `word` makes one from its
/// number, `ids` finds the numbers of all that are there.
macro_rules! load_up_to_a_duplicate {
    ($db:expr, $word:ident, $ids:ident) => {
        let words = $db.table::<Word>().unwrap();
        assert_eq!($db.load(&words, []), Ok(0));
        assert_eq!($db.load(&words, (0..5_000).map($word)), Ok(5_000));
        // Number 2,000 is there; other calls run in between.
        let rows = (5_000..9_000).chain([2_000]).chain(9_000..20_000).map(|id| {
            if id % 1_000 == 0 {
                $db.transaction(|_| Ok(())).unwrap();
            }
            $word(id)
        });
        let LoadError { loaded, error } = $db.load(&words, rows).unwrap_err();
        assert_eq!(error, Error::Duplicate { index: "word_key".to_owned() });
        let there = $ids(&$db);
        assert_eq!(there, (0..5_000 + loaded as u32).collect::<Vec<_>>());
        assert!((5_000..9_000).contains(&there.len()), "{} are there", there.len());
    };
}
pub(crate) use load_up_to_a_duplicate;

/// The longest are longer than a batch of others.
fn word(id: u32) -> Word {
    Word::of(id, 200_000)
}

fn ids(db: &Database) -> Vec<u32> {
    let by_id = db.index::<WordKey>().unwrap();
    let ids = db.transaction(move |tx| {
        let mut ids = Vec::new();
        for (_, row) in tx.iter(&by_id, .., Order::Forward)? {
            let found = row.read();
            assert_eq!(found, word(found.id));
            ids.push(found.id);
        }
        Ok(ids)
    });
    ids.unwrap()
}

#[test]
fn rows_are_loaded_up_to_the_first_that_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let builder = || Database::builder().define::<Word>().set("log_segment_bytes", "1 MB");
    for on_disk in [false, true] {
        let open = || if on_disk { builder().open(place.path()) } else { builder().in_memory() };
        let mut db = open().unwrap();
        load_up_to_a_duplicate!(db, word, ids);
        let words = db.table::<Word>().unwrap();
        // A row that no log takes, and what came before it.
        let large = Word { id: 100_000, text: Some("w".repeat(3 << 20)) };
        let LoadError { loaded, error } = db.load(&words, [word(50_000), large]).unwrap_err();
        assert!(matches!(error, Error::TooLarge { .. } | Error::RefusedAt { .. }), "{error:?}");
        assert_eq!(loaded, 1);
        if on_disk {
            let before = ids(&db);
            db.close().unwrap();
            db = open().unwrap();
            assert_eq!(ids(&db), before);
        }
        // A load waits for the database, so that a transaction cannot.
        let copy = std::sync::Arc::new(db);
        let inner = copy.clone();
        let nested = copy.transaction(move |_| Ok(inner.load(&words, [word(1)])));
        assert_eq!(nested, Ok(Err(LoadError { loaded: 0, error: Error::Nested })));
    }
}
