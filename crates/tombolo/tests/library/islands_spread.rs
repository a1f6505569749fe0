//! Tables that are spread over islands by a column: rows with another island's key are refused, however they are
//! written.

use tombolo::procedure::{self, Committed, Procedure, Reading, SchemaError, Store};
use tombolo::procedure::{resolve_index, resolve_table};
use tombolo::{
    Database, Error, Index, IslandKey, Islands, IslandsBuilder, Schema, StoreError, Table, Tx,
};

/// A post of an account; a name that may be missing.
#[derive(Clone, Debug, Table)]
#[index(ByAccount(account))]
pub(super) struct Post {
    #[key]
    pub(super) account: i64,
    #[key]
    pub(super) number: i64,
    #[column(sql = Text)]
    owner: String,
    note: Option<i32>,
    ratio: f64,
}

pub(super) fn post(account: i64) -> Post {
    Post { account, number: 1, owner: "Lübeck".to_owned(), note: None, ratio: 0.5 }
}

fn builder() -> IslandsBuilder {
    Database::builder().define::<Post>().set("log_segment_bytes", "1 MB").islands(2).ranges([100])
}

/// The islands in memory and on disk, whose tables are spread.
fn each(test: impl Fn(&Islands)) {
    let place = tempfile::tempdir().unwrap();
    let spread = || builder().spread_by(Post::ACCOUNT);
    for db in [spread().in_memory().unwrap(), spread().open(place.path()).unwrap()] {
        test(&db);
        db.close().unwrap();
    }
    // What was recorded holds without the program's declaration.
    let db = builder().open(place.path()).unwrap();
    test(&db);
    db.close().unwrap();
}

pub(super) fn is_elsewhere<A: std::fmt::Debug>(ended: Result<A, Error>) {
    let refused = ended.unwrap_err();
    let Error::RefusedAt { place, error: StoreError::Elsewhere { .. } } = &refused else {
        panic!("{refused}")
    };
    assert_eq!(place, "post.account");
    assert!(!refused.is_retryable() && refused.to_string().contains("another island"), "{refused}");
}

/// Inserts a post by the store's own calls.
pub(super) struct Insert {
    posts: Table<Post>,
    by_key: Index<PostKey>,
    by_account: Index<ByAccount>,
}

impl Procedure for Insert {
    type Input = i64;
    type Answer = ();

    fn bind(schema: &Schema) -> Result<Self, SchemaError> {
        let posts = resolve_table(schema)?;
        let (by_key, by_account) = (resolve_index(schema)?, resolve_index(schema)?);
        Ok(Self { posts, by_key, by_account })
    }

    fn run<S: Store>(
        &self,
        tx: Reading<'_, S>,
        &account: &i64,
    ) -> Result<Committed<()>, procedure::Stop> {
        let mut tx = tx.write();
        let row = tx.create(&self.posts, |row| {
            row.set(Post::ACCOUNT, account);
            row.set(Post::NUMBER, 2);
        })?;
        tx.insert(&self.by_key, (account, 2), row)?;
        tx.insert(&self.by_account, account, row)?;
        tx.commit(())
    }
}

#[test]
fn a_row_is_written_on_the_island_of_its_key_only() {
    each(|db| {
        let by_key = db.index::<PostKey>().unwrap();
        let put = db.register_closure("put", move |tx, &account: &i64| {
            tx.upsert_row(&by_key, &post(account)).map(drop)
        });
        let count = |at: i64| {
            let posts = db.table::<Post>().unwrap();
            db.at(&at).unwrap().transaction(move |tx| Ok(tx.rows(&posts)?.len())).unwrap()
        };
        put.at(&7i64).unwrap().call(7).unwrap();
        put.at(&200i64).unwrap().call(200).unwrap();
        is_elsewhere(put.at(&7i64).unwrap().call(200));
        is_elsewhere(put.at(&200i64).unwrap().call(99));
        let insert = db.register::<Insert>().unwrap();
        insert.at(&7i64).unwrap().call(70).unwrap();
        is_elsewhere(insert.at(&7i64).unwrap().call(100));
        // Parts, and closures that reach islands as they go.
        let parts = |first: i64, last: i64| {
            let mut across = db.across();
            across.part(&put, &7i64, first)?;
            across.part(&put, &200i64, last)?;
            across.commit().map(drop)
        };
        parts(8, 201).unwrap();
        is_elsewhere(parts(9, 9));
        is_elsewhere(parts(202, 202));
        let closure = |first: i64, last: i64| {
            db.transaction(|tx| {
                tx.at(&7i64, |tx| tx.upsert_row(&by_key, &post(first)).map(drop))?;
                tx.at(&200i64, |tx| tx.upsert_row(&by_key, &post(last)).map(drop))
            })
        };
        closure(9, 203).unwrap();
        is_elsewhere(closure(10, 10));
        is_elsewhere(closure(204, 204));
        assert_eq!((count(7), count(200)), (4, 3));
        // The column is changed: within the island, or not at all.
        let posts = db.table::<Post>().unwrap();
        let change = |from: i64, to: i64| {
            db.at(&from).unwrap().transaction(move |tx| {
                let Some((row, _)) = tx.find_row(&by_key, (from, 1))? else { return Ok(()) };
                tx.update_row(&posts, row, &post(to))
            })
        };
        change(9, 10).unwrap();
        is_elsewhere(change(10, 203));
        // A row that goes, goes; one that is made and removed leaves nothing.
        db.at(&7i64)
            .unwrap()
            .transaction(move |tx| {
                for account in [10, 999] {
                    let (row, _) = tx.upsert_row(&by_key, &post(account))?;
                    tx.delete(&posts, row)?;
                }
                Ok(())
            })
            .unwrap();
        assert_eq!((count(7), count(200)), (3, 3));
        let all = db.at(&7i64).unwrap().transaction(move |tx| {
            let rows = tx.rows(&posts)?;
            rows.into_iter().try_for_each(|row| tx.delete(&posts, row))
        });
        all.unwrap();
        let all = db.at(&200i64).unwrap().transaction(move |tx| {
            let rows = tx.rows(&posts)?;
            rows.into_iter().try_for_each(|row| tx.delete(&posts, row))
        });
        all.unwrap();
    });
}

