//! The procedures that a log of commands may name, and calling one so that its command is logged.
//!
//! A procedure is *registered* under a name and a version, which never change, and has a *number*
//! in each log, which the log defines. Calls use the number: after opening, nothing is looked up by name.
//!
//! Not here: what a procedure does (`crate::procedure`). Invariant: the log defines each issued number before the first
//! command with that number.

use tombolo_storage::command_log::{PROCEDURE_NAME_BYTES_MAX, PROCEDURES_MAX, ProcedureNumber};
use tombolo_storage::error::{Error, SchemaError};
use tombolo_storage::memory::MemoryStore;
use tombolo_storage::profile::{MemoryCommandLogged, MemoryProfile};
use tombolo_storage::schema::Schema;
use tombolo_storage::value_log::LogFailure;
use tombolo_storage::value_log::record::LENGTH_BYTES;

use super::arguments::{Arguments, BadArguments, Decoder, Encoder};
use crate::procedure::Procedure;
use crate::transaction::Stop;

/// The store that commands run on.
pub type CommandStore = MemoryStore<MemoryCommandLogged>;

/// Why a command did not run again as it ran before.
#[derive(Debug)]
pub(super) enum NotRun {
    Arguments(BadArguments),
    Stopped(Stop),
}

/// A procedure that was bound to a schema and is called with bytes.
pub(super) trait Run {
    fn run(
        &self,
        store: &mut CommandStore,
        number: ProcedureNumber,
        arguments: &[u8],
    ) -> Result<(), NotRun>;
}

struct Bound<T>(T);

impl<T: Procedure> Run for Bound<T>
where
    T::Input: Arguments,
{
    fn run(
        &self,
        store: &mut CommandStore,
        number: ProcedureNumber,
        arguments: &[u8],
    ) -> Result<(), NotRun> {
        let mut from = Decoder::new(arguments);
        let input = T::Input::decode(&mut from).and_then(|input| from.end().map(|()| input));
        let input = input.map_err(NotRun::Arguments)?;
        call(&self.0, number, store, &input).map(drop).map_err(NotRun::Stopped)
    }
}

/// A procedure under its name.
pub(super) struct Registered {
    pub(super) name: &'static str,
    pub(super) version: u32,
    pub(super) bind: fn(&Schema) -> Result<Box<dyn Run>, SchemaError>,
}

fn bind<T: Procedure + 'static>(schema: &Schema) -> Result<Box<dyn Run>, SchemaError>
where
    T::Input: Arguments,
{
    Ok(Box::new(Bound(T::bind(schema)?)))
}

/// All procedures that the commands of a database can be of.
#[derive(Default)]
pub struct Procedures(pub(super) Vec<Registered>);

impl std::fmt::Debug for Procedures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|one| (one.name, one.version))).finish()
    }
}

impl Procedures {
    /// None yet.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Registers `T` under a name and a version. Both hold for ever: a procedure that would do
    /// something else with the same arguments, or takes others, is a new version, and the old one
    /// stays registered as long as there are logs with commands of it.
    ///
    /// # Panics
    /// When that name and version are registered already, the name has no byte or more than 255,
    /// or there are more procedures than a log can distinguish (1,024).
    pub fn register<T: Procedure + 'static>(&mut self, name: &'static str, version: u32)
    where
        T::Input: Arguments,
    {
        assert!(self.find(name, version).is_none(), "{name}, version {version}, twice");
        assert!(
            (1..=PROCEDURE_NAME_BYTES_MAX).contains(&name.len()),
            "no procedure's name: {name}"
        );
        assert!(self.0.len() < PROCEDURES_MAX, "a log has at most {PROCEDURES_MAX} procedures");
        self.0.push(Registered { name, version, bind: bind::<T> });
    }

    pub(super) fn find(&self, name: &str, version: u32) -> Option<usize> {
        self.0.iter().position(|one| one.name == name && one.version == version)
    }

    /// The newest version registered under `name`.
    pub(super) fn newest(&self, name: &str) -> Option<u32> {
        self.0.iter().filter(|one| one.name == name).map(|one| one.version).max()
    }

    /// Gives every procedure a number in a log that has no commands yet. `store` will say so in its
    /// log, in front of the first command.
    ///
    /// # Errors
    /// When a log cannot distinguish so many.
    pub fn define(&self, store: &mut CommandStore) -> Result<ProcedureNumbers, LogFailure> {
        self.define_rest(store, &[])
    }

    /// The same where the log has given numbers already: `defined` are their procedures' positions.
    pub(super) fn define_rest(
        &self,
        store: &mut CommandStore,
        defined: &[usize],
    ) -> Result<ProcedureNumbers, LogFailure> {
        let mut next = defined.len();
        let mut numbers = Vec::new();
        for (position, &Registered { name, version, .. }) in self.0.iter().enumerate() {
            let known = defined.iter().position(|&one| one == position);
            let number = ProcedureNumber::new(known.unwrap_or(next)).ok_or(LogFailure::Settings(
                "a log has at most 1,024 procedures, each version counted as one: register fewer",
            ))?;
            if known.is_none() {
                store.define_procedure(number, version, name);
                next += 1;
            }
            numbers.push((name, version, number));
        }
        Ok(ProcedureNumbers(numbers))
    }
}

/// Which number each procedure has in one log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcedureNumbers(Vec<(&'static str, u32, ProcedureNumber)>);

impl ProcedureNumbers {
    /// The number of a procedure, if it is registered. To be asked once, not at each call.
    pub fn of(&self, name: &str, version: u32) -> Option<ProcedureNumber> {
        let is_it = |one: &&(&str, u32, _)| one.0 == name && one.1 == version;
        self.0.iter().find(is_it).map(|one| one.2)
    }
}

/// Gives the store's log, if it holds commands, the call that runs next. Otherwise does nothing.
///
/// # Errors
/// `LogTooLong`.
#[inline(always)]
pub fn name<A: Arguments, P: MemoryProfile>(
    store: &mut MemoryStore<P>,
    number: ProcedureNumber,
    arguments: &A,
) -> Result<(), Error> {
    store.command(number, arguments.bytes_max(), |room| {
        let mut out = Encoder::new(room);
        arguments.encode(&mut out);
        out.len()
    })
}

/// Runs `procedure` as one transaction on `store`, whose log may hold commands.
///
/// # Errors
/// As [`Procedure::call`]; and that the arguments are too long for a log (1 MiB).
#[inline(always)]
pub fn call<T: Procedure, P: MemoryProfile>(
    procedure: &T,
    number: ProcedureNumber,
    store: &mut MemoryStore<P>,
    input: &T::Input,
) -> Result<T::Answer, Stop>
where
    T::Input: Arguments,
{
    name(store, number, input)?;
    procedure.call(store, input)
}

/// The most bytes a command with these arguments adds to the log: for
/// [`Executor::log_bytes_max`](crate::pipeline::Executor::log_bytes_max).
#[inline(always)]
pub fn log_bytes_max(arguments: &impl Arguments) -> u64 {
    (LENGTH_BYTES + arguments.bytes_max()) as u64
}
