//! Attributes instructions to calls: the costs of a dump by category (LG-44, LG-45).
//!
//! An instruction belongs to the outermost call around it, on the stack of functions as they were
//! written: inlined ones count as called. Inside one machine function the debug information says
//! which those are. From one to the next callgrind's call graph does: what a callee costs is known
//! for each place it is called from, so `memcpy` in an update is part of the update.
//!
//! The walk starts at the functions that no function calls. Where a call of the store begins, inlined or
//! not, everything below is that call's. Everything else is walked into, as far down as there are
//! calls to be found, and is `Other`.
//!
//! Not here: reading dumps (`dumps.rs`) and debug information (`symbols.rs`). Invariant: the
//! categories' sum is the dump's total, or there is an error. It is one when a function with calls
//! in it is reached both from inside and from outside of another call.

use std::collections::BTreeMap;

use super::dumps::{Dump, Function, FunctionId};
use super::{Category, CounterError};

/// Instructions by category, in the order of [`Category::ALL`].
pub(super) type Costs = [u64; Category::CALLS + 1];

/// The place of an address: which call it is part of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// The category of the machine function it is in, if that is a call itself.
    pub(super) function: Option<Category>,
    /// The category of the outermost call it is in, inlined ones and the machine function included.
    pub(super) outermost: Option<Category>,
}

/// Finds the places of addresses.
pub(super) trait Places {
    /// The place of `address` in the file `object`.
    fn place(&mut self, object: &str, address: u64) -> Result<Place, CounterError>;
}

/// A function of the dump.
#[derive(Default)]
struct Node {
    /// What it costs itself and what the calls in it cost.
    costs: Costs,
    /// Whether there is a call in it.
    has_calls: bool,
    /// Whom it calls from outside of calls, and what that costs.
    callees: Vec<(usize, u64)>,
    /// Whether any function calls it.
    is_called: bool,
    /// Whether the walk has been here.
    is_done: bool,
}

/// The functions of a dump, and which calls which outside of the store's calls.
struct Graph {
    nodes: Vec<Node>,
}

impl Graph {
    fn new(dump: &Dump<'_>, places: &mut impl Places) -> Result<Self, CounterError> {
        let mut numbers = BTreeMap::new();
        let called = dump.functions.iter().flat_map(|f| f.calls.iter().map(|call| call.callee));
        for id in dump.functions.iter().map(|function| function.id).chain(called) {
            let next = numbers.len();
            numbers.entry(id).or_insert(next);
        }
        let mut graph = Self { nodes: Vec::new() };
        graph.nodes.resize_with(numbers.len(), Node::default);
        for function in &dump.functions {
            graph.add(function, &numbers, places)?;
        }
        graph.find_what_reaches_calls();
        Ok(graph)
    }

    fn add(
        &mut self,
        function: &Function<'_>,
        numbers: &BTreeMap<FunctionId<'_>, usize>,
        places: &mut impl Places,
    ) -> Result<(), CounterError> {
        let object = function.id.object;
        for call in &function.calls {
            let callee = numbers[&call.callee];
            self.nodes[callee].is_called = true;
            let at = places.place(object, call.at)?.outermost;
            let category = match at {
                Some(category) => Some(category),
                None => places.place(call.callee.object, call.entry)?.function,
            };
            let node = &mut self.nodes[numbers[&function.id]];
            match category {
                Some(category) => {
                    node.has_calls = true;
                    node.costs[category as usize] += call.instructions;
                }
                None => node.callees.push((callee, call.instructions)),
            }
        }
        let node = &mut self.nodes[numbers[&function.id]];
        for &(address, instructions) in &function.own {
            let category = places.place(object, address)?.outermost;
            node.has_calls |= category.is_some();
            node.costs[category.unwrap_or(Category::Other) as usize] += instructions;
        }
        Ok(())
    }

    /// Extends `has_calls` to the callers of functions that have calls.
    fn find_what_reaches_calls(&mut self) {
        loop {
            let reaches = |node: &Node| node.callees.iter().any(|&(f, _)| self.nodes[f].has_calls);
            let is_new = |node: &Node| !node.has_calls && reaches(node);
            let new: Vec<usize> =
                (0..self.nodes.len()).filter(|&f| is_new(&self.nodes[f])).collect();
            if new.is_empty() {
                return;
            }
            new.into_iter().for_each(|f| self.nodes[f].has_calls = true);
        }
    }

    /// Adds up from the functions that no function calls.
    fn walk(mut self) -> Costs {
        let mut sums = Costs::default();
        let mut open: Vec<usize> =
            (0..self.nodes.len()).filter(|&f| !self.nodes[f].is_called).collect();
        while let Some(number) = open.pop() {
            let node = &mut self.nodes[number];
            if std::mem::replace(&mut node.is_done, true) {
                continue;
            }
            sums.iter_mut().zip(node.costs).for_each(|(sum, cost)| *sum += cost);
            for &(callee, instructions) in &self.nodes[number].callees {
                if self.nodes[callee].has_calls {
                    open.push(callee);
                } else {
                    sums[Category::Other as usize] += instructions;
                }
            }
        }
        sums
    }
}

