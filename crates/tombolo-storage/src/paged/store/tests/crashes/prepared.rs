//! Prepared transactions in the crash model: what is asked for, and what is found after a restart.
//!
//! A prepared transaction holds the rows it changed, so the model keeps its changes apart until it is decided. If a
//! crash comes before the answer, both are right: that it is prepared, or decided, and that it is not.

use super::*;

impl<P: PagedProfile> World<P> {
    /// A client's transaction is to be decided later; if it cannot be prepared, it ends.
    pub(super) fn prepare(&mut self, at: usize) -> Run {
        self.owners += 1;
        let owner = Owner::new(self.owners);
        let Client { store, changes } = &mut self.clients[at];
        match store.prepare(owner) {
            Ok(vote) => {
                let changes = changes.take().unwrap();
                assert_eq!(vote == Vote::ReadOnly, changes.rows.is_empty());
                if vote == Vote::Prepared {
                    self.prepared.insert(owner, changes);
                }
                return Ok(());
            }
            Err(_) if self.disk.has_failed() => {
                self.doubt = changes.take().map(|changes| Doubt::Prepare(owner, changes));
                return Err(Stop::Crashed);
            }
            Err(Error::TooManyPrepared { .. }) => assert!(self.prepared.len() > 4),
            Err(error @ (Error::Disk { .. } | Error::LogFull { .. })) => assert!(error.is_full()),
            Err(error) => panic!("{error}"),
        }
        let commits = self.random.below(2) == 0;
        self.end(at, commits)
    }

    /// A client, which may have a transaction of its own, decides one that is prepared.
    pub(super) fn decide_one(&mut self, at: usize) -> Run {
        let which = self.random.below(self.prepared.len() as u64) as usize;
        let owner = *self.prepared.keys().nth(which).unwrap();
        let decision = [Decision::Commit, Decision::Abort][self.random.below(2) as usize];
        match self.clients[at].store.decide(owner, decision) {
            Ok(()) => self.decided(owner, decision),
            Err(error) => {
                // No full disk stops a decision.
                assert!(self.disk.has_failed(), "{error}");
                self.doubt = Some(Doubt::Decide(owner, decision));
                return Err(Stop::Crashed);
            }
        }
        Ok(())
    }

    fn decided(&mut self, owner: Owner, decision: Decision) {
        let changes = self.prepared.remove(&owner).unwrap();
        if decision == Decision::Commit {
            self.committed = changed(&self.committed, changes);
        }
    }

    /// What was prepared is, and what was decided is not.
    pub(super) fn verify_prepared(&mut self) {
        let listed = self.clients[0].store.prepared();
        let listed: BTreeSet<Owner> = listed.iter().map(|prepared| prepared.owner).collect();
        match self.doubt.take() {
            Some(Doubt::Prepare(owner, changes)) if listed.contains(&owner) => {
                self.prepared.insert(owner, changes);
            }
            Some(Doubt::Decide(owner, decision)) if !listed.contains(&owner) => {
                self.decided(owner, decision);
            }
            doubt => self.doubt = doubt,
        }
        assert!(self.prepared.keys().eq(&listed), "{listed:?} are prepared");
    }

    /// Reads each row by itself: those that prepared transactions changed are waited for, and others may be if all of
    /// a page is locked.
    pub(super) fn verify_undecided(&mut self, may_be: Option<Rows>) {
        let mut is_held = BTreeSet::new();
        self.prepared.values().for_each(|changes| is_held.extend(changes.rows.keys().copied()));
        let store = &mut self.clients[0].store;
        let (mut found, mut unknown) = (Rows::new(), is_held.clone());
        for (at, table) in self.tables.iter().enumerate() {
            for key in (0..IDS as i64 * 2).map(|id| (at, id)) {
                store.begin().unwrap();
                let index = table.indexes().next().unwrap();
                let row = store.lookup(index, &[Value::Integer(key.1)]);
                let row = row.and_then(|row| {
                    row.map(|row| table.read(store, row, |values| row_of(at, values))).transpose()
                });
                match row {
                    Ok(row) => {
                        assert!(!is_held.contains(&key), "{key:?} is read before it is decided");
                        found.extend(row);
                    }
                    Err(error) => {
                        assert_eq!(error, Error::LockTimeout);
                        unknown.insert(key);
                    }
                }
                store.abort().unwrap();
            }
        }
        let is_as = |rows: &Rows| {
            let known = rows.iter().filter(|(key, _)| !unknown.contains(key));
            known.eq(&found)
        };
        if let Some(rows) = may_be.filter(is_as) {
            self.committed = rows;
        } else {
            assert!(is_as(&self.committed), "{}", difference(&self.committed, &found));
        }
    }

    /// Decides all that is prepared.
    pub(super) fn decide_all(&mut self) {
        while !self.prepared.is_empty() {
            assert!(self.decide_one(0).is_ok());
        }
        self.verify();
    }
}
