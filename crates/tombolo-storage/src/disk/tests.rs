//! Both disks keep one contract; a planned fault strikes where it was planned.

use super::os::OsFile;
use super::ring::Rings;
use super::*;
use std::io::ErrorKind;

/// A directory that goes with the test.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn new(test: &str) -> Self {
        let name = format!("tombolo-disk-{test}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        _ = std::fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

fn on_both(test: &str, check: impl Fn(&dyn Disk)) {
    check(&MemDisk::new());
    let scratch = Scratch::new(test);
    check(&OsDisk::create(&scratch.0).unwrap());
}

#[test]
fn what_is_written_is_read() {
    on_both("write", |disk| {
        let file = disk.open("a", Open::New).unwrap();
        assert!(file.is_empty().unwrap());
        file.write_at(b"island", 70_000).unwrap();
        file.write_at(b"sand", 0).unwrap();
        assert_eq!(file.len().unwrap(), 70_006);
        let mut bytes = vec![1; 70_006];
        file.read_at(&mut bytes, 0).unwrap();
        assert_eq!((&bytes[..4], &bytes[70_000..]), (&b"sand"[..], &b"island"[..]));
        assert!(bytes[4..70_000].iter().all(|&byte| byte == 0));
        file.sync().unwrap();
        disk.sync_dir().unwrap();
        let again = disk.open("a", Open::Read).unwrap();
        let mut bytes = [0; 6];
        again.read_at(&mut bytes, 70_000).unwrap();
        assert_eq!(&bytes, b"island");
        assert!(again.write_at(b"no", 0).is_err(), "opened for reading");
    });
}

#[test]
fn a_length_is_set_both_ways() {
    on_both("length", |disk| {
        let file = disk.open("a", Open::New).unwrap();
        file.write_at(&[7; 100_000], 0).unwrap();
        file.set_len(10).unwrap();
        file.set_len(100_000).unwrap();
        let mut bytes = vec![1; 100_000];
        file.read_at(&mut bytes, 0).unwrap();
        assert!(bytes[..10].iter().all(|&byte| byte == 7));
        assert!(bytes[10..].iter().all(|&byte| byte == 0), "what was cut off came back");
    });
}

#[test]
fn errors_name_file_and_offset() {
    on_both("errors", |disk| {
        let missing = disk.open("a", Open::Write).unwrap_err();
        assert!(missing.is_not_found() && missing.file().ends_with('a'), "{missing}");
        let file = disk.open("a", Open::New).unwrap();
        assert!(disk.open("a", Open::New).is_err());
        file.set_len(10).unwrap();
        let short = file.read_at(&mut [0; 8], 4).unwrap_err();
        assert!(short.is_truncated() && !short.is_full(), "{short}");
        assert_eq!((short.operation(), short.offset()), (Operation::Read, Some(4)));
        assert!(short.to_string().contains("a at offset 4"), "{short}");
    });
}

#[test]
fn files_are_listed_and_removed() {
    on_both("list", |disk| {
        for name in ["pages", "log-2", "log-1"] {
            disk.open(name, Open::New).unwrap();
        }
        assert_eq!(disk.list().unwrap(), ["log-1", "log-2", "pages"]);
        disk.remove("log-2").unwrap();
        assert!(!disk.exists("log-2").unwrap() && disk.exists("pages").unwrap());
        assert!(disk.remove("log-2").unwrap_err().is_not_found());
    });
}

#[test]
fn one_handle_locks_a_file() {
    on_both("lock", |disk| {
        let first = disk.open("a", Open::New).unwrap();
        let second = disk.open("a", Open::Write).unwrap();
        assert!(first.try_lock().unwrap());
        assert!(!second.try_lock().unwrap());
        drop(first);
        assert!(second.try_lock().unwrap());
    });
}

/// The second handle is what a process has between its fork and its program.
#[test]
fn a_lock_goes_with_its_file_though_a_forked_process_still_has_it() {
    let scratch = Scratch::new("forked");
    std::fs::create_dir_all(&scratch.0).unwrap();
    let open = || {
        let mut options = std::fs::OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).open(scratch.0.join("lock"))
    };
    let file = open().unwrap();
    let forked = file.try_clone().unwrap();
    let file = OsFile::new(file, "lock".to_owned(), 1);
    assert!(file.try_lock().unwrap());
    let other = OsFile::new(open().unwrap(), "lock".to_owned(), 1);
    assert!(!other.try_lock().unwrap());
    drop(file);
    assert!(other.try_lock().unwrap());
    drop(forked);
}