/// The instructions of `dump` by category.
pub(super) fn attribute(dump: &Dump<'_>, places: &mut impl Places) -> Result<Costs, CounterError> {
    let costs = Graph::new(dump, places)?.walk();
    let sum: u64 = costs.iter().sum();
    if sum != dump.total {
        return Err(CounterError::Damaged(format!(
            "{:?} has {} instructions, its calls and what is between them {sum}",
            dump.name, dump.total
        )));
    }
    Ok(costs)
}

#[cfg(test)]
mod tests {
    use super::super::dumps::parse;
    use super::*;

    /// Addresses from `0x1000` are the driver's, from `0x2000` a procedure's, from `0x3000` calls
    /// of the store that were not inlined, from `0x4000` its other functions.
    struct Fixed;

    impl Places for Fixed {
        fn place(&mut self, object: &str, address: u64) -> Result<Place, CounterError> {
            let inlined = |outermost| Place { function: None, outermost: Some(outermost) };
            let whole = |call| Place { function: Some(call), outermost: Some(call) };
            Ok(match (object, address) {
                ("/t", 0x2010..0x2020) => inlined(Category::Lookup),
                ("/t", 0x2020..0x2030) => inlined(Category::Create),
                ("/t", 0x3000..0x3100) => whole(Category::Insert),
                ("/t", 0x3100..0x3200) => whole(Category::Other),
                ("/t", 0x4000..0x4100) => inlined(Category::Lookup),
                _ => Place::default(),
            })
        }
    }

    fn costs(body: &str, total: u64) -> Result<Costs, String> {
        let text = format!(
            "part: 1\ndesc: Trigger: Client Request: tombolo g 1\npositions: instr line\n\
             events: Ir\n{body}\ntotals: {total}\n"
        );
        let dumps = parse(&text).unwrap();
        attribute(&dumps[0], &mut Fixed).map_err(|error| error.to_string())
    }

    /// The driver, 5, calls the procedure: 10 of its own, 20 of a look-up, 30 of a create.
    const PROCEDURE: &str = "ob=/t\nfl=a\nfn=drive\n0x1000 1 5\n\
        cfi=a\ncfn=run\ncalls=1 0x2000 1\n0x1004 1 60\n\n\
        fn=run\n0x2000 2 10\n0x2010 2 20\n0x2020 2 30\n";

    #[test]
    fn instructions_belong_to_the_call_they_are_inlined_into() {
        assert_eq!(costs(PROCEDURE, 65), Ok([0, 20, 0, 0, 30, 0, 0, 15]));
    }

    #[test]
    fn a_callee_belongs_to_whom_it_is_called_from() {
        // memcpy: 7 in the look-up, 8 in the create, 9 by the procedure itself.
        let body = PROCEDURE.replace("0x1004 1 60", "0x1004 1 84")
            + "cob=/libc\ncfn=memcpy\ncalls=2 0x40 0\n0x2011 2 7\n\
               cob=/libc\ncfn=memcpy\ncalls=2 0x40 0\n0x2021 2 8\n\
               cob=/libc\ncfn=memcpy\ncalls=2 0x40 0\n0x2001 2 9\n\n\
               ob=/libc\nfn=memcpy\n0x40 0 24\n";
        assert_eq!(costs(&body, 89), Ok([0, 27, 0, 0, 38, 0, 0, 24]));
    }

    #[test]
    fn calls_that_are_not_inlined_are_theirs_with_all_below() {
        // An insert, 6, that splits, 4; a removal, 3, that looks up, 2, which has look-ups in it.
        let body = PROCEDURE.replace("0x1004 1 60", "0x1004 1 75")
            + "cfn=insert\ncalls=1 0x3000 1\n0x2002 2 10\n\
               cfn=remove\ncalls=1 0x3100 1\n0x2003 2 5\n\n\
               fn=insert\n0x3000 1 6\ncfn=split\ncalls=1 0x5000 1\n0x3001 1 4\n\n\
               fn=split\n0x5000 1 4\n\n\
               fn=remove\n0x3100 1 3\ncfn=find\ncalls=1 0x4000 1\n0x3101 1 2\n\n\
               fn=find\n0x4000 1 2\n";
        assert_eq!(costs(&body, 80), Ok([0, 20, 0, 0, 30, 10, 0, 20]));
    }

    #[test]
    fn recursion_below_a_call_is_counted_once() {
        let body = PROCEDURE.replace("0x1004 1 60", "0x1004 1 70")
            + "cfn=insert\ncalls=1 0x3000 1\n0x2002 2 10\n\n\
               fn=insert\n0x3000 1 10\ncfn=insert\ncalls=1 0x3000 1\n0x3001 1 6\n";
        assert_eq!(costs(&body, 75), Ok([0, 20, 0, 0, 30, 10, 0, 15]));
    }

    #[test]
    fn what_cannot_be_distinguished_is_refused() {
        // A function with look-ups in it, called from a create and from the procedure.
        let body = PROCEDURE.replace("0x1004 1 60", "0x1004 1 64")
            + "cfn=find\ncalls=1 0x4000 1\n0x2022 2 2\ncfn=find\ncalls=1 0x4000 1\n0x2002 2 2\n\n\
               fn=find\n0x4000 1 4\n";
        let message = costs(&body, 69).unwrap_err();
        assert!(message.contains("has 69 instructions, its calls"), "{message}");
    }
}
