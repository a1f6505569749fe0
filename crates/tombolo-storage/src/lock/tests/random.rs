//! Random work against independent definitions of what may be granted.
//!
//! One thread and a naive lock manager that agree on every answer; several threads and a ledger of
//! which thread may be reading or changing which row, which must never show a conflict.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::*;
use crate::latch::Unlatched;
use crate::memory::test_random::Random;
use crate::plant::{self, Plant};

const STORES: u64 = 2;
/// Pages of a store; page numbers are unique in the file, as in a real one.
const PAGES: u64 = 3;
const SLOTS: u64 = 4;

/// What a random transaction asks for next.
#[derive(Clone, Copy, Debug)]
enum Ask {
    Store(u16, Mode),
    Page(u16, u32, Mode),
    Row(u16, u32, u16, Mode),
}

impl Ask {
    fn random(random: &mut Random) -> Ask {
        let store = random.below(STORES) as u16;
        let page = u32::from(store) * 100 + random.below(PAGES) as u32;
        let slot = random.below(SLOTS) as u16;
        let any = Mode::ALL[random.below(5) as usize];
        let whole = if random.below(3) == 0 { Mode::Exclusive } else { Mode::Shared };
        match random.below(40) {
            0 => Ask::Store(store, any),
            1..4 => Ask::Page(store, page, any),
            _ => Ask::Row(store, page, slot, whole),
        }
    }

    fn put<K: Locking>(self, locks: &K, held: &mut K::Held) -> Result<(), LockError> {
        match self {
            Ask::Store(store, mode) => locks.lock_store(held, store, mode),
            Ask::Page(store, page, mode) => locks.lock_page(held, store, page, mode),
            Ask::Row(store, page, slot, mode) => locks.lock_row(held, store, row(page, slot), mode),
        }
    }

    /// The locks it takes by the rules, from the top.
    fn levels(self) -> Vec<(LockName, Mode)> {
        match self {
            Ask::Store(store, mode) => vec![(LockName::store(store), mode)],
            Ask::Page(store, page, mode) => {
                vec![
                    (LockName::store(store), mode.intention()),
                    (LockName::page(store, page), mode),
                ]
            }
            Ask::Row(store, page, slot, mode) => vec![
                (LockName::store(store), mode.intention()),
                (LockName::page(store, page), mode.intention()),
                (LockName::row(row(page, slot)), mode),
            ],
        }
    }
}

/// A lock manager as simple as can be: a list of which session holds what.
#[derive(Default)]
struct Naive {
    held: Vec<(usize, LockName, Mode)>,
}

impl Naive {
    fn mode(&self, session: usize, name: LockName) -> Option<Mode> {
        self.held.iter().find(|held| (held.0, held.1) == (session, name)).map(|held| held.2)
    }

    fn put(&mut self, session: usize, ask: Ask) -> Result<(), LockError> {
        let levels = ask.levels();
        let wanted = levels[levels.len() - 1].1;
        // What is held on a row's page decides; without, what is held on the store.
        let on_page = if levels.len() == 3 { self.mode(session, levels[1].0) } else { None };
        let from_page = on_page.is_some_and(|held| held.covers(wanted.intention()));
        for (i, (name, mode)) in levels.iter().enumerate().skip(usize::from(from_page)) {
            let held = self.mode(session, *name);
            // What covers the rest makes the rest needless.
            if i + 1 < levels.len() && held.is_some_and(|held| held.covers_below(wanted)) {
                return Ok(());
            }
            let mode = held.map_or(*mode, |held| held.supremum(*mode));
            let conflicts = |held: &(usize, LockName, Mode)| {
                held.0 != session && held.1 == *name && !held.2.compatible(mode)
            };
            if self.held.iter().any(conflicts) {
                return Err(LockError::Unavailable);
            }
            self.held.retain(|held| (held.0, held.1) != (session, *name));
            self.held.push((session, *name, mode));
        }
        Ok(())
    }
}

#[test]
fn one_thread_gets_the_answers_of_a_naive_lock_manager() {
    compare_with_a_naive_one();
}

#[test]
#[should_panic(expected = "asks")]
fn a_conversion_that_ignores_others_is_noticed() {
    plant::with(Plant::ConversionIgnoresOthers, compare_with_a_naive_one);
}

