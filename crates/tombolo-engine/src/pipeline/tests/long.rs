//! Long work next to calls: turns, one state, when answers leave, every way to end.

use super::*;
use Durability::{Async, Group, Sync};

/// What happened to the works of a test, in order.
pub(super) type Diary = Arc<Mutex<Vec<String>>>;

/// Sums balances as they were when it began, one account a row.
pub(super) struct Sum {
    name: &'static str,
    then: Vec<u64>,
    at: usize,
    sum: u64,
    breaks: Option<&'static str>,
    diary: Diary,
}

impl Sum {
    fn note(&self, what: &str) {
        self.diary.lock().unwrap().push(format!("{} {what}", self.name));
    }
}

impl LongWork<Accounts> for Sum {
    fn begin(&mut self, accounts: &mut Accounts) -> Result<(), Stop> {
        self.note("begins");
        if self.breaks == Some("begin") {
            return Err(Stop::Abort("not now"));
        }
        self.then = accounts.balances.values().copied().collect();
        Ok(())
    }

    fn slice(&mut self, _: &mut Accounts, rows_max: usize, _: u64) -> Result<Sliced<u64>, Stop> {
        self.note("slices");
        match self.breaks {
            Some("slice") => return Err(Stop::Abort("no more")),
            Some("panic") => panic!("asked to panic"),
            _ => {}
        }
        let rows = (self.then.len() - self.at).min(rows_max);
        self.sum += self.then[self.at..self.at + rows].iter().sum::<u64>();
        self.at += rows;
        match self.at == self.then.len() {
            true => Ok(Sliced::Done(self.sum)),
            false => Ok(Sliced::More { rows }),
        }
    }

    fn end(&mut self, _: &mut Accounts) {
        self.note("ends");
    }

    fn give_back(&mut self, _: &mut Accounts) -> bool {
        if self.breaks != Some("holds much") {
            return false;
        }
        self.note("gives back");
        self.at -= 1;
        self.at > 0
    }
}

pub(super) fn sum(name: &'static str, breaks: Option<&'static str>, diary: &Diary) -> Box<Sum> {
    let diary = diary.clone();
    Box::new(Sum { name, then: Vec::new(), at: 0, sum: 0, breaks, diary })
}

impl World {
    /// A world of accounts 0 … n − 1 with 1 each, all durable.
    fn of_accounts(n: u64) -> Self {
        let mut world = Self::new(Options { batch_transactions_max: 10, ..options() });
        (0..n).for_each(|account| world.submit(account, Ask::Add(account, 1), Group));
        world.settle();
        assert_eq!(world.replies().len() as u64, n);
        world
    }

    fn long(&mut self, work: Box<Sum>, tag: u64, durability: Durability) -> LongHandle {
        let intake = self.pipeline.as_ref().unwrap().long();
        intake.submit_by(&mut self.caller, work, tag, durability).unwrap()
    }
}

#[test]
fn works_take_turns_between_batches_and_see_one_state() {
    let (diary, mut world) = (Diary::default(), World::of_accounts(200));
    world.long(sum("a", None, &diary), 1_000, Group);
    world.long(sum("b", None, &diary), 1_001, Group);
    for n in 0..35 {
        world.submit(2_000 + n, Ask::Add(n, 100), Group);
    }
    // A batch of ten calls, one slice; and again.
    for batches in 1..=3 {
        assert_eq!(world.step(StageKind::Execution), Step::Progress);
        let statistics = world.pipeline().statistics();
        assert_eq!((statistics.executed, statistics.slices), (200 + batches * 10, batches));
    }
    let expected = ["a begins", "b begins", "a slices", "b slices", "a slices"];
    assert_eq!(*diary.lock().unwrap(), expected);
    world.settle();
    let replies = world.replies();
    assert_eq!(replies.len(), 37);
    for tag in [1_000, 1_001] {
        assert!(replies.contains(&durable(tag, 200)), "{replies:?}");
    }
    assert_eq!(world.caller.in_flight(), 0);
    let statistics = world.pipeline().statistics();
    assert_eq!((statistics.long_works, statistics.slices_late), (2, 0));
    assert_eq!(diary.lock().unwrap().iter().filter(|line| line.ends_with("ends")).count(), 2);
}

