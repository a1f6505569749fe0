//! Debit-credit on PostgreSQL: a prepared call of a function, a UNIX socket per caller
//! (docs/compare.md).
//!
//! # Rows
//! Each table has our four columns. Rows that change leave room for their next versions in their page
//! (`fillfactor`), so that no update touches an index; tellers and branches have a page for few rows.
//! The function changes the account first and the branch last: what all callers want is locked for
//! the shortest time.
//!
//! # Durability
//! `group`: `synchronous_commit` and `fsync` on; commits of several callers share a flush by
//! themselves. `none`: neither, nor full pages in the log.
//!
//! # The user it runs as
//! PostgreSQL refuses to run as root. If this process is root, the server runs as the user `postgres`, or `nobody`,
//! in a directory that this user owns.

use std::fs;
use std::io::{Error as IoError, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use bytes::BytesMut;
use postgres::fallible_iterator::FallibleIterator;
use postgres::{Client, Config, Error, NoTls, Row as Found};
use postgres_protocol::message::backend::{ErrorResponseBody, Message};
use postgres_protocol::message::frontend;
use postgres_protocol::{IsNull, types};

use super::Opening;
use super::rows::{Balances, FILLER_BYTES, Row, Rows, TABLES};
use super::server::{self, Server, User, find_program, not_installed};
use super::sockets::{Callers, Protocol};
use crate::compare::Batch;
use crate::compare::made;
use crate::compare::rounds::Engine;
use crate::failure::Failure;
use crate::histogram::Latencies;
use crate::workload::debit_credit::input::Input;
use crate::workload::debit_credit::schema::BALANCE_MAX;

/// The server's program, what makes its files, and the package of both.
const PROGRAM: &str = "postgres";
const MAKER: &str = "initdb";
const PACKAGE: &str = "postgresql";
/// Where Debian keeps versions, apart from the path.
const VERSIONS: &str = "/usr/lib/postgresql";
/// As whom it runs instead of root.
const USERS: [&str; 2] = ["postgres", "nobody"];
/// As whom it is asked, and the database that is there at first.
const USER: &str = "postgres";
/// The transaction, a call of [`FUNCTION`].
const CALL: &str = "SELECT debit_credit($1, $2, $3, $4, $5)";
/// The transaction: the account's balance, or nothing if it aborted before it changed anything. A
/// teller's or a branch's balance that does not suffice takes the account's change back.
const FUNCTION: &str = include_str!("postgres.sql");
/// The name of the prepared statement.
const STATEMENT: &str = "call";
/// The format of its parameters and its result.
const BINARY: i16 = 1;
/// The socket, in the server's directory.
const SOCKET: &str = ".s.PGSQL.5432";
/// Files of the cluster, below the engine's directory.
const CLUSTER: &str = "cluster";
/// Bytes of a row with everything that PostgreSQL keeps of it, about, its table's room left in.
const ROW_BYTES: usize = 512;
/// How full a table's pages are at first, in percent, in the order of the tables.
const FILL: [u32; 3] = [10, 10, 80];

/// A PostgreSQL server with its callers.
pub(super) struct Postgres {
    callers: Callers<Call>,
    server: Server,
    client: Client,
    version: String,
}

/// Refuses a machine without PostgreSQL.
///
/// # Errors
/// With what to install.
pub(super) fn verify_machine() -> Result<(), Failure> {
    programs().and_then(|_| server::verify_machine())
}

/// The server's program and what makes its files, of one version.
fn programs() -> Result<(PathBuf, PathBuf), Failure> {
    let mut versions: Vec<PathBuf> = fs::read_dir(VERSIONS)
        .into_iter()
        .flatten()
        .flatten()
        .map(|version| version.path().join("bin"))
        .collect();
    versions.sort_by_key(|folder| {
        let version = folder.parent().and_then(Path::file_name).and_then(|name| name.to_str());
        std::cmp::Reverse(version.and_then(|name| name.parse::<u32>().ok()))
    });
    let maker = find_program(MAKER, &versions).ok_or_else(|| not_installed(MAKER, PACKAGE))?;
    // On the path there may be a link; the server lies next to what it leads to.
    let maker = fs::canonicalize(&maker).unwrap_or(maker);
    let next_to_it = maker.parent().map(|folder| folder.join(PROGRAM));
    let server = next_to_it.filter(|program| program.is_file());
    server.map(|server| (server, maker)).ok_or_else(|| not_installed(PROGRAM, PACKAGE))
}

impl Postgres {
    /// Makes a cluster, starts its server and loads it.
    ///
    /// # Errors
    /// When it cannot be made or started, or refuses rows.
    pub(super) fn open(
        opening: &Opening<'_>,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Self, Failure> {
        let Opening { plan, rows, directory, clock } = opening;
        let (program, maker) = programs()?;
        let user = User::instead_of_root(&USERS)?;
        make_directory(directory, user.as_ref())?;
        make_cluster(&maker, directory, user.as_ref())?;
        let mut command = server::command(&program, user.as_ref());
        command.arg("-D").arg(CLUSTER).arg("-k").arg(directory);
        let clients = plan.calls().clients;
        for setting in settings(plan.is_durable(), clients, rows) {
            command.args(["-c", &setting]);
        }
        let mut server = Server::start("postgres", command, directory)?;
        let mut config = Config::new();
        config.host_path(directory).user(USER).dbname(USER);
        server.wait_until(|| config.connect(NoTls).is_ok())?;
        let mut client = config.connect(NoTls).map_err(failed)?;
        load(&mut client, rows, progress)?;
        let version = client.query_one("SHOW server_version", &[]);
        let version = version.and_then(|row| row.try_get(0)).map_err(failed)?;
        let socket = directory.join(SOCKET);
        let callers = Callers::new(plan.calls(), **clock, || {
            let mut call = Call::default();
            Ok((call.prepare(&socket)?, call))
        })?;
        Ok(Self { callers, server, client, version })
    }
}

fn failed(error: Error) -> Failure {
    match error.as_db_error() {
        Some(said) => Failure::check(format!("postgres failed: {}", said.message())),
        None => silent(error),
    }
}

fn silent(error: impl std::fmt::Display) -> Failure {
    Failure::environment(format!("postgres does not answer: {error}"))
}

/// Calls of the function, prepared, all parameters and the result in binary.
#[derive(Default)]
struct Call {
    /// Whether the answer under way has a balance so far.
    is_committed: bool,
}

/// A parameter, by its bytes.
enum Number {
    Four(i32),
    Eight(i64),
}

impl Call {
    /// A socket on which the call is prepared. Nothing is asked for a password: the server trusts its socket.
    fn prepare(&mut self, socket: &Path) -> Result<UnixStream, Failure> {
        let mut stream = UnixStream::connect(socket).map_err(silent)?;
        let mut bytes = BytesMut::new();
        let mut ask = || {
            frontend::startup_message([("user", USER), ("database", USER)], &mut bytes)?;
            frontend::parse(STATEMENT, CALL, [], &mut bytes)?;
            frontend::sync(&mut bytes);
            stream.write_all(&bytes)
        };
        ask().map_err(silent)?;
        bytes.clear();
        // It is ready after the first message, and when it has prepared the statement.
        for _ in 0..2 {
            while self.answer(&mut bytes)?.is_none() {
                let mut some = [0; 1 << 10];
                let read = match stream.read(&mut some) {
                    Ok(0) => Err(IoError::from(ErrorKind::UnexpectedEof)),
                    read => read,
                };
                bytes.extend_from_slice(&some[..read.map_err(silent)?]);
            }
        }
        Ok(stream)
    }
}

impl Protocol for Call {
    fn call(&mut self, input: &Input, to: &mut BytesMut) {
        let Input { code, account, teller, branch, amount } = input;
        let amount = i64::from(*amount);
        let ids = [account, teller, branch].map(|id| Number::Four(*id));
        let values = ids.into_iter().chain([amount, *code].map(Number::Eight));
        let value = |value: Number, to: &mut BytesMut| {
            match value {
                Number::Four(value) => types::int4_to_sql(value, to),
                Number::Eight(value) => types::int8_to_sql(value, to),
            }
            Ok(IsNull::No)
        };
        let bound = frontend::bind("", STATEMENT, [BINARY], values, value, [BINARY], to);
        let executed = frontend::execute("", 0, to);
        frontend::sync(to);
        debug_assert!(bound.is_ok() && executed.is_ok(), "numbers and names that are constants");
    }

    fn answer(&mut self, bytes: &mut BytesMut) -> Result<Option<bool>, Failure> {
        while let Some(message) = Message::parse(bytes).map_err(silent)? {
            match message {
                // One column; it is absent if the transaction aborted.
                Message::DataRow(row) => {
                    self.is_committed = row.ranges().next().map_err(silent)?.flatten().is_some();
                }
                Message::ErrorResponse(error) => return Err(refused(&error)),
                Message::ReadyForQuery(_) => {
                    return Ok(Some(std::mem::take(&mut self.is_committed)));
                }
                _ => {}
            }
        }
        Ok(None)
    }
}

/// The failure that an error message stands for.
fn refused(error: &ErrorResponseBody) -> Failure {
    let text = error.fields().find(|field| Ok(field.type_() == b'M')).ok().flatten();
    let text = text.map_or_else(String::new, |field| {
        String::from_utf8_lossy(field.value_bytes()).into_owned()
    });
    Failure::check(format!("postgres failed: {text}"))
}

/// The server's settings.
fn settings(is_durable: bool, clients: usize, rows: &Rows) -> Vec<String> {
    let buffers_mb = ((rows.count() * ROW_BYTES) >> 20).max(128);
    let durable = if is_durable { "on" } else { "off" };
    vec![
        "listen_addresses=".to_owned(),
        "unix_socket_permissions=0700".to_owned(),
        format!("max_connections={}", clients + 10),
        // All rows in memory, and no writing of them in the middle of a round.
        format!("shared_buffers={buffers_mb}MB"),
        "huge_pages=try".to_owned(),
        "max_wal_size=8GB".to_owned(),
        "checkpoint_timeout=1h".to_owned(),
        format!("fsync={durable}"),
        format!("synchronous_commit={durable}"),
        format!("full_page_writes={durable}"),
        // The log is for recovery alone.
        "wal_level=minimal".to_owned(),
        "max_wal_senders=0".to_owned(),
        "wal_buffers=64MB".to_owned(),
        // Nothing runs next to the transactions.
        "autovacuum=off".to_owned(),
        "track_counts=off".to_owned(),
        "track_activities=off".to_owned(),
        "update_process_title=off".to_owned(),
        "jit=off".to_owned(),
    ]
}

/// Makes the engine's directory, `user`'s if there is one.
fn make_directory(directory: &Path, user: Option<&User>) -> Result<(), Failure> {
    let Some(User { name, uid, gid }) = user else { return made(directory).map(|_| ()) };
    std::os::unix::fs::chown(made(directory)?, Some(*uid), Some(*gid)).map_err(|error| {
        let directory = directory.display();
        Failure::environment(format!("directory {directory} cannot be given to {name}: {error}"))
    })
}

/// Makes an empty cluster.
fn make_cluster(maker: &Path, directory: &Path, user: Option<&User>) -> Result<(), Failure> {
    let mut command = server::command(maker, user);
    command.args(["-D", CLUSTER, "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C"]);
    command.arg("--no-sync").current_dir(directory);
    let why = match command.output() {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            said.lines().rfind(|line| line.contains("error")).unwrap_or(&said).to_owned()
        }
        Err(error) => error.to_string(),
    };
    let whose = user.map_or_else(String::new, |user| {
        let (name, directory) = (&user.name, directory.display());
        format!(" (not run as root but as {name}, who must be able to reach {directory})")
    });
    Err(Failure::environment(format!("{MAKER} failed{whose}: {why}")))
}

