//! What is written is read, and damage is noticed at each byte.

use super::*;
use crate::rng::Rng;

fn tables() -> Vec<TracedTable> {
    vec![
        TracedTable { name: "shop".to_owned(), row_bytes: 24, key: Some("id".to_owned()) },
        TracedTable { name: "note".to_owned(), row_bytes: 8, key: None },
    ]
}

fn random_call(rng: &mut Rng, began_us: u64) -> Call {
    let all = [Access::Scanned, Access::Read, Access::Updated, Access::Created, Access::Deleted];
    let touched = |rng: &mut Rng| Touched {
        access: all[rng.below(5) as usize],
        table: rng.below(2) as u32,
        key: (rng.below(3) > 0).then(|| rng.below(u64::MAX)),
        rows: 1 << rng.below(40),
    };
    Call {
        procedure: 0,
        began_us,
        ran_ns: rng.below(1 << 30),
        is_aborted: rng.below(2) == 0,
        touched: (0..rng.below(6)).map(|_| touched(rng)).collect(),
        more_rows: rng.below(2) * rng.below(1 << 50),
    }
}

/// A file of so many calls, and the same as values.
fn file(calls: u64, seed: u64) -> (Vec<u8>, Trace) {
    let (mut encoder, mut file) = Encoder::begin(&tables());
    let (mut rng, mut trace) = (Rng::from_seed(seed), Trace::default());
    let mut began_us = 0;
    for _ in 0..calls {
        began_us += rng.below(1_000);
        let mut call = random_call(&mut rng, began_us);
        let name = ["book", "list", "a closure"][rng.below(3) as usize];
        if !trace.procedures.iter().any(|known| known == name) {
            trace.procedures.push(name.to_owned());
        }
        let place = trace.procedures.iter().position(|known| known == name).unwrap();
        call.procedure = place as u32;
        file.extend(encoder.add(name, &call).into_iter().flatten());
        trace.calls.push(call);
    }
    file.extend(encoder.take().into_iter().flatten());
    let end = End { calls, lost: 3, recorded_us: began_us };
    let (blocks, in_blocks) = encoder.handed_out();
    assert_eq!((in_blocks, encoder.open_calls()), (calls, 0));
    file.extend(encoder.end(blocks, end));
    (trace.tables, trace.end) = (tables(), Some(end));
    (file, trace)
}

#[test]
fn what_is_written_is_read() {
    for (calls, seed) in [(0, 1), (1, 2), (10_000, 3)] {
        let (file, trace) = file(calls, seed);
        assert_eq!(read(&file), Ok(trace), "{calls} calls");
    }
}

/// A file that ends early is refused, or read up to its last whole block, and never read as if it were whole.
#[test]
fn a_file_that_ends_at_any_byte() {
    let (file, whole) = file(40, 4);
    for bytes in 0..file.len() {
        match read(&file[..bytes]) {
            Ok(trace) => {
                assert!(trace.torn.is_some() && trace.end.is_none(), "{bytes}");
                assert!(whole.calls.starts_with(&trace.calls), "{bytes}");
            }
            Err(damage) => assert_ne!(damage, Damage::OtherVersion(VERSION), "{bytes}"),
        }
    }
}

#[test]
fn a_file_that_is_damaged_at_any_byte() {
    let (mut file, whole) = file(40, 5);
    for at in 0..file.len() {
        for bit in [1, 0x80] {
            file[at] ^= bit;
            match read(&file) {
                Ok(trace) => {
                    assert!(trace.torn.is_some(), "{at}");
                    assert!(whole.calls.starts_with(&trace.calls), "{at}");
                }
                Err(damage) => assert!(at < 200, "{at}: {damage}"),
            }
            file[at] ^= bit;
        }
    }
}

#[test]
fn what_is_no_trace_of_this_version_is_refused() {
    assert_eq!(read(b""), Err(Damage::NoTrace));
    assert_eq!(read(b"some other file, which is long enough"), Err(Damage::NoTrace));
    let (mut file, _) = file(1, 6);
    file[8..12].copy_from_slice(&2u32.to_le_bytes());
    let sum = tombolo_storage::checksum::of(&[&file[..12]]);
    file[12..16].copy_from_slice(&sum.to_le_bytes());
    assert_eq!(read(&file), Err(Damage::OtherVersion(2)));
    let text = Damage::OtherVersion(2).to_string();
    assert_eq!(text, "it is a trace of version 2, and this program reads 1");
}

/// Blocks that changed places are not what was written, though each is whole.
#[test]
fn blocks_have_their_places() {
    let (mut encoder, mut file) = Encoder::begin(&tables());
    let mut blocks = Vec::new();
    for began_us in 1..=2 {
        encoder.add("book", &Call { began_us, ..Call::default() });
        blocks.extend(encoder.take());
    }
    file.extend(blocks[1].iter().chain(&blocks[0]));
    let trace = read(&file).unwrap();
    assert_eq!(trace.calls, []);
    assert!(trace.torn.unwrap().starts_with("damaged or incomplete from byte"));
}
