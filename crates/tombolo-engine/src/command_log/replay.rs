//! A store from a log of commands: loaded rows by slot, then every command again, in order, on one
//! thread (TPK-24).
//!
//! ```text
//!   Loading ──first command──► Running ──end of the log──► the store, and a writer
//!     values: replayed           commands: called; tables: created; values of rows: refused
//! ```
//!
//! Each command committed and wrote before. A command that stops, panics or writes nothing now is not the same
//! procedure, or not a deterministic one: recovery refuses the log, naming group and procedure, and has changed
//! nothing. That each command ended the same way does not prove that the state is the same; comparing state
//! hashes from before and after does.
//!
//! Not here: where the log ends (storage `value_log/walk.rs`). Invariant: nothing of the log that
//! is being replayed is logged a second time.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tombolo_storage::command_log::{Entries, Entry, ProcedureNumber};
use tombolo_storage::disk::Disk;
use tombolo_storage::memory::Limits;
use tombolo_storage::memory::recovery::ReplayPart;
use tombolo_storage::store::Store;
use tombolo_storage::sync::Arc;
use tombolo_storage::value_log::{
    self, Cut, GroupNumber, LogBuffer, LogFailure, LogKind, LogSettings, LogWriter, Progress,
    Record, RecoverOptions, Refused, Replay, SchemaKind, SchemaRecord, definition,
};

use super::procedures::{CommandStore, NotRun, ProcedureNumbers, Procedures, Run};
use crate::threads::panic_message;

/// A database that was opened from its log of commands.
#[derive(Debug)]
pub struct Recovered {
    /// As it was after the last command. Procedures that the log does not name yet wait in its log
    /// buffer.
    pub store: CommandStore,
    /// Continues the log.
    pub writer: LogWriter,
    /// The numbers of all registered procedures.
    pub numbers: ProcedureNumbers,
    /// Groups replayed.
    pub groups: u64,
    /// Commands run again.
    pub commands: u64,
    /// What was cut off, if anything was.
    pub cut: Option<Cut>,
}

/// Opens the log of commands in `disk` after any end of its last process and runs them again.
///
/// # Errors
/// As [`value_log::recover`]; `OtherKind` for a value log; `Replay` when the log names a procedure
/// that is not registered, or a command ends otherwise than it did.
pub fn recover(
    disk: Arc<dyn Disk>,
    settings: LogSettings,
    accept_loss: bool,
    limits: Limits,
    procedures: &Procedures,
    progress: &mut dyn FnMut(Progress),
) -> Result<Recovered, LogFailure> {
    let settings = LogSettings { kind: LogKind::Command, ..settings };
    // There is no image of a store yet that a log of commands could continue from.
    let options = RecoverOptions { first: 1.into(), accept_loss, keep: None, last: None };
    let mut again = Again::new(procedures, limits);
    let found = value_log::recover(disk, settings, options, &mut again, progress)?;
    let value_log::Recovered { writer, groups, cut, .. } = found;
    let commands = again.commands;
    let Again { state: State::Running(store), defined, .. } = again else {
        unreachable!("a log that was run to its end made its store")
    };
    let mut store = *store;
    let numbers = procedures.define_rest(&mut store, &defined)?;
    Ok(Recovered { store, writer, numbers, groups, commands, cut })
}

/// Why nothing can be run.
const NO_STORE: &str = "the rows in front of the commands made no store";

enum State {
    Loading(Box<ReplayPart>),
    Running(Box<CommandStore>),
    /// While one becomes the other, and after that has failed.
    Nowhere,
}

/// A log that is run again.
struct Again<'p> {
    procedures: &'p Procedures,
    limits: Limits,
    state: State,
    /// By number: the position among the registered, and the procedure once it was called.
    defined: Vec<usize>,
    bound: Vec<Option<Box<dyn Run>>>,
    /// The group and the procedure at hand.
    group: GroupNumber,
    current: usize,
    commands: u64,
    /// Takes what the store logs meanwhile.
    waste: LogBuffer,
}

impl<'p> Again<'p> {
    fn new(procedures: &'p Procedures, limits: Limits) -> Self {
        Self {
            procedures,
            limits,
            state: State::Loading(Box::new(ReplayPart::new(0, 1, limits))),
            defined: Vec::new(),
            bound: Vec::new(),
            group: 0,
            current: 0,
            commands: 0,
            waste: LogBuffer::new(),
        }
    }

