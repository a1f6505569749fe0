//! `cargo xtask ci`: every check that a change has to pass, with a table at the end.
//!
//! Cheap steps come first, so that most mistakes show within seconds. Then two lanes of steps run in parallel
//! (`ci/steps.rs`): one compiles with all cores, the other has a long thread and much waiting; what needs a build of
//! its own comes last, on the lane that is through first. In this phase a step's output is shown as a whole at its
//! end, and kept in a file. The first failure stops everything with exit status 1 and prints the command that repeats
//! only this step. The budget for all steps is 20 minutes on two cores. Hence there are only two builds: one as
//! shipped, for the tests of the command, the whole laboratory and the simulator; and one with a single set of
//! features for all other tests, doctests and examples, without the command, in the profile `dev`, whose C libraries
//! and macros the lints use too.
//!
//! It does not retry: a check that fails now and then is a defect to fix.

mod hang;
mod steps;
mod table;

use std::cell::{Cell, RefCell};
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::failure::Failure;
use crate::folders::target_folder;
use crate::invocation::{Invocation, Outcome};
use crate::stopwatch::Stopwatch;

pub(crate) use steps::{CRATES, list, selection};
use steps::{Lane, STEPS, Step};
use table::{End, Row, minutes};

/// The budget of the whole list on the two cores of the build machine.
const BUDGET: Duration = Duration::from_secs(20 * 60);

/// A step that takes longer, or says nothing for so long, is considered hung: it is killed, and its output shows where
/// it hung.
const STEP_MAX: Limits =
    Limits { whole: Duration::from_secs(75 * 60), quiet: Duration::from_secs(20 * 60) };

/// How long a step may take.
#[derive(Clone, Copy, Debug)]
struct Limits {
    whole: Duration,
    /// Without printing anything.
    quiet: Duration,
}

/// Runs the steps named, or all, up to the first failure.
pub(crate) fn run(root: &Path, only: &[&str]) -> Result<(), Failure> {
    let of = |lane| -> Vec<&Step> {
        let is_chosen = |step: &&Step| only.is_empty() || only.contains(&step.name);
        STEPS.iter().filter(|step| step.lane == lane).filter(is_chosen).collect()
    };
    let [first, crates, command, last] =
        [Lane::First, Lane::Crates, Lane::Command, Lane::Last].map(of);
    let work = Work::new(root);
    work.lane(&first, None);
    if crates.is_empty() || command.is_empty() {
        work.lane(&[crates, command, last].concat(), None);
    } else {
        let folder = target_folder(root).join("ci");
        std::fs::create_dir_all(&folder)
            .map_err(|error| Failure::machine(format!("{}: {error}", folder.display())))?;
        let last = Mutex::new(last.into_iter());
        let lane = |steps: &[&Step]| {
            work.lane(steps, Some(&folder));
            let next = || last.lock().unwrap_or_else(PoisonError::into_inner).next();
            while let Some(step) = next() {
                work.lane(&[step], Some(&folder));
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| lane(&crates));
            lane(&command);
        });
    }
    work.close()
}

/// The state shared by the lanes.
struct Work<'r> {
    root: &'r Path,
    clock: Stopwatch,
    step_max: Limits,
    state: Mutex<State>,
}

impl<'r> Work<'r> {
    fn new(root: &'r Path) -> Self {
        Self { root, clock: Stopwatch::start(), step_max: STEP_MAX, state: Mutex::default() }
    }
}

#[derive(Default)]
struct State {
    rows: Vec<Row>,
    /// The first failure.
    failure: Option<Failure>,
    /// Where a step hung.
    hung: String,
}

