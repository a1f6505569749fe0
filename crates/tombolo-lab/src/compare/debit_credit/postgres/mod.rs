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
//! # Whose it is
//! PostgreSQL does not run as root. Where this process does, the server is the user `postgres`, or
//! `nobody`, and gets a directory of its own.
//!
//! Not here: the protocol's bytes (`wire.rs`).

mod wire;

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use self::wire::{Connection, Statement};
use super::rows::{Balances, FILLER_BYTES, Row, Rows, TABLES};
use super::server::{self, Server, User, find_program, not_installed};
use super::sockets::Callers;
use super::{Engine, Opening, made};
use crate::compare::Batch;
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
/// Files of the cluster, below the engine's directory.
const CLUSTER: &str = "cluster";
/// Bytes of a row with everything that PostgreSQL keeps of it, about, its table's room left in.
const ROW_BYTES: usize = 512;
/// How full a table's pages are at first, in percent, in the order of the tables.
const FILL: [u32; 3] = [10, 10, 80];

/// A PostgreSQL server with its callers.
pub(super) struct Postgres {
    callers: Callers<Statement>,
    server: Server,
    socket: PathBuf,
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
    let beside = maker.parent().map(|folder| folder.join(PROGRAM));
    let server = beside.filter(|program| program.is_file());
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
        let socket = directory.join(".s.PGSQL.5432");
        server.wait_until(|| Connection::open(&socket).is_ok())?;
        let mut connection = Connection::open(&socket)?;
        load(&mut connection, rows, progress)?;
        let version = connection.query("SHOW server_version")?.concat();
        let connect = || -> Result<UnixStream, Failure> {
            let mut connection = Connection::open(&socket)?;
            connection.prepare(Statement::TEXT)?;
            connection.into_socket()
        };
        let callers = Callers::new(Statement, plan.calls(), **clock, connect)?;
        Ok(Self { callers, server, socket, version })
    }
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
    command.args(["-D", CLUSTER, "-U", wire::USER, "-A", "trust", "-E", "UTF8", "--locale=C"]);
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
fn load(
    connection: &mut Connection,
    rows: &Rows,
    progress: &mut dyn FnMut(f64),
) -> Result<(), Failure> {
    for (number, (table, fill)) in TABLES.iter().zip(FILL).enumerate() {
        connection.query("BEGIN")?;
        connection.query(&format!(
            "CREATE TABLE {table} (id int4 NOT NULL, code int8 NOT NULL, balance int8 NOT NULL, \
             filler char({FILLER_BYTES}) NOT NULL DEFAULT '') WITH (fillfactor = {fill})"
        ))?;
        connection.begin_copy(&format!("COPY {table} (id, code, balance) FROM STDIN"))?;
        rows.load_table(number, progress, |part| {
            let line = |Row { id, code, balance }: &Row| format!("{id}\t{code}\t{balance}\n");
            connection.copy(&part.iter().map(line).collect::<String>())
        })?;
        connection.end_copy()?;
        connection.query(&format!("ALTER TABLE {table} ADD PRIMARY KEY (id)"))?;
        connection.query("COMMIT")?;
    }
    connection.query(&function())?;
    connection.query("VACUUM (FREEZE, ANALYZE)")?;
    connection.query("CHECKPOINT")?;
    Ok(())
}

/// The transaction: the account's balance, or nothing if it aborted before it changed anything. A
/// teller's or a branch's balance that does not suffice takes the account's change back.
fn function() -> String {
    let pays = |table: &str, id: &str, more: &str| {
        format!(
            "UPDATE {table} SET balance = balance + amount
             WHERE id = {id}{more} AND balance + amount BETWEEN 0 AND {BALANCE_MAX}"
        )
    };
    format!(
        "CREATE FUNCTION debit_credit(account_id int4, teller_id int4, branch_id int4,
                                      amount int8, given int8)
         RETURNS int8 LANGUAGE plpgsql AS $$
         DECLARE left_over int8;
         BEGIN
           {} RETURNING balance INTO left_over;
           IF NOT FOUND THEN RETURN NULL; END IF;
           {};
           IF NOT FOUND THEN RAISE EXCEPTION 'teller % cannot pay', teller_id; END IF;
           {};
           IF NOT FOUND THEN RAISE EXCEPTION 'branch % cannot pay', branch_id; END IF;
           RETURN left_over;
         END $$",
        pays("account", "account_id", " AND code = given"),
        pays("teller", "teller_id", ""),
        pays("branch", "branch_id", ""),
    )
}

impl Engine for Postgres {
    fn version(&self) -> &str {
        &self.version
    }

    fn transport(&self) -> &'static str {
        "unix"
    }

    fn run(&mut self, inputs: &[Input], latencies: &mut Latencies) -> Result<Batch, Failure> {
        self.callers.run(&self.server, inputs, latencies)
    }

    fn balances(&mut self) -> Result<Balances, Failure> {
        let mut connection = Connection::open(&self.socket)?;
        let mut balances = Balances::default();
        for (found, table) in balances.iter_mut().zip(TABLES) {
            for text in connection.query(&format!("SELECT balance FROM {table} ORDER BY id"))? {
                found.push(text.parse().map_err(|_| {
                    Failure::check(format!("postgres failed: a balance of {table} is {text}"))
                })?);
            }
        }
        Ok(balances)
    }
}
