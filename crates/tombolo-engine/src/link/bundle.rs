//! Bundles: any number of items in one message, each behind its length, so that what is there at one moment costs one
//! system call.
//!
//! Lengths are four bytes, little endian. Not here: what items say (the users of a link).

use super::MESSAGE_BYTES_MAX;

const LENGTH_BYTES: usize = 4;

/// The longest item that fits into a bundle.
pub const ITEM_BYTES_MAX: usize = MESSAGE_BYTES_MAX - LENGTH_BYTES;

/// Appends bytes behind their length.
///
/// # Panics
/// When there are 4 GB of them, or more.
pub fn put_counted(to: &mut Vec<u8>, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).expect("what is sent is bounded far below 4 GB");
    to.extend_from_slice(&length.to_le_bytes());
    to.extend_from_slice(bytes);
}

/// Takes counted bytes off the front of others: these, and the rest; `None` if there are too few.
pub fn take_counted(from: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = from.split_first_chunk::<LENGTH_BYTES>()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}

/// Counted bytes, one behind the other; `None` if these are not such.
pub fn all_counted(mut bytes: &[u8]) -> Option<Vec<&[u8]>> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let (item, rest) = take_counted(bytes)?;
        all.push(item);
        bytes = rest;
    }
    Some(all)
}

/// Puts as many items into a bundle as fit; returns how many.
///
/// # Panics
/// When an item is longer than [`ITEM_BYTES_MAX`].
pub fn bundle(items: &[Vec<u8>], into: &mut Vec<u8>) -> usize {
    into.clear();
    for (at, item) in items.iter().enumerate() {
        assert!(item.len() <= ITEM_BYTES_MAX, "an item of {} bytes", item.len());
        if into.len() + LENGTH_BYTES + item.len() > MESSAGE_BYTES_MAX {
            return at;
        }
        put_counted(into, item);
    }
    items.len()
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_come_out_of_a_bundle_as_they_went_in() {
        let items: Vec<Vec<u8>> = (0..5usize).map(|item| vec![item as u8; item * 100]).collect();
        let mut bytes = Vec::new();
        assert_eq!(bundle(&items, &mut bytes), 5);
        assert_eq!(
            all_counted(&bytes).unwrap(),
            items.iter().map(Vec::as_slice).collect::<Vec<_>>()
        );
        assert_eq!(all_counted(&bytes[..bytes.len() - 1]), None);
        let large = [vec![0; ITEM_BYTES_MAX], vec![1]];
        assert_eq!(bundle(&large, &mut bytes), 1);
        assert_eq!(bundle(&large[1..], &mut bytes), 1);
    }
}
