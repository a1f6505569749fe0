//! What a plan runs: which workload, at which scale.
//!
//! Plans hold a workload without its type; what runs one takes it by type (`workload/interface.rs`), and the only
//! places where one becomes the other are here and in `run/`. Not here: settings
//! that are any workload's (`mod.rs`).

use tombolo_storage::memory::image::SecondCopy;

use super::{Plan, estimate, profiles};
use crate::workload::tpcc::input::Input;
use crate::workload::tpcc::loader::Scale;
use crate::workload::{AnyWorkload, WORKLOADS, Workload, matched_workload, with_workload};

impl Plan {
    /// TPC-C's scale.
    ///
    /// # Panics
    /// When the plan is for another workload: what asks for this made it for TPC-C.
    pub fn scale(&self) -> Scale {
        match self.workload {
            AnyWorkload::Tpcc(scale) => scale,
            other => unreachable!("{other:?} is no TPC-C"),
        }
    }

    /// The inputs of a run of TPC-C, from the first.
    pub fn inputs(&self) -> impl Iterator<Item = Input> + Send + use<> {
        self.scale().inputs()
    }

    /// The workload and its scale, for people.
    pub fn title(&self) -> String {
        self.workload.title()
    }

    /// Bytes that the run needs in pages, for `transactions` transactions.
    pub(super) fn page_bytes(&self, transactions: u64) -> u64 {
        with_workload!(&self.workload, scale => estimate::page_bytes(scale, transactions))
    }

    /// Bytes that the run needs in memory, without pages, for a number of transactions.
    pub(crate) fn bytes(&self, transactions: u64, batch: u64) -> u64 {
        with_workload!(&self.workload, scale => self.bytes_of(scale, transactions, batch))
    }

    fn bytes_of<W: Workload>(&self, workload: &W, transactions: u64, batch: u64) -> u64 {
        if profiles::has_pages(&self.profile) {
            return estimate::beside_pages::<W>(batch);
        }
        let second = match self.image {
            Some(image) if image.copy == SecondCopy::Memory => {
                estimate::second_copy(workload, transactions)
            }
            _ => 0,
        };
        estimate::bytes(workload, transactions, batch).saturating_add(second)
    }

    /// The flags that make a counted process count the same.
    pub fn count_arguments(&self) -> Vec<String> {
        let info = self.workload.info();
        // The counted process runs the first workload unless a flag names another.
        let name = (*info != WORKLOADS[0]).then(|| ("workload".to_owned(), info.name.to_owned()));
        let values = (info.settings)().iter().zip(self.workload.values());
        let values = values.map(|(setting, n)| (setting.flag(), setting.numbered(n).to_string()));
        let mix = self.workload.mix().map(|mix| ("mix".to_owned(), mix.to_owned()));
        let scale = name.into_iter().chain(values).chain(mix);
        let own = |(name, value): (&str, String)| (name.to_owned(), value);
        let flags = [("seed", self.seed.to_string()), ("counted", self.counted.to_string())];
        let ahead = self.locate_ahead.map(|ahead| ("locate-ahead", ahead.to_string()));
        let saved = self.saved.as_ref().map(|path| ("saved", path.display().to_string()));
        let part = self.part.iter().flat_map(|(part, parent)| {
            [("part", part.rung().to_owned()), ("logs", parent.display().to_string())]
        });
        let profile = std::iter::once(("profile", self.profile.clone()));
        let others = flags.into_iter().chain(ahead).chain(saved).chain(part).map(own);
        let flags = profile.map(own).chain(scale).chain(others);
        flags.flat_map(|(name, value)| [format!("--{name}"), value]).collect()
    }
}
