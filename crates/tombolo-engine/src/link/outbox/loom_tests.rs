//! Loom: what threads put leaves once, in the order of each, and none of it stays behind.

use std::time::Duration;

use tombolo_storage::sync::Arc;
use tombolo_storage::sync::loom::{self, thread};

use super::*;
use crate::link::all_counted;

/// A link that has no room for the first so many times.
struct Narrow {
    full: u32,
    sent: Arc<Mutex<Vec<u8>>>,
}

impl Link for Narrow {
    fn send(&mut self, message: &[&[u8]]) -> Result<bool, LinkEnd> {
        self.sent.lock().extend(all_counted(&message.concat()).unwrap().concat());
        Ok(true)
    }

    fn flush(&mut self) -> Result<bool, LinkEnd> {
        let has_room = self.full == 0;
        self.full = self.full.saturating_sub(1);
        Ok(has_room)
    }

    fn receive(&mut self) -> Result<Option<&[u8]>, LinkEnd> {
        unreachable!("it only sends")
    }

    fn split(self: Box<Self>) -> std::io::Result<(Box<dyn Link>, Box<dyn Link>)> {
        unreachable!("it only sends")
    }

    fn wait(&mut self, _: Duration) {
        unreachable!("no thread waits for room")
    }
}

fn put_and_send(outbox: &Outbox, items: &[u8]) {
    for item in items {
        assert!(outbox.put(vec![*item]));
        send(outbox);
    }
}

fn send(outbox: &Outbox) {
    while outbox.send() == Ok(false) {
        thread::yield_now();
    }
}

/// Two threads put, one of them after `first`; returns what was sent.
fn two_threads(full: u32, first: fn(&Outbox), last: fn(&Outbox)) -> Vec<u8> {
    let sent = Arc::new(Mutex::new(Vec::new()));
    let outbox = Arc::new(Outbox::new(Box::new(Narrow { full, sent: sent.clone() })));
    first(&outbox);
    let other = {
        let outbox = outbox.clone();
        thread::spawn(move || put_and_send(&outbox, &[3, 4]))
    };
    put_and_send(&outbox, &[1, 2]);
    last(&outbox);
    other.join().unwrap();
    assert!(outbox.is_empty(), "an item is left behind");
    let sent = sent.lock().clone();
    for of in [[1, 2], [3, 4]] {
        assert!(sent.iter().filter(|item| of.contains(item)).eq(&of), "{sent:?}");
    }
    sent
}

#[test]
fn what_two_threads_put_leaves_once() {
    loom::model(|| assert_eq!(two_threads(0, |_| (), |_| ()).len(), 4));
}

#[test]
fn a_full_link_is_tried_again() {
    loom::model(|| assert_eq!(two_threads(1, |_| (), |_| ()).len(), 4));
}

#[test]
fn what_is_held_back_leaves_when_it_is_released() {
    let release = |outbox: &Outbox| {
        outbox.release();
        send(outbox);
    };
    loom::model(move || assert_eq!(two_threads(0, Outbox::hold, release).len(), 4));
}

#[test]
#[should_panic(expected = "an item is left behind")]
fn a_thread_that_gives_up_sending_without_a_look_is_noticed() {
    plant::with(Plant::SenderLooksAway, || loom::model(|| drop(two_threads(0, |_| (), |_| ()))));
}
