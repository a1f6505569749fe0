//! The requests of a seed's callers: transfers, reads and refusals, over one island or several, and their bytes.
//!
//! Not here: their times (`world.rs`).

use tombolo_engine::islands::commit::IslandId;
use tombolo_engine::rng::Rng;

use crate::faults::one_in;

/// One step of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Read(u8),
    /// Refused if less than nothing would be left.
    Add(u8, i64),
    Refuse,
}

/// What one caller wants.
#[derive(Clone, Debug)]
pub(super) struct Request {
    /// The caller's.
    pub(super) island: IslandId,
    pub(super) parts: Vec<(IslandId, Vec<Operation>)>,
    /// It runs on its island alone, without the machine.
    pub(super) is_local: bool,
    /// It reads all accounts: their sum is known.
    pub(super) is_sum: bool,
}

pub(super) fn encode(operations: &[Operation]) -> Vec<u8> {
    let bytes = |operation: &Operation| {
        let (kind, account, amount) = match *operation {
            Operation::Read(account) => (0, account, 0),
            Operation::Add(account, amount) => (1, account, amount),
            Operation::Refuse => (2, 0, 0),
        };
        let mut bytes = vec![kind, account];
        bytes.extend_from_slice(&amount.to_le_bytes());
        bytes
    };
    operations.iter().flat_map(bytes).collect()
}

/// # Panics
/// When the bytes are not what was encoded: nothing on the way may change them.
pub(super) fn decode(bytes: &[u8]) -> Vec<Operation> {
    let operations = bytes.chunks(10).map(|bytes| {
        let amount: [u8; 8] = bytes[2..].try_into().expect("ten bytes an operation");
        match bytes[0] {
            0 => Operation::Read(bytes[1]),
            1 => Operation::Add(bytes[1], i64::from_le_bytes(amount)),
            2 => Operation::Refuse,
            kind => panic!("no operation is of kind {kind}"),
        }
    });
    operations.collect()
}

/// Draws one request, for so many islands with so many accounts each.
pub(super) fn draw(rng: &mut Rng, islands: u16, accounts: u8) -> Request {
    let mut all: Vec<IslandId> = (0..islands).map(IslandId).collect();
    rng.shuffle(&mut all);
    let mut account = || rng.below(u64::from(accounts)) as u8;
    let (from, to) = (account(), account());
    let amount = rng.between(1, 9);
    let add = |island, account, amount| (island, vec![Operation::Add(account, amount)]);
    let read = |island, account| (island, vec![Operation::Read(account)]);
    let local = vec![Operation::Add(from, -amount), Operation::Add(to, amount)];
    let everything: Vec<Operation> = (0..accounts).map(Operation::Read).collect();
    let transfer = vec![add(all[0], from, -amount), add(all[1], to, amount)];
    let coordinator = all[rng.below(u64::from(islands)) as usize];
    let (island, parts) = match rng.below(12) {
        // Of the caller's island alone.
        0 | 1 => (all[0], vec![(all[0], local)]),
        2 => (all[0], vec![(all[0], everything)]),
        3 => (coordinator, all.iter().map(|island| (*island, everything.clone())).collect()),
        // One island writes, the others are read.
        4 => (all[0], vec![(all[0], local), read(all[1], to)]),
        5 => (all[0], vec![read(all[0], from), (all[1], local)]),
        6 => (coordinator, vec![(all[0], local), read(all[1], to)]),
        // Refused by one of them.
        7 if one_in(rng, 2) => {
            (coordinator, vec![add(all[0], from, -amount), (all[1], vec![Operation::Refuse])])
        }
        7 => (coordinator, vec![add(all[0], from, -1_000_000), add(all[1], to, 1_000_000)]),
        // All of them write.
        8 if islands > 2 => {
            let parts = vec![
                add(all[0], from, -2 * amount),
                add(all[1], to, amount),
                add(all[2], to, amount),
            ];
            (coordinator, parts)
        }
        _ => (coordinator, transfer),
    };
    let is_sum = parts.len() == usize::from(islands)
        && parts
            .iter()
            .all(|(_, steps)| steps.iter().all(|step| matches!(step, Operation::Read(_))));
    let is_local = parts.len() == 1;
    Request { island, parts, is_local, is_sum }
}
