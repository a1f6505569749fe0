//! *OLTP on Hardware Islands*: its figures and tables, measured on this machine where it is large enough, modelled for
//! the paper's machines where it is not (ISL-2 … ISL-38).
//!
//! | file | holds |
//! |---|---|
//! | `hardware.rs` | Figures 2 and 6, Table 1: counters and messages, measured |
//! | `deployments.rs` | databases of islands under a workload, measured |
//! | `rows.rs`, `tpcc.rs` | these workloads on islands |
//! | `traced/` | a recorded trace, and its calls on islands |
//! | `points.rs` | several of those: the median of rounds, and its deviation |
//! | `modelled.rs` | Figures 3, 5, 7, 9 … 14 out of the model, and those of them that are measured here, too |
//! | `advice/` | how many islands a workload should have (ISL-4, ISL-33) |
//!
//! Not here: the model (`model/`), the library (the command brings it).

pub mod advice;
pub mod deployments;
mod hardware;
mod modelled;
pub mod points;
pub mod rows;
pub mod tpcc;
pub mod traced;

use serde_json::json;
use tombolo_engine::islands::topology::Topology;

use crate::experiment::paper::paper;
use crate::experiment::{Reproduced, Wanted};
use crate::failure::Failure;
use crate::progress::Progress;

paper! {
    /// A figure or table of the paper.
    enum Figure {
        Fig2 = "isl/fig2", "Figure 2: threads that share a counter, by placement";
        Table1 = "isl/table1", "Table 1: a counter for all, for each socket, for each core";
        Fig3 = "isl/fig3", "Figure 3: Payment by placement of four threads (modelled)";
        Fig5 = "isl/fig5", "Figure 5: throughput by share of multisite transactions, as expected (modelled)";
        Fig6 = "isl/fig6", "Figure 6: messages between processes, by kind of link";
        Fig7 = "isl/fig7", "Figure 7: Payment, local only, on one island and on several (modelled and measured)";
        Fig8 = "isl/fig8", "Figure 8: stalls by number of islands (not measurable here)";
        Fig9 = "isl/fig9", "Figure 9: throughput by share of multisite transactions (modelled and measured)";
        Fig10 = "isl/fig10", "Figure 10: cost by rows of a transaction (modelled and measured)";
        Fig11 = "isl/fig11", "Figure 11: where the time of a transaction goes (modelled)";
        Fig12 = "isl/fig12", "Figure 12: throughput by cores (modelled)";
        Fig13 = "isl/fig13", "Figure 13: throughput by skew (modelled and measured)";
        Fig14 = "isl/fig14", "Figure 14: throughput by size of the database (modelled)";
    }
    has_terminals: false,
    reproduce: reproduce,
}

fn reproduce(
    figures: &[Figure],
    wanted: &Wanted,
    progress: &mut dyn Progress,
) -> Result<Reproduced, Failure> {
    let machine = Topology::of_machine();
    let counted = figures.iter().any(|of| matches!(of, Figure::Fig2 | Figure::Table1));
    let counters = match counted {
        true => hardware::measured_counters(&machine, progress)?,
        false => Vec::new(),
    };
    let mut found = Vec::new();
    for &figure in figures {
        let hardware = |rows| (rows, hardware::notes(&machine));
        let (rows, notes) = match figure {
            Figure::Fig2 => hardware(hardware::placements(&counters)),
            Figure::Table1 => hardware(hardware::shared_counters(&counters, &machine)),
            Figure::Fig6 => {
                hardware(hardware::messages(&hardware::measured_links(&machine, progress)?))
            }
            other => modelled::figure(other, wanted, progress)?,
        };
        found.push(figure.reproduction(rows, notes));
    }
    let header =
        vec![("cores", json!(machine.cores.len())), ("sockets", json!(machine.sockets().len()))];
    Ok(Reproduced { settings: wanted.settings.clone(), header, found })
}
