//! Debit-credit on Redis: a script on the server, a UNIX socket per caller (docs/compare.md).
//!
//! # Keys
//! A row is two strings: its balance under `a:ID`, `t:ID` or `b:ID`, which Redis keeps as an integer,
//! and under `c:ID` what no transaction changes, its code and its blanks. The append-only file then
//! holds three amounts per transaction and not three rows. A script sees balances as doubles: they stay
//! below 2^53 (`ledger.rs`).
//!
//! # Durability
//! `group`: the append-only file with `appendfsync always`: Redis writes and syncs what all sockets
//! asked for in one go before it answers any. `none`: no file at all.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use bytes::BytesMut;
use redis::{
    Client, Cmd, Commands, ConnectionAddr, FromRedisValue, Parser, RedisError, RedisResult,
    RedisWrite,
};

use super::Opening;
use super::rows::{Balances, FILLER_BYTES, Row, Rows};
use super::server::{self, Server, find_program, not_installed};
use super::sockets::{Callers, Protocol};
use crate::compare::Batch;
use crate::compare::made;
use crate::compare::rounds::Engine;
use crate::failure::Failure;
use crate::histogram::Latencies;
use crate::workload::debit_credit::input::Input;

/// The program and its package.
const PROGRAM: &str = "redis-server";
/// The socket, in the server's directory.
const SOCKET: &str = "redis.sock";
/// The prefixes of the keys of balances, in the order of the tables.
const BALANCE_KEYS: [&str; 3] = ["b", "t", "a"];
/// The digits of a code: all of them have as many, so that texts compare like numbers.
const CODE_DIGITS: usize = 19;
/// Rows that are written or read by one command.
const ROWS: usize = 1_000;

/// The transaction. Keys: an account's balance and code, a teller's and a branch's balance. Arguments:
/// code and amount. It answers the account's balance, or less than nothing if it aborted: then what
/// it added is taken back.
///
/// Three `INCRBY` rather than an `MGET` and an `MSET` of all balances: a balance stays an integer on its
/// way, which took less of the server's time under redis-benchmark.
const SCRIPT: &str = include_str!("redis.lua");

/// A Redis server with its callers.
pub(super) struct Redis {
    callers: Callers<Script>,
    server: Server,
    client: Client,
    counts: [usize; 3],
    version: String,
}

/// Refuses a machine without Redis.
///
/// # Errors
/// With what to install.
pub(super) fn verify_machine() -> Result<(), Failure> {
    program().and_then(|_| server::verify_machine())
}

fn program() -> Result<PathBuf, Failure> {
    let folders = ["/usr/bin", "/usr/local/bin", "/usr/sbin"].map(PathBuf::from);
    find_program(PROGRAM, &folders).ok_or_else(|| not_installed(PROGRAM, PROGRAM))
}

impl Redis {
    /// Starts a server and loads it.
    ///
    /// # Errors
    /// When it cannot be started or refuses rows.
    pub(super) fn open(
        opening: &Opening<'_>,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Self, Failure> {
        let Opening { plan, rows, directory, clock } = opening;
        let program = program()?;
        made(directory)?;
        let mut command = server::command(&program, None);
        command.args(["--port", "0", "--unixsocket", SOCKET, "--unixsocketperm", "700"]);
        command.args(["--save", "", "--daemonize", "no", "--loglevel", "warning"]);
        let (file, sync) = if plan.is_durable() { ("yes", "always") } else { ("no", "no") };
        command.args(["--appendonly", file, "--appendfsync", sync]);
        // It is not written anew in the middle of a round.
        command.args(["--auto-aof-rewrite-percentage", "0"]);
        let clients = (plan.calls().clients + 32).to_string();
        command.args(["--maxclients", &clients]);
        let mut server = Server::start("redis", command, directory)?;
        let socket = directory.join(SOCKET);
        let client = Client::open(ConnectionAddr::Unix(socket.clone())).map_err(failed)?;
        server.wait_until(|| {
            client.get_connection().is_ok_and(|mut it| it.ping::<String>().is_ok())
        })?;
        let sha = load(&client, rows, progress).map_err(failed)?;
        let version = version(&program);
        let callers = Callers::new(plan.calls(), **clock, || {
            let stream = UnixStream::connect(&socket).map_err(RedisError::from).map_err(failed)?;
            Ok((stream, Script::new(sha.clone())))
        })?;
        let counts = rows.0.each_ref().map(Vec::len);
        Ok(Self { callers, server, client, counts, version })
    }
}

fn failed(error: RedisError) -> Failure {
    let failure = if error.is_io_error() { Failure::environment } else { Failure::check };
    failure(format!("redis failed: {error}"))
}

