//! Messages over both kinds of stream: whole, in order, and nothing behind an end.

use super::*;
use crate::rng::Rng;

fn message(n: u64, rng: &mut Rng) -> Vec<u8> {
    let bytes = rng.below(2_000) as usize;
    (0..bytes).map(|at| (n as usize + at) as u8).collect()
}

/// Sends messages from one end to the other until the link ends or all are there.
fn pass(faults: MemoryFaults, seed: u64, count: u64) -> (Vec<Vec<u8>>, Vec<Vec<u8>>, bool) {
    let (mut from, mut to) = memory_pair(faults, seed);
    let mut rng = Rng::from_seed(seed);
    let sent: Vec<Vec<u8>> = (0..count).map(|n| message(n, &mut rng)).collect();
    let (mut next, mut received, mut has_ended) = (0, Vec::new(), false);
    while received.len() < sent.len() && !has_ended {
        if let Some(message) = sent.get(next) {
            let (head, tail) = message.split_at(message.len() / 3);
            next += usize::from(from.send(&[head, tail]) == Ok(true));
        } else {
            _ = from.flush();
        }
        match to.receive() {
            Ok(Some(message)) => received.push(message.to_vec()),
            Ok(None) => {}
            Err(end) => {
                assert_eq!((end.clone(), to.receive()), (LinkEnd::Gone, Err(end)));
                has_ended = true;
            }
        }
    }
    (sent, received, has_ended)
}

#[test]
fn messages_arrive_whole_and_in_order_however_bytes_come() {
    for seed in 0..50 {
        let faults = MemoryFaults {
            capacity_bytes: 1 + (seed as usize * 37) % 5_000,
            piece_bytes: 1 + (seed as usize * 13) % 700,
            delays: [0, 2, 5][seed as usize % 3],
            ..MemoryFaults::default()
        };
        let (sent, received, has_ended) = pass(faults, seed, 40);
        assert!(sent == received && !has_ended, "seed {seed}");
    }
}

#[test]
fn a_link_that_is_cut_gives_what_came_whole_and_ends() {
    for cut_after in (0..3_000).step_by(7) {
        let faults = MemoryFaults { cut_after, piece_bytes: 100, ..MemoryFaults::default() };
        let (sent, received, has_ended) = pass(faults, 1, 40);
        assert!(has_ended, "cut after {cut_after}");
        let mut bytes = 0;
        let whole = sent.iter().take_while(|message| {
            bytes += 8 + message.len() as u64;
            bytes <= cut_after
        });
        assert_eq!(received.len(), whole.count(), "cut after {cut_after}");
        assert_eq!(received, sent[..received.len()]);
    }
}

#[test]
fn a_message_that_is_damaged_ends_the_link() {
    use std::io::Write;
    let mut damaged: Vec<Vec<u8>> = vec![vec![0xff; 8]];
    let (length, text) = (3_u32.to_le_bytes(), *b"abc");
    let checksum = tombolo_storage::checksum::of(&[&length, &text]);
    let whole = [&length[..], &checksum.to_le_bytes(), &text].concat();
    damaged.extend((4..whole.len()).map(|at| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        bytes
    }));
    for bytes in damaged {
        let (mut from, mut to) = memory::raw_pair();
        from.write_all(&bytes).unwrap();
        assert!(matches!(to.receive(), Err(LinkEnd::Damaged(_))), "{bytes:?}");
        from.write_all(&whole).unwrap();
        assert!(matches!(to.receive(), Err(LinkEnd::Damaged(_))), "nothing is given behind it");
    }
}

#[test]
fn who_is_gone_is_noticed_behind_what_it_sent() {
    let (mut own, other) = unix_pair().unwrap();
    let mut other = unix::of(other);
    assert_eq!(own.receive(), Ok(None));
    assert_eq!(other.send(&[b"last ", b"words"]), Ok(true));
    drop(other);
    own.wait(Duration::from_secs(10));
    assert_eq!(own.receive(), Ok(Some(&b"last words"[..])));
    own.wait(Duration::from_secs(10));
    assert_eq!(own.receive(), Err(LinkEnd::Gone));
    assert_eq!(own.send(&[b"?"]), Err(LinkEnd::Gone));
}

#[test]
fn a_socket_without_room_refuses_and_goes_on() {
    let (mut own, other) = unix_pair().unwrap();
    let mut other = unix::of(other);
    let message = vec![7_u8; 100_000];
    let mut sent = 0;
    while own.send(&[&message]).unwrap() {
        sent += 1;
        assert!(sent < 1_000, "the other end does not read");
    }
    assert!(sent > 0 && own.flush() == Ok(false));
    let mut received = 0;
    while received < sent {
        if other.receive().unwrap().is_some_and(|got| got == message) {
            received += 1;
        }
        own.flush().unwrap();
    }
    assert_eq!((own.flush(), own.send(&[&message])), (Ok(true), Ok(true)));
}
