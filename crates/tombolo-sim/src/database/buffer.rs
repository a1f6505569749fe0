//! Records as bytes, with the number of transactions they are of.

use tombolo_engine::pipeline::Records;

/// Records of some transactions.
#[derive(Debug, Default)]
pub struct ByteBuffer {
    pub(crate) bytes: Vec<u8>,
    pub(crate) transactions: u64,
}

impl Records for ByteBuffer {
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn transactions(&self) -> u64 {
        self.transactions
    }

    fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.transactions = 0;
    }
}
