//! Closures while parts of transactions are held, against a map: whatever they call, an order of their decisions
//! explains what each saw. Next to it: calls that meet a lock, in their envelopes.
//!
//! The calls of procedures have a model of their own (storage `tests/held/`).

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use tombolo_engine::clock::SystemClock;
use tombolo_engine::rng::Rng;
use tombolo_storage::key::Range;
use tombolo_storage::memory::Limits;
use tombolo_storage::memory::held::{Guard, Locks, Part};
use tombolo_storage::owner::Owner;
use tombolo_storage::store::{Order, dynamic_table, resolve_index, resolve_table};
use tombolo_storage::value::Value;

use super::*;
use crate::calls::{
    ClosureBody, Counters, Envelope, How, Identified, Kept, Lone, Otherwise, Outcome, Ran,
    Registration, Request, Site,
};
use crate::cancels::Cancels;

#[derive(crate::Table, Clone, Debug, PartialEq)]
#[index(ByTeam(team))]
#[index(ByName(name), unique, hash)]
struct Player {
    #[key]
    id: i32,
    team: i32,
    cents: i64,
    name: String,
}

type Model = BTreeMap<i32, Player>;

const KEYS: u64 = 24;
const TEAMS: u64 = 4;

/// One call, or a few that belong together.
#[derive(Clone, Debug)]
enum Step {
    Get(i32),
    Find(i32),
    ReadRow(i32),
    ReadValues(i32),
    Insert(Player),
    InsertRow(Player),
    InsertValues(Player),
    Set(i32, i64),
    Update(i32, i32, i64),
    UpdateRow(Player),
    UpdateValues(Player),
    Upsert(Player),
    Rename(i32, String),
    Delete(i32),
    Range(i32),
    Scan(i32, usize),
    Iter(i32, Order, usize),
    Pages(i32, Order, usize),
    PageRows(i32, usize),
    Rows,
    IterTable,
    Count,
    /// The id of a request that never ran.
    Outcome(u128),
    /// The steps, and whether they are kept.
    Savepoint(Vec<Step>, bool),
}

/// What a step saw: players in order, and a number.
#[derive(Clone, Debug, Default, PartialEq)]
struct Seen {
    players: Vec<Player>,
    number: u64,
}

fn seen(players: impl IntoIterator<Item = Player>) -> Seen {
    let mut players: Vec<_> = players.into_iter().collect();
    players.sort_by_key(|player| player.id);
    Seen { players, number: 0 }
}

fn done(is_done: bool) -> Seen {
    Seen { players: Vec::new(), number: is_done.into() }
}

fn random_player(rng: &mut Rng) -> Player {
    let id = rng.below(KEYS) as i32;
    let name = format!("{id} {}", "n".repeat(rng.below(30) as usize));
    Player { id, team: rng.below(TEAMS) as i32, cents: rng.below(1_000) as i64, name }
}

fn random_step(rng: &mut Rng, depth: usize) -> Step {
    let player = random_player(rng);
    let (id, team, most) = (player.id, player.team, 1 + rng.below(5) as usize);
    let order = if rng.below(2) == 0 { Order::Forward } else { Order::Backward };
    match rng.below(if depth < 2 { 40 } else { 36 }) {
        0 | 1 => Step::Get(id),
        2 | 3 => Step::Find(id),
        4 => Step::ReadRow(id),
        5 => Step::ReadValues(id),
        6..=8 => Step::Insert(player),
        9 | 10 => Step::InsertRow(player),
        11 => Step::InsertValues(player),
        12..=14 => Step::Set(id, player.cents),
        15 | 16 => Step::Update(id, team, player.cents),
        17 => Step::UpdateRow(player),
        18 => Step::UpdateValues(player),
        19 | 20 => Step::Upsert(player),
        21 => Step::Rename(id, player.name),
        22..=24 => Step::Delete(id),
        25 => Step::Range(team),
        26 | 27 => Step::Scan(id, most),
        28 | 29 => Step::Iter(id, order, most),
        30 | 31 => Step::Pages(team, order, most),
        32 => Step::PageRows(team, most),
        33 => Step::Outcome(id as u128),
        34 if rng.below(3) == 0 => Step::Rows,
        35 if rng.below(3) == 0 => Step::IterTable,
        34 | 35 if rng.below(2) == 0 => Step::Count,
        34 | 35 => Step::Get(id),
        _ => {
            let steps = (0..rng.below(4)).map(|_| random_step(rng, depth + 1)).collect();
            Step::Savepoint(steps, rng.below(2) == 0)
        }
    }
}

