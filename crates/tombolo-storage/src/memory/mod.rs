//! The memory store: rows in slabs, indexes in cache-conscious trees.

#[expect(unsafe_code, reason = "nodes lie in raw slots and are searched with vector instructions")]
pub mod btree;
#[expect(unsafe_code, reason = "a slot is found by address arithmetic in mapped memory")]
pub mod region;
#[expect(unsafe_code, reason = "a slot is found by address arithmetic in mapped memory")]
pub mod slab;
#[cfg(test)]
mod test_random;
