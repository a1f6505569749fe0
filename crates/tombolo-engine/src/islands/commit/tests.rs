//! Each case of the protocol by itself: what one machine does, event by event. That many of them together do right is
//! the simulator's to show.

use super::*;
use message::Envelope;

const ME: IslandId = IslandId(0);
const A: IslandId = IslandId(1);
const B: IslandId = IslandId(2);

/// A machine of three islands, and the other two as they sound.
struct Island {
    machine: Machine,
    /// The tenures that messages from outside carry.
    heard: [Tenure; 3],
}

/// What was done, without deadlines: messages are decoded.
#[derive(Debug, PartialEq, Eq)]
enum Did {
    Said(IslandId, Message),
    Action(Action),
}

fn number(island: IslandId, counter: u64) -> TransactionNumber {
    TransactionNumber { island, opening: 1, counter }
}

fn age(number: TransactionNumber, at: u64) -> Age {
    Age { at, first: number }
}

impl Island {
    fn open(found: Found) -> Self {
        let mut out = Vec::new();
        let machine = Machine::open(ME, 3, 1, found, &mut out);
        let heard = [Tenure { opening: 1, term: 0 }; 3];
        let mut island = Self { machine, heard };
        for peer in [A, B] {
            let greeted = island.on(Event::LinkMade(peer));
            assert_eq!(greeted, [Did::Said(peer, Message::Hello)]);
            island.hears(peer, Message::Hello);
        }
        island
    }

    fn new() -> Self {
        Self::open(Found::default())
    }

    fn on(&mut self, event: Event<'_>) -> Vec<Did> {
        let mut out = Vec::new();
        self.machine.on(event, &mut out);
        let did = |action| match action {
            Action::Await(_) => None,
            Action::Send { to, message } => Some(Did::Said(to, peek(&message).unwrap())),
            action => Some(Did::Action(action)),
        };
        out.into_iter().filter_map(did).collect()
    }

    fn hears(&mut self, from: IslandId, message: Message) -> Vec<Did> {
        let tenures = self.heard.into_iter().collect();
        let bytes = Envelope { from, to: ME, tenures, message }.encode();
        self.on(Event::Received { from, message: &bytes })
    }

    /// Begins a transaction with parts of these islands; returns its number.
    fn begin(&mut self, islands: &[IslandId]) -> TransactionNumber {
        let parts = islands.iter().map(|island| (*island, b"work".to_vec())).collect();
        let did = self.on(Event::Begin { call: 7, at: 10, age: None, parts });
        assert_eq!(did.len(), islands.len());
        let said = did.iter().find_map(|did| match did {
            Did::Said(_, message) => message.number(),
            Did::Action(_) => None,
        });
        said.expect("a part leaves")
    }

    fn executed(&mut self, number: TransactionNumber, wrote: bool) -> Vec<Did> {
        self.on(Event::Executed { number, wrote, result: b"own".to_vec() })
    }

    fn yes(&mut self, from: IslandId, number: TransactionNumber) -> Vec<Did> {
        let result = b"yes".to_vec();
        self.hears(from, Message::Vote { number, vote: Vote::Yes { result } })
    }

    fn only_read(&mut self, from: IslandId, number: TransactionNumber) -> Vec<Did> {
        let result = b"read".to_vec();
        self.hears(from, Message::Vote { number, vote: Vote::ReadOnly { result } })
    }

    /// A part of `number` arrives and is executed, up to its vote.
    fn voted(&mut self, number: TransactionNumber, at: u64, wrote: bool) -> Vec<Did> {
        let age = age(number, at);
        let part = Message::Part { number, age, payload: b"work".to_vec() };
        assert_eq!(self.hears(number.island, part), [run(number, at)]);
        let did = self.executed(number, wrote);
        if wrote {
            assert_eq!(did, [Did::Action(Action::Prepare { number, age })]);
            self.on(Event::Prepared(number))
        } else {
            assert_eq!(did, [Did::Action(Action::Settle(number))]);
            self.on(Event::Settled(number))
        }
    }
}

fn run(number: TransactionNumber, at: u64) -> Did {
    let payload = b"work".to_vec();
    Did::Action(Action::Run(Work::Part { number, age: age(number, at), payload }))
}

fn decision(to: IslandId, number: TransactionNumber, is_commit: bool) -> Did {
    Did::Said(to, Message::Decision { number, is_commit })
}

fn answered(answer: Answer) -> Did {
    Did::Action(Action::Answer { call: 7, answer })
}

fn committed(results: &[&[u8]]) -> Did {
    let results = results.iter().map(|result| result.to_vec()).collect();
    answered(Answer::Committed { results })
}

