//! A disk whose files are read ahead by a thread, so that the device works while the log is replayed.
//!
//! A reader says what it will want next ([`DiskFile::read_ahead`]); a thread reads that into
//! buffers, and the read that follows takes it from there. What was not asked for, or could not be
//! read, is read directly, errors included. Files that are written to are the disk's own.
//!
//! Not here: which reads are announced (storage `value_log/reader.rs`). Invariant: a file's bytes come from the
//! device, at the time the reader asked for them; a file that is open for reading is not written to meanwhile
//! (recovery changes nothing before it has read everything).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use tombolo_storage::disk::{Disk, DiskError, DiskFile, Open};
use tombolo_storage::sync::Mutex;
use tombolo_storage::value_log::AlignedBuffer;

use crate::threads::Running;

/// How many bytes one read takes: long enough for the device, short enough to be there soon.
const PIECE_BYTES: u64 = 1 << 20;

/// How many pieces may wait to be read, over all files.
const PIECES_MAX: usize = 64;

/// A disk whose files are read ahead, and the thread that does it.
#[derive(Debug)]
pub(crate) struct ReadAhead {
    disk: Arc<AheadDisk>,
    /// None where the system has none.
    thread: Option<Running>,
}

/// Buffers that are used again.
type Spare = Arc<Mutex<Vec<AlignedBuffer>>>;

/// A piece to be read.
#[derive(Debug)]
struct Asked {
    file: Arc<dyn DiskFile>,
    offset: u64,
    bytes: usize,
    read: SyncSender<AlignedBuffer>,
}

/// A piece that was asked for.
#[derive(Debug)]
struct Piece {
    offset: u64,
    bytes: u64,
    arrives: Receiver<AlignedBuffer>,
    /// There once it was waited for.
    buffer: Option<AlignedBuffer>,
}

impl ReadAhead {
    /// Starts reading ahead what is opened on `disk` to be read.
    pub(crate) fn start(disk: Arc<dyn Disk>) -> Self {
        let (asked, to_read) = sync_channel::<Asked>(PIECES_MAX);
        let spare = Spare::default();
        let taken = Arc::clone(&spare);
        let started = Running::start("tombolo-read-ahead", move || {
            for Asked { file, offset, bytes, read } in to_read {
                let mut buffer = taken.lock().pop().unwrap_or_default();
                if file.read_at(buffer.first(bytes), offset).is_ok() {
                    // The reader may have gone elsewhere and wait no more.
                    let _ = read.send(buffer);
                }
            }
        });
        // Without a thread everything is read when it is needed.
        let thread = started.ok();
        let asked = Mutex::new(thread.is_some().then_some(asked));
        Self { disk: Arc::new(AheadDisk { disk, spare, asked }), thread }
    }

    /// The disk.
    pub(crate) fn disk(&self) -> Arc<dyn Disk> {
        Arc::clone(&self.disk) as Arc<dyn Disk>
    }

    /// Reads no more ahead. Files that were opened to be read must be closed by now; the disk goes
    /// on as the one it was made of.
    pub(crate) fn stop(self) {
        drop(self.disk.asked.lock().take());
        if let Some(thread) = self.thread {
            thread.join();
        }
    }
}

#[derive(Debug)]
struct AheadDisk {
    disk: Arc<dyn Disk>,
    spare: Spare,
    /// There as long as anything is read ahead.
    asked: Mutex<Option<SyncSender<Asked>>>,
}

impl AheadDisk {
    fn ahead(&self, file: Box<dyn DiskFile>, how: Open) -> Box<dyn DiskFile> {
        match &*self.asked.lock() {
            Some(asked) if how == Open::Read => {
                let (file, asked, spare) = (Arc::from(file), asked.clone(), self.spare.clone());
                Box::new(AheadFile { file, asked, spare, pieces: Mutex::default() })
            }
            _ => file,
        }
    }
}

impl Disk for AheadDisk {
    fn open(&self, name: &str, how: Open) -> Result<Box<dyn DiskFile>, DiskError> {
        Ok(self.ahead(self.disk.open(name, how)?, how))
    }

    fn open_direct(&self, name: &str, how: Open) -> Result<Box<dyn DiskFile>, DiskError> {
        Ok(self.ahead(self.disk.open_direct(name, how)?, how))
    }

    tombolo_storage::forward_disk!(disk: list exists remove rename sync_dir);
}

/// A file that is read only.
#[derive(Debug)]
struct AheadFile {
    file: Arc<dyn DiskFile>,
    asked: SyncSender<Asked>,
    spare: Spare,
    /// Ascending, without gaps between them.
    pieces: Mutex<VecDeque<Piece>>,
}

impl Piece {
    fn end(&self) -> u64 {
        self.offset + self.bytes
    }

