//! How far a restart is: told while it goes on, to the caller that waits for it.
//!
//! Analysis and redo each read the log, and the first of them finds where it ends: from then on it is known how much
//! there is to read. Not here: clocks; how long the rest takes is for the caller to say.

/// After how many bytes of the log it is told again.
const STEP_BYTES: u64 = if cfg!(test) { 8 << 10 } else { 8 << 20 };

/// How far a restart is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestartProgress {
    /// Bytes of the log that were read, by analysis and by redo.
    pub bytes: u64,
    /// Bytes that both read; until the end of the log is found, at most so many.
    pub bytes_max: u64,
    /// Transactions that are to be undone and are not yet; known once redo begins.
    pub transactions_to_undo: u64,
}

/// What is told so far.
pub(in crate::paged::store) struct Watch<'a> {
    now: RestartProgress,
    /// Bytes that the passes before this one read.
    before: u64,
    report: &'a mut dyn FnMut(RestartProgress),
}

impl<'a> Watch<'a> {
    /// Of the restart of a database whose log has files of so many bytes.
    pub(in crate::paged::store) fn new(
        log_bytes: u64,
        report: &'a mut dyn FnMut(RestartProgress),
    ) -> Self {
        let now = RestartProgress { bytes_max: 2 * log_bytes, ..RestartProgress::default() };
        Self { now, before: 0, report }
    }

    /// The pass has read so many bytes.
    pub(in crate::paged::store) fn read(&mut self, bytes: u64) {
        let bytes = self.before + bytes;
        if bytes >= self.now.bytes + STEP_BYTES {
            self.tell(bytes);
        }
    }

    /// Redo begins: analysis has read so many bytes, redo will, and transactions are to be undone.
    pub(super) fn begin_redo(&mut self, analysed: u64, bytes: u64, transactions_to_undo: u64) {
        self.before = analysed;
        let bytes_max = analysed + bytes;
        self.now = RestartProgress { bytes_max, transactions_to_undo, ..self.now };
        self.tell(analysed);
    }

    /// Redo has come to the end of the log.
    pub(super) fn end_redo(&mut self) {
        self.tell(self.now.bytes_max);
    }

    /// A transaction was undone.
    pub(super) fn undone(&mut self) {
        self.now.transactions_to_undo = self.now.transactions_to_undo.saturating_sub(1);
        self.tell(self.now.bytes);
    }

    fn tell(&mut self, bytes: u64) {
        self.now.bytes = bytes.min(self.now.bytes_max);
        (self.report)(self.now);
    }
}
