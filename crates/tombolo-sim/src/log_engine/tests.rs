//! The oracle sees the mistakes of a toy log, and accepts it without them.
//!
//! The toy writes one entry per group into one file; an entry names the steps by their positions
//! in a list that survives everything, because it is the test's. It is no model of the value log:
//! it tests the world and the oracle without the value log.

use std::cell::{Cell, RefCell};

use tombolo_storage::disk::{Disk, DiskError, DiskFile, Open as OpenHow};
use tombolo_storage::profile::Memory;

use super::*;
use crate::database::recording::Again;
use crate::workload::model::fold;
use crate::workload::store::hide_planned_panics;
use crate::world::SeedResult;

/// What the toy does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    None,
    SkipsSync,
    SkipsDirectorySync,
    BelievesSecondSync,
    IgnoresChecksum,
    TrustsTheCache,
    AppendsAfterFailure,
    RefusesWithoutCause,
    SwapsTwoSteps,
    SkipsLastStep,
}

thread_local! {
    static BUG: Cell<Bug> = const { Cell::new(Bug::None) };
    static STEPS: RefCell<Vec<Step>> = const { RefCell::new(Vec::new()) };
}

const ENTRY: usize = 32;

struct Toy {
    file: Box<dyn DiskFile>,
    entries: u64,
    checksum: u64,
    failed: bool,
    /// Steps that ran and are not appended.
    ran: Vec<Step>,
}

fn has(bug: Bug) -> bool {
    BUG.get() == bug
}

fn entry(first: u64, last: u64, before: u64) -> ([u8; ENTRY], u64) {
    let checksum = fold(fold(fold(before, first), last), 7);
    let words = [first, last, 7, checksum];
    let mut bytes = [0; ENTRY];
    words.iter().enumerate().for_each(|(i, word)| {
        bytes[i * 8..i * 8 + 8].copy_from_slice(&word.to_le_bytes());
    });
    (bytes, checksum)
}

impl Toy {
    fn open(disk: &FaultyDisk) -> Result<(Self, Vec<Step>), DiskError> {
        if !disk.exists("toy")? {
            let file = disk.open("toy", OpenHow::New)?;
            file.sync()?;
            if !has(Bug::SkipsDirectorySync) {
                disk.sync_dir()?;
            }
            return Ok((
                Self { file, entries: 0, checksum: 0, failed: false, ran: Vec::new() },
                Vec::new(),
            ));
        }
        let file = disk.open("toy", OpenHow::Write)?;
        if !has(Bug::SkipsDirectorySync) {
            disk.sync_dir()?; // its entry may not be durable yet
        }
        let mut toy = Self { file, entries: 0, checksum: 0, failed: false, ran: Vec::new() };
        let mut bytes = vec![0; toy.file.len()? as usize];
        toy.file.read_at(&mut bytes, 0)?;
        let mut steps = Vec::new();
        for found in bytes.chunks_exact(ENTRY) {
            let word = |i: usize| {
                let bytes: [u8; 8] = found[i * 8..i * 8 + 8].try_into().unwrap();
                u64::from_le_bytes(bytes)
            };
            let (expected, checksum) = entry(word(0), word(1), toy.checksum);
            let known =
                STEPS.with_borrow(|all| word(0) <= word(1) && (word(1) as usize) <= all.len());
            let accepts = expected == found || (has(Bug::IgnoresChecksum) && word(2) == 7 && known);
            if !accepts {
                break;
            }
            let range = word(0) as usize..word(1) as usize;
            steps.extend(STEPS.with_borrow(|all| all[range].to_vec()));
            (toy.entries, toy.checksum) = (toy.entries + 1, checksum);
        }
        let end = toy.entries as usize * ENTRY;
        toy.file.set_len(end as u64)?;
        if !has(Bug::TrustsTheCache) {
            // The cache may show what a failed sync did not put on the medium.
            toy.file.write_at(&bytes[..end], 0)?;
            toy.file.sync()?;
        }
        Ok((toy, steps))
    }
}

impl Subject for Toy {
    type Profile = Memory;

    fn recover(
        disk: &FaultyDisk,
        _: &Swarm,
        _: bool,
    ) -> Result<(Self, MemoryStore<Memory>), Refused> {
        let refused = |error: DiskError| Refused {
            message: error.to_string(),
            is_failed_call: true,
            place: error.offset().map(|offset| (error.file().to_owned(), offset)),
        };
        let (toy, steps) = Toy::open(disk).map_err(refused)?;
        if has(Bug::RefusesWithoutCause) && toy.entries == 5 {
            return Err(Refused::unsound("five entries".to_string()));
        }
        let mut again = Again::new();
        steps.iter().try_for_each(|step| again.run(step)).map_err(Refused::unsound)?;
        Ok((toy, again.store))
    }

