//! Reading: a file's bytes, up to the last whole block.
//!
//! Not here: writing. Invariant: nothing of a block is used whose checksum is not that of its bytes.

use std::fmt;

use tombolo_storage::checksum;

use super::{
    Access, CALL, CALLS, Call, END, End, HEADER_BYTES, MAGIC, NAME, TABLES, Touched, Trace,
    TracedTable, VERSION,
};

/// Why nothing of a file can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Damage {
    /// It is no trace.
    NoTrace,
    /// Its format has this version.
    OtherVersion(u32),
    /// Its head, or its list of tables, is damaged.
    Head,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTrace => f.write_str("it is no trace: Database::record_trace records one"),
            Self::OtherVersion(version) => {
                write!(f, "it is a trace of version {version}, and this program reads {VERSION}")
            }
            Self::Head => f.write_str(
                "the beginning of the trace is damaged or missing, so that nothing of it can be read",
            ),
        }
    }
}

impl std::error::Error for Damage {}

/// Reads a file's content.
///
/// # Errors
/// Why nothing of it can be read. A file that is damaged further on is read up to there.
pub fn read(bytes: &[u8]) -> Result<Trace, Damage> {
    let mut from = From { rest: bytes };
    match from.take(MAGIC.len()) {
        Some(magic) if magic == MAGIC => {}
        None if MAGIC.starts_with(bytes) && !bytes.is_empty() => return Err(Damage::Head),
        _ => return Err(Damage::NoTrace),
    }
    let (Some(version), Some(sum)) = (from.short(), from.short()) else {
        return Err(Damage::Head);
    };
    if sum != checksum::of(&[&bytes[..HEADER_BYTES - 4]]) {
        return Err(Damage::Head);
    }
    if version != VERSION {
        return Err(Damage::OtherVersion(version));
    }
    let (mut trace, mut number, mut before_us) = (Trace::default(), 0, 0);
    while !from.rest.is_empty() && trace.end.is_none() {
        let at = bytes.len() - from.rest.len();
        let block = from.block(number);
        let is_read = block.is_some_and(|(kind, content)| {
            let mut content = From { rest: content };
            let is_read = match kind {
                TABLES if number == 0 => trace.read_tables(&mut content),
                CALLS if number > 0 => trace.read_calls(&mut content, &mut before_us),
                END if number > 0 => trace.read_end(&mut content),
                _ => None,
            };
            is_read.is_some() && content.rest.is_empty()
        });
        if !is_read {
            trace.torn = Some(format!(
                "damaged or incomplete from byte {at} on: the {} calls before it are read",
                trace.calls.len()
            ));
            break;
        }
        number += 1;
    }
    if number == 0 {
        return Err(Damage::Head);
    }
    if trace.torn.is_none() && trace.end.is_none() {
        trace.torn =
            Some("it has no end: the application stopped while it was recorded".to_owned());
    }
    if trace.end.is_some() && !from.rest.is_empty() {
        trace.torn = Some("there are bytes behind its end, which are not read".to_owned());
    }
    Ok(trace)
}

impl Trace {
    fn read_tables(&mut self, from: &mut From<'_>) -> Option<()> {
        for _ in 0..from.number()? {
            let (name, row_bytes, key) = (from.text()?, from.number()?, from.text()?);
            let row_bytes = row_bytes.try_into().ok()?;
            let key = (!key.is_empty()).then_some(key);
            self.tables.push(TracedTable { name, row_bytes, key });
        }
        Some(())
    }

    fn read_calls(&mut self, from: &mut From<'_>, before_us: &mut u64) -> Option<()> {
        while let Some(kind) = from.byte() {
            match kind {
                NAME => {
                    let name = from.text()?;
                    self.procedures.push(name);
                }
                CALL => {
                    let call = self.read_call(from, *before_us)?;
                    *before_us = call.began_us;
                    self.calls.push(call);
                }
                _ => return None,
            }
        }
        Some(())
    }

    fn read_call(&self, from: &mut From<'_>, before_us: u64) -> Option<Call> {
        let procedure = from.number()?;
        if procedure >= self.procedures.len() as u64 {
            return None;
        }
        let began_us = before_us.checked_add(from.number()?)?;
        let ran_ns = from.number()?;
        let is_aborted = from.byte()? != 0;
        let (more_rows, count) = (from.number()?, from.number()?);
        let mut touched = Vec::new();
        for _ in 0..count {
            let code = from.byte()?;
            let (table, rows) = (from.number()?, from.number()?);
            if table >= self.tables.len() as u64 {
                return None;
            }
            let key = if code & 1 == 1 { Some(from.long()?) } else { None };
            touched.push(Touched { access: access(code >> 1)?, table: table as u32, key, rows });
        }
        let procedure = procedure as u32;
        Some(Call { procedure, began_us, ran_ns, is_aborted, touched, more_rows })
    }

    fn read_end(&mut self, from: &mut From<'_>) -> Option<()> {
        let (calls, lost, recorded_us) = (from.number()?, from.number()?, from.number()?);
        let is_of_these = calls == self.calls.len() as u64;
        self.end = is_of_these.then_some(End { calls, lost, recorded_us });
        self.end.map(drop)
    }
}

const fn access(code: u8) -> Option<Access> {
    Some(match code {
        0 => Access::Scanned,
        1 => Access::Read,
        2 => Access::Updated,
        3 => Access::Created,
        4 => Access::Deleted,
        _ => return None,
    })
}

/// What is left to be read.
struct From<'a> {
    rest: &'a [u8],
}

impl<'a> From<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(bytes)?;
        self.rest = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    fn short(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn long(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7F);
            if (bits << shift) >> shift != bits {
                return None;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn text(&mut self) -> Option<String> {
        let bytes = self.number()?.try_into().ok()?;
        String::from_utf8(self.take(bytes)?.to_vec()).ok()
    }

    /// The kind and the content of block `number`, if it is whole.
    fn block(&mut self, number: u64) -> Option<(u8, &'a [u8])> {
        let (length, sum, kind) = (self.short()?, self.short()?, self.byte()?);
        let content = self.take(length as usize)?;
        let is_whole = sum == checksum::of(&[&number.to_le_bytes(), &[kind], content]);
        is_whole.then_some((kind, content))
    }
}
