//! A disk of two: the log on one, everything else on the other.
//!
//! A saved database is opened with its pages copied on write and its log on a device, so that
//! commits wait for that device and for nothing else.

use tombolo_storage::disk::{Disk, DiskError, DiskFile, Open};
use tombolo_storage::log::LOG_FILES;

/// Two disks as one.
#[derive(Debug)]
pub(crate) struct LogDisk<P, L> {
    /// Where everything but the log is.
    pub(crate) pages: P,
    /// Where the log is.
    pub(crate) log: L,
}

fn is_log(name: &str) -> bool {
    name.starts_with(LOG_FILES)
}

impl<P: Disk, L: Disk> LogDisk<P, L> {
    fn of(&self, name: &str) -> &dyn Disk {
        if is_log(name) { &self.log } else { &self.pages }
    }
}

impl<P: Disk, L: Disk> Disk for LogDisk<P, L> {
    fn open(&self, name: &str, how: Open) -> Result<Box<dyn DiskFile>, DiskError> {
        self.of(name).open(name, how)
    }
    fn list(&self) -> Result<Vec<String>, DiskError> {
        let mut names = self.pages.list()?;
        names.retain(|name| !is_log(name));
        names.extend(self.log.list()?.into_iter().filter(|name| is_log(name)));
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
        // The log's files keep their names, and no other file gets one of them.
        assert!(!is_log(from) && !is_log(to), "{from} is to be {to}");
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

    const SEGMENT: &str = "log-000001";

    #[test]
    fn the_log_lies_on_its_own_disk() {
        let (pages, log) = (MemDisk::new(), MemDisk::new());
        let disk = LogDisk { pages: pages.clone(), log: log.clone() };
        for name in ["pages", SEGMENT] {
            disk.open(name, Open::New).unwrap().write_at(name.as_bytes(), 0).unwrap();
        }
        disk.sync_dir().unwrap();
        assert_eq!(disk.list().unwrap(), [SEGMENT, "pages"]);
        assert_eq!(
            (pages.list().unwrap(), log.list().unwrap()),
            (vec!["pages".to_owned()], vec![SEGMENT.to_owned()])
        );
        disk.remove(SEGMENT).unwrap();
        assert!(!disk.exists(SEGMENT).unwrap() && disk.exists("pages").unwrap());
    }
}
