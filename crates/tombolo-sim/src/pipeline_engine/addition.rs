//! An index or a column that is built while requests run, a few rows at a time.
//!
//! Not here: when it is begun and made part of the schema (`long.rs`), what is added (`workload/additions.rs`).

use tombolo_engine::pipeline::{LongWork, Sliced};
use tombolo_engine::transaction::Stop;
use tombolo_storage::memory::online::Built;

use super::executor::SimExecutor;
use super::journal::Happened;
use crate::database::Recording;
use crate::workload::additions::{Addition, Begun, begin};

/// Rows of a slice at most, so that an addition takes many.
const ROWS_MAX: usize = 5;

/// Builds an addition, all rows of it.
#[derive(Debug)]
pub(super) struct Building {
    tag: u64,
    addition: Addition,
    begun: Option<Begun>,
}

impl Building {
    pub(super) fn new(tag: u64, addition: Addition) -> Self {
        Self { tag, addition, begun: None }
    }
}

impl<R: Recording> LongWork<SimExecutor<R>> for Building {
    fn begin(&mut self, executor: &mut SimExecutor<R>) -> Result<(), Stop> {
        let begun = begin(&mut executor.store, self.addition);
        if self.addition == Addition::Column && executor.reads > 0 && begun.is_err() {
            executor.journal.lock().note(Happened::GaveUp(self.tag));
            return Err(Stop::Abort("a long read is open"));
        }
        self.begun = Some(begun.map_err(|_| Stop::Abort("an addition was not begun"))?);
        executor.journal.lock().note(Happened::BeganAddition(self.tag));
        Ok(())
    }

    fn slice(
        &mut self,
        executor: &mut SimExecutor<R>,
        rows_max: usize,
        _: u64,
    ) -> Result<Sliced<u64>, Stop> {
        let Some(begun) = &self.begun else { return Err(Stop::Abort("it never began")) };
        match begun.slice(&mut executor.store, rows_max.min(ROWS_MAX)) {
            Ok(Built::More { rows }) => Ok(Sliced::More { rows }),
            Ok(Built::Done) => {
                executor.built = self.begun.take();
                Ok(Sliced::Done(0))
            }
            Err(_) => Err(Stop::Abort("an addition was refused")),
        }
    }

    fn end(&mut self, executor: &mut SimExecutor<R>) {
        if let Some(begun) = self.begun.take() {
            begun.give_up(&mut executor.store);
        }
    }
}
