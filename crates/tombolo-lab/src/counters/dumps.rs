//! Callgrind's files: the named dumps in one, with their totals and, where callgrind was asked for
//! it, the cost of every instruction and of every call.
//!
//! The format is that of the *Callgrind Format Specification*, as valgrind writes it with
//! uncompressed names and absolute positions. A dump without a name was not asked for by the
//! counted program and is passed over.
//!
//! Not here: what an address belongs to (`attribution.rs`). Invariant: a line that is not
//! understood inside a named dump is an error, so no cost is ever passed over.

use super::CounterError;

/// One named dump.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Dump<'t> {
    /// The name that the counted program gave it.
    pub(super) name: &'t str,
    /// All instructions in it.
    pub(super) total: u64,
    /// Where they were; empty when callgrind was not asked for addresses.
    pub(super) functions: Vec<Function<'t>>,
}

/// What callgrind takes for one function. It may come in several pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Function<'t> {
    pub(super) id: FunctionId<'t>,
    /// Address and instructions of what is in the function itself.
    pub(super) own: Vec<(u64, u64)>,
    pub(super) calls: Vec<Call<'t>>,
}

/// What callgrind distinguishes functions by: the file they were loaded from, and their symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FunctionId<'t> {
    pub(super) object: &'t str,
    pub(super) symbol: &'t str,
}

/// All calls of one function from one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call<'t> {
    /// The address of the call.
    pub(super) at: u64,
    /// The function that is called.
    pub(super) callee: FunctionId<'t>,
    /// Where the callee begins.
    pub(super) entry: u64,
    /// Instructions of the callee and all it called in turn.
    pub(super) instructions: u64,
}

/// The named dumps of a file with one or more parts.
///
/// A part says why it was written (`desc: Trigger: …`), what its positions and events are, then its
/// cost by function, and last its `totals:`.
pub(super) fn parse(text: &str) -> Result<Vec<Dump<'_>>, CounterError> {
    let mut dumps = Vec::new();
    let mut part: Option<Part<'_>> = None;
    for line in text.lines() {
        if line.starts_with("part:") {
            refuse_unfinished(part.as_ref())?;
            part = None;
        } else if let Some(trigger) = line.strip_prefix("desc: Trigger: ") {
            part = trigger.strip_prefix("Client Request: ").map(Part::new);
        } else if let Some(mut open) = part.take() {
            match line.strip_prefix("totals:") {
                Some(total) => {
                    open.dump.total = number(total.trim(), line)?;
                    dumps.push(open.dump);
                }
                None => {
                    open.read(line)?;
                    part = Some(open);
                }
            }
        }
    }
    refuse_unfinished(part.as_ref())?;
    Ok(dumps)
}

fn refuse_unfinished(part: Option<&Part<'_>>) -> Result<(), CounterError> {
    part.map_or(Ok(()), |part| Err(damaged(&format!("no totals for {:?}", part.dump.name))))
}

fn damaged(what: &str) -> CounterError {
    CounterError::Damaged(format!("callgrind's file: {what}"))
}

fn number(text: &str, line: &str) -> Result<u64, CounterError> {
    text.parse().map_err(|_| damaged(&format!("{line:?} is no cost")))
}

/// An absolute address; relative ones have no `0x`.
fn address(text: &str, line: &str) -> Result<u64, CounterError> {
    let digits = text.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
    digits.ok_or_else(|| damaged(&format!("{line:?} has no address")))
}

/// A dump whose totals are still to come.
struct Part<'t> {
    dump: Dump<'t>,
    has_addresses: bool,
    object: &'t str,
    /// Of the call that the next lines describe.
    called_object: Option<&'t str>,
    called_symbol: &'t str,
    /// Where the callee of the call begins whose cost is on the next line.
    entry: Option<u64>,
}

impl<'t> Part<'t> {
    fn new(name: &'t str) -> Self {
        Self {
            dump: Dump { name, ..Dump::default() },
            has_addresses: false,
            object: "",
            called_object: None,
            called_symbol: "",
            entry: None,
        }
    }

    /// Reads one line between the dump's name and its totals.
    fn read(&mut self, line: &'t str) -> Result<(), CounterError> {
        if let Some(positions) = line.strip_prefix("positions:") {
            self.has_addresses = positions.split_whitespace().any(|kind| kind == "instr");
            return Ok(());
        }
        if let Some(events) = line.strip_prefix("events:") {
            // Without simulations there is one event, and a cost is one number.
            if events.trim() != "Ir" {
                return Err(damaged(&format!("its events are {:?}", events.trim())));
            }
            return Ok(());
        }
        if !self.has_addresses || line.is_empty() || line.starts_with("summary:") {
            return Ok(());
        }
        match line.split_once('=') {
            Some((key, value)) => self.specify(key, value, line),
            None => self.cost(line),
        }
    }

    /// `key=value`: what the costs that follow are of.
    fn specify(&mut self, key: &str, value: &'t str, line: &str) -> Result<(), CounterError> {
        match key {
            "ob" => self.object = value,
            "fn" => {
                let id = FunctionId { object: self.object, symbol: value };
                self.dump.functions.push(Function { id, own: Vec::new(), calls: Vec::new() });
            }
            "cob" => self.called_object = Some(value),
            "cfn" => self.called_symbol = value,
            "calls" => {
                let entry = value.split_whitespace().nth(1).unwrap_or_default();
                self.entry = Some(address(entry, line)?);
            }
            // Source files.
            "fl" | "fi" | "fe" | "cfi" | "cfl" => {}
            _ => return Err(damaged(&format!("{line:?} is not understood"))),
        }
        Ok(())
    }

