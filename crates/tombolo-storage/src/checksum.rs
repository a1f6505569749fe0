//! CRC-32C, the checksum of everything on disk and of every message between processes.
//!
//! Not here: what is summed.

pub use crc32c::crc32c_append as append;

/// The checksum of `parts`, one behind the other.
pub fn of(parts: &[&[u8]]) -> u32 {
    parts.iter().fold(0, |sum, part| append(sum, part))
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_librarys() {
        let bytes: Vec<u8> = (0..300_u32).map(|i| (i * i % 251) as u8).collect();
        for to in 0..bytes.len() {
            let bytes = &bytes[..to];
            let (first, rest) = bytes.split_at(bytes.len() / 3);
            assert_eq!(of(&[first, rest]), crc32c::crc32c(bytes));
        }
    }
}