#[test]
fn a_full_disk_says_so() {
    let disk = MemDisk::new();
    disk.set_capacity_bytes(Some(100));
    let file = disk.open("a", Open::New).unwrap();
    file.set_len(60).unwrap();
    assert!(file.write_at(&[1; 50], 60).unwrap_err().is_full());
    file.write_at(&[1; 40], 60).unwrap();
    assert!(file.set_len(101).unwrap_err().is_full());
    let other = disk.open("b", Open::New).unwrap();
    assert!(other.write_at(&[1], 0).unwrap_err().is_full());
    disk.remove("a").unwrap();
    other.write_at(&[1; 100], 0).unwrap();
}

#[test]
fn a_fault_strikes_the_planned_call() {
    let disk = MemDisk::new();
    let file = disk.open("a", Open::New).unwrap();
    disk.set_fault(Some(Fault { operation: Operation::Write, after: 2, kind: ErrorKind::Other }));
    file.write_at(&[1], 0).unwrap();
    file.write_at(&[1], 1).unwrap();
    assert_eq!(file.write_at(&[1], 2).unwrap_err().operation(), Operation::Write);
    assert!(file.write_at(&[1], 0).is_err(), "and all later ones");
    file.sync().unwrap();
    disk.set_fault(None);
    file.write_at(&[1], 2).unwrap();
}

#[test]
#[should_panic(expected = "no plain file name")]
fn a_name_leads_nowhere_else() {
    _ = MemDisk::new().open("../a", Open::Read);
}

/// `bytes` bytes within `store` that begin at an address every file accepts.
fn aligned(store: &mut Vec<u8>, bytes: usize) -> &mut [u8] {
    store.resize(bytes + ALIGNMENT_MAX, 0);
    let start = store.as_ptr().align_offset(ALIGNMENT_MAX);
    &mut store[start..start + bytes]
}

#[test]
fn what_is_written_directly_is_read_either_way() {
    on_both("direct", |disk| {
        let file = disk.open_direct("a", Open::New).unwrap();
        assert!(disk.open_direct("a", Open::New).is_err());
        file.set_len(64 << 10).unwrap();
        let (mut out, mut back) = (Vec::new(), Vec::new());
        let out = aligned(&mut out, 2 * ALIGNMENT_MAX);
        out.fill(7);
        file.write_at(out, ALIGNMENT_MAX as u64).unwrap();
        file.sync().unwrap();
        let back = aligned(&mut back, ALIGNMENT_MAX);
        file.read_at(back, 2 * ALIGNMENT_MAX as u64).unwrap();
        assert!(back.iter().all(|&byte| byte == 7));
        let mut bytes = [1; 20];
        let plain = disk.open("a", Open::Read).unwrap();
        assert_eq!(plain.alignment(), 1);
        plain.read_at(&mut bytes, 3 * ALIGNMENT_MAX as u64 - 10).unwrap();
        assert_eq!((&bytes[..10], &bytes[10..]), (&[7; 10][..], &[0; 10][..]));
    });
}

#[test]
fn a_wrong_alignment_is_refused() {
    let disk = MemDisk::new();
    disk.set_alignment(512);
    let file = disk.open_direct("a", Open::New).unwrap();
    assert_eq!(file.alignment(), 512);
    let mut store = Vec::new();
    let bytes = aligned(&mut store, 1024);
    file.write_at(bytes, 512).unwrap();
    assert!(file.write_at(&bytes[..1000], 0).is_err(), "the length");
    assert!(file.write_at(bytes, 8).is_err(), "the offset");
    assert!(file.write_at(&bytes[8..520], 0).is_err(), "the address");
}