#[test]
fn where_all_only_read_there_is_no_row() {
    let mut island = Island::new();
    let number = island.begin(&[A, ME]);
    assert_eq!(island.executed(number, false), []);
    assert_eq!(island.only_read(A, number), [Did::Action(Action::Settle(number))]);
    let did = island.on(Event::Settled(number));
    let release = Did::Action(Action::Release(number));
    assert_eq!(did, [release, decision(A, number, true), committed(&[b"read", b"own"])]);
    assert!(island.machine.is_idle());
}

#[test]
fn where_only_the_own_part_wrote_it_commits_alone() {
    let mut island = Island::new();
    let number = island.begin(&[ME, A]);
    island.only_read(A, number);
    let commit = Action::Commit { number, call: Some(7), participants: Vec::new() };
    assert_eq!(island.executed(number, true), [Did::Action(commit)]);
    assert_eq!(island.on(Event::Ended(number)), []);
    let did = island.on(Event::Durable(number));
    assert_eq!(did, [decision(A, number, true), committed(&[b"own", b"read"])]);
    assert!(island.machine.is_idle());
}

#[test]
fn a_decision_stays_until_all_that_prepared_confirm() {
    let mut island = Island::new();
    let number = island.begin(&[A, B]);
    assert_eq!(island.yes(A, number), []);
    // A question before the decision has no answer yet.
    assert_eq!(island.hears(A, Message::Question { number }), []);
    let commit = Action::Commit { number, call: Some(7), participants: vec![A, B] };
    assert_eq!(island.yes(B, number), [Did::Action(commit)]);
    assert_eq!(island.yes(B, number), [], "said again");
    assert_eq!(island.hears(A, Message::Question { number }), []);
    let did = island.on(Event::Durable(number));
    let sent = [decision(A, number, true), decision(B, number, true)];
    // The decision leaves first: a caller that has its answer may outlive this island.
    assert_eq!(did[..2], sent);
    assert_eq!(did[2..], [committed(&[b"yes", b"yes"])]);
    assert_eq!(island.hears(A, Message::Confirmation { number }), []);
    assert_eq!(island.hears(A, Message::Confirmation { number }), [], "said again");
    // B's confirmation is lost: it asks, and the next link says it again.
    assert_eq!(island.hears(B, Message::Question { number }), [decision(B, number, true)]);
    island.on(Event::LinkBroken(B));
    assert_eq!(island.hears(B, Message::Hello), [decision(B, number, true)]);
    let did = island.hears(B, Message::Confirmation { number });
    assert_eq!(did, [Did::Action(Action::Forget(number))]);
    assert!(island.machine.is_idle());
    assert_eq!(island.hears(B, Message::Question { number }), [decision(B, number, false)]);
}

#[test]
fn a_decision_is_found_again() {
    let number = number(ME, 4);
    let mut island = Island::open(Found { decided: vec![(number, vec![A])], ..Found::default() });
    assert_eq!(island.hears(A, Message::Question { number }), [decision(A, number, true)]);
    let undecided = TransactionNumber { counter: 5, ..number };
    let asked = island.hears(A, Message::Question { number: undecided });
    assert_eq!(asked, [decision(A, undecided, false)]);
    let did = island.hears(A, Message::Confirmation { number });
    assert_eq!(did, [Did::Action(Action::Forget(number))]);
}

#[test]
fn one_no_aborts_all() {
    let mut island = Island::new();
    let number = island.begin(&[ME, A, B]);
    island.executed(number, true);
    island.yes(A, number);
    let vote = Vote::No(Objection::Refused { why: b"no money".to_vec() });
    let did = island.hears(B, Message::Vote { number, vote });
    let reason = Reason::Refused { island: B, why: b"no money".to_vec() };
    let release = Did::Action(Action::Release(number));
    let sent = decision(A, number, false);
    assert_eq!(did, [answered(Answer::Aborted(reason)), release, sent]);
    assert!(island.machine.is_idle());
}

#[test]
fn a_decision_that_finds_no_room_aborts() {
    let mut island = Island::new();
    let number = island.begin(&[ME, A]);
    island.yes(A, number);
    island.executed(number, true);
    let did = island.on(Event::Refused { number, why: b"full".to_vec() });
    let reason = Reason::Refused { island: ME, why: b"full".to_vec() };
    let release = Did::Action(Action::Release(number));
    let sent = decision(A, number, false);
    assert_eq!(did, [answered(Answer::Aborted(reason)), release, sent]);
}

#[test]
fn what_cannot_be_reached_is_not_waited_for() {
    let mut island = Island::new();
    let first = island.begin(&[A, B]);
    island.yes(B, first);
    let did = island.on(Event::LinkBroken(A));
    let unreachable = Answer::Aborted(Reason::Unreachable(A));
    assert_eq!(did, [answered(unreachable.clone()), decision(B, first, false)]);
    let parts = vec![(A, Vec::new())];
    let did = island.on(Event::Begin { call: 7, at: 11, age: None, parts });
    assert_eq!(did, [answered(unreachable)]);
    let second = island.begin(&[B]);
    let did = island.on(Event::Passed(Deadline::Patience(second)));
    assert_eq!(did, [answered(Answer::Aborted(Reason::TimedOut)), decision(B, second, false)]);
    // A vote that comes too late.
    assert_eq!(island.yes(B, second), [decision(B, second, false)]);
}