    fn ran(&mut self, step: &Step) {
        self.ran.push(step.clone());
    }

    fn has_room(&mut self, _: &MemoryStore<Memory>) -> bool {
        true
    }

    fn append(&mut self, _: &mut MemoryStore<Memory>) -> Result<(), LogRefusal> {
        if self.failed && !has(Bug::AppendsAfterFailure) {
            return Err(LogRefusal::Failed("an earlier failure".to_string()));
        }
        let mut steps = self.ran.clone();
        let last = steps.len() - 1;
        if has(Bug::SwapsTwoSteps) && last > 1 {
            steps.swap(last - 1, last);
        }
        if has(Bug::SkipsLastStep) && last > 5 {
            steps.pop();
        }
        let (first, last) = STEPS.with_borrow_mut(|all| {
            let first = all.len();
            all.extend(steps);
            (first as u64, all.len() as u64)
        });
        let (bytes, checksum) = entry(first, last, self.checksum);
        let written = self.file.write_at(&bytes, self.entries * ENTRY as u64);
        (self.entries, self.checksum) = (self.entries + 1, checksum);
        self.failed |= written.is_err();
        if written.is_ok() {
            self.ran.clear();
        }
        written.map_err(|error| LogRefusal::Failed(error.to_string()))
    }

    fn sync(&mut self, _: &MemoryStore<Memory>) -> Result<(), LogRefusal> {
        if self.failed && !has(Bug::BelievesSecondSync) && !has(Bug::AppendsAfterFailure) {
            return Err(LogRefusal::Failed("an earlier failure".to_string()));
        }
        if has(Bug::SkipsSync) {
            return Ok(());
        }
        let synced = self.file.sync();
        self.failed |= synced.is_err();
        synced.map_err(|error| LogRefusal::Failed(error.to_string()))
    }
}

fn run(seed: u64, bug: Bug) -> SeedResult {
    hide_planned_panics();
    BUG.set(bug);
    STEPS.take();
    let mut world = World::new(seed, false);
    world.swarm.rot_rehearsals = 0; // the toy takes damage for its end
    // It logs commands.
    world.swarm.adds_indexes = false;
    (world.swarm.kinds.columns, world.swarm.kinds.ids) = (false, false);
    world.run::<LogEngine<Toy>>(seed)
}

/// The rule that catches `bug`, and the seed that did.
fn caught(bug: Bug) -> (u64, Rule) {
    let found = (0..10_000).find_map(|seed| run(seed, bug).violation.map(|v| (seed, v.rule)));
    found.unwrap_or_else(|| panic!("{bug:?} is not found in 10,000 seeds"))
}

#[test]
fn the_toy_without_mistakes_is_accepted() {
    let mut counted = 0;
    for seed in 0..150 {
        let result = run(seed, Bug::None);
        assert_eq!(result.violation, None, "seed {seed}");
        counted += u64::from(result.is_enough);
    }
    assert_eq!(counted, 150);
}

#[test]
fn every_mistake_of_the_toy_is_found() {
    for (bug, rules) in [
        (Bug::SkipsSync, &[Rule::AcknowledgedIsDurable][..]),
        (Bug::SkipsDirectorySync, &[Rule::AcknowledgedIsDurable]),
        (Bug::BelievesSecondSync, &[Rule::AcknowledgedIsDurable]),
        (Bug::IgnoresChecksum, &[Rule::Prefix, Rule::RecoveryRepeats, Rule::JustRefusal]),
        (Bug::TrustsTheCache, &[Rule::AcknowledgedIsDurable]),
        (Bug::AppendsAfterFailure, &[Rule::AcknowledgedIsDurable, Rule::Prefix]),
        (Bug::RefusesWithoutCause, &[Rule::JustRefusal]),
        (Bug::SwapsTwoSteps, &[Rule::Prefix, Rule::JustRefusal]),
        (Bug::SkipsLastStep, &[Rule::Prefix, Rule::AcknowledgedIsDurable]),
    ] {
        let (seed, rule) = caught(bug);
        println!("{bug:?} is found by seed {seed}: {}", rule.name());
        assert!(rules.contains(&rule), "{bug:?} is found by {rule:?}");
    }
}

#[test]
fn the_same_seed_leaves_the_same_trace() {
    for seed in 0..20 {
        assert_eq!(run(seed, Bug::None), run(seed, Bug::None));
    }
    assert_ne!(run(1, Bug::None).hash, run(2, Bug::None).hash);
}