    fn run_group(&mut self, records: &[u8]) -> Result<(), String> {
        for entry in Entries::new(records) {
            match entry.map_err(|error| error.to_string())? {
                Entry::Command { procedure, arguments } => self.command(procedure, arguments)?,
                Entry::Values(records) => self.values(records)?,
                Entry::Procedure { number, version, name } => {
                    self.define(number, version, name)?;
                }
            }
        }
        if let State::Running(store) = &mut self.state {
            store.take_log(&mut self.waste);
            self.waste.clear();
        }
        Ok(())
    }

    fn define(&mut self, number: ProcedureNumber, version: u32, name: &str) -> Result<(), String> {
        let Some(position) = self.procedures.find(name, version) else {
            let others = match self.procedures.newest(name) {
                Some(newest) => format!("version {newest} is: register the old one too"),
                None => "register it before the database is opened".to_owned(),
            };
            return Err(format!(
                "the log names procedure {name}, version {version}, which is not registered; {others}"
            ));
        };
        if number.get() != self.defined.len() {
            return Err(format!("procedure {name} has number {} out of turn", number.get()));
        }
        self.defined.push(position);
        self.bound.push(None);
        Ok(())
    }

    fn values(&mut self, records: value_log::Records<'_>) -> Result<(), String> {
        let store = match &mut self.state {
            State::Loading(part) => return part.apply_transaction(records),
            State::Running(store) => store,
            State::Nowhere => return Err(NO_STORE.to_owned()),
        };
        for record in records {
            let record = record.map_err(|error| error.to_string())?;
            let Record::Schema(SchemaRecord { kind: SchemaKind::TableCreated, bytes, .. }) = record
            else {
                return Err("a row's values behind the first command".to_owned());
            };
            let table = definition::decode(bytes);
            let table = table.ok_or("a table's definition cannot be read")?;
            store.create_table(table).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    #[inline]
    fn command(&mut self, number: ProcedureNumber, arguments: &[u8]) -> Result<(), String> {
        let n = number.get();
        let Some(&position) = self.defined.get(n) else {
            return Err(format!("a command of procedure number {n}, which the log never named"));
        };
        self.current = position;
        if self.bound[n].is_none() {
            self.bind(n)?;
        }
        let (State::Running(store), Some(procedure)) = (&mut self.state, &self.bound[n]) else {
            return Err(NO_STORE.to_owned());
        };
        let logged = store.log_bytes();
        let ran = procedure.run(store, number, arguments);
        let has_written = store.log_bytes() > logged;
        self.commands += 1;
        match ran {
            Ok(()) if has_written => Ok(()),
            Ok(()) => Err(self.differs("writes nothing")),
            Err(NotRun::Stopped(stop)) => Err(self.differs(&format!("ends: {stop}"))),
            Err(NotRun::Arguments(bad)) => Err(self.named(&bad.to_string())),
        }
    }

    /// Makes the procedure with number `n`, which is at hand, ready to be called.
    #[cold]
    fn bind(&mut self, n: usize) -> Result<(), String> {
        self.begin_running()?;
        let State::Running(store) = &self.state else { return Err(NO_STORE.to_owned()) };
        let bound = (self.procedures.0[self.current].bind)(store.schema());
        self.bound[n] = Some(bound.map_err(|error| self.named(&error.to_string()))?);
        Ok(())
    }

    /// The rows in front of the first command become a store.
    fn begin_running(&mut self) -> Result<(), String> {
        match std::mem::replace(&mut self.state, State::Nowhere) {
            State::Loading(part) => {
                let store = CommandStore::from_replay(self.limits, vec![part.finish()?])?;
                self.state = State::Running(Box::new(store));
            }
            other => self.state = other,
        }
        Ok(())
    }

    /// `what` about the procedure at hand.
    fn named(&self, what: &str) -> String {
        let registered = &self.procedures.0[self.current];
        format!("procedure {}, version {}: {what}", registered.name, registered.version)
    }

    fn differs(&self, what: &str) -> String {
        self.named(&format!(
            "it wrote and committed before, and now {what}; it is not deterministic, or another \
             procedure was registered under that name and version"
        ))
    }
}

impl Replay for Again<'_> {
    fn replay(&mut self, group: GroupNumber, records: &[u8]) -> Result<(), Refused> {
        self.group = group;
        // Once per group: what panics is the procedure at hand.
        let ran = match catch_unwind(AssertUnwindSafe(|| self.run_group(records))) {
            Ok(ran) => ran,
            Err(panic) => Err(self.differs(&format!("panics: {}", panic_message(&*panic)))),
        };
        ran.map_err(|what| (group, what))
    }
    /// A log without commands becomes a store here, before anything is cut off.
    fn complete(&mut self) -> Result<(), Refused> {
        self.begin_running().map_err(|what| (self.group, what))
    }
}