impl Work<'_> {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_failed(&self) -> bool {
        self.state().failure.is_some()
    }

    /// Runs steps one after the other. With a folder for their output, they run in parallel with another lane.
    fn lane(&self, steps: &[&Step], folder: Option<&Path>) {
        for step in steps {
            if self.has_failed() {
                return;
            }
            self.step(step, folder);
        }
    }

    fn step(&self, step: &Step, folder: Option<&Path>) {
        let Step { name, .. } = *step;
        let alone = step.alone(self.root);
        let began = self.clock.elapsed();
        let shown = alone.as_deref().unwrap_or("nothing to do yet");
        eprintln!("\nxtask: {name} begins at {} — {shown}", minutes(began));
        let file = folder.map(|folder| folder.join(format!("{name}.txt")));
        let mut was_stopped = false;
        let outcome = step.run(self.root, |call| match &file {
            None => call.run(self.root),
            Some(file) => self.next_to_others(call, file).map(|outcome| {
                was_stopped = outcome.is_none();
                outcome.unwrap_or_default()
            }),
        });
        let took = self.clock.elapsed() - began;
        let (end, tests_passed) = match &outcome {
            _ if was_stopped => (End::Stopped, 0),
            Ok(_) if alone.is_none() => (End::NothingToDo, 0),
            Ok(outcome) if outcome.success => (End::Ok, outcome.tests_passed),
            Ok(outcome) => (End::Failed, outcome.tests_passed),
            Err(_) => (End::CouldNotRun, 0),
        };
        let failure = match outcome {
            Err(failure) => Some(failure),
            Ok(_) if end != End::Failed => None,
            Ok(_) => Some(Failure::check(format!(
                "step {name} failed. Run it alone: {} (or cargo xtask ci --only {name})",
                alone.unwrap_or_default()
            ))),
        };
        let state = &mut *self.state();
        state.failure = state.failure.take().or(failure);
        if let Some(file) = &file
            && !was_stopped
        {
            show(name, file);
        }
        eprintln!("xtask: {name} took {}", minutes(took));
        state.rows.push(Row { name, began, took, end, tests_passed });
    }

    /// Runs a program in parallel with the other lane; returns `None` if a step of that lane fails meanwhile. A hung
    /// program counts as failed.
    fn next_to_others(&self, call: &Invocation, file: &Path) -> Result<Option<Outcome>, String> {
        let clock = Stopwatch::start();
        let (last, hung) = (Cell::new((0, Duration::ZERO)), RefCell::new(String::new()));
        let hangs = |process| {
            let (now, bytes) = (clock.elapsed(), file.metadata().map_or(0, |file| file.len()));
            if bytes != last.get().0 {
                last.set((bytes, now));
            }
            let Limits { whole, quiet } = self.step_max;
            let why = match (now > whole, now - last.get().1 > quiet) {
                (true, _) => format!("it took longer than {}", minutes(whole)),
                (_, true) => format!("it said nothing for {}", minutes(quiet)),
                _ => return false,
            };
            let said = std::fs::read(file).unwrap_or_default();
            let report = hang::report(process, &String::from_utf8_lossy(&said));
            *hung.borrow_mut() = format!("{report}xtask: ended, because {why}\n");
            true
        };
        let stop = |process| self.has_failed() || hangs(process);
        let outcome = call.run_into_file(self.root, file, &stop)?;
        if outcome.is_some() || self.has_failed() {
            return Ok(outcome);
        }
        let hung = hung.take();
        let mut options = std::fs::OpenOptions::new();
        let said = options.append(true).open(file);
        said.and_then(|mut said| said.write_all(format!("\n{hung}").as_bytes()))
            .map_err(|error| format!("{}: {error}", file.display()))?;
        self.state().hung += &hung;
        Ok(Some(Outcome::default()))
    }

    fn close(self) -> Result<(), Failure> {
        let total = self.clock.elapsed();
        let State { mut rows, failure, hung } =
            self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        rows.sort_by_key(|row| STEPS.iter().position(|step| step.name == row.name));
        print!("{}{hung}", table::text(&rows, total));
        if total > BUDGET {
            eprintln!("xtask: {} is more than the budget of {}", minutes(total), minutes(BUDGET));
        }
        failure.map_or(Ok(()), Err)
    }
}

/// Shows the output of a step.
fn show(name: &str, file: &Path) {
    let said = std::fs::read(file).unwrap_or_default();
    let mut terminal = std::io::stdout().lock();
    // The checks continue without a terminal.
    let _ = writeln!(terminal, "\nxtask: what {name} said ({})", file.display());
    let _ = terminal.write_all(&said).and_then(|()| terminal.flush());
}

