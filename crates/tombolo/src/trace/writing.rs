//! Writing a trace's file: a thread that writes blocks as they come, and the end.
//!
//! Not here: what is in a block. Invariant: a block is written behind those before it, or none is from there on.

use std::sync::mpsc::Receiver;

use tombolo_storage::disk::{DiskError, DiskFile};

use super::recorder::{Block, Recorder};

/// The file, as far as it is written.
struct Written<'f> {
    file: &'f dyn DiskFile,
    bytes: u64,
    blocks: u64,
}

impl Written<'_> {
    fn put(&mut self, block: &[u8]) -> Result<(), DiskError> {
        self.file.write_at(block, self.bytes)?;
        self.bytes += block.len() as u64;
        self.blocks += 1;
        Ok(())
    }
}

/// Writes what comes until the trace is over.
pub(super) fn write(file: &dyn DiskFile, blocks: &Receiver<Block>, recorder: &Recorder) {
    let mut written = Written { file, bytes: 0, blocks: 0 };
    let (mut calls, mut is_stopped) = (0, false);
    for (block, of_block) in blocks {
        // What comes after a failure is taken and dropped, so that the trace is closed when it is over.
        if is_stopped {
            continue;
        }
        match written.put(&block) {
            Ok(()) => calls += of_block,
            Err(error) => {
                is_stopped = true;
                recorder.stop(&error.to_string());
            }
        }
    }
    // The file ends behind what is whole, if the disk has room for that.
    let end = recorder.close(written.blocks, calls);
    let whole = written.bytes;
    let ended = file.set_len(whole).and_then(|()| written.put(&end)).and_then(|()| file.sync());
    if let Err(error) = ended {
        recorder.stop(&error.to_string());
        let _ = file.set_len(whole); // a reader recognises half a block, too
    }
    recorder.set_written(written.bytes);
}