/// What the map lets a step see.
fn on_model(model: &mut Model, step: &Step) -> Seen {
    let of_team = |model: &Model, team: i32| {
        let players = model.values().filter(|player| player.team == team);
        players.cloned().collect::<Vec<_>>()
    };
    match step {
        Step::Get(id) | Step::Find(id) | Step::ReadRow(id) | Step::ReadValues(id) => {
            seen(model.get(id).cloned())
        }
        Step::Insert(player) | Step::InsertRow(player) | Step::InsertValues(player) => {
            let is_new = !model.contains_key(&player.id);
            model.entry(player.id).or_insert_with(|| player.clone());
            done(is_new)
        }
        Step::Set(id, cents) => done(model.get_mut(id).map(|own| own.cents = *cents).is_some()),
        Step::Update(id, team, cents) => {
            let own = model.get_mut(id);
            done(own.map(|own| (own.team, own.cents) = (*team, *cents)).is_some())
        }
        Step::UpdateRow(player) | Step::UpdateValues(player) => {
            done(model.get_mut(&player.id).map(|own| *own = player.clone()).is_some())
        }
        Step::Upsert(player) => done(model.insert(player.id, player.clone()).is_none()),
        Step::Rename(id, name) => {
            done(model.get_mut(id).map(|own| own.name.clone_from(name)).is_some())
        }
        Step::Delete(id) => done(model.remove(id).is_some()),
        Step::Range(team) | Step::Pages(team, ..) => seen(of_team(model, *team)),
        Step::PageRows(team, most) => {
            // Players of one team have no order among each other that the map knows.
            Seen { number: of_team(model, *team).len().min(*most) as u64, players: Vec::new() }
        }
        Step::Scan(id, most) | Step::Iter(id, Order::Forward, most) => {
            seen(model.range(id..).take(*most).map(|(_, own)| own.clone()))
        }
        Step::Iter(id, Order::Backward, most) => {
            seen(model.range(id..).rev().take(*most).map(|(_, own)| own.clone()))
        }
        Step::Rows | Step::IterTable => seen(model.values().cloned()),
        Step::Count => Seen { number: model.len() as u64, players: Vec::new() },
        Step::Outcome(_) => Seen::default(),
        Step::Savepoint(steps, is_kept) => {
            let mut inner = model.clone();
            let players =
                steps.iter().flat_map(|step| on_model(&mut inner, step).players).collect();
            if *is_kept {
                *model = inner;
            }
            Seen { players, number: 0 }
        }
    }
}

/// The handles.
#[derive(Clone)]
struct Players {
    table: Table<Player>,
    by_id: Index<PlayerKey>,
    by_team: Index<ByTeam>,
    dynamic: DynamicTable,
}

impl Players {
    fn insert(&self, tx: &mut Tx<'_>, step: &Step, own: &Player) -> Result<()> {
        match step {
            Step::Insert(_) => tx.insert(&self.table, |row| own.fill(row)),
            Step::InsertValues(_) => tx.insert_values(&self.dynamic, &values(own)),
            _ => tx.insert_row(&self.table, own),
        }
        .map(drop)
    }