#[test]
fn a_vote_counts_after_its_link_broke() {
    let mut island = Island::new();
    let number = island.begin(&[A, B]);
    island.yes(A, number);
    assert_eq!(island.on(Event::LinkBroken(A)), []);
    let commit = Action::Commit { number, call: Some(7), participants: vec![A, B] };
    assert_eq!(island.yes(B, number), [Did::Action(commit)]);
    assert_eq!(island.on(Event::Durable(number))[0], decision(B, number, true));
    assert_eq!(island.hears(A, Message::Hello), [decision(A, number, true)]);
}

#[test]
fn a_read_only_vote_of_an_ended_tenure_runs_again() {
    for ended in [Tenure { opening: 1, term: 1 }, Tenure { opening: 2, term: 0 }] {
        let mut island = Island::new();
        let number = island.begin(&[A, B]);
        assert_eq!(island.only_read(A, number), []);
        // B has heard of it from an island that used what A locked.
        island.heard[A.index()] = ended;
        let did = island.yes(B, number);
        let again = Answer::RunAgain(age(number, 10));
        let sent = [decision(A, number, false), decision(B, number, false)];
        assert_eq!(did[0], answered(again));
        assert_eq!(did[1..], sent);
    }
}

#[test]
fn a_part_is_prepared_and_committed() {
    let mut island = Island::new();
    let number = number(A, 1);
    let did = island.voted(number, 5, true);
    let vote = Vote::Yes { result: b"own".to_vec() };
    assert_eq!(did, [Did::Said(A, Message::Vote { number, vote })]);
    let question = [Did::Said(A, Message::Question { number })];
    for _ in 0..20 {
        assert_eq!(island.on(Event::Passed(Deadline::Ask(number))), question, "it asks on");
    }
    assert_eq!(island.on(Event::LinkBroken(A)), []);
    assert_eq!(island.hears(A, Message::Hello), question);
    let commit = || Did::Action(Action::Commit { number, call: None, participants: Vec::new() });
    let decided = Message::Decision { number, is_commit: true };
    assert_eq!(island.hears(A, decided.clone()), [commit()]);
    assert_eq!(island.hears(A, decided.clone()), [], "said again");
    // No room: later.
    assert_eq!(island.on(Event::Refused { number, why: Vec::new() }), []);
    assert_eq!(island.on(Event::Passed(Deadline::Retry(number))), [commit()]);
    assert_eq!(island.on(Event::Ended(number)), []);
    let confirmation = [Did::Said(A, Message::Confirmation { number })];
    assert_eq!(island.on(Event::Durable(number)), confirmation);
    assert_eq!(island.hears(A, decided), confirmation, "it was lost");
    assert!(island.machine.is_idle());
}

#[test]
fn a_part_in_doubt_is_found_again() {
    let number = number(A, 9);
    let prepared = vec![(number, age(number, 5))];
    let mut island = Island::open(Found { prepared, ..Found::default() });
    assert_eq!(island.machine.state(number), State::Prepared);
    let did = island.hears(A, Message::Decision { number, is_commit: false });
    assert_eq!(did, [Did::Action(Action::Release(number))]);
}

#[test]
fn a_part_runs_once() {
    let mut island = Island::new();
    let number = number(A, 3);
    let part = || Message::Part { number, age: age(number, 5), payload: b"work".to_vec() };
    island.voted(number, 5, true);
    assert_eq!(island.hears(A, part()), [], "it is there");
    island.hears(A, Message::Decision { number, is_commit: true });
    island.on(Event::Durable(number));
    assert_eq!(island.hears(A, part()), [], "it was there");
    // To an earlier opening, and of one.
    let later = Message::Part {
        number: TransactionNumber { counter: 4, ..number },
        age: age(number, 5),
        payload: Vec::new(),
    };
    island.heard[ME.index()].opening = 0;
    assert_eq!(island.hears(A, later.clone()), []);
    island.heard[ME.index()].opening = 1;
    island.heard[A.index()].opening = 2;
    island.hears(A, Message::Hello);
    island.heard[A.index()].opening = 1;
    assert_eq!(island.hears(A, later), []);
}

#[test]
fn what_has_not_voted_ends_with_its_link() {
    let mut island = Island::new();
    let (open, voted) = (number(A, 2), number(A, 1));
    island.voted(voted, 5, true);
    let part = Message::Part { number: open, age: age(open, 6), payload: b"work".to_vec() };
    island.hears(A, part);
    let did = island.on(Event::LinkBroken(A));
    assert_eq!(did, [Did::Action(Action::Release(open))]);
    assert_eq!(island.machine.state(voted), State::Prepared);
}