    /// Its bytes, when they are there; nothing if they could not be read.
    fn wait(&mut self) -> Option<&mut [u8]> {
        if self.buffer.is_none() {
            self.buffer = self.arrives.recv().ok();
        }
        self.buffer.as_mut().map(|buffer| buffer.first(self.bytes as usize))
    }
}

impl DiskFile for AheadFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<(), DiskError> {
        let mut pieces = self.pieces.lock();
        while pieces.front().is_some_and(|piece| piece.end() <= offset) {
            let read = pieces.pop_front().and_then(|piece| piece.buffer);
            self.spare.lock().extend(read);
        }
        let ahead = pieces.front().map_or(u64::MAX, |piece| piece.offset);
        // What lies before everything that was asked for.
        let direct = ahead.saturating_sub(offset).min(bytes.len() as u64) as usize;
        let (first, mut rest) = bytes.split_at_mut(direct);
        if !first.is_empty() {
            self.file.read_at(first, offset)?;
        }
        let mut at = offset + direct as u64;
        for piece in pieces.iter_mut() {
            if rest.is_empty() {
                return Ok(());
            }
            let from = (at - piece.offset) as usize;
            let length = rest.len().min((piece.end() - at) as usize);
            let Some(read) = piece.wait() else { break };
            let (part, behind) = rest.split_at_mut(length);
            part.copy_from_slice(&read[from..from + length]);
            (rest, at) = (behind, at + length as u64);
        }
        if rest.is_empty() { Ok(()) } else { self.file.read_at(rest, at) }
    }

    fn read_ahead(&self, offset: u64, bytes: u64) {
        let mut pieces = self.pieces.lock();
        if pieces.back().is_some_and(|last| !(offset..=offset + bytes).contains(&last.end())) {
            // The reader is somewhere else.
            pieces.clear();
        }
        let end = offset + bytes;
        let mut at = pieces.back().map_or(offset, Piece::end);
        while at < end {
            let bytes = (end - at).min(PIECE_BYTES);
            let (read, arrives) = sync_channel(1);
            let file = Arc::clone(&self.file);
            let asked = Asked { file, offset: at, bytes: bytes as usize, read };
            if self.asked.try_send(asked).is_err() {
                return; // it is read when it is needed
            }
            pieces.push_back(Piece { offset: at, bytes, arrives, buffer: None });
            at += bytes;
        }
    }

    tombolo_storage::forward_disk!(file: name alignment write_at write_pieces sync set_len len try_lock);
}

#[cfg(test)]
mod tests {
    use super::*;
    use tombolo_storage::disk::MemDisk;

    const BYTES: usize = 5 * PIECE_BYTES as usize + 777;

    /// A file whose bytes encode their place.
    fn written(disk: &MemDisk) -> Vec<u8> {
        let bytes: Vec<u8> = (0..BYTES).map(|at| (at ^ at >> 8 ^ at >> 16) as u8).collect();
        disk.open("file", Open::New).unwrap().write_at(&bytes, 0).unwrap();
        bytes
    }

    #[test]
    fn what_is_read_is_what_lies_there_whatever_was_asked_for() {
        let disk = MemDisk::new();
        let bytes = written(&disk);
        let ahead = ReadAhead::start(Arc::new(disk));
        let file = ahead.disk().open("file", Open::Read).unwrap();
        let piece = PIECE_BYTES as usize;
        // Where is read, how much, and what is asked for behind it.
        let turns = [
            (0, piece, 2 * piece),
            (piece - 100, piece, 2 * piece),
            (2 * piece + 5, 3, piece),
            (2 * piece + 8, 2 * piece, piece),
            (17, 100, 0),
            (17, 3 * piece, 9 * piece),
            (4 * piece, BYTES - 4 * piece, 0),
            (0, BYTES, 0),
        ];
        for (from, length, behind) in turns {
            let mut read = vec![0; length];
            file.read_at(&mut read, from as u64).unwrap();
            assert!(read == bytes[from..from + length], "{length} bytes from {from}");
            if behind > 0 {
                file.read_ahead((from + length) as u64, behind as u64);
            }
        }
        assert!(file.read_at(&mut [0; 2], BYTES as u64 - 1).unwrap_err().is_truncated());
        drop(file);
        ahead.stop();
    }

    #[test]
    fn a_disk_that_is_stopped_goes_on_without_reading_ahead() {
        let disk = MemDisk::new();
        let bytes = written(&disk);
        let ahead = ReadAhead::start(Arc::new(disk));
        let kept = ahead.disk();
        ahead.stop();
        let file = kept.open("file", Open::Write).unwrap();
        file.read_ahead(0, 10);
        file.write_at(b"new", 0).unwrap();
        let mut read = [0; 5];
        kept.open("file", Open::Read).unwrap().read_at(&mut read, 0).unwrap();
        assert_eq!((&read[..3], &read[3..]), (&b"new"[..], &bytes[3..5]));
    }
}
