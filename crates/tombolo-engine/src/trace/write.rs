//! Writing: calls as blocks.
//!
//! Not here: reading, files.

use tombolo_storage::checksum;

use super::{
    Access, BLOCK_BYTES, BLOCK_HEAD_BYTES, CALL, CALLS, Call, END, End, HEADER_BYTES, MAGIC, NAME,
    TABLES, Touched, TracedTable, VERSION,
};

/// Makes the blocks of a trace, one after another.
#[derive(Debug)]
pub struct Encoder {
    /// The block that is not full, with room for its head; empty if it has no entry.
    block: Vec<u8>,
    /// The number of the next block.
    number: u64,
    names: Vec<&'static str>,
    before_us: u64,
    /// Calls in blocks that were handed out, and in the open one.
    calls: u64,
    open_calls: u64,
}

impl Encoder {
    /// With the beginning of the file: its header and the block of tables.
    pub fn begin(tables: &[TracedTable]) -> (Self, Vec<u8>) {
        let mut file = Vec::with_capacity(HEADER_BYTES);
        file.extend_from_slice(MAGIC);
        file.extend_from_slice(&VERSION.to_le_bytes());
        let sum = checksum::of(&[&file]);
        file.extend_from_slice(&sum.to_le_bytes());
        let mut this = Self {
            block: Vec::new(),
            number: 0,
            names: Vec::new(),
            before_us: 0,
            calls: 0,
            open_calls: 0,
        };
        let mut content = vec![0; BLOCK_HEAD_BYTES];
        put(&mut content, tables.len() as u64);
        for TracedTable { name, row_bytes, key } in tables {
            put_text(&mut content, name);
            put(&mut content, u64::from(*row_bytes));
            put_text(&mut content, key.as_deref().unwrap_or_default());
        }
        file.extend(this.close(content, TABLES));
        (this, file)
    }

    /// Adds a call, whose procedure has this name; its own number of a name does not count. Returns a block if it is
    /// full.
    pub fn add(&mut self, name: &'static str, call: &Call) -> Option<Vec<u8>> {
        if self.block.is_empty() {
            self.block.reserve(BLOCK_BYTES + BLOCK_BYTES / 8);
            self.block.resize(BLOCK_HEAD_BYTES, 0);
        }
        let procedure = self.number_of(name);
        let block = &mut self.block;
        block.push(CALL);
        put(block, procedure);
        put(block, call.began_us.saturating_sub(self.before_us));
        put(block, call.ran_ns);
        block.push(call.is_aborted.into());
        put(block, call.more_rows);
        put(block, call.touched.len() as u64);
        for Touched { access, table, key, rows } in &call.touched {
            block.push(code(*access) << 1 | u8::from(key.is_some()));
            put(block, u64::from(*table));
            put(block, *rows);
            if let Some(key) = key {
                block.extend_from_slice(&key.to_le_bytes());
            }
        }
        self.before_us = self.before_us.max(call.began_us);
        self.open_calls += 1;
        (self.block.len() >= BLOCK_BYTES).then(|| self.take()).flatten()
    }

    /// The calls of the open block, which are not in one that was handed out.
    pub const fn open_calls(&self) -> u64 {
        self.open_calls
    }

    /// The block that is not full, if it has a call.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        if self.block.is_empty() {
            return None;
        }
        self.calls += self.open_calls;
        self.open_calls = 0;
        let block = std::mem::take(&mut self.block);
        Some(self.close(block, CALLS))
    }

    /// The last block, in which a file with `written` of the blocks that were handed out ends.
    pub fn end(&self, written: u64, end: End) -> Vec<u8> {
        let mut content = vec![0; BLOCK_HEAD_BYTES];
        put(&mut content, end.calls);
        put(&mut content, end.lost);
        put(&mut content, end.recorded_us);
        seal(content, END, written)
    }

    /// Blocks that were handed out, and the calls in them.
    pub const fn handed_out(&self) -> (u64, u64) {
        (self.number, self.calls)
    }

    fn close(&mut self, block: Vec<u8>, kind: u8) -> Vec<u8> {
        let number = self.number;
        self.number += 1;
        seal(block, kind, number)
    }

    /// The number of a name, which is written when it is met first.
    fn number_of(&mut self, name: &'static str) -> u64 {
        let is_same = |known: &&'static str| std::ptr::eq(*known, name);
        let found = self.names.iter().position(is_same);
        let found = found.or_else(|| self.names.iter().position(|known| *known == name));
        found.unwrap_or_else(|| {
            self.block.push(NAME);
            put_text(&mut self.block, name);
            self.names.push(name);
            self.names.len() - 1
        }) as u64
    }
}

/// Writes the head of a block.
fn seal(mut block: Vec<u8>, kind: u8, number: u64) -> Vec<u8> {
    let length = u32::try_from(block.len() - BLOCK_HEAD_BYTES).expect("a block is short");
    let sum = checksum::of(&[&number.to_le_bytes(), &[kind], &block[BLOCK_HEAD_BYTES..]]);
    block[..4].copy_from_slice(&length.to_le_bytes());
    block[4..8].copy_from_slice(&sum.to_le_bytes());
    block[8] = kind;
    block
}

const fn code(access: Access) -> u8 {
    match access {
        Access::Scanned => 0,
        Access::Read => 1,
        Access::Updated => 2,
        Access::Created => 3,
        Access::Deleted => 4,
    }
}

fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}