    fn read(&self, tx: &Tx<'_>, rows: Vec<RowId>) -> Result<Seen> {
        let players = rows.into_iter().map(|row| tx.read_row(&self.table, row));
        Ok(seen(players.collect::<Result<Vec<_>>>()?))
    }

    /// A step about the player with this id.
    fn of_one(&self, tx: &mut Tx<'_>, step: &Step, id: i32) -> Result<Seen> {
        let Some(row) = tx.lookup(&self.by_id, id)? else {
            return Ok(match step {
                Step::Get(_) | Step::ReadRow(_) | Step::ReadValues(_) => seen(None),
                _ => done(false),
            });
        };
        match step {
            Step::Get(_) => Ok(seen([tx.get(&self.table, row)?.read()])),
            Step::ReadRow(_) => Ok(seen([tx.read_row(&self.table, row)?])),
            Step::ReadValues(_) => {
                let player = tx.read_values(&self.dynamic, row, |values| match *values {
                    [
                        Value::Integer(id),
                        Value::Integer(team),
                        Value::Integer(cents),
                        Value::Text(name),
                    ] => Player { id: id as i32, team: team as i32, cents, name: name.into() },
                    _ => panic!("{values:?}"),
                })?;
                Ok(seen([player]))
            }
            Step::Set(_, cents) => {
                tx.set(&self.table, row, Player::CENTS, *cents)?;
                Ok(done(true))
            }
            Step::Update(_, team, cents) => {
                let fields = Fields::none().with(Player::TEAM).with(Player::CENTS);
                tx.update(&self.table, row, fields, |row| {
                    row.set(Player::TEAM, *team);
                    row.set(Player::CENTS, *cents);
                })?;
                Ok(done(true))
            }
            Step::UpdateRow(player) => {
                tx.update_row(&self.table, row, player)?;
                Ok(done(true))
            }
            Step::UpdateValues(player) => {
                tx.update_values(&self.dynamic, row, &values(player))?;
                Ok(done(true))
            }
            Step::Rename(_, name) => {
                tx.set_variable(&self.table, row, Player::NAME, name.as_str())?;
                Ok(done(true))
            }
            _ => {
                tx.delete(&self.table, row)?;
                Ok(done(true))
            }
        }
    }

    fn step(&self, tx: &mut Tx<'_>, step: &Step) -> Result<Seen> {
        match step {
            Step::Get(id) | Step::ReadRow(id) | Step::ReadValues(id) | Step::Delete(id) => {
                self.of_one(tx, step, *id)
            }
            Step::Set(id, _) | Step::Update(id, ..) | Step::Rename(id, _) => {
                self.of_one(tx, step, *id)
            }
            Step::UpdateRow(player) | Step::UpdateValues(player) => {
                self.of_one(tx, step, player.id)
            }
            Step::Find(id) => {
                let found = tx.find(&self.by_id, *id)?;
                Ok(seen(found.map(|(_, row)| row.read())))
            }
            Step::Insert(player) | Step::InsertRow(player) | Step::InsertValues(player) => {
                if tx.lookup(&self.by_id, player.id)?.is_some() {
                    return Ok(done(false));
                }
                self.insert(tx, step, player)?;
                Ok(done(true))
            }
            Step::Upsert(player) => Ok(done(tx.upsert_row(&self.by_id, player)?.1)),
            Step::Outcome(id) => {
                assert_eq!(tx.outcome(*id)?, Outcome::Unknown);
                Ok(Seen::default())
            }
            Step::Savepoint(steps, is_kept) => {
                let mut players = Vec::new();
                // A lock that it meets is met by the transaction, although the error ends here.
                let _ = tx.savepoint(|tx| {
                    for step in steps {
                        players.extend(self.step(tx, step)?.players);
                    }
                    if *is_kept { Ok(()) } else { Err(Stop::Abort("taken back")) }
                });
                Ok(Seen { players, number: 0 })
            }
            _ => self.of_many(tx, step),
        }
    }

