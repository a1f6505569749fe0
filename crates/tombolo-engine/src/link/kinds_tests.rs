//! Links of every kind: what is sent arrives, whole and in order, both ways; sleeping ends are woken, and an end
//! that is gone is noticed. Each other end is a thread's; `tombolo links` has it in another process.

use super::*;
use crate::clock::{Clock, SystemClock};
use crate::rng::Rng;
use crate::threads;

/// A little less than an end sleeps that is not woken.
const SLEPT_TOO_LONG_NS: u64 = 9_000_000_000;

fn start() -> (SystemClock, u64) {
    let clock = SystemClock::new();
    let now = clock.now_ns();
    (clock, now)
}

/// Both ends of a link. Queues of all processes of a user share some room: this waits for its part.
fn pair(kind: LinkKind) -> [Box<dyn Link>; 2] {
    let (clock, began) = start();
    loop {
        match attempt(kind) {
            Ok(pair) => return pair,
            Err(error) if error.kind() == io::ErrorKind::QuotaExceeded => {
                assert!(clock.now_ns() - began < 60_000_000_000, "{kind:?}: {error}");
                threads::pause(Duration::from_millis(10));
            }
            Err(error) => panic!("{kind:?}: {error}"),
        }
    }
}

fn attempt(kind: LinkKind) -> io::Result<[Box<dyn Link>; 2]> {
    let (own, other) = unix_pair().unwrap();
    let other = unix::of(other);
    let directory = std::env::temp_dir();
    std::thread::scope(|scope| {
        let accepted = scope.spawn(|| {
            let mut link = accept(other)?;
            // It may look for messages at once, before the one that offers has its end.
            (0..1_000).for_each(|_| assert_eq!(link.receive(), Ok(None), "{kind:?}"));
            io::Result::Ok(link)
        });
        let offered = offer(kind, own, &directory);
        let accepted = accepted.join().unwrap();
        Ok([offered?, accepted?])
    })
}

fn message(n: u64, seed: u64) -> Vec<u8> {
    let mut rng = Rng::from_seed(seed << 32 | n);
    let bytes_max = [10, 300, 20_000, 300_000][rng.below(4) as usize];
    let bytes = rng.below(bytes_max) as usize;
    (0..bytes).map(|at| (n as usize * 31 + at * 7) as u8).collect()
}

/// Sends messages and takes those of the other end, sleeping where neither is possible.
fn converse(link: &mut dyn Link, count: u64, [own, other]: [u64; 2]) {
    let (mut sent, mut received) = (0, 0);
    // Also what was taken last has to go: the other end may wait for it.
    while link.flush() != Ok(true) || sent < count || received < count {
        let mut idle = true;
        if sent < count && link.send(&[&message(sent, own)]).unwrap() {
            sent += 1;
            idle = false;
        }
        // One end is slow to take what comes, so that the other one finds no room.
        if (own == 1 || received < sent)
            && received < count
            && let Some(got) = link.receive().unwrap()
        {
            assert!(got == message(received, other), "message {received}");
            received += 1;
            idle = false;
        }
        if idle {
            link.wait(Duration::from_secs(10));
        }
    }
}

/// Sends all messages over a half that only sends.
fn send_all(link: &mut dyn Link, count: u64, own: u64) {
    for n in 0..count {
        while !link.send(&[&message(n, own)]).unwrap() {
            threads::give_way();
        }
    }
    while !link.flush().unwrap() {
        threads::give_way();
    }
}

/// Receives all of them over a half that only receives.
fn receive_all(link: &mut dyn Link, count: u64, other: u64) {
    let mut received = 0;
    while received < count {
        match link.receive().unwrap() {
            Some(got) => {
                assert!(got == message(received, other), "message {received}");
                received += 1;
            }
            None => link.wait(Duration::from_secs(10)),
        }
    }
}

