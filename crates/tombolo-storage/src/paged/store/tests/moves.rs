//! What a transaction costs that moves many keys and lets many rows grow: the same for each, however many there are.
//!
//! Counted are accesses to pages, not time. Not here: that the moved rows are found (`tests/model.rs`).

use super::*;

const ID: Fields<Account> = Fields::none().with(Account::ID);
const NAME: Fields<Account> = Fields::none().with(Account::NAME);

/// Accesses to pages while `work` runs.
fn accesses(bank: &mut Bank<Conventional>, work: impl FnOnce(&mut Bank<Conventional>)) -> f64 {
    let so_far = |bank: &Bank<Conventional>| {
        let usage = bank.store.pool_usage().unwrap();
        usage.hits + usage.misses
    };
    let before = so_far(bank);
    bank.store.begin().unwrap();
    bank.store.begin_writes();
    work(bank);
    bank.store.commit().unwrap();
    (so_far(bank) - before) as f64
}

/// Moves the keys of all accounts by a number, one after the other; each meets the place that another one left.
fn move_keys(bank: &mut Bank<Conventional>, accounts: i32, by: i32) {
    let from = if by > 0 { 0 } else { 1 };
    let mut ids: Vec<i32> = (from..from + accounts).collect();
    if by > 0 {
        ids.reverse();
    }
    for id in ids {
        let row = bank.find(id).unwrap();
        assert!(bank.store.remove(&bank.by_id, id, row).unwrap());
        bank.store.insert(&bank.by_id, id + by, row).unwrap();
        let renumber = |row: &mut RowMut<'_, Account>| row.set(Account::ID, id + by);
        bank.store.update(&bank.table, row, ID, renumber).unwrap();
    }
}

/// Gives every account a longer name; there and back, as the index has it.
fn grow_rows(bank: &mut Bank<Conventional>, accounts: i32) {
    for id in 0..accounts {
        let row = bank.find(id).unwrap();
        let before = format!("account number {}", id % 10);
        let after = format!("{before} {:020}", id);
        assert!(bank.store.remove(&bank.by_name, before.as_bytes(), row).unwrap());
        let rename = |row: &mut RowMut<'_, Account>| row.set(Account::NAME, after.as_bytes());
        bank.store.update(&bank.table, row, NAME, rename).unwrap();
        bank.store.insert(&bank.by_name, after.as_bytes(), row).unwrap();
    }
}

/// A key that is moved, moved back, and a row that grows, on average of so many in one transaction.
fn of_each(accounts: i32) -> [f64; 3] {
    let settings = PagedSettings { pool_bytes: 16 << 20, ..settings() };
    let mut bank = Bank::create_with(&MemDisk::new(), &settings, accounts);
    let there = accesses(&mut bank, |bank| move_keys(bank, accounts, 1));
    let back = accesses(&mut bank, |bank| {
        // And once more within one transaction: entries that it deleted itself are revived.
        move_keys(bank, accounts, -1);
        move_keys(bank, accounts, 1);
        move_keys(bank, accounts, -1);
    });
    let grown = accesses(&mut bank, |bank| grow_rows(bank, accounts));
    assert_eq!(bank.store.check(), []);
    [there, back, grown].map(|accesses| accesses / f64::from(accounts))
}

#[test]
fn a_move_costs_the_same_among_few_and_many() {
    let few = of_each(500);
    let many = of_each(4_000);
    println!("accesses to pages of each of 500: {few:.1?}, of each of 4,000: {many:.1?}");
    // Trees are one level higher at most; what is quadratic costs eight times as much.
    for (few, many) in few.into_iter().zip(many) {
        assert!(many < 2.0 * few, "{many:.1} accesses, among few {few:.1}");
    }
}
