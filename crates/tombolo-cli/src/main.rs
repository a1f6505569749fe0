//! The `tombolo` command: arguments in, results on standard output, everything else on standard
//! error.
//!
//! Exit status: 0 success · 1 the command's own check failed, or the command has a defect (a panic)
//! · 2 bad usage or input · 3 a limit of the machine (memory, disk, a missing program). Every error is
//! one line with the failure, its object and a remedy.
//!
//! The crate is thin on purpose: the work of a command is done by the lab crate; here are arguments (`cmd/`),
//! their errors (`usage.rs`) and output (`output.rs`).

mod bar;
mod cmd;
mod flags;
mod library;
mod output;
mod usage;

use std::panic;
use std::process::ExitCode;

use clap::Parser;
use tombolo_engine::threads::NoThread;
use tombolo_lab::failure::Failure;

use crate::cmd::Cli;

/// The status of a defect in the command.
const STATUS_DEFECT: u8 = 1;

fn main() -> ExitCode {
    panic::set_hook(Box::new(report_panic));
    match panic::catch_unwind(run) {
        Ok(status) => ExitCode::from(status),
        Err(_) => ExitCode::from(STATUS_DEFECT), // the hook has reported it
    }
}

/// Reports a panic in one line, and with `RUST_BACKTRACE` also its origin. If the panic only means that
/// the system refused a thread, the process ends immediately: a panic in a thread that has just started cannot be
/// caught, and would abort the process.
fn report_panic(defect: &panic::PanicHookInfo<'_>) {
    let what = defect.payload_as_str().unwrap_or("no reason is known").lines().next();
    if let Some(refused) = what.and_then(NoThread::from_panic) {
        output::end(&Failure::environment(refused.to_string()));
    }
    let place = defect.location().map(|place| format!(" ({}:{})", place.file(), place.line()));
    output::complain(&format!(
        "internal error: {}{}: this is a defect, please report the command line",
        what.unwrap_or_default(),
        place.unwrap_or_default()
    ));
    if std::env::var_os("RUST_BACKTRACE").is_some_and(|wanted| wanted != "0") {
        output::say(&std::backtrace::Backtrace::force_capture().to_string());
    }
}

fn run() -> u8 {
    #[cfg(feature = "every-profile")]
    tombolo_lab::drive::run_on_pages_by(tombolo_ladder::on_pages);
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage::report(&error),
    };
    match cmd::run(cli) {
        Ok(()) => 0,
        Err(failure) => output::end(&failure),
    }
}