#[test]
fn one_thread_receives_while_another_one_sends_where_a_kind_allows_it() {
    for kind in LinkKind::ALL {
        let [here, there] = pair(kind).map(Link::split);
        assert_eq!(here.is_ok(), kind.has_halves(), "{kind:?}");
        let (Ok((mut in_here, mut out_here)), Ok((mut in_there, mut out_there))) = (here, there)
        else {
            continue;
        };
        let (clock, start) = start();
        std::thread::scope(|scope| {
            scope.spawn(|| send_all(&mut *out_here, 200, 1));
            scope.spawn(|| send_all(&mut *out_there, 200, 2));
            scope.spawn(|| receive_all(&mut *in_here, 200, 2));
            receive_all(&mut *in_there, 200, 1);
        });
        assert!(clock.now_ns() - start < SLEPT_TOO_LONG_NS, "{kind:?}: an end slept too long");
        // The end is noticed although the half that sends is still there.
        drop((in_there, out_there));
        while in_here.receive() == Ok(None) {
            in_here.wait(Duration::from_secs(10));
        }
        assert_eq!(in_here.receive(), Err(LinkEnd::Gone), "{kind:?}");
        assert!(clock.now_ns() - start < SLEPT_TOO_LONG_NS, "{kind:?}: an end slept too long");
    }
}

#[test]
fn every_kind_carries_whole_messages_in_order_both_ways() {
    for kind in LinkKind::ALL {
        let [mut here, mut there] = pair(kind);
        let (clock, start) = start();
        std::thread::scope(|scope| {
            scope.spawn(|| converse(&mut *there, 200, [2, 1]));
            converse(&mut *here, 200, [1, 2]);
        });
        assert!(clock.now_ns() - start < SLEPT_TOO_LONG_NS, "{kind:?}: an end slept too long");
    }
}

#[test]
fn a_sleeping_end_of_any_kind_is_woken() {
    for kind in LinkKind::ALL {
        let [mut here, mut there] = pair(kind);
        let rounds = 100_u32;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..rounds {
                    let request = loop {
                        match there.receive().unwrap() {
                            Some(request) => break request.to_vec(),
                            None => there.wait(Duration::from_secs(10)),
                        }
                    };
                    assert_eq!(there.send(&[&request]), Ok(true));
                }
            });
            for n in 0..rounds {
                assert_eq!(here.send(&[&n.to_le_bytes()]), Ok(true));
                let (clock, start) = start();
                while here.receive().unwrap().is_none() {
                    here.wait(Duration::from_secs(10));
                }
                assert!(clock.now_ns() - start < SLEPT_TOO_LONG_NS, "{kind:?}");
            }
        });
    }
}

#[test]
fn an_end_of_any_kind_that_is_gone_is_noticed_behind_what_it_sent() {
    for kind in LinkKind::ALL {
        let [mut here, mut there] = pair(kind);
        assert_eq!(there.send(&[b"last ", b"words"]), Ok(true));
        drop(there);
        let mut given = Vec::new();
        let end = loop {
            match here.receive() {
                Ok(Some(words)) => given.push(words.to_vec()),
                Ok(None) => here.wait(Duration::from_secs(10)),
                Err(end) => break end,
            }
        };
        assert_eq!((given, end), (vec![b"last words".to_vec()], LinkEnd::Gone), "{kind:?}");
        while here.send(&[b"?"]).is_ok() {
            here.wait(Duration::from_millis(1));
        }
    }
}

#[test]
fn what_cannot_be_opened_is_said_to_both_ends() {
    let (mut own, other) = unix_pair().unwrap();
    let other = unix::of(other);
    own.send(&[b"fifo\0/no/such/place\0/nor/that"]).unwrap();
    let listen = || loop {
        match own.receive().unwrap() {
            Some(error) => return String::from_utf8(error.to_vec()).unwrap(),
            None => own.wait(Duration::from_secs(10)),
        }
    };
    let (refused, received) = threads::both(|| accept(other).err().unwrap().to_string(), listen);
    assert_eq!(received, refused);
    assert!(received.contains("No such file"), "{received}");
}
