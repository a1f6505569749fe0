//! `forward_disk!`: the calls of a [`Disk`](super::Disk) or [`DiskFile`](super::DiskFile) that a field's
//! answers, for disks around another one.

/// Writes the calls that are named, each answered by the field: `forward_disk!(file: name len try_lock);`
#[macro_export]
macro_rules! forward_disk {
    ($to:tt:) => {};
    ($to:tt: $call:ident $($rest:ident)*) => {
        $crate::forward_disk!(@$call $to);
        $crate::forward_disk!($to: $($rest)*);
    };
    (@list $to:tt) => { $crate::forward_disk!(@try $to list() -> Vec<String>); };
    (@exists $to:tt) => { $crate::forward_disk!(@try $to exists(name: &str) -> bool); };
    (@remove $to:tt) => { $crate::forward_disk!(@try $to remove(name: &str) -> ()); };
    (@rename $to:tt) => { $crate::forward_disk!(@try $to rename(from: &str, to: &str) -> ()); };
    (@sync_dir $to:tt) => { $crate::forward_disk!(@try $to sync_dir() -> ()); };
    (@name $to:tt) => { $crate::forward_disk!(@fn $to name() -> &str); };
    (@alignment $to:tt) => { $crate::forward_disk!(@fn $to alignment() -> usize); };
    (@read_at $to:tt) => { $crate::forward_disk!(@try $to read_at(bytes: &mut [u8], offset: u64) -> ()); };
    (@read_pieces $to:tt) => {
        $crate::forward_disk!(@try $to read_pieces(pieces: &mut [(u64, &mut [u8])]) -> ());
    };
    (@write_at $to:tt) => { $crate::forward_disk!(@try $to write_at(bytes: &[u8], offset: u64) -> ()); };
    (@write_pieces $to:tt) => {
        $crate::forward_disk!(@try $to write_pieces(pieces: &[(u64, &[u8])]) -> ());
    };
    (@sync $to:tt) => { $crate::forward_disk!(@try $to sync() -> ()); };
    (@set_len $to:tt) => { $crate::forward_disk!(@try $to set_len(bytes: u64) -> ()); };
    (@len $to:tt) => { $crate::forward_disk!(@try $to len() -> u64); };
    (@try_lock $to:tt) => { $crate::forward_disk!(@try $to try_lock() -> bool); };
    (@try $to:tt $call:ident($($arg:ident: $type:ty),*) -> $out:ty) => {
        $crate::forward_disk!(@fn $to $call($($arg: $type),*) -> Result<$out, $crate::disk::DiskError>);
    };
    (@fn $to:tt $call:ident($($arg:ident: $type:ty),*) -> $out:ty) => {
        fn $call(&self, $($arg: $type),*) -> $out {
            self.$to.$call($($arg),*)
        }
    };
}