#[test]
fn an_answer_waits_for_what_was_read_and_for_nothing_later() {
    let diary = Diary::default();
    let mut world = World::of_accounts(3);
    world.submit(10, Ask::Add(0, 5), Group);
    world.execute();
    world.long(sum("waits", None, &diary), 20, Group);
    world.long(sum("async", None, &diary), 21, Async);
    world.execute();
    assert_eq!(world.replies(), [early(21, 8)]);
    world.step(StageKind::Logging);
    world.settle();
    let mut replies = world.replies();
    replies.sort_by_key(|(tag, _)| *tag);
    assert_eq!(replies, [durable(10, 6), durable(20, 8)]);
    // What began when all was durable is answered immediately, whatever was logged since.
    world.long(sum("early", None, &diary), 30, Sync);
    assert_eq!(world.step(StageKind::Execution), Step::Progress);
    world.submit(31, Ask::Add(1, 1), Group);
    world.execute();
    assert_eq!(world.replies(), [durable(30, 8)]);
    world.settle();
    assert_eq!(world.replies(), [durable(31, 2)]);
}

#[test]
fn without_a_log_answers_are_volatile() {
    let (diary, mut world) = (Diary::default(), World::unlogged(options()));
    world.submit(1, Ask::Add(1, 7), Group);
    world.execute();
    world.long(sum("a", None, &diary), 2, Group);
    world.execute();
    let volatile = |tag, answer| (tag, Reply::Volatile(Ok(answer)));
    assert_eq!(world.replies(), [volatile(1, 7), volatile(2, 7)]);
}

#[test]
fn failing_panicking_and_cancelled_works_end_alone() {
    let (diary, mut world) = (Diary::default(), World::of_accounts(500));
    world.long(sum("refused", Some("begin"), &diary), 1, Group);
    world.long(sum("fails", Some("slice"), &diary), 2, Group);
    world.long(sum("panics", Some("panic"), &diary), 3, Group);
    let handle = world.long(sum("cancelled", None, &diary), 4, Group);
    world.long(sum("lives", None, &diary), 5, Group);
    for _ in 0..5 {
        world.step(StageKind::Execution);
    }
    handle.cancel();
    world.settle();
    let mut replies = world.replies();
    replies.sort_by_key(|(tag, _)| *tag);
    let stopped = |why| Reply::Durable(Err(Failure::Stopped(Stop::Abort(why))));
    let expected = [
        (1, stopped("not now")),
        (2, stopped("no more")),
        (3, Reply::Durable(Err(Failure::Panicked("asked to panic".into())))),
        (4, stopped(CANCELLED)),
        durable(5, 500),
    ];
    assert_eq!(replies, expected);
    let mut ended: Vec<_> = diary.lock().unwrap().clone();
    ended.retain(|line| line.ends_with("ends"));
    ended.sort();
    assert_eq!(ended, ["cancelled ends", "fails ends", "lives ends", "panics ends"]);
}

#[test]
fn closing_finishes_what_is_under_way_and_refuses_more() {
    let (diary, mut world) = (Diary::default(), World::of_accounts(500));
    world.long(sum("a", None, &diary), 1, Group);
    world.step(StageKind::Execution);
    let intake = world.pipeline().long();
    let (closed, replies) = world.close();
    assert_eq!(replies, [durable(1, 500)]);
    assert!(closed.executor.is_some());
    let late = Accounts::default();
    let (pipeline, _stages) =
        Builder::new(late, options()).assemble(Arc::new(HandClock::default()));
    let mut caller = pipeline.caller(1);
    let refused = intake.submit_by(&mut caller, sum("late", None, &diary), 2, Group);
    assert!(matches!(refused, Err(NotSubmitted::Refused(_, Refusal::Closed))));
    assert_eq!(caller.in_flight(), 0);
}

