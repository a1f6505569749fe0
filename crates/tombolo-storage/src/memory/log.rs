//! The place where durability attaches: what a memory store tells of every change.
//!
//! Today's only log is none at all; the value log (TPK-8) implements the same trait. Calls come in
//! execution order, after the change, and are inlined: [`NoLog`] leaves no instruction behind.

/// Told of every change of a row, in execution order.
///
/// Index entries are not logged: they follow from the rows.
pub trait Log: Default + 'static {
    /// Bytes from `offset` on of a row are now `after`.
    fn updated(&mut self, table: u32, row: u32, offset: usize, after: &[u8]);
    /// The variable-length column whose handle lies at `offset` of a row is now `value`.
    fn variable_set(&mut self, table: u32, row: u32, offset: usize, value: &[u8]);
    /// A row was made.
    fn created(&mut self, table: u32, row: u32, fixed: &[u8]);
    /// A row was deleted.
    fn deleted(&mut self, table: u32, row: u32);
    /// The transaction's changes stand.
    fn committed(&mut self);
    /// The transaction's changes were taken back.
    fn aborted(&mut self);
}

/// No log: nothing is kept of a change (LG-2).
#[derive(Clone, Copy, Debug, Default)]
pub struct NoLog;

impl Log for NoLog {
    #[inline(always)]
    fn updated(&mut self, _: u32, _: u32, _: usize, _: &[u8]) {}
    #[inline(always)]
    fn variable_set(&mut self, _: u32, _: u32, _: usize, _: &[u8]) {}
    #[inline(always)]
    fn created(&mut self, _: u32, _: u32, _: &[u8]) {}
    #[inline(always)]
    fn deleted(&mut self, _: u32, _: u32) {}
    #[inline(always)]
    fn committed(&mut self) {}
    #[inline(always)]
    fn aborted(&mut self) {}
}