    /// A step about several players.
    fn of_many(&self, tx: &mut Tx<'_>, step: &Step) -> Result<Seen> {
        match step {
            Step::Range(team) => {
                let rows = tx.range(&self.by_team, Range::between(*team, *team), Order::Forward)?;
                self.read(tx, rows)
            }
            Step::Scan(id, most) => {
                let mut rows = Vec::new();
                tx.scan(&self.by_id, *id.., Order::Forward, |row| {
                    rows.push(row);
                    if rows.len() < *most {
                        ControlFlow::Continue(())
                    } else {
                        ControlFlow::Break(())
                    }
                })?;
                self.read(tx, rows)
            }
            Step::Iter(id, order, most) => {
                let rows = tx.iter(&self.by_id, *id.., *order)?;
                Ok(seen(rows.take(*most).map(|(_, row)| row.read())))
            }
            Step::Pages(team, order, most) => {
                let mut cursor = tx.cursor(&self.by_team, Range::between(*team, *team), *order)?;
                let mut rows = Vec::new();
                while !cursor.is_at_end() {
                    rows.extend(tx.page(&mut cursor, *most)?);
                }
                self.read(tx, rows)
            }
            Step::PageRows(team, most) => {
                let range = Range::between(*team, *team);
                let mut cursor = tx.cursor(&self.by_team, range, Order::Forward)?;
                let number = tx.page_rows(&mut cursor, *most)?.len() as u64;
                Ok(Seen { number, players: Vec::new() })
            }
            Step::Rows => {
                let rows = tx.rows(&self.table)?;
                self.read(tx, rows)
            }
            Step::IterTable => Ok(seen(tx.iter_table(&self.table)?.map(|(_, row)| row.read()))),
            Step::Count => Ok(Seen { number: tx.count(&self.table)?, players: Vec::new() }),
            _ => unreachable!("{step:?}"),
        }
    }
}

fn values(own: &Player) -> [Value<'_>; 4] {
    let number = |number: i32| Value::Integer(number.into());
    [number(own.id), number(own.team), Value::Integer(own.cents), Value::Text(&own.name)]
}

fn new_store() -> (Product, Tables, Players) {
    let mut store = Product::new(Limits::default());
    store.name_rows().unwrap();
    store.create_table(Player::definition()).unwrap();
    store.create_table(crate::calls::request_table()).unwrap();
    let (kept, clock) = (Kept { ids: 9, time_us: 0 }, Arc::new(SystemClock::new()));
    let tables = Tables::new(store.schema(), kept, clock, Arc::new(Cancels::default())).unwrap();
    let schema = tables.known().get();
    let players = Players {
        table: resolve_table(&schema).unwrap(),
        by_id: resolve_index(&schema).unwrap(),
        by_team: resolve_index(&schema).unwrap(),
        dynamic: DynamicTable::new(&schema, dynamic_table(&schema, 0).position()),
    };
    (store, tables, players)
}

/// Makes the changes of a part.
fn make(store: &mut Product, part: &Part) {
    store.begin().unwrap();
    store.begin_writes();
    store.make(&part.changes).unwrap();
    store.commit().unwrap();
}

struct HeldPart {
    owner: Owner,
    steps: Vec<Step>,
    seen: Vec<Seen>,
    part: Part,
}

struct World {
    store: Product,
    tables: Tables,
    locks: Locks,
    players: Players,
    model: Model,
    held: Vec<HeldPart>,
    rng: Rng,
    /// Local ones, parts that were made and that were dropped, locks met.
    counts: [usize; 4],
}

impl World {
    fn new(seed: u64) -> Self {
        let (store, tables, players) = new_store();
        let (locks, rng) = (Locks::new().unwrap(), Rng::stream(seed, &[]));
        let (model, held, counts) = (Model::new(), Vec::new(), [0; 4]);
        Self { store, tables, locks, players, model, held, rng, counts }
    }

