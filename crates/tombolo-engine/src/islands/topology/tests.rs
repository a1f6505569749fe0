//! Machines described in directories like the system's.

use std::path::PathBuf;

use super::*;

/// A machine of `sockets` sockets with two islands each, of two cores with two threads each, numbered as
/// systems do: first one thread of every core, then the other ones.
fn machine(name: &str, sockets: usize) -> PathBuf {
    let root = std::env::temp_dir().join(format!("tombolo-topology-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&root);
    let cores = sockets * 4;
    let write = |file: PathBuf, text: String| {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text + "\n").unwrap();
    };
    for id in 0..2 * cores {
        let (core, cpu) = (id % cores, root.join(format!("cpu/cpu{id}")));
        let (island, socket) = (core / 2, core / 4);
        let siblings = format!("{core},{}", core + cores);
        write(cpu.join("topology/thread_siblings_list"), siblings.clone());
        write(cpu.join("topology/physical_package_id"), socket.to_string());
        let first = island * 2;
        let sharing = format!("{first}-{},{}-{}", first + 1, first + cores, first + cores + 1);
        let caches = [("Data", 1, "32K", &siblings), ("Instruction", 1, "64K", &siblings)];
        let caches = caches.into_iter().chain([("Unified", 3, "16M", &sharing)]);
        for (index, (kind, level, size, shared)) in caches.enumerate() {
            let cache = cpu.join(format!("cache/index{index}"));
            write(cache.join("type"), kind.to_owned());
            write(cache.join("level"), level.to_string());
            write(cache.join("size"), size.to_owned());
            write(cache.join("shared_cpu_list"), shared.clone());
        }
    }
    for socket in 0..sockets {
        let cores = format!(
            "{}-{},{}-{}",
            socket * 4,
            socket * 4 + 3,
            socket * 4 + cores,
            socket * 4 + 3 + cores
        );
        write(root.join(format!("node/node{socket}/cpulist")), cores);
    }
    root
}

#[test]
fn cores_are_grouped_by_what_they_share() {
    let root = machine("whole", 2);
    let ids: Vec<usize> = (0..16).collect();
    let found = Topology::read(&root, &ids);
    let islands =
        vec![vec![0, 1, 8, 9], vec![2, 3, 10, 11], vec![4, 5, 12, 13], vec![6, 7, 14, 15]];
    assert_eq!(found.islands(), islands);
    assert_eq!(found.sockets(), [[0, 1, 2, 3, 8, 9, 10, 11], [4, 5, 6, 7, 12, 13, 14, 15]]);
    let core = Core { id: 13, siblings_of: 5, island: 4, node: 1, socket: 1 };
    assert_eq!(found.cores[13], core);
    let level = |level, bytes, shared_by, caches| CacheLevel { level, bytes, shared_by, caches };
    assert_eq!(found.caches, [level(1, 32 << 10, 2, 8), level(3, 16 << 20, 4, 4)]);
    let pairs: Vec<_> = found.pairs();
    let expected = [[0, 0], [0, 8], [0, 1], [0, 2], [0, 4]];
    assert_eq!(pairs, Distance::ALL.into_iter().zip(expected).collect::<Vec<_>>());
    fs::remove_dir_all(root).unwrap();
}

/// A process that may use some cores only has a machine of these.
#[test]
fn cores_that_may_not_be_used_are_not_there() {
    let root = machine("part", 2);
    let found = Topology::read(&root, &[1, 9, 10]);
    assert_eq!(found.islands(), [vec![1, 9], vec![10]]);
    assert_eq!(found.cores[1].siblings_of, 1);
    assert_eq!(found.distance(1, 10), Some(Distance::SameSocket));
    assert_eq!(found.distance(1, 0), None);
    fs::remove_dir_all(root).unwrap();
}

#[test]
fn a_machine_that_says_nothing_is_one_island() {
    let found = Topology::read(Path::new("/no/such/directory"), &[0, 1]);
    assert_eq!((found.islands(), found.caches.len()), (vec![vec![0, 1]], 0));
    assert_eq!(found.distance(0, 1), Some(Distance::SameCache));
}

#[test]
fn this_machine_has_cores() {
    let found = Topology::of_machine();
    assert_eq!(found.cores.len(), crate::threads::allowed_cores().len());
    assert!(!found.islands().is_empty());
}
