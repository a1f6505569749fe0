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

use std::io::{BufReader, BufWriter, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::rows::{Balances, FILLER_BYTES, Row, Rows};
use super::server::{self, Server, find_program, not_installed};
use super::sockets::{Callers, Protocol};
use super::{Engine, Opening, made};
use crate::compare::Batch;
use crate::failure::Failure;
use crate::histogram::Latencies;
use crate::workload::debit_credit::input::Input;

/// The program and its package.
const PROGRAM: &str = "redis-server";
/// The socket, in the server's directory.
const SOCKET: &str = "redis.sock";
/// What balances are kept under, in the order of the tables.
const BALANCE_KEYS: [&str; 3] = ["b", "t", "a"];
/// The digits of a code: all of them have as many, so that texts compare like numbers.
const CODE_DIGITS: usize = 19;
/// The longest argument of a call is the script's name, a SHA-1.
const ARGUMENT_BYTES_MAX: usize = 48;
/// Rows that are written or read by one command.
const ROWS: usize = 1_000;

/// The transaction. Keys: an account's balance and code, a teller's and a branch's balance. Arguments:
/// code and amount. It answers the account's balance, or less than nothing if it aborted: then what
/// it added is taken back.
///
/// Three `INCRBY` rather than an `MGET` and an `MSET` of all balances: a balance stays an integer on its
/// way, which took less of the server's time under redis-benchmark.
const SCRIPT: &str = "\
local call, amount = redis.call, ARGV[2]
local code = call('GET', KEYS[2])
if not code or call('EXISTS', KEYS[3], KEYS[4]) < 2 then return -3 end
if string.sub(code, 1, 19) ~= ARGV[1] then return -1 end
local a = call('INCRBY', KEYS[1], amount)
local t = call('INCRBY', KEYS[3], amount)
local b = call('INCRBY', KEYS[4], amount)
if a < 0 or t < 0 or b < 0 or a > 9e15 or t > 9e15 or b > 9e15 then
  call('DECRBY', KEYS[1], amount)
  call('DECRBY', KEYS[3], amount)
  call('DECRBY', KEYS[4], amount)
  return -2
end
return a";

/// A Redis server with its callers.
pub(super) struct Redis {
    callers: Callers<Script>,
    server: Server,
    socket: PathBuf,
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
        server.wait_until(|| Connection::open(&socket).is_ok_and(|mut it| it.is_ready()))?;
        let mut connection = Connection::open(&socket)?;
        connection.load(rows, progress)?;
        let sha = connection.text(&[b"SCRIPT", b"LOAD", SCRIPT.as_bytes()])?;
        let version = version(&program);
        let connect =
            || UnixStream::connect(&socket).map_err(|error| unreachable_at(&socket, &error));
        let callers = Callers::new(Script { sha }, plan.calls(), **clock, connect)?;
        let counts = rows.0.each_ref().map(Vec::len);
        Ok(Self { callers, server, socket, counts, version })
    }
}

fn unreachable_at(socket: &Path, error: &std::io::Error) -> Failure {
    Failure::environment(format!(
        "no connection to {}: {error}: give --data a directory with a short path",
        socket.display()
    ))
}

/// What the program says of itself.
fn version(program: &Path) -> String {
    let said = Command::new(program).arg("--version").output();
    let said = said.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let said = said.unwrap_or_default();
    let word = said.split(' ').find_map(|word| word.strip_prefix("v="));
    word.unwrap_or("unknown").to_owned()
}

impl Engine for Redis {
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
        for (table, (key, count)) in BALANCE_KEYS.iter().zip(self.counts).enumerate() {
            balances[table] = connection.balances(key, count)?;
        }
        Ok(balances)
    }
}

/// Calls of the script.
struct Script {
    sha: String,
}

