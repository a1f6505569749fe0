//! The directories of an image (TPK-25): each but the first has a file `image-of-SALT-PLACE`, whose name has the
//! image's salt and the directory's place in their order.
//!
//! The catalogue has the number of directories, not their paths; a user gives these, and may mix them
//! up. Rings of another image would then be removed as leftovers. So a directory is claimed before
//! anything is written to it, and one that was claimed by another image, or for another place, or
//! that holds rings without a claim, is refused.
//!
//! A database that was restored has the salt of the one that was backed up: its log continues. Its image
//! is another one all the same, and says so by a file in its first directory, `restored-MARK`, that
//! restoring makes; its claims end in the mark. A copy of the first directory alone has nothing that
//! distinguishes it from its original: claims are locked while an image is open, so the two cannot write
//! at the same time.
//!
//! Not here: which ring lies where (`checkpoints.rs`). Invariant: a claim is durable before the first
//! catalogue that counts on its directory.

use super::ring::is_ring_file;
use super::settings::ImageFailure;
use crate::disk::{Disk, DiskError, DiskFile, Open};
use crate::sync::Arc;

const PREFIX: &str = "image-of-";

const RESTORED: &str = "restored-";

/// The file that distinguishes a database that was restored from the one that was backed up, and
/// from others restored of the same backup: `mark` is drawn for each.
pub(crate) fn restored_file(mark: u64) -> String {
    format!("{RESTORED}{mark:016x}")
}

/// The first file of a directory whose name begins so.
fn named(disk: &dyn Disk, prefix: &str) -> Result<Option<String>, DiskError> {
    Ok(disk.list()?.into_iter().find(|name| name.starts_with(prefix)))
}

/// The claims of an image's directories but the first, by their places, which begin with 1.
fn claims(disks: &[Arc<dyn Disk>], salt: u64) -> Result<Vec<String>, DiskError> {
    if disks.len() == 1 {
        return Ok(Vec::new());
    }
    let restored = named(&*disks[0], RESTORED)?;
    let mark = restored.as_deref().and_then(|file| file.strip_prefix(RESTORED));
    let mark = mark.map(|mark| format!("-{mark}")).unwrap_or_default();
    Ok((1..disks.len()).map(|place| format!("{PREFIX}{salt:016x}-{place}{mark}")).collect())
}

/// Refuses directories that are another image's, or in another order than before. Those without a
/// claim are judged by what they hold: blocks say which image they are of.
///
/// # Errors
/// `Misplaced`, `Disk`.
pub(super) fn check(disks: &[Arc<dyn Disk>], salt: u64) -> Result<(), ImageFailure> {
    for (claim, disk) in claims(disks, salt)?.into_iter().zip(&disks[1..]) {
        if let Some(file) = named(&**disk, PREFIX)?.filter(|file| *file != claim) {
            return Err(ImageFailure::Misplaced { file, claim });
        }
    }
    Ok(())
}

/// Claims all directories but the first, durably, for as long as the returned claims live. The image
/// lay in `known` of them before.
///
/// # Errors
/// `Misplaced`, `InUse`, `Full`, `Disk`.
pub(super) fn claim(
    disks: &[Arc<dyn Disk>],
    salt: u64,
    known: u32,
) -> Result<Vec<Box<dyn DiskFile>>, ImageFailure> {
    check(disks, salt)?;
    let mut claimed = Vec::new();
    for (place, claim) in (1..).zip(claims(disks, salt)?) {
        let disk = &*disks[place];
        let file = if disk.exists(&claim)? {
            disk.open(&claim, Open::Write)?
        } else {
            let strange = disk.list()?.into_iter().find(|name| is_ring_file(name));
            if let Some(file) = strange.filter(|_| place >= known as usize) {
                return Err(ImageFailure::Misplaced { file, claim });
            }
            let file = disk.open(&claim, Open::New)?;
            file.sync()?;
            file
        };
        if !file.try_lock()? {
            return Err(ImageFailure::InUse { file: file.name().to_owned() });
        }
        claimed.push(file);
        // It may have been made by a process that ended before this.
        disk.sync_dir()?;
    }
    Ok(claimed)
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
            let claimed = claim(&shared, 0xabc, 0).unwrap();
            assert!(matches!(claim(&shared, 0xabc, 0), Err(ImageFailure::InUse { .. })));
            drop(claimed);
        }
        assert!(own[0].list().unwrap().is_empty());
        assert_eq!(own[2].list().unwrap(), ["image-of-0000000000000abc-2"]);
        let swapped = [shared[0].clone(), shared[2].clone(), shared[1].clone()];
        let claimed = claim(&shared, 7, 3).map(drop);
        for refused in [check(&swapped, 0xabc), check(&shared, 7), claimed] {
            assert!(matches!(refused, Err(ImageFailure::Misplaced { .. })), "{refused:?}");
        }
        assert_eq!(check(&shared[..2], 0xabc), Ok(()));
    }

    #[test]
    fn a_restored_database_has_claims_of_its_own() {
        let (own, shared) = disks();
        let others = disks();
        claim(&shared[..2], 1, 0).unwrap();
        others.0[0].open(&restored_file(0xd), Open::New).unwrap();
        // The directory of the one that was backed up is not the restored one's, and the other way round.
        let mixed = [others.1[0].clone(), shared[1].clone()];
        let refused = claim(&mixed, 1, 1).unwrap_err().to_string();
        assert!(refused.contains("image-of-0000000000000001-1,"), "{refused}");
        claim(&others.1[..2], 1, 1).unwrap();
        assert_eq!(others.0[1].list().unwrap(), ["image-of-0000000000000001-1-000000000000000d"]);
        let mixed = [shared[0].clone(), others.1[1].clone()];
        assert!(matches!(claim(&mixed, 1, 1), Err(ImageFailure::Misplaced { .. })));
        assert_eq!(own[1].list().unwrap(), ["image-of-0000000000000001-1"]);
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
