//! What a program declares to run on islands in processes: procedures, known by their numbers.
//!
//! Not here: how a procedure is bound to an island's tables, and run (`islands/process/`, `paged/islands/process/`).

use std::any::type_name;
use std::fmt;
use std::marker::PhantomData;

use super::ProcessSettings;
use crate::tx::next_number;

/// A procedure of islands that are processes. See [`ProcessesBuilder::closure`](crate::ProcessesBuilder::closure) and
/// [`PagedProcessesBuilder::closure`](crate::PagedProcessesBuilder::closure).
pub struct IslandProcedure<I, A> {
    /// Of the builder that declared it.
    pub(super) builder: u32,
    pub(super) number: u32,
    types: PhantomData<fn(I) -> A>,
}

impl<I, A> Clone for IslandProcedure<I, A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<I, A> Copy for IslandProcedure<I, A> {}

impl<I, A> fmt::Debug for IslandProcedure<I, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IslandProcedure").field("number", &self.number).finish_non_exhaustive()
    }
}

struct Declared<B> {
    name: &'static str,
    /// Of its input and its answer.
    types: [&'static str; 2],
    bind: B,
}

/// The procedures of a builder, each with what binds it.
pub(crate) struct Declarations<B> {
    /// By which the builder's procedures are known.
    pub(crate) builder: u32,
    all: Vec<Declared<B>>,
}

impl<B> Declarations<B> {
    pub(crate) fn new() -> Self {
        Self { builder: next_number(), all: Vec::new() }
    }

    pub(crate) fn declare<I, A>(&mut self, name: &'static str, bind: B) -> IslandProcedure<I, A> {
        let (builder, number) = (self.builder, self.all.len() as u32);
        self.all.push(Declared { name, types: [type_name::<I>(), type_name::<A>()], bind });
        IslandProcedure { builder, number, types: PhantomData }
    }

    /// What binds each procedure, by their numbers.
    pub(crate) fn binds(&self) -> impl Iterator<Item = &B> {
        self.all.iter().map(|declared| &declared.bind)
    }

    /// What the program declares, in lines, which the process of an island has to declare, too.
    pub(crate) fn words(
        &self,
        islands: String,
        spreads: &impl fmt::Debug,
        settings: &ProcessSettings,
        tables: impl Iterator<Item = impl fmt::Debug>,
    ) -> String {
        let mut lines = vec![
            format!("version {} of the library", env!("CARGO_PKG_VERSION")),
            islands,
            format!("tables spread {spreads:?}"),
            format!("links of kind {}", settings.link.name()),
        ];
        lines.extend(tables.map(|table| format!("{table:?}")));
        lines.extend(self.all.iter().map(|declared| {
            let [input, answer] = declared.types;
            format!("procedure {} ({input}) -> {answer}", declared.name)
        }));
        lines.join("\n")
    }
}

impl<B> fmt::Debug for Declarations<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.all.iter().map(|declared| declared.name)).finish()
    }
}
