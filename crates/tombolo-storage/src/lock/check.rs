//! The lock table's checker: the invariants of `table/` and `held.rs`, walked.
//!
//! For quiet moments, after a test or for `check`: it latches one bucket at a time and reports what
//! it finds, it repairs nothing.

use std::collections::{BTreeMap, BTreeSet};

use super::group::Group;
use super::held::HeldLocks;
use super::name::LockName;
use super::table::{State, Table};
use crate::latch::Latching;
use crate::store::Damage;

/// A request as the checker found it.
struct Seen {
    name: LockName,
    state: State,
    is_kept: bool,
}

/// Verifies `table` and that it agrees with what `sessions`, all that are open, hold.
pub(super) fn check<L: Latching>(table: &Table<L>, sessions: &[&HeldLocks]) -> Vec<Damage> {
    let mut damage = Vec::new();
    let mut found = BTreeMap::new();
    let mut names = BTreeSet::new();
    table.for_each_queue(|bucket, queue| {
        check_queue(table, bucket, queue, &mut names, &mut damage);
        for id in queue {
            let request = table.request(*id);
            let (name, state) = (request.name(), request.state());
            found.insert(*id, Seen { name, state, is_kept: request.is_kept() });
        }
    });
    check_held(&found, sessions, &mut damage);
    check_waits(table, &found, &mut damage);
    check_count(table, &found, sessions, &mut damage);
    damage.into_iter().map(|what| Damage { check: "locks", what }).collect()
}

fn check_queue<L: Latching>(
    table: &Table<L>,
    bucket: usize,
    queue: &[u32],
    names: &mut BTreeSet<u64>,
    damage: &mut Vec<String>,
) {
    let states: Vec<State> = queue.iter().map(|id| table.request(*id).state()).collect();
    let name = table.request(queue[0]).name();
    if queue.iter().any(|id| table.request(*id).name() != name) {
        damage.push(format!("{name}: a request for another lock is in its queue"));
    }
    if table.bucket_number(name) != bucket || !names.insert(name.word()) {
        damage.push(format!("{name}: its queue is in a wrong bucket or there twice"));
    }
    let count = |group: Group, state: &State| {
        let group = state.granted.map_or(group, |mode| group.with(mode));
        if state.wanted.is_some() { group.with_waiting() } else { group }
    };
    if table.request(queue[0]).group() != states.iter().fold(Group(0), count) {
        damage.push(format!("{name}: its granted group is not what its requests say"));
    }
    let mut waiting = false;
    for (i, state) in states.iter().enumerate() {
        let (before, others) = (&states[..i], |j: usize| j != i);
        let is_other = |other: &State| !name.is_gap() || other.granted == state.granted;
        if before.iter().any(|other| other.session == state.session && is_other(other)) {
            damage.push(format!("{name}: session {} is in the queue twice", state.session));
        }
        if state.granted.is_none() && state.wanted.is_none() {
            damage.push(format!("{name}: session {} neither has nor wants it", state.session));
        }
        if waiting && state.granted.is_some() && !name.is_gap() {
            damage.push(format!("{name}: session {} was granted past others", state.session));
        }
        let conflict = |granted| {
            before.iter().find(|other| other.granted.is_some_and(|mode| !mode.compatible(granted)))
        };
        if let Some(other) = state.granted.and_then(conflict) {
            damage.push(format!(
                "{name}: sessions {} and {} hold incompatible modes {:?} and {:?}",
                other.session, state.session, other.granted, state.granted
            ));
        }
        let Some(wanted) = state.wanted else { continue };
        // The first that wait would have been granted if nothing were in the way.
        let free = (0..states.len()).filter(|j| others(*j)).all(|j| {
            let other = states[j];
            if name.is_gap() {
                return other.session == state.session || other.granted.is_none();
            }
            other.granted.is_none_or(|mode| mode.compatible(wanted))
                && (state.granted.is_some() || j > i || other.wanted.is_none())
        });
        if free {
            damage.push(format!("{name}: session {} waits for nothing", state.session));
        }
        waiting |= state.granted.is_none();
    }
}

/// Every held lock is granted in the table, and the other way round.
fn check_held(found: &BTreeMap<u32, Seen>, sessions: &[&HeldLocks], damage: &mut Vec<String>) {
    let mut listed = BTreeSet::new();
    for held in sessions {
        for (name, id, mode) in held.iter() {
            let session = held.session;
            listed.insert((session, id));
            let agrees = found.get(&id).is_some_and(|found| {
                // A gap's may have been handed on.
                (found.name == name || found.name.is_gap() && name.is_gap())
                    && found.state.session == session
                    && found.state.granted == Some(mode)
                    && !found.is_kept
            });
            if !agrees {
                damage.push(format!(
                    "{name}: session {session} lists it as {mode:?}, the table does not"
                ));
            }
        }
        listed.extend(held.strays().map(|id| (held.session, id)));
        for (name, id) in held.kept() {
            // Not there: it was taken out.
            if found.get(&id).is_some_and(|found| found.is_kept && found.name == name) {
                listed.insert((held.session, id));
            }
        }
    }
    for (id, found) in found {
        if found.state.granted.is_some() && !listed.contains(&(found.state.session, *id)) {
            let (name, session) = (found.name, found.state.session);
            damage.push(format!("{name}: granted to session {session}, which does not list it"));
        }
    }
}

/// A session says that it waits if and only if it has a request that does.
fn check_waits<L: Latching>(
    table: &Table<L>,
    found: &BTreeMap<u32, Seen>,
    damage: &mut Vec<String>,
) {
    let mut waits = BTreeMap::new();
    for found in found.values().filter(|found| found.state.wanted.is_some()) {
        if waits.insert(found.state.session, found.name).is_some() {
            damage.push(format!("session {} waits for two locks", found.state.session));
        }
    }
    for session in 0..table.sessions.count() as u32 {
        if table.sessions.get(session).waits_for() != waits.get(&session).copied() {
            damage.push(format!("session {session} waits for another lock than it says"));
        }
    }
}

/// Every request is in a queue, in a session's chain or in the common one.
fn check_count<L: Latching>(
    table: &Table<L>,
    found: &BTreeMap<u32, Seen>,
    sessions: &[&HeldLocks],
    damage: &mut Vec<String>,
) {
    let (common, all) = (table.free_count(), table.requests_max());
    let queued = found.len();
    let own_of = |held: &&HeldLocks| {
        let taken_out = held.kept().filter(|(_, id)| !found.contains_key(id)).count();
        (held.free_requests().count() + taken_out) as u32
    };
    let own = sessions.iter().map(own_of).sum::<u32>();
    if queued as u32 + own + common != all {
        damage.push(format!(
            "of {all} requests {queued} are queued, {own} with sessions and {common} free"
        ));
    }
}