    /// `address line instructions`, of the function itself or of the call just described.
    fn cost(&mut self, line: &str) -> Result<(), CounterError> {
        let Some(function) = self.dump.functions.last_mut() else {
            return Err(damaged(&format!("{line:?} is of no function")));
        };
        let mut fields = line.split_whitespace();
        let at = address(fields.next().unwrap_or_default(), line)?;
        // Zeros at the end may be left out.
        let instructions = fields.nth(1).map_or(Ok(0), |cost| number(cost, line))?;
        let Some(entry) = self.entry.take() else {
            function.own.push((at, instructions));
            return Ok(());
        };
        let object = self.called_object.take().unwrap_or(self.object);
        let callee = FunctionId { object, symbol: self.called_symbol };
        function.calls.push(Call { at, callee, entry, instructions });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two parts of a file by valgrind 3.19, functions shortened.
    const SAMPLE: &str = "# callgrind format\nversion: 1\ncreator: callgrind-3.19.0\npid: 4553\n\
        cmd:  target/release/counted\npart: 1\n\n\n\
        desc: I1 cache: \ndesc: D1 cache: \ndesc: LL cache: \n\n\
        desc: Timerange: Basic block 0 - 9001\n\
        desc: Trigger: Client Request: tombolo payment 10\n\n\
        positions: instr line\nevents: Ir\nsummary: 6000\n\n\n\
        ob=/tmp/counted\nfl=/tmp/main.rs\nfn=main\n0x1000 7 1990\nfi=/tmp/lib.rs\n0x1004 0 10\n\
        cob=/lib/libc.so.6\ncfi=???\ncfn=memcpy\ncalls=3 0x40 0 \n0x1008 7 1500\n\
        cfi=/tmp/main.rs\ncfn=totals\ncalls=1 0x2000 9 \n0x100c 8 500\nfe=/tmp/main.rs\n\n\
        ob=/lib/libc.so.6\nfl=???\nfn=memcpy\n0x40 0 1500\n\n\
        ob=/tmp/counted\nfl=/tmp/main.rs\nfn=totals\n0x2000 9 500\n0x2004 9\n\n\
        totals: 6000\n\n\
        part: 2\n\n\ndesc: Timerange: Basic block 9001 - 9100\n\
        desc: Trigger: Program termination\n\npositions: instr line\nevents: Ir\n\
        summary: 18446744073709293616\n\n\ntotals: 0\n";

    #[test]
    fn named_dumps_are_read_and_others_passed_over() {
        let dumps = parse(SAMPLE).unwrap();
        let [dump] = &dumps[..] else { panic!("{dumps:?}") };
        assert_eq!((dump.name, dump.total), ("tombolo payment 10", 6000));
        let counted = |symbol| FunctionId { object: "/tmp/counted", symbol };
        let memcpy = FunctionId { object: "/lib/libc.so.6", symbol: "memcpy" };
        let ids: Vec<_> = dump.functions.iter().map(|function| function.id).collect();
        assert_eq!(ids, [counted("main"), memcpy, counted("totals")]);
        assert_eq!(dump.functions[0].own, [(0x1000, 1990), (0x1004, 10)]);
        assert_eq!(
            dump.functions[0].calls,
            [
                Call { at: 0x1008, callee: memcpy, entry: 0x40, instructions: 1500 },
                Call { at: 0x100c, callee: counted("totals"), entry: 0x2000, instructions: 500 },
            ]
        );
        assert_eq!(dump.functions[2].own, [(0x2000, 500), (0x2004, 0)]);
    }

    #[test]
    fn without_addresses_there_are_only_totals() {
        let text = SAMPLE.replace("positions: instr line", "positions: line");
        let dumps = parse(&text).unwrap();
        assert_eq!(dumps[0].total, 6000);
        assert_eq!(dumps[0].functions, []);
    }

    #[test]
    fn damage_is_named() {
        let check = |text: String, expect: &str| {
            let message = parse(&text).unwrap_err().to_string();
            assert!(message.contains(expect), "{message}");
        };
        check(SAMPLE.replace("totals: 6000", "totals: 6000 7"), "totals: 6000 7");
        check(SAMPLE.replace("totals: 6000", ""), "no totals for");
        check(SAMPLE.replace("events: Ir", "events: Ir Dr"), "its events are \"Ir Dr\"");
        check(SAMPLE.replace("fe=", "jump=1 0x40 "), "is not understood");
        check(SAMPLE.replace("0x1004 0 10", "+4 0 10"), "\"+4 0 10\" has no address");
        check(SAMPLE.replace("0x1004 0 10", "0x1004 0 x"), "\"0x1004 0 x\" is no cost");
        check(SAMPLE.replace("fn=main\n", ""), "\"0x1000 7 1990\" is of no function");
        let cut = SAMPLE.find("totals: 6000").unwrap();
        check(SAMPLE[..cut].to_owned(), "no totals for");
    }
}
