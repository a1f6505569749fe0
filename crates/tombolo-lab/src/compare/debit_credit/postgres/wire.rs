//! PostgreSQL's protocol, version 3, as far as a caller of one prepared statement needs it.
//!
//! A message is a byte that says what it is, its length in four bytes that count themselves, and its
//! body. A call is three: `Bind`, `Execute`, `Sync`; it is over with `ReadyForQuery`. No
//! authentication but `trust`: the sockets are in a directory of the command's own.

use std::io::{BufReader, BufWriter, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::compare::debit_credit::sockets::Protocol;
use crate::failure::Failure;
use crate::workload::debit_credit::input::Input;

/// As whom we speak to the server, and the database that is there at first.
pub(super) const USER: &str = "postgres";
/// Bytes in front of a message's body.
const HEAD: usize = 5;
/// The protocol's version.
const VERSION: i32 = 196_608;

/// The prepared call of the function.
pub(super) struct Statement;

impl Statement {
    /// What is prepared.
    pub(super) const TEXT: &str = "SELECT debit_credit($1, $2, $3, $4, $5)";
    /// What it is prepared as.
    const NAME: &[u8] = b"d\0";
    /// Any portal: the one without a name.
    const PORTAL: &[u8] = b"\0";
}

impl Protocol for Statement {
    fn call(&self, input: &Input, to: &mut Vec<u8>) {
        message(b'B', to, |body| {
            body.extend_from_slice(Statement::PORTAL);
            body.extend_from_slice(Statement::NAME);
            // All parameters in binary.
            body.extend_from_slice(&[0, 1, 0, 1, 0, 5]);
            for id in [input.account, input.teller, input.branch] {
                body.extend_from_slice(&4i32.to_be_bytes());
                body.extend_from_slice(&id.to_be_bytes());
            }
            for number in [i64::from(input.amount), input.code] {
                body.extend_from_slice(&8i32.to_be_bytes());
                body.extend_from_slice(&number.to_be_bytes());
            }
            // The result too.
            body.extend_from_slice(&[0, 1, 0, 1]);
        });
        message(b'E', to, |body| {
            body.extend_from_slice(Statement::PORTAL);
            body.extend_from_slice(&0i32.to_be_bytes());
        });
        message(b'S', to, |_| ());
    }

    fn answer(&self, bytes: &[u8]) -> Result<Option<(usize, bool)>, Failure> {
        let (mut at, mut is_committed) = (0, false);
        while let Some((kind, body)) = first(&bytes[at..]) {
            at += HEAD + body.len();
            match kind {
                // One column; it is absent if the transaction aborted.
                b'D' => is_committed = body.get(2..6) != Some(&(-1i32).to_be_bytes()),
                b'E' => return Err(failed(body)),
                b'Z' => return Ok(Some((at, is_committed))),
                _ => {}
            }
        }
        Ok(None)
    }
}

/// Appends a message.
fn message(kind: u8, to: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    to.push(kind);
    let start = to.len();
    to.extend_from_slice(&[0; 4]);
    body(to);
    let length = (to.len() - start) as i32;
    to[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

/// The first message in `bytes`, if all of it is there: what it is, and its body.
fn first(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let (kind, rest) = bytes.split_first()?;
    let length = i32::from_be_bytes(*rest.first_chunk()?);
    let end = usize::try_from(length).ok()?;
    Some((*kind, rest.get(4..end)?))
}

/// The failure that an error message stands for.
fn failed(body: &[u8]) -> Failure {
    let fields = body.split(|&byte| byte == 0).map(String::from_utf8_lossy);
    let fields: Vec<_> = fields.collect();
    let text = fields.iter().find_map(|field| field.strip_prefix('M')).unwrap_or("an error");
    Failure::check(format!("postgres failed: {text}"))
}

fn broken(error: &std::io::Error) -> Failure {
    Failure::environment(format!("postgres does not answer: {error}"))
}

/// A connection for what is not measured: one thing asked, everything read that is answered.
pub(super) struct Connection {
    read: BufReader<UnixStream>,
    write: BufWriter<UnixStream>,
}

impl Connection {
    /// A connection that is ready.
    ///
    /// # Errors
    /// When there is no server, or it refuses.
    pub(super) fn open(socket: &Path) -> Result<Self, Failure> {
        let open = || {
            let stream = UnixStream::connect(socket)?;
            Ok(Self { read: BufReader::new(stream.try_clone()?), write: BufWriter::new(stream) })
        };
        let mut connection: Self = open().map_err(|error: std::io::Error| {
            let socket = socket.display();
            Failure::environment(format!(
                "no connection to {socket}: {error}: give --data a directory with a short path"
            ))
        })?;
        let mut bytes = Vec::new();
        message(0, &mut bytes, |body| {
            body.extend_from_slice(&VERSION.to_be_bytes());
            body.extend_from_slice(format!("user\0{USER}\0database\0{USER}\0\0").as_bytes());
        });
        connection.send(&bytes[1..])?; // the first message does not say what it is
        connection.until_ready()?;
        Ok(connection)
    }

    /// Runs SQL without parameters; the first columns of its rows.
    ///
    /// # Errors
    /// The server's, or the connection's.
    pub(super) fn query(&mut self, sql: &str) -> Result<Vec<String>, Failure> {
        self.ask(b'Q', sql)?;
        self.until_ready()
    }

    /// Prepares a statement.
    ///
    /// # Errors
    /// The server's, or the connection's.
    pub(super) fn prepare(&mut self, sql: &str) -> Result<(), Failure> {
        let mut bytes = Vec::new();
        message(b'P', &mut bytes, |body| {
            body.extend_from_slice(Statement::NAME);
            body.extend_from_slice(sql.as_bytes());
            body.extend_from_slice(&[0, 0, 0]); // types of parameters are the server's business
        });
        message(b'S', &mut bytes, |_| ());
        self.send(&bytes)?;
        self.until_ready().map(|_| ())
    }

    /// Begins to send rows.
    ///
    /// # Errors
    /// The server's, or the connection's.
    pub(super) fn begin_copy(&mut self, sql: &str) -> Result<(), Failure> {
        self.ask(b'Q', sql)?;
        match self.receive()? {
            (b'G', _) => Ok(()),
            (b'E', body) => Err(failed(&body)),
            (kind, _) => Err(unknown(kind)),
        }
    }

    /// Sends rows.
    ///
    /// # Errors
    /// The connection's.
    pub(super) fn copy(&mut self, rows: &str) -> Result<(), Failure> {
        let mut bytes = Vec::with_capacity(rows.len() + HEAD);
        message(b'd', &mut bytes, |body| body.extend_from_slice(rows.as_bytes()));
        self.write.write_all(&bytes).map_err(|error| broken(&error))
    }

    /// Ends sending rows.
    ///
    /// # Errors
    /// The server's, or the connection's.
    pub(super) fn end_copy(&mut self) -> Result<(), Failure> {
        let mut bytes = Vec::new();
        message(b'c', &mut bytes, |_| ());
        self.send(&bytes)?;
        self.until_ready().map(|_| ())
    }

    /// The socket, when nothing is left to be read.
    ///
    /// # Errors
    /// When the server has said more than it was asked.
    pub(super) fn into_socket(self) -> Result<UnixStream, Failure> {
        if !self.read.buffer().is_empty() {
            return Err(Failure::check("postgres said more than it was asked"));
        }
        Ok(self.read.into_inner())
    }

    fn ask(&mut self, kind: u8, text: &str) -> Result<(), Failure> {
        let mut bytes = Vec::new();
        message(kind, &mut bytes, |body| {
            body.extend_from_slice(text.as_bytes());
            body.push(0);
        });
        self.send(&bytes)
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let sent = self.write.write_all(bytes).and_then(|()| self.write.flush());
        sent.map_err(|error| broken(&error))
    }

    fn receive(&mut self) -> Result<(u8, Vec<u8>), Failure> {
        let mut receive = || {
            let mut head = [0; HEAD];
            self.read.read_exact(&mut head)?;
            let [kind, length @ ..] = head;
            let length = i32::from_be_bytes(length).max(4) as usize;
            let mut body = vec![0; length - 4];
            self.read.read_exact(&mut body)?;
            Ok((kind, body))
        };
        receive().map_err(|error| broken(&error))
    }

    /// Reads until the server is ready; the first columns of the rows that came.
    fn until_ready(&mut self) -> Result<Vec<String>, Failure> {
        let (mut columns, mut failure) = (Vec::new(), None);
        loop {
            match self.receive()? {
                (b'D', body) => {
                    // Number of columns, length of the first, the first.
                    let text = body.get(6..).unwrap_or_default();
                    let length = body.get(2..).and_then(|rest| rest.first_chunk()).copied();
                    let length = length.map_or(-1, i32::from_be_bytes);
                    let end = usize::try_from(length).unwrap_or(0).min(text.len());
                    columns.push(String::from_utf8_lossy(&text[..end]).into_owned());
                }
                (b'E', body) => {
                    let error = failed(&body);
                    if body.starts_with(b"SFATAL") {
                        return Err(error); // the server closes the connection
                    }
                    failure = Some(error);
                }
                (b'Z', _) => return failure.map_or(Ok(columns), Err),
                _ => {}
            }
        }
    }
}

fn unknown(kind: u8) -> Failure {
    let kind = char::from(kind);
    Failure::check(format!("postgres failed: it sent the message {kind:?} out of turn"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_three_messages() {
        let input = Input { code: 42, account: 7, teller: 3, branch: 1, amount: -5 };
        let mut call = Vec::new();
        Statement.call(&input, &mut call);
        let (mut kinds, mut at) = (Vec::new(), 0);
        while let Some((kind, body)) = first(&call[at..]) {
            kinds.push((char::from(kind), body.len()));
            at += HEAD + body.len();
        }
        assert_eq!(at, call.len());
        // Portal, name, formats, three ids and two numbers with their lengths, the result's format.
        assert_eq!(kinds, [('B', 1 + 2 + 6 + 3 * 8 + 2 * 12 + 4), ('E', 5), ('S', 0)]);
    }

    #[test]
    fn an_answer_is_over_when_the_server_is_ready() {
        let mut answer = Vec::new();
        message(b'2', &mut answer, |_| ());
        message(b'D', &mut answer, |body| body.extend_from_slice(&[0, 1, 0, 0, 0, 1, 9]));
        message(b'C', &mut answer, |body| body.extend_from_slice(b"SELECT 1\0"));
        assert_eq!(Statement.answer(&answer), Ok(None));
        message(b'Z', &mut answer, |body| body.push(b'I'));
        let length = answer.len();
        message(b'2', &mut answer, |_| ());
        assert_eq!(Statement.answer(&answer), Ok(Some((length, true))));
        let mut aborted = Vec::new();
        message(b'D', &mut aborted, |body| body.extend_from_slice(&[0, 1, 255, 255, 255, 255]));
        message(b'Z', &mut aborted, |body| body.push(b'I'));
        assert_eq!(Statement.answer(&aborted), Ok(Some((aborted.len(), false))));
        let mut error = Vec::new();
        message(b'E', &mut error, |body| body.extend_from_slice(b"SERROR\0Mno room\0\0"));
        let failure = Statement.answer(&error).unwrap_err().to_string();
        assert_eq!(failure, "postgres failed: no room");
    }
}