impl Protocol for Script {
    fn call(&self, input: &Input, to: &mut Vec<u8>) {
        let Input { code, account, teller, branch, amount } = input;
        let texts = [
            format_args!("EVALSHA"),
            format_args!("{}", self.sha),
            format_args!("4"),
            format_args!("a:{account}"),
            format_args!("c:{account}"),
            format_args!("t:{teller}"),
            format_args!("b:{branch}"),
            format_args!("{code:0CODE_DIGITS$}"),
            format_args!("{amount}"),
        ];
        write(to, format_args!("*{}\r\n", texts.len()));
        for text in texts {
            // What an argument is called with begins with its length.
            let mut argument = [0; ARGUMENT_BYTES_MAX];
            let mut rest = &mut argument[..];
            let written = rest.write_fmt(text);
            debug_assert!(written.is_ok(), "{text}");
            let left = rest.len();
            bulk(&argument[..ARGUMENT_BYTES_MAX - left], to);
        }
    }

    fn answer(&self, bytes: &[u8]) -> Result<Option<(usize, bool)>, Failure> {
        let Some(end) = bytes.iter().position(|&byte| byte == b'\n') else { return Ok(None) };
        let line = String::from_utf8_lossy(&bytes[..end]);
        match line.trim_end().strip_prefix(':').and_then(|number| number.parse::<i64>().ok()) {
            Some(balance) => Ok(Some((end + 1, balance >= 0))),
            None => Err(refused(line.trim_end())),
        }
    }
}

fn refused(answer: &str) -> Failure {
    Failure::check(format!("redis failed: it answered {answer}"))
}

/// Writes into memory, which takes everything.
fn write(to: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    let written = to.write_fmt(text);
    debug_assert!(written.is_ok());
}

/// Appends a command of Redis's protocol.
fn command(arguments: &[impl AsRef<[u8]>], to: &mut Vec<u8>) {
    write(to, format_args!("*{}\r\n", arguments.len()));
    arguments.iter().for_each(|argument| bulk(argument.as_ref(), to));
}

/// Appends an argument.
fn bulk(argument: &[u8], to: &mut Vec<u8>) {
    write(to, format_args!("${}\r\n", argument.len()));
    to.extend_from_slice(argument);
    to.extend_from_slice(b"\r\n");
}

/// A connection for what is not measured: one command, one answer.
struct Connection {
    read: BufReader<UnixStream>,
    write: BufWriter<UnixStream>,
}

impl Connection {
    fn open(socket: &Path) -> Result<Self, Failure> {
        let open = || {
            let stream = UnixStream::connect(socket)?;
            Ok(Self { read: BufReader::new(stream.try_clone()?), write: BufWriter::new(stream) })
        };
        open().map_err(|error| unreachable_at(socket, &error))
    }

    fn is_ready(&mut self) -> bool {
        self.text(&[b"PING"]).is_ok_and(|answer| answer == "PONG")
    }

    /// A line, without its end.
    fn line(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        std::io::BufRead::read_line(&mut self.read, &mut line)?;
        Ok(line.trim_end().to_owned())
    }

    /// A string behind its line.
    fn string(&mut self, line: &str) -> std::io::Result<Option<String>> {
        let Some(Ok(bytes)) = line.strip_prefix('$').map(str::parse::<usize>) else {
            return Ok(None);
        };
        let mut text = vec![0; bytes + 2];
        self.read.read_exact(&mut text)?;
        text.truncate(bytes);
        Ok(Some(String::from_utf8_lossy(&text).into_owned()))
    }

    fn send(&mut self, arguments: &[impl AsRef<[u8]>]) -> std::io::Result<()> {
        let mut bytes = Vec::new();
        command(arguments, &mut bytes);
        self.write.write_all(&bytes)?;
        self.write.flush()
    }

