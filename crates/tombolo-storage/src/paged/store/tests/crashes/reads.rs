//! Reads of the crash model: several rows by one call, whose pages the pool may read together.

use super::*;

impl<P: PagedProfile> World<P> {
    /// Reads rows that a client may have: it finds what has committed, and what it changed itself.
    pub(super) fn read_some(&mut self, at: usize) -> Result<(), Error> {
        let table = self.random.below(self.tables.len() as u64) as usize;
        let count = self.random.below(8);
        let ids: Vec<_> =
            (0..count).map(|_| (self.random.below(IDS) * 2 + at as u64) as i64).collect();
        let Client { store, changes } = &mut self.clients[at];
        let Some(changes) = changes else { return Ok(()) };
        let index = self.tables[table].indexes().next().unwrap();
        let values: Vec<_> = ids.iter().map(|id| [Value::Integer(*id)]).collect();
        let keys: Vec<_> = values.iter().map(|values| &values[..]).collect();
        let mut found = vec![None; ids.len()];
        store.lookup_many(index, &keys, &mut found)?;
        for (id, found) in ids.into_iter().zip(found) {
            let key = (table, id);
            let expected = match changes.rows.get(&key) {
                Some(own) => own.clone(),
                None => self.committed.get(&key).cloned(),
            };
            let found = match found {
                Some(row) => {
                    let read = |values: &[Value<'_>]| row_of(table, values);
                    Some(self.tables[table].read(store, row, read)?)
                }
                None => {
                    changes.absent.insert(key);
                    None
                }
            };
            assert_eq!(found, expected.map(|row| (key, row)));
        }
        Ok(())
    }
}
