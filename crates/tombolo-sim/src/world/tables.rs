//! A life's first steps: the tables that the store lacks, and handles of all.

use tombolo_storage::memory::MemoryStore;
use tombolo_storage::profile::MemoryProfile;
use tombolo_storage::store::Store;

use super::World;
use crate::oracle::{Rule, Violation};
use crate::workload::added_indexes::follow;
use crate::workload::step::Step;
use crate::workload::store::Handles;
use crate::workload::tables::definition;

impl World {
    /// Makes the tables that `store` lacks, each a step that `ran` records; handles of all, and the place of the
    /// last step, 0 if no table was made.
    pub(crate) fn make_tables<P: MemoryProfile>(
        &mut self,
        store: &mut MemoryStore<P>,
        mut ran: impl FnMut(&Step),
    ) -> Result<(Handles, usize), Violation> {
        let mut place = 0;
        while store.schema().tables.len() < self.swarm.tables() {
            let table = definition(store.schema().tables.len());
            store.create_table(table).map_err(|error| {
                Violation::new(Rule::RightAnswer, format!("a table was refused: {error}"))
            })?;
            ran(&Step::Table);
            place = self.history.made_table();
        }
        follow(store);
        let handles = Handles::of(store.schema())
            .map_err(|error| Violation::new(Rule::SoundStore, error.to_string()))?;
        Ok((handles, place))
    }
}