    /// The answer to a command that is answered with a text.
    fn text(&mut self, arguments: &[&[u8]]) -> Result<String, Failure> {
        let mut ask = || {
            self.send(arguments)?;
            let line = self.line()?;
            match line.strip_prefix('+') {
                Some(text) => Ok(Ok(text.to_owned())),
                None => Ok(self.string(&line)?.ok_or(line)),
            }
        };
        let answer: std::io::Result<Result<String, String>> = ask();
        let answer = answer.map_err(|error| refused(&error.to_string()))?;
        answer.map_err(|line| refused(&line))
    }

    fn load(&mut self, rows: &Rows, progress: &mut dyn FnMut(f64)) -> Result<(), Failure> {
        for (table, key) in BALANCE_KEYS.iter().enumerate() {
            rows.load_table(table, progress, |part| {
                part.chunks(ROWS).try_for_each(|rows| self.set(key, rows))
            })?;
        }
        Ok(())
    }

    /// Sets the balances of `rows` under `key`, and what else an account has.
    fn set(&mut self, key: &str, rows: &[Row]) -> Result<(), Failure> {
        let blanks = " ".repeat(FILLER_BYTES);
        let mut arguments = vec!["MSET".to_owned()];
        for Row { id, code, balance } in rows {
            arguments.extend([format!("{key}:{id}"), balance.to_string()]);
            if key == "a" {
                let rest = format!("{code:0CODE_DIGITS$}{blanks}");
                arguments.extend([format!("c:{id}"), rest]);
            }
        }
        let arguments: Vec<&[u8]> = arguments.iter().map(String::as_bytes).collect();
        self.text(&arguments).map(drop)
    }

    /// The balances under `key` with ids up to `count`.
    fn balances(&mut self, key: &str, count: usize) -> Result<Vec<i64>, Failure> {
        let mut balances = Vec::with_capacity(count);
        let ids: Vec<usize> = (1..=count).collect();
        for part in ids.chunks(ROWS) {
            let keys = part.iter().map(|id| format!("{key}:{id}"));
            let arguments: Vec<String> = std::iter::once("MGET".to_owned()).chain(keys).collect();
            let mut ask = || {
                self.send(&arguments)?;
                let head = self.line()?;
                if head != format!("*{}", part.len()) {
                    return Ok(Err(head));
                }
                for _ in part {
                    let line = self.line()?;
                    match self.string(&line)?.map(|text| text.parse()) {
                        Some(Ok(balance)) => balances.push(balance),
                        _ => return Ok(Err(line)),
                    }
                }
                Ok(Ok(()))
            };
            let answer: std::io::Result<Result<(), String>> = ask();
            let answer = answer.map_err(|error| refused(&error.to_string()))?;
            answer.map_err(|line| refused(&line))?;
        }
        Ok(balances)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Blame;

    #[test]
    fn calls_and_answers_are_rediss() {
        let script = Script { sha: "ab12".to_owned() };
        let input = Input { code: 42, account: 7, teller: 3, branch: 1, amount: -5 };
        let mut call = Vec::new();
        script.call(&input, &mut call);
        let text = String::from_utf8(call).unwrap();
        let expected = "*9\r\n$7\r\nEVALSHA\r\n$4\r\nab12\r\n$1\r\n4\r\n$3\r\na:7\r\n$3\r\nc:7\r\n\
                        $3\r\nt:3\r\n$3\r\nb:1\r\n$19\r\n0000000000000000042\r\n$2\r\n-5\r\n";
        assert_eq!(text, expected);
        let answer = |bytes: &str| script.answer(bytes.as_bytes());
        assert_eq!(answer(":12\r\n:13\r\n"), Ok(Some((5, true))));
        assert_eq!(answer(":-1\r\n"), Ok(Some((5, false))));
        assert_eq!((answer(""), answer(":12\r")), (Ok(None), Ok(None)));
        let failure = answer("-NOSCRIPT No matching script\r\n").unwrap_err();
        assert_eq!(failure.blame(), Blame::Check);
        assert!(failure.to_string().contains("it answered -NOSCRIPT"), "{failure}");
    }
}