#[test]
fn a_poisoned_pipeline_ends_works_and_says_why() {
    let (diary, mut world) = (Diary::default(), World::of_accounts(500));
    world.long(sum("a", None, &diary), 1, Group);
    world.step(StageKind::Execution);
    world.log.with(|medium| medium.fail_sync = Some(GroupLogError::Failed("broken".into())));
    world.submit(2, Ask::Add(1, 1), Group);
    world.settle();
    let replies = world.replies();
    let (_, reply) = replies.iter().find(|(tag, _)| *tag == 1).unwrap();
    assert!(matches!(reply, Reply::Refused(refusal) if refusal.poisons()), "{reply:?}");
    assert_eq!(diary.lock().unwrap().last().unwrap(), "a ends");
    let intake = world.pipeline().long();
    let refused = intake.submit_by(&mut world.caller, sum("late", None, &diary), 3, Group);
    assert!(matches!(refused, Err(NotSubmitted::Refused(_, Refusal::Poisoned(_)))));
}

/// Those that run count as those that wait: 63 that ran made room for as many again.
#[test]
fn too_many_works_are_refused_as_a_full_queue() {
    let (diary, mut world) = (Diary::default(), World::of_accounts(300));
    let intake = world.pipeline().long();
    let submit = |world: &mut World, tag| {
        let intake = intake.clone();
        intake.submit_by(&mut world.caller, sum("one", None, &diary), tag, Group)
    };
    for tag in 0..LONG_WORKS_MAX - 1 {
        submit(&mut world, tag).unwrap();
    }
    world.step(StageKind::Execution);
    submit(&mut world, LONG_WORKS_MAX - 1).unwrap();
    for _ in 0..2 {
        let refused = submit(&mut world, LONG_WORKS_MAX);
        assert!(matches!(refused, Err(NotSubmitted::Full(_))));
        world.step(StageKind::Execution);
    }
    assert_eq!(world.replies(), []);
    world.settle();
    assert_eq!(world.replies().len() as u64, LONG_WORKS_MAX);
    // All of that is over, also where it fails immediately.
    for tag in 0..3 * LONG_WORKS_MAX {
        world.long(sum("fails", Some("begin"), &diary), tag, Group);
        world.settle();
    }
    assert_eq!(world.replies().len() as u64, 3 * LONG_WORKS_MAX);
}

/// The answer of a work that is refused at its beginning, and waits for the log, is not lost when a batch
/// runs right behind it.
#[test]
fn a_refusal_waits_for_the_log_beside_a_batch() {
    let (diary, mut world) = (Diary::default(), World::of_accounts(2));
    world.submit(1, Ask::Add(0, 5), Group);
    world.execute();
    world.long(sum("a", Some("begin"), &diary), 100, Group);
    world.submit(2, Ask::Add(1, 5), Group);
    world.settle();
    let mut tags: Vec<u64> = world.replies().iter().map(|(tag, _)| *tag).collect();
    tags.sort_unstable();
    assert_eq!(tags, [1, 2, 100]);
}

/// What a work held is given back between batches, too, before it is answered.
#[test]
fn a_work_gives_back_in_turns() {
    let (diary, mut world) = (Diary::default(), World::of_accounts(3));
    world.long(sum("a", Some("holds much"), &diary), 100, Group);
    world.long(sum("b", None, &diary), 101, Group);
    world.settle();
    let noted = diary.lock().unwrap().join(", ");
    assert_eq!(
        noted,
        "a begins, b begins, a slices, a ends, a gives back, b slices, b ends, a gives back, \
         a gives back"
    );
    assert_eq!(world.replies(), [durable(101, 3), durable(100, 3)]);
}

/// Work that is refused, and panics when it is dropped.
struct Spiteful;

impl LongWork<Accounts> for Spiteful {
    fn begin(&mut self, _: &mut Accounts) -> Result<(), Stop> {
        Err(Stop::Abort("not now"))
    }

    fn slice(&mut self, _: &mut Accounts, _: usize, _: u64) -> Result<Sliced<u64>, Stop> {
        unreachable!("it did not begin")
    }

    fn end(&mut self, _: &mut Accounts) {}
}

impl Drop for Spiteful {
    fn drop(&mut self) {
        panic!("dropped in spite");
    }
}

#[test]
fn what_refused_work_holds_ends_no_stage() {
    let mut world = World::of_accounts(1);
    let intake = world.pipeline().long();
    intake.submit_by(&mut world.caller, Box::new(Spiteful), 1, Group).unwrap();
    world.submit(2, Ask::Read(0), Group);
    world.settle();
    let refused = Reply::Durable(Err(Failure::Stopped(Stop::Abort("not now"))));
    assert_eq!(world.replies(), [(1, refused), durable(2, 1)]);
}
