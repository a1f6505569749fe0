//! Which directories an image lies in (TPK-25): each but the first holds a file whose name says of
//! which image it is and at which place, `image-of-SALT-PLACE`.
//!
//! The catalogue knows how many directories there are, not where; a user gives them, and may mix them
//! up. Rings of another image would be taken for strays and removed. So a directory is claimed before
//! anything is written to it, and one that was claimed by another image, or for another place, or
//! that holds rings nobody claimed, is refused.
//!
//! Not here: which ring lies where (`checkpoints.rs`). Invariant: a claim is durable before the first
//! catalogue that counts on its directory.

use super::ring::is_ring_file;
use super::settings::ImageFailure;
use crate::disk::{Disk, DiskError, Open};
use crate::sync::Arc;

const PREFIX: &str = "image-of-";

fn claim_file(salt: u64, place: usize) -> String {
    format!("{PREFIX}{salt:016x}-{place}")
}

/// The claim in a directory, if there is one.
fn found(disk: &dyn Disk) -> Result<Option<String>, DiskError> {
    Ok(disk.list()?.into_iter().find(|name| name.starts_with(PREFIX)))
}

/// Refuses directories that are another image's, or in another order than before. Those without a
/// claim are judged by what they hold: blocks say which image they are of.
///
/// # Errors
/// `Misplaced`, `Disk`.
pub(super) fn check(disks: &[Arc<dyn Disk>], salt: u64) -> Result<(), ImageFailure> {
    for (place, disk) in disks.iter().enumerate().skip(1) {
        let claim = claim_file(salt, place);
        if let Some(file) = found(&**disk)?.filter(|file| *file != claim) {
            return Err(ImageFailure::Misplaced { file, claim });
        }
    }
    Ok(())
}

/// Claims all directories but the first, durably. The image lay in `known` of them before.
///
/// # Errors
/// `Misplaced`, `Full`, `Disk`.
pub(super) fn claim(disks: &[Arc<dyn Disk>], salt: u64, known: u32) -> Result<(), ImageFailure> {
    check(disks, salt)?;
    for (place, disk) in disks.iter().enumerate().skip(1) {
        let claim = claim_file(salt, place);
        if found(&**disk)?.is_none() {
            let strange = disk.list()?.into_iter().find(|name| is_ring_file(name));
            if let Some(file) = strange.filter(|_| place >= known as usize) {
                return Err(ImageFailure::Misplaced { file, claim });
            }
            disk.open(&claim, Open::New)?.sync()?;
        }
        // It may have been made by a process that ended before this.
        disk.sync_dir()?;
    }
    Ok(())
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use crate::disk::MemDisk;

    fn disks() -> (Vec<MemDisk>, Vec<Arc<dyn Disk>>) {
        let disks: Vec<_> = (0..3).map(|_| MemDisk::new()).collect();
        let shared = disks.iter().map(|disk| Arc::new(disk.clone()) as Arc<dyn Disk>).collect();
        (disks, shared)
    }

    #[test]
    fn directories_are_claimed_once_and_only_in_their_order() {
        let (own, shared) = disks();
        for _ in 0..2 {
            claim(&shared, 0xabc, 0).unwrap();
        }
        assert!(own[0].list().unwrap().is_empty());
        assert_eq!(own[2].list().unwrap(), ["image-of-0000000000000abc-2"]);
        let swapped = [shared[0].clone(), shared[2].clone(), shared[1].clone()];
        for refused in [check(&swapped, 0xabc), check(&shared, 7), claim(&shared, 7, 3)] {
            assert!(matches!(refused, Err(ImageFailure::Misplaced { .. })), "{refused:?}");
        }
        assert_eq!(check(&shared[..2], 0xabc), Ok(()));
    }

    #[test]
    fn rings_that_nobody_claimed_are_left_alone_in_a_new_directory() {
        let (own, shared) = disks();
        own[1].open("image-000003", Open::New).unwrap();
        // Up to here the image lay in both; from now on it says so.
        claim(&shared[..2], 1, 2).unwrap();
        own[2].open("image-000004", Open::New).unwrap();
        let refused = claim(&shared, 1, 2).unwrap_err();
        assert!(refused.to_string().contains("image-000004"), "{refused}");
        assert_eq!(own[2].list().unwrap(), ["image-000004"]);
    }
}
