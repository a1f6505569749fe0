//! Parts as bytes: those that are damaged are refused, and those that only look whole do no harm.

use tombolo_storage::checksum;
use tombolo_storage::memory::held::{Changes, LockSet, Locks};
use tombolo_storage::owner::Owner;
use tombolo_storage::profile::Memory;
use tombolo_storage::store::Store;

use super::random::Random;
use super::world::World;

/// Encoded parts of a store, and the store.
fn world(seed: u64) -> World<Memory> {
    let mut world = World::new(seed, 8);
    while world.encoded.len() < 60 {
        world.go_on(5);
    }
    world
}

/// Changes a few bytes, cuts or repeats some.
fn damage(random: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..1 + random.below(3) {
        let at = random.below(bytes.len() as u64) as usize;
        match random.below(6) {
            0 => bytes.truncate(at.max(1)),
            1 => bytes.push(random.next() as u8),
            2 => {
                bytes.remove(at);
            }
            3 => bytes.extend_from_within(at..),
            // A length, or a number, at its extremes.
            4 => bytes[at] = [0, 1, 127, 128, 255][random.below(5) as usize],
            _ => bytes[at] ^= 1 << random.below(8),
        }
        if bytes.is_empty() {
            bytes.push(0);
        }
    }
}

/// Gives damaged bytes the checksum of whole ones.
fn sealed(bytes: &mut Vec<u8>, original: &[u8]) {
    bytes.resize(bytes.len().max(8), 0);
    bytes[..4].copy_from_slice(&original[..4]);
    let sum = checksum::of(&[&original[..4], &bytes[8..]]);
    bytes[4..8].copy_from_slice(&sum.to_le_bytes());
}

#[test]
fn damaged_parts_are_refused() {
    for seed in 0..20 {
        let (world, mut random) = (world(seed), Random::new(seed));
        for (changes, locks) in &world.encoded {
            assert!(Changes::from_bytes(locks).is_none() && Changes::from_bytes(&[]).is_none());
            for _ in 0..20 {
                let mut damaged = [changes.clone(), locks.clone()];
                for (bytes, original) in damaged.iter_mut().zip([changes, locks]) {
                    damage(&mut random, bytes);
                    if bytes != original {
                        assert!(Changes::from_bytes(bytes).is_none());
                        assert!(LockSet::from_bytes(bytes, world.store.schema()).is_none());
                    }
                }
            }
        }
    }
}

#[test]
fn parts_that_only_look_whole_do_no_harm() {
    let (mut decoded, mut made) = ([0, 0], 0);
    for seed in 0..20 {
        let (mut world, mut random) = (world(seed), Random::new(seed));
        let encoded = std::mem::take(&mut world.encoded);
        for (changes, locks) in &encoded {
            for _ in 0..20 {
                let mut damaged = [changes.clone(), locks.clone()];
                damaged.iter_mut().for_each(|bytes| damage(&mut random, bytes));
                sealed(&mut damaged[0], changes);
                sealed(&mut damaged[1], locks);
                if let Some(changes) = Changes::from_bytes(&damaged[0]) {
                    decoded[0] += 1;
                    assert_eq!(changes.as_bytes(), damaged[0]);
                    world.store.begin().unwrap();
                    world.store.begin_writes();
                    made += usize::from(world.store.make(&changes).is_ok());
                    world.store.abort().unwrap();
                }
                if let Some(locks) = LockSet::from_bytes(&damaged[1], world.store.schema()) {
                    decoded[1] += 1;
                    let mut all = Locks::new().unwrap();
                    all.acquire(Owner::new(1), locks.clone()).unwrap();
                    assert_eq!(all.check(), Ok(()));
                    for lock in locks.iter() {
                        let _ = all.conflict(&lock);
                    }
                    assert!(all.release(Owner::new(1)));
                    assert_eq!(all.check(), Ok(()));
                }
            }
        }
        world.check();
    }
    assert!(decoded.iter().all(|&count| count > 1_000) && made > 100, "{decoded:?}, {made} made");
}