#[cfg(test)]
mod tests {
    use super::{Lane, Limits, STEPS, State, Work, run};
    use crate::invocation::Invocation;
    use crate::stopwatch::Stopwatch;
    use crate::tidy::scratch::Scratch;
    use std::time::Duration;

    #[test]
    fn a_failing_step_ends_the_run_and_is_named() {
        let scratch = Scratch::new(&[("crates/a/src/lib.rs", "no head\n")]);
        let failure = run(scratch.root(), &["tidy"]).unwrap_err();
        assert_eq!(failure.status(), 1);
        assert!(failure.to_string().contains("Run it alone: cargo xtask tidy"), "{failure}");
    }

    #[test]
    fn a_step_beside_others_leaves_what_it_says_in_a_file() {
        let scratch = Scratch::new(&[("x", "")]);
        let file = scratch.root().join("said.txt");
        let words =
            ["-c", "echo 'test result: ok. 3 passed; 0 failed'; echo also this >&2; exit 1"];
        let call = Invocation::new("sh", &words);
        let outcome = Work::new(scratch.root()).next_to_others(&call, &file).unwrap().unwrap();
        assert_eq!((outcome.success, outcome.tests_passed), (false, 3));
        let said = std::fs::read_to_string(&file).unwrap();
        assert_eq!(said, "test result: ok. 3 passed; 0 failed\nalso this\n");
    }

    #[test]
    fn a_step_that_hangs_is_ended_with_what_it_has_said_and_where_it_hung() {
        let scratch = Scratch::new(&[("x", "")]);
        let file = scratch.root().join("said.txt");
        let (short, long) = (Duration::from_millis(300), Duration::from_secs(600));
        for (whole, quiet, why) in [
            (short, long, "it took longer than 0:00.3"),
            (long, short, "it said nothing for 0:00.3"),
        ] {
            let work = Work { step_max: Limits { whole, quiet }, ..Work::new(scratch.root()) };
            let slow = "echo test x has been running for over 60 seconds; sleep 600";
            let call = Invocation::new("sh", &["-c", slow]);
            let outcome = work.next_to_others(&call, &file).unwrap().unwrap();
            assert!(!outcome.success);
            let said = std::fs::read_to_string(&file).unwrap();
            assert!(said.starts_with("test x has been running"), "{said}");
            assert!(said.contains("\nstill running: test x\n"), "{said}");
            assert!(said.ends_with(&format!("ended, because {why}\n")), "{said}");
            assert!(said.ends_with(&work.state().hung), "below the table, too: {said}");
        }
    }

    /// Processes that it started end with it.
    #[test]
    fn a_failure_stops_the_other_lane() {
        let scratch = Scratch::new(&[("x", "")]);
        let file = scratch.root().join("said.txt");
        let work = Work::new(scratch.root());
        let call = Invocation::new("sh", &["-c", "sh -c 'echo $$; sleep 600' & wait"]);
        let said = || std::fs::read_to_string(&file).unwrap_or_default();
        std::thread::scope(|scope| {
            let other = scope.spawn(|| work.next_to_others(&call, &file));
            while !said().ends_with('\n') {
                crate::process::sleep(Duration::from_millis(5));
            }
            let failure = crate::failure::Failure::check("x");
            *work.state() = State { failure: Some(failure), ..State::default() };
            assert_eq!(other.join().unwrap(), Ok(None));
        });
        let child = said().trim().to_owned();
        let state = || std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        let clock = Stopwatch::start();
        while !(state().is_empty() || state().contains(") Z ")) {
            assert!(clock.elapsed() < Duration::from_secs(20), "{}", state());
            crate::process::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn lanes_are_in_order_and_the_command_is_built_before_it_runs() {
        let lanes: Vec<Lane> = STEPS.iter().map(|step| step.lane).collect();
        assert!(lanes.is_sorted_by_key(|lane| *lane as u8), "{lanes:?}");
        let mut of_command = STEPS.iter().filter(|step| step.lane == Lane::Command);
        assert_eq!(of_command.next().unwrap().name, "release");
    }
}