#[test]
fn a_directory_is_known_by_its_whole_path() {
    let here = std::env::current_dir().unwrap();
    let missing = OsDisk::open(std::path::Path::new("no/such")).unwrap_err();
    assert_eq!(missing.file(), here.join("no/such").display().to_string());
    // The package's own directory, which the tests are started in.
    let own = OsDisk::open(std::path::Path::new(".")).unwrap();
    let file = own.open("Cargo.toml", Open::Read).unwrap();
    assert_eq!(file.name(), here.join("Cargo.toml").display().to_string());
    for empty in [OsDisk::open("".as_ref()), OsDisk::create("".as_ref())] {
        assert_eq!(empty.unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}

#[test]
fn a_directory_in_a_directory_is_no_file() {
    // The package's own directory.
    let disk = OsDisk::open(std::path::Path::new(".")).unwrap();
    let names = disk.list().unwrap();
    for (name, is_file) in [("Cargo.toml", true), ("src", false), ("backup", false)] {
        assert_eq!(names.iter().any(|found| found == name), is_file);
        assert_eq!(disk.exists(name), Ok(is_file));
    }
}

#[test]
fn pieces_are_written_where_they_belong() {
    let bytes: Vec<u8> = (0..100_u8).flat_map(|piece| [piece; 512]).collect();
    // More than are under way at the same time, not in order, and one that is longer.
    let pieces = |bytes| -> Vec<(u64, &[u8])> {
        let chunks = <[u8]>::chunks(bytes, 512).enumerate();
        let mut pieces: Vec<_> = chunks.map(|(at, piece)| (512 * at as u64, piece)).collect();
        pieces[60].1 = &bytes[60 * 512..62 * 512];
        pieces.remove(61);
        pieces.sort_by_key(|(offset, _)| offset % 1_536);
        pieces
    };
    let is_written = |file: &dyn DiskFile| {
        let mut back = vec![1; bytes.len()];
        file.read_at(&mut back, 0).unwrap();
        assert_eq!(back, bytes);
        let mut back = vec![1; bytes.len()];
        let places = (0..).step_by(512);
        let mut wanted: Vec<_> = places.zip(back.chunks_mut(512)).collect();
        wanted.rotate_left(17);
        file.read_pieces(&mut wanted).unwrap();
        assert_eq!(back, bytes);
        let mut behind = [1; 512];
        let failure =
            file.read_pieces(&mut [(0, &mut [0; 512]), (bytes.len() as u64, &mut behind)]);
        assert!(failure.unwrap_err().is_truncated());
        file.write_pieces(&[]).unwrap();
        assert_eq!(file.len().unwrap(), bytes.len() as u64);
    };
    on_both("pieces", |disk| {
        let file = disk.open("a", Open::New).unwrap();
        file.write_pieces(&pieces(&bytes)).unwrap();
        is_written(&*file);
    });
    let scratch = Scratch::new("rings");
    OsDisk::create(&scratch.0).unwrap();
    for (name, rings) in [("ring", Rings::default()), ("none", Rings::missing())] {
        let path = scratch.0.join(name);
        let options =
            |write| std::fs::OpenOptions::new().read(true).write(write).create(write).clone();
        let opened = |write| options(write).open(&path).unwrap();
        let mut file = OsFile::new(opened(true), name.to_owned(), ALIGNMENT_MAX);
        file.rings = rings;
        for _ in 0..3 {
            file.write_pieces(&pieces(&bytes)).unwrap();
        }
        is_written(&file);
        // Each that cannot be written is a failure with its reason.
        let file = OsFile::new(opened(false), name.to_owned(), ALIGNMENT_MAX);
        let refused = file.write_pieces(&pieces(&bytes)).unwrap_err();
        assert!(refused.to_string().contains(name), "{refused}");
        is_written(&file);
    }
}