    /// Runs a closure of some steps: a part that is held if it meets no lock, or local until it meets none.
    fn run(&mut self, number: u64) {
        let is_part = self.held.len() < 4 && self.rng.below(3) == 0;
        let count = 1 + self.rng.below(4);
        let steps: Vec<_> = (0..count).map(|_| random_step(&mut self.rng, 0)).collect();
        let (aborts, swallows) = (self.rng.below(8) == 0, self.rng.below(4) == 0);
        loop {
            let guard = if is_part { Guard::part(&self.locks) } else { Guard::local(&self.locks) };
            let is_free = !is_part && self.locks.is_empty();
            let (store, players) = (&mut self.store, &self.players);
            let ended = run(store, (!is_free).then_some(&guard), &self.tables, |tx| {
                let mut all = Vec::new();
                for step in &steps {
                    match players.step(tx, step) {
                        Ok(seen) => all.push(seen),
                        Err(_) if swallows => {}
                        Err(stop) => return Err(stop),
                    }
                }
                if aborts { Err(Stop::Abort("at random")) } else { Ok(all) }
            });
            let part = guard.into_part();
            match (ended, part) {
                (Ok(seen), Some(part)) => {
                    let owner = Owner::new(number.into());
                    self.locks.acquire(owner, part.locks.clone()).unwrap();
                    return self.held.push(HeldPart { owner, steps, seen, part });
                }
                (Ok(seen), None) => {
                    self.counts[0] += 1;
                    return self.committed(&steps, &seen);
                }
                (Err(Stop::Error(StoreError::Held { owner })), None) => {
                    self.counts[3] += 1;
                    let at = self.held.iter().position(|held| held.owner == owner);
                    self.decide(at.expect("an owner of a lock has a held part"));
                }
                (ended, _) => {
                    assert_eq!(ended, Err(Stop::Abort("at random")));
                    return;
                }
            }
        }
    }

    fn committed(&mut self, steps: &[Step], seen: &[Seen]) {
        let expected: Vec<_> = steps.iter().map(|step| on_model(&mut self.model, step)).collect();
        assert_eq!(seen, expected, "{steps:?}");
    }

    fn decide(&mut self, at: usize) {
        let HeldPart { owner, steps, seen, part } = self.held.swap_remove(at);
        let commits = self.rng.below(3) > 0;
        self.counts[if commits { 1 } else { 2 }] += 1;
        if commits {
            make(&mut self.store, &part);
            self.committed(&steps, &seen);
        }
        assert!(self.locks.release(owner));
    }

    fn end(&mut self) {
        while !self.held.is_empty() {
            self.decide(0);
        }
        assert!(self.locks.is_empty());
        assert_eq!(self.locks.check(), Ok(()));
        assert_eq!(self.store.check(), []);
        let players = &self.players;
        let all = run(&mut self.store, None, &self.tables, |tx| players.step(tx, &Step::Rows));
        assert_eq!(all.unwrap(), seen(self.model.values().cloned()));
    }
}

#[test]
fn an_order_explains_what_closures_see_while_parts_are_held() {
    let mut counts = [0; 4];
    for seed in 0..12 {
        let mut world = World::new(seed);
        for number in 0..400 {
            world.run(number);
            if !world.held.is_empty() && world.rng.below(4) == 0 {
                let at = world.rng.below(world.held.len() as u64) as usize;
                world.decide(at);
            }
        }
        world.end();
        counts.iter_mut().zip(world.counts).for_each(|(sum, own)| *sum += own);
    }
    assert!(counts.iter().all(|&count| count > 200), "{counts:?}");
}

const OWNER: Owner = Owner::new(7);

fn request(envelope: Box<dyn Envelope>) -> Request {
    Request { envelope: Some(envelope), deadline_ns: u64::MAX, log_bytes_max: 1 << 20 }
}