#[test]
fn what_cannot_be_spread_so_is_refused_with_the_reason() {
    let says = |opened: Result<Islands, Error>, what: &str| {
        let text = opened.unwrap_err().to_string();
        assert!(text.contains(what), "{text}");
    };
    let hashed = || Database::builder().define::<Post>().islands(2);
    says(hashed().spread_by(Post::NOTE).in_memory(), "may be null");
    says(hashed().spread_by(Post::RATIO).in_memory(), "is no key of islands");
    says(hashed().spread_by(Post::OWNER).in_memory(), "index post_key is unique");
    says(builder().spread_by(Post::OWNER).in_memory(), "post.owner is no key of islands");
    says(Database::builder().islands(2).spread_by(Post::ACCOUNT).in_memory(), "no table post");
    let twice = builder().spread_by(Post::ACCOUNT).spread_by(Post::NUMBER);
    says(twice.in_memory(), "is spread by account, not by number");
    // A directory keeps how its tables are spread, and has to keep to it from the beginning.
    let place = tempfile::tempdir().unwrap();
    let db = builder().open(place.path()).unwrap();
    let by_key = db.index::<PostKey>().unwrap();
    let put = |at: i64, account: i64| {
        let put = move |tx: &mut Tx<'_>| tx.upsert_row(&by_key, &post(account)).map(drop);
        db.at(&at).unwrap().transaction(put).unwrap();
    };
    (0..5).for_each(|account| put(100, account));
    put(100, 100);
    db.close().unwrap();
    let refused = builder().spread_by(Post::ACCOUNT).open(place.path());
    says(refused, "5 rows of table post on island 1 have keys of other islands");
    builder().spread_by(Post::NUMBER).open(place.path()).map(drop).unwrap_err();
    builder().everywhere::<Post>().open(place.path()).unwrap().close().unwrap();
    let refused = builder().spread_by(Post::ACCOUNT).open(place.path());
    says(refused, "is spread so that each island has all rows, not by account");
}

/// Numbers, text, bytes and UUIDs in columns are where the same values are as keys.
#[test]
fn the_value_of_a_column_is_on_the_island_of_the_key() {
    #[derive(Clone, Table)]
    struct Kinds {
        name: String,
        bytes: Vec<u8>,
        uuid: [u8; 16],
        small: i16,
    }
    fn refused<K: IslandKey>(
        spread: impl Fn(IslandsBuilder) -> IslandsBuilder,
        key: impl Fn(&Kinds) -> K,
    ) -> usize {
        let db = spread(Database::builder().define::<Kinds>().islands(3)).in_memory().unwrap();
        let kinds = db.table::<Kinds>().unwrap();
        let of = |n: u8| Kinds {
            name: format!("name {n}"),
            bytes: vec![n; 5],
            uuid: [n; 16],
            small: n.into(),
        };
        let insert = |at: K, n: u8| {
            let insert = move |tx: &mut Tx<'_>| tx.insert_row(&kinds, &of(n)).map(drop);
            db.at(&at).unwrap().transaction(insert)
        };
        (0..60).for_each(|n| insert(key(&of(n)), n).unwrap());
        (0..60).filter(|n| insert(key(&of(n + 1)), *n).is_err()).count()
    }
    for refused in [
        refused(|all| all.spread_by(Kinds::NAME), |row| row.name.clone()),
        refused(|all| all.spread_by(Kinds::BYTES), |row| row.bytes.clone()),
        refused(|all| all.spread_by(Kinds::UUID), |row| row.uuid),
        refused(|all| all.spread_by(Kinds::SMALL), |row| i64::from(row.small)),
    ] {
        assert!((20..60).contains(&refused), "two of three keys are elsewhere: {refused}");
    }
}