fn compare_with_a_naive_one() {
    let locks = Hierarchical::<Unlatched>::new(SMALL);
    let mut naive = Naive::default();
    let mut random = Random::new(17);
    let mut sessions: Vec<HeldLocks> = (0..4).map(|rank| begin(&locks, rank)).collect();
    let mut refused = 0;
    for step in 0..20_000 {
        let session = random.below(4) as usize;
        if random.below(12) == 0 {
            locks.release_all(&mut sessions[session]);
            locks.begin(&mut sessions[session], step);
            naive.held.retain(|held| held.0 != session);
            continue;
        }
        let ask = Ask::random(&mut random);
        let answer = ask.put(&locks, &mut sessions[session]);
        assert_eq!(answer, naive.put(session, ask), "step {step}: session {session} asks {ask:?}");
        refused += usize::from(answer.is_err());
        if step % 50 == 0 {
            assert_eq!(locks.check(&sessions.iter().collect::<Vec<_>>()), []);
            for (i, held) in sessions.iter().enumerate() {
                let expected: Vec<_> = naive.held.iter().filter(|held| held.0 == i).collect();
                assert_eq!(held.len(), expected.len());
                assert!(expected.iter().all(|(_, name, mode)| held.mode_of(*name) == Some(*mode)));
            }
        }
    }
    assert!((1_000..15_000).contains(&refused), "{refused} of 20000 refused");
    end(&locks, sessions);
}

/// Which thread may be reading (`false`) or changing (`true`) which row at this moment.
#[derive(Default)]
struct Ledger {
    rows: BTreeMap<(u32, u16), BTreeMap<u32, bool>>,
}

impl Ledger {
    /// Notes what `ask`, which was granted, lets `session` do.
    fn enter(&mut self, session: u32, ask: Ask) {
        let pages = |store: u16| (0..PAGES as u32).map(move |page| u32::from(store) * 100 + page);
        let (mode, pages, slots): (_, Vec<u32>, _) = match ask {
            Ask::Store(store, mode) => (mode, pages(store).collect(), 0..SLOTS as u16),
            Ask::Page(_, page, mode) => (mode, vec![page], 0..SLOTS as u16),
            Ask::Row(_, page, slot, mode) => (mode, vec![page], slot..slot + 1),
        };
        if matches!(mode, Mode::IntentionShared | Mode::IntentionExclusive) {
            return;
        }
        let changes = mode == Mode::Exclusive;
        for key in pages.iter().flat_map(|page| slots.clone().map(move |slot| (*page, slot))) {
            let users = self.rows.entry(key).or_default();
            *users.entry(session).or_default() |= changes;
            let several = users.len() > 1;
            assert!(!several || users.values().all(|changes| !changes), "row {key:?}: {users:?}");
        }
    }

    fn leave(&mut self, session: u32) {
        for users in self.rows.values_mut() {
            users.remove(&session);
        }
    }
}

/// One thread's transactions; counts those that gave way.
fn work(locks: &Hierarchical<Latched>, ledger: &Mutex<Ledger>, seed: u64, count: u64) -> u64 {
    let mut random = Random::new(seed);
    let mut held = locks.open_session().unwrap();
    let (session, mut victims) = (held.session, 0);
    for transaction in 0..count {
        locks.begin(&mut held, transaction * 16 + seed);
        for _ in 0..2 + random.below(8) {
            let ask = Ask::random(&mut random);
            match ask.put(locks, &mut held) {
                Ok(()) => ledger.lock().unwrap().enter(session, ask),
                Err(LockError::Deadlock) => {
                    victims += 1;
                    break;
                }
                Err(error) => panic!("{ask:?}: {error}"),
            }
            if random.below(4) == 0 {
                std::thread::yield_now();
            }
        }
        ledger.lock().unwrap().leave(session);
        locks.release_all(&mut held);
    }
    locks.close_session(held);
    victims
}

fn stress(settings: LockSettings, threads: u64, count: u64) {
    let locks = Hierarchical::<Latched>::new(settings);
    let ledger = Mutex::new(Ledger::default());
    let victims: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|seed| {
                let (locks, ledger) = (&locks, &ledger);
                scope.spawn(move || work(locks, ledger, seed, count))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(victims < threads * count, "nothing but deadlocks");
    assert_eq!(locks.check(&[]), []);
}

#[test]
fn threads_never_conflict_and_leave_an_empty_table() {
    stress(SMALL, 4, 1_500);
}

#[test]
fn threads_never_conflict_while_locks_escalate() {
    let settings = LockSettings { rows_per_page_max: 2, pages_per_store_max: 2, ..SMALL };
    stress(settings, 4, 1_500);
}

#[test]
fn threads_never_conflict_in_one_bucket() {
    stress(LockSettings { buckets: 1, ..SMALL }, 6, 500);
}