/// Makes the tables and the function, and loads `rows`.
fn load(client: &mut Client, rows: &Rows, progress: &mut dyn FnMut(f64)) -> Result<(), Failure> {
    for (number, (table, fill)) in TABLES.iter().zip(FILL).enumerate() {
        let mut transaction = client.transaction().map_err(failed)?;
        let create = format!(
            "CREATE TABLE {table} (id int4 NOT NULL, code int8 NOT NULL, balance int8 NOT NULL, \
             filler char({FILLER_BYTES}) NOT NULL DEFAULT '') WITH (fillfactor = {fill})"
        );
        transaction.batch_execute(&create).map_err(failed)?;
        let copy = format!("COPY {table} (id, code, balance) FROM STDIN");
        let mut copy = transaction.copy_in(&copy).map_err(failed)?;
        rows.load_table(number, progress, |part| {
            part.iter()
                .try_for_each(|Row { id, code, balance }| writeln!(copy, "{id}\t{code}\t{balance}"))
        })
        .map_err(silent)?;
        copy.finish().map_err(failed)?;
        let key = format!("ALTER TABLE {table} ADD PRIMARY KEY (id)");
        transaction.batch_execute(&key).map_err(failed)?;
        transaction.commit().map_err(failed)?;
    }
    for statement in [
        &*FUNCTION.replace("BALANCE_MAX", &BALANCE_MAX.to_string()),
        "VACUUM (FREEZE, ANALYZE)",
        "CHECKPOINT",
    ] {
        client.batch_execute(statement).map_err(failed)?;
    }
    Ok(())
}

