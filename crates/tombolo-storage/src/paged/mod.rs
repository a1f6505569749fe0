//! The paged store: rows and indexes on pages of one file, behind a buffer pool (LG-13 … LG-23).
//!
//! The conventional end of the ladder. [`page`] is the format of a page, [`pool`] the access to pages
//! (S9: fix and unfix through a pool, frames that all stay in memory, bare pointers), [`heap`] rows in pages, [`btree`]
//! indexes, [`store`] the calls. Everything is generic over the types of its components; a component that is off is a
//! type without size. Not here: threads, SQL.

pub mod btree;
pub mod heap;
#[expect(unsafe_code, reason = "a page is raw bytes: others may read pinned rows meanwhile")]
pub mod page;
#[expect(unsafe_code, reason = "frames are raw memory, shared under latches and pins")]
pub mod pool;
pub mod step;
pub mod store;
pub mod structure;
