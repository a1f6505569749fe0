//! What is added while transactions that do not know it run: indexes and columns; and indexes dropped again.
//!
//! An addition is begun, continued slice by slice, and finished between two transactions; the library does the
//! same (`tombolo::evolve`). A drop has nothing to build. Not here: when that happens (the engines), which
//! additions there are (`added_indexes.rs`, `added_columns.rs`).

use tombolo_storage::error::SchemaError;
use tombolo_storage::memory::MemoryStore;
use tombolo_storage::memory::columns::ColumnBuild;
use tombolo_storage::memory::online::{Built, IndexBuild};
use tombolo_storage::profile::MemoryProfile;
use tombolo_storage::schema::Schema;
use tombolo_storage::store::Store;

use super::model::Additions;
use super::{added_columns, added_indexes};

/// What is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Addition {
    /// The next index.
    Index,
    /// The next column.
    Column,
    /// None: the newest index that was added goes.
    IndexDrop,
}

/// An addition that was begun.
#[derive(Debug)]
pub(crate) enum Begun {
    Index(IndexBuild),
    Column(ColumnBuild),
    IndexDrop,
}

/// How much a schema has that was added.
pub(crate) fn count(schema: &Schema) -> Additions {
    Additions { indexes: added_indexes::count(schema), columns: added_columns::count(schema) }
}

/// Begins to add what comes next of its kind.
///
/// # Errors
/// What the store refuses.
pub(crate) fn begin<P: MemoryProfile>(
    store: &mut MemoryStore<P>,
    addition: Addition,
) -> Result<Begun, SchemaError> {
    Ok(match addition {
        Addition::Index => {
            let (table, definition) = added_indexes::next(store.schema());
            Begun::Index(store.begin_index(table, definition)?)
        }
        Addition::Column => {
            let column = added_columns::added_column(added_columns::count(store.schema()));
            Begun::Column(store.begin_column(added_columns::TABLE, column)?)
        }
        Addition::IndexDrop => Begun::IndexDrop,
    })
}

impl Begun {
    /// What it is.
    pub(crate) const fn addition(&self) -> Addition {
        match self {
            Self::Index(_) => Addition::Index,
            Self::Column(_) => Addition::Column,
            Self::IndexDrop => Addition::IndexDrop,
        }
    }

    /// Continues with some rows.
    ///
    /// # Errors
    /// What the store refuses.
    pub(crate) fn slice<P: MemoryProfile>(
        &self,
        store: &mut MemoryStore<P>,
        rows_max: usize,
    ) -> Result<Built, SchemaError> {
        match self {
            Self::Index(build) => store.build_slice(build, rows_max),
            Self::Column(build) => store.column_slice(build, rows_max),
            Self::IndexDrop => Ok(Built::Done),
        }
    }

    /// Makes it part of the schema.
    ///
    /// # Errors
    /// What the store refuses.
    pub(crate) fn finish<P: MemoryProfile>(
        self,
        store: &mut MemoryStore<P>,
    ) -> Result<(), SchemaError> {
        match self {
            Self::Index(build) => store.finish_index(build),
            Self::Column(build) => store.finish_column(build).map(drop),
            Self::IndexDrop => {
                let newest = added_indexes::newest(store.schema());
                newest.map_or(Ok(()), |name| store.drop_index(&name).map(drop))
            }
        }
    }

    /// Gives it up.
    pub(crate) fn give_up<P: MemoryProfile>(self, store: &mut MemoryStore<P>) {
        match self {
            Self::Index(build) => store.give_up_index(build),
            Self::Column(build) => drop(store.give_up_column(build)),
            Self::IndexDrop => {}
        }
    }
}
