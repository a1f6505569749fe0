//! The command as it is shipped: what it says, leaves and refuses.
//!
//! One program, so that its tests are linked once, with all optimisation of the release build, and
//! share the cores. Not here: databases that are killed (`cargo xtask kills`), the library.

mod apart;
mod calls;
mod debit_credit;
mod dissect;
mod durable;
mod ended;
mod files;
mod islands;
mod machine;
mod open_loop;
mod recovery;
mod report;
mod restart;
mod results;
mod usage;
mod verify;
