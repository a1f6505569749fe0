//! A disk of two: the log on one, everything else on the other.
//!
//! A saved database is opened with its pages copied on write and its log on a device, so that
//! commits wait for that device and for nothing else.

use tombolo_storage::disk::{Disk, DiskError, DiskFile, Open};
use tombolo_storage::log::LOG_FILE;

/// Two disks as one.
#[derive(Debug)]
pub(crate) struct LogDisk<P, L> {
    /// Where everything but the log is.
    pub(crate) pages: P,
    /// Where the log is.
    pub(crate) log: L,
}

impl<P: Disk, L: Disk> LogDisk<P, L> {
    fn of(&self, name: &str) -> &dyn Disk {
        if name == LOG_FILE { &self.log } else { &self.pages }
    }
}

impl<P: Disk, L: Disk> Disk for LogDisk<P, L> {
    fn open(&self, name: &str, how: Open) -> Result<Box<dyn DiskFile>, DiskError> {
        self.of(name).open(name, how)
    }
    fn list(&self) -> Result<Vec<String>, DiskError> {
        let mut names = self.pages.list()?;
        names.retain(|name| name != LOG_FILE);
        names.extend(self.log.list()?.into_iter().filter(|name| name == LOG_FILE));
        names.sort_unstable();
        Ok(names)
    }
    fn exists(&self, name: &str) -> Result<bool, DiskError> {
        self.of(name).exists(name)
    }
    fn remove(&self, name: &str) -> Result<(), DiskError> {
        self.of(name).remove(name)
    }
    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        // The log has no other name, and no other file has its name.
        assert!(from != LOG_FILE && to != LOG_FILE, "{from} is to be {to}");
        self.pages.rename(from, to)
    }
    fn sync_dir(&self) -> Result<(), DiskError> {
        self.log.sync_dir()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tombolo_storage::disk::MemDisk;

    #[test]
    fn the_log_lies_on_its_own_disk() {
        let (pages, log) = (MemDisk::new(), MemDisk::new());
        let disk = LogDisk { pages: pages.clone(), log: log.clone() };
        for name in ["pages", LOG_FILE] {
            disk.open(name, Open::New).unwrap().write_at(name.as_bytes(), 0).unwrap();
        }
        disk.sync_dir().unwrap();
        assert_eq!(disk.list().unwrap(), [LOG_FILE, "pages"]);
        assert_eq!(
            (pages.list().unwrap(), log.list().unwrap()),
            (vec!["pages".to_owned()], vec![LOG_FILE.to_owned()])
        );
        disk.remove(LOG_FILE).unwrap();
        assert!(!disk.exists(LOG_FILE).unwrap() && disk.exists("pages").unwrap());
    }
}