fn ran(request: &mut Request) -> Option<Ran<i64>> {
    let envelope = request.envelope.as_mut().unwrap();
    envelope.ran().downcast_mut::<Option<Ran<i64>>>().unwrap().take()
}

/// A store with player 1, of whom a held part has changed the cents.
fn site() -> (Site, Locks, Players, Part) {
    let (mut store, tables, players) = new_store();
    let own = Player { id: 1, team: 1, cents: 5, name: "one".into() };
    run(&mut store, None, &tables, |tx| tx.insert_row(&players.table, &own)).unwrap();
    let mut locks = Locks::new().unwrap();
    let guard = Guard::part(&locks);
    let set = Step::Set(1, 6);
    run(&mut store, Some(&guard), &tables, |tx| players.step(tx, &set)).unwrap();
    let part = guard.into_part().unwrap();
    locks.acquire(OWNER, part.locks.clone()).unwrap();
    let counters = Arc::new(Counters::new(store.budget().clone()));
    (Site { store, tables, counters }, locks, players, part)
}

/// The call meets the lock, whatever its closure does then; after the decision it sees what was decided.
fn meets_and_runs_again(envelope: impl FnOnce(Players) -> Box<dyn Envelope>) -> Request {
    let (mut site, mut locks, players, part) = site();
    let mut call = request(envelope(players));
    for number in 0..3 {
        let guard = Guard::local(&locks);
        assert_eq!(site.run_guarded(number, &mut call, &guard), Err(OWNER));
        assert!(ran(&mut call).is_none());
    }
    make(&mut site.store, &part);
    locks.release(OWNER);
    assert_eq!(site.run_guarded(4, &mut call, &Guard::local(&locks)), Ok(How::Committed));
    assert!(matches!(ran(&mut call), Some(Ran::Ended(Ok(6)))));
    assert!(site.run_guarded(5, &mut call, &Guard::local(&locks)).is_ok());
    assert_eq!(site.store.check(), []);
    call
}

fn cents(tx: &mut Tx<'_>, players: &Players) -> Result<i64> {
    let row = tx.lookup(&players.by_id, 1)?.ok_or(Stop::Abort("no player"))?;
    Ok(tx.get(&players.table, row)?.get(Player::CENTS))
}

fn registered<F>(closure: F) -> Box<dyn Envelope>
where
    F: Fn(&mut Tx<'_>) -> Result<i64> + Send + Sync + 'static,
{
    let body = ClosureBody::new(move |tx: &mut Tx<'_>, (): &()| closure(tx));
    Registration::new(body, "cents").envelope((), 0)
}

#[test]
fn a_call_that_met_a_lock_runs_again() {
    meets_and_runs_again(|players| registered(move |tx| cents(tx, &players)));
    // A panic because of the lock is none of the call's.
    meets_and_runs_again(|players| registered(move |tx| Ok(cents(tx, &players).unwrap())));
    let mut call = meets_and_runs_again(|players| {
        Identified::envelope(3, registered(move |tx| cents(tx, &players)), 1 << 20)
    });
    // It was remembered when it had run, and not before.
    let repeated =
        |ran: &Ran<i64>| matches!(ran, Ran::Otherwise(Otherwise::Repeated(Outcome::Committed)));
    assert!(ran(&mut call).is_some_and(|ran| repeated(&ran)));
}

#[test]
fn a_closure_that_runs_once_waits_until_nothing_is_held() {
    let (mut site, mut locks, players, _) = site();
    let mut call = request(Lone::envelope(move |tx: &mut Tx<'_>| cents(tx, &players), 0));
    assert_eq!(site.run_guarded(0, &mut call, &Guard::local(&locks)), Err(OWNER));
    assert!(ran(&mut call).is_none());
    locks.release(OWNER);
    assert_eq!(site.run_guarded(0, &mut call, &Guard::local(&locks)), Ok(How::Committed));
    assert!(matches!(ran(&mut call), Some(Ran::Ended(Ok(5)))));
}