impl Engine<Input, Balances> for Postgres {
    fn version(&self) -> &str {
        &self.version
    }

    fn transport(&self) -> &'static str {
        "unix"
    }

    fn run(&mut self, inputs: &[Input], latencies: &mut Latencies) -> Result<Batch, Failure> {
        self.callers.run(&self.server, inputs, latencies)
    }

    fn found(&mut self) -> Result<Balances, Failure> {
        let mut balances = Balances::default();
        for (found, table) in balances.iter_mut().zip(TABLES) {
            let query = format!("SELECT balance FROM {table} ORDER BY id");
            let rows = self.client.query(&query, &[]).map_err(failed)?;
            let balance = |row: &Found| row.try_get(0);
            *found = rows.iter().map(balance).collect::<Result<_, _>>().map_err(failed)?;
        }
        Ok(balances)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use postgres_protocol::message::backend::Header;

    #[test]
    fn calls_are_three_messages() {
        let input = Input { code: 42, account: 7, teller: 3, branch: 1, amount: -5 };
        let mut call = BytesMut::new();
        Call::default().call(&input, &mut call);
        let (mut kinds, mut at) = (Vec::new(), 0);
        while let Some(head) = Header::parse(&call[at..]).unwrap() {
            // The length counts itself.
            kinds.push((char::from(head.tag()), head.len() as usize - 4));
            at += 1 + head.len() as usize;
        }
        assert_eq!(at, call.len());
        // Portal, name, formats, three ids and two numbers with their lengths, the result's format.
        let bind = 1 + STATEMENT.len() + 1 + 6 + 3 * 8 + 2 * 12 + 4;
        assert_eq!(kinds, [('B', bind), ('E', 5), ('S', 0)]);
    }

    /// A message as the server sends it.
    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = (body.len() as u32 + 4).to_be_bytes();
        [&[kind], &length[..], body].concat()
    }

    #[test]
    fn an_answer_is_over_when_the_server_is_ready() {
        let mut call = Call::default();
        let row = message(b'D', &[0, 1, 0, 0, 0, 1, 9]);
        let mut bytes = BytesMut::from(&[message(b'2', &[]), row].concat()[..]);
        bytes.extend(message(b'C', b"SELECT 1\0"));
        assert_eq!(call.answer(&mut bytes), Ok(None));
        bytes.extend([message(b'Z', b"I"), message(b'2', &[])].concat());
        assert_eq!(call.answer(&mut bytes), Ok(Some(true)));
        assert_eq!(call.answer(&mut bytes), Ok(None));
        let aborted = [message(b'D', &[0, 1, 255, 255, 255, 255]), message(b'Z', b"I")].concat();
        assert_eq!(call.answer(&mut BytesMut::from(&aborted[..])), Ok(Some(false)));
        let error = message(b'E', b"SERROR\0Mno room\0\0");
        let failure = call.answer(&mut BytesMut::from(&error[..])).unwrap_err().to_string();
        assert_eq!(failure, "postgres failed: no room");
    }
}