/// The version that the program prints.
fn version(program: &Path) -> String {
    let said = Command::new(program).arg("--version").output();
    let said = said.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let said = said.unwrap_or_default();
    let word = said.split(' ').find_map(|word| word.strip_prefix("v="));
    word.unwrap_or("unknown").to_owned()
}

/// Sets all rows, each a balance and what else an account has; the script's name.
fn load(client: &Client, rows: &Rows, progress: &mut dyn FnMut(f64)) -> RedisResult<String> {
    let mut connection = client.get_connection()?;
    let blanks = " ".repeat(FILLER_BYTES);
    for (table, key) in BALANCE_KEYS.iter().enumerate() {
        rows.load_table(table, progress, |part| {
            part.chunks(ROWS).try_for_each(|rows| {
                let mut set = redis::cmd("MSET");
                for Row { id, code, balance } in rows {
                    set.arg(format!("{key}:{id}")).arg(balance);
                    if *key == "a" {
                        let rest = format!("{code:0CODE_DIGITS$}{blanks}");
                        set.arg(format!("c:{id}")).arg(rest);
                    }
                }
                set.exec(&mut connection)
            })
        })?;
    }
    redis::cmd("SCRIPT").arg("LOAD").arg(SCRIPT).query(&mut connection)
}

impl Engine<Input, Balances> for Redis {
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
        let mut connection = self.client.get_connection().map_err(failed)?;
        let mut balances = Balances::default();
        for (found, (key, count)) in balances.iter_mut().zip(BALANCE_KEYS.iter().zip(self.counts)) {
            let keys: Vec<String> = (1..=count).map(|id| format!("{key}:{id}")).collect();
            for part in keys.chunks(ROWS) {
                found.extend(connection.mget::<_, Vec<i64>>(part).map_err(failed)?);
            }
        }
        Ok(balances)
    }
}

/// Calls of the script.
struct Script {
    sha: String,
    /// The last call, as it is sent.
    packed: Vec<u8>,
    parser: Parser,
}

impl Script {
    fn new(sha: String) -> Self {
        Self { sha, packed: Vec::new(), parser: Parser::new() }
    }
}

impl Protocol for Script {
    fn call(&mut self, input: &Input, to: &mut BytesMut) {
        let Input { code, account, teller, branch, amount } = input;
        let mut call = Cmd::with_capacity(9, 160);
        call.arg("EVALSHA").arg(&self.sha).arg("4");
        call.write_arg_fmt(format_args!("a:{account}"));
        call.write_arg_fmt(format_args!("c:{account}"));
        call.write_arg_fmt(format_args!("t:{teller}"));
        call.write_arg_fmt(format_args!("b:{branch}"));
        call.write_arg_fmt(format_args!("{code:0CODE_DIGITS$}"));
        call.write_arg_fmt(amount);
        self.packed.clear();
        call.write_packed_command(&mut self.packed);
        to.extend_from_slice(&self.packed);
    }

    fn answer(&mut self, bytes: &mut BytesMut) -> Result<Option<bool>, Failure> {
        // A number and an error are both one line.
        let Some(end) = bytes.iter().position(|&byte| byte == b'\n') else { return Ok(None) };
        let line = bytes.split_to(end + 1);
        let answer = self.parser.parse_value(&*line).and_then(|value| value.extract_error());
        let balance = answer.and_then(|value| Ok(i64::from_redis_value(value)?));
        balance.map(|balance| Some(balance >= 0)).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Blame;

    #[test]
    fn calls_and_answers_are_rediss() {
        let mut script = Script::new("ab12".to_owned());
        let input = Input { code: 42, account: 7, teller: 3, branch: 1, amount: -5 };
        let mut call = BytesMut::new();
        script.call(&input, &mut call);
        let expected = "*9\r\n$7\r\nEVALSHA\r\n$4\r\nab12\r\n$1\r\n4\r\n$3\r\na:7\r\n$3\r\nc:7\r\n\
                        $3\r\nt:3\r\n$3\r\nb:1\r\n$19\r\n0000000000000000042\r\n$2\r\n-5\r\n";
        assert_eq!(call, expected);
        let mut answers = BytesMut::from(":12\r\n:-1\r\n:13\r");
        let mut answer = || script.answer(&mut answers);
        assert_eq!((answer(), answer(), answer()), (Ok(Some(true)), Ok(Some(false)), Ok(None)));
        assert_eq!(answers, ":13\r");
        let mut refused = BytesMut::from("-NOSCRIPT No matching script\r\n");
        let failure = script.answer(&mut refused).unwrap_err();
        assert_eq!(failure.blame(), Blame::Check);
        assert!(failure.to_string().contains("No matching script"), "{failure}");
    }
}