#[test]
fn a_part_that_only_read_gives_up_and_ends_its_tenure() {
    let mut island = Island::new();
    let number = number(A, 1);
    let vote = Vote::ReadOnly { result: b"own".to_vec() };
    let voted = island.voted(number, 5, false);
    assert_eq!(voted, [Did::Said(A, Message::Vote { number, vote })]);
    let before = island.machine.peers.tenure(ME);
    let mut did = Vec::new();
    while did != [Did::Action(Action::Release(number))] {
        assert!(did.is_empty() || did == [Did::Said(A, Message::Question { number })]);
        did = island.on(Event::Passed(Deadline::Ask(number)));
    }
    assert!(island.machine.peers.tenure(ME) > before);
    assert!(island.machine.is_idle());
}

#[test]
fn the_older_waits_and_the_younger_dies() {
    let mut island = Island::new();
    let holder = number(A, 1);
    island.voted(holder, 50, true);
    let held = |number, at| Event::Held {
        by: holder,
        work: Work::Part { number, age: age(number, at), payload: b"work".to_vec() },
    };
    let (older, younger) = (number(B, 1), number(B, 2));
    let part = |number, at| {
        let payload = b"work".to_vec();
        Message::Part { number, age: age(number, at), payload }
    };
    island.hears(B, part(older, 40));
    assert_eq!(island.on(held(older, 40)), []);
    island.hears(B, part(younger, 60));
    let die = Message::Vote { number: younger, vote: Vote::Die };
    let release = Did::Action(Action::Release(younger));
    assert_eq!(island.on(held(younger, 60)), [release, Did::Said(B, die)]);
    // A local transaction waits behind the part, and both run in order of arrival.
    let work = || Work::Local { call: 70, payload: b"local".to_vec() };
    assert_eq!(island.on(Event::Held { by: holder, work: work() }), []);
    island.hears(A, Message::Decision { number: holder, is_commit: true });
    let did = island.on(Event::Ended(holder));
    assert_eq!(did, [run(older, 40), Did::Action(Action::Run(work()))]);
    // It meets another lock, and gives up.
    assert_eq!(island.on(Event::Held { by: holder, work: work() }), []);
    let did = island.on(Event::Passed(Deadline::Local(70)));
    assert_eq!(did, [Did::Action(Action::GiveUp { call: 70 })]);
    assert_eq!(island.on(Event::Passed(Deadline::Local(70))), []);
}

#[test]
fn the_own_part_waits_and_dies_too() {
    let mut island = Island::new();
    let (old, young) = (number(A, 1), number(A, 2));
    island.voted(old, 1, true);
    island.voted(young, 99, true);
    let own = island.begin(&[ME, B]);
    let work = || Work::Part { number: own, age: age(own, 10), payload: b"work".to_vec() };
    assert_eq!(island.on(Event::Held { by: young, work: work() }), []);
    assert_eq!(island.machine.state(own), State::GatheringWaits);
    island.hears(A, Message::Decision { number: young, is_commit: false });
    assert_eq!(island.on(Event::Ended(young)), [Did::Action(Action::Run(work()))]);
    let did = island.on(Event::Held { by: old, work: work() });
    let release = Did::Action(Action::Release(own));
    let again = answered(Answer::RunAgain(age(own, 10)));
    assert_eq!(did, [again, release, decision(B, own, false)]);
    // It runs again with its age, and waits for what is left of its earlier run.
    let parts = vec![(ME, b"work".to_vec())];
    let begin = Event::Begin { call: 7, at: 80, age: Some(age(own, 10)), parts };
    let did = island.on(begin);
    let [Did::Action(Action::Run(Work::Part { age: kept, .. }))] = &did[..] else {
        panic!("{did:?}");
    };
    assert_eq!(*kept, age(own, 10));
}

#[test]
fn strangers_are_refused() {
    let mut island = Island::new();
    let refused = |why| vec![Did::Action(Action::RefusePeer { peer: A, why })];
    let of_others = Message::Decision { number: number(B, 1), is_commit: true };
    assert_eq!(island.hears(A, of_others), refused(Refusal::Malformed));
    let of_others = Message::Question { number: number(A, 1) };
    assert_eq!(island.hears(A, of_others), refused(Refusal::Malformed));
    let version = [9, 0, 1, 0];
    let did = island.on(Event::Received { from: A, message: &version });
    assert_eq!(did, refused(Refusal::Version { theirs: 9 }));
    island.heard[ME.index()].opening = 2;
    assert_eq!(island.hears(A, Message::Hello), refused(Refusal::LaterOpening));
}
