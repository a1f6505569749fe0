//! `cargo xtask examples`: builds the library's examples without the command, from the same objects as the tests,
//! and runs each repeatedly in one directory: each run must find the results of the previous one.
//!
//! Not here: the example in README (a test of the library), other functions of the library.

use std::path::Path;
use std::process::Command;

use crate::ci;
use crate::failure::Failure;
use crate::folders::target_folder;
use crate::invocation::Invocation;

/// An example, the number of its runs in one directory, and a check of their output.
type Example = (&'static str, usize, fn(&[String]) -> Result<(), String>);

static EXAMPLES: [Example; 8] = [
    ("ledger", 3, ledger),
    ("order_desk", 2, order_desk),
    ("rate_limiter", 2, rate_limiter),
    ("ticket_shop", 2, ticket_shop),
    ("expiring_cache", 2, expiring_cache),
    ("islands", 2, islands),
    ("processes", 2, processes),
    ("measurements", 2, measurements),
];

/// Builds and runs all of them.
pub(crate) fn run(root: &Path) -> Result<(), Failure> {
    let names = EXAMPLES.iter().flat_map(|(name, ..)| ["--example".to_string(), name.to_string()]);
    let build = Invocation::cargo(&format!("build --quiet {}", ci::CRATES)).with(names);
    build.succeed(root)?;
    let place = target_folder(root).join("tmp").join("examples");
    let cleared = match std::fs::remove_dir_all(&place) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => std::fs::create_dir_all(&place),
    };
    cleared.map_err(|error| Failure::machine(format!("{}: {error}", place.display())))?;
    for (name, runs, judge) in &EXAMPLES {
        let program = target_folder(root).join("debug").join("examples").join(name);
        let directory = place.join(name);
        let said =
            (0..*runs).map(|_| said_by(&program, &directory)).collect::<Result<Vec<_>, _>>()?;
        judge(&said).map_err(|what| {
            Failure::check(format!("example {name}: {what}; it said: {}", said.join(" | ")))
        })?;
    }
    println!("examples: {} ran, and found again what they had written", EXAMPLES.len());
    Ok(())
}

/// The output of a program that succeeds.
fn said_by(program: &Path, directory: &Path) -> Result<String, Failure> {
    let ended = Command::new(program).arg(directory).output();
    let ended =
        ended.map_err(|error| Failure::machine(format!("{}: {error}", program.display())))?;
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    match ended.status.success() {
        true => Ok(said),
        false => Err(Failure::check(format!(
            "{} failed: {said}{}",
            program.display(),
            String::from_utf8_lossy(&ended.stderr)
        ))),
    }
}

/// Each run pays in 100.00 and tries to pay out 70.00 twice: the second payment succeeds at the third run.
fn ledger(said: &[String]) -> Result<(), String> {
    for (said, again) in said.iter().zip(["Err(Aborted(\"not enough money\"))", "Err(", "Ok(())"]) {
        if !said.contains(&format!("1 pays 2: Ok(()), and again: {again}")) {
            return Err(format!("the second payment was not {again}"));
        }
    }
    Ok(())
}

/// Orders equal the sums of their lines, and later orders find emptier shelves.
fn order_desk(said: &[String]) -> Result<(), String> {
    let confirmed: Vec<u64> = said
        .iter()
        .map(|said| {
            number_before(said, " orders confirmed").ok_or("it did not say how many orders")
        })
        .collect::<Result<_, _>>()?;
    if confirmed[0] == 0 || confirmed[1] >= confirmed[0] {
        return Err("the second run should confirm fewer orders than the first".to_owned());
    }
    let sums = [" cents confirmed", " by its lines"].map(|behind| number_before(&said[0], behind));
    match sums {
        [Some(confirmed), Some(by_lines)] if confirmed == by_lines => Ok(()),
        _ => Err("an order is not worth what its lines are".to_owned()),
    }
}

/// A full bucket lets ten through; more only as fast as tokens flow.
fn rate_limiter(said: &[String]) -> Result<(), String> {
    match number_before(&said[0], " of 25 requests") {
        Some(admitted) if admitted >= 10 => Ok(()),
        _ => Err("a full bucket should let ten through".to_owned()),
    }
}

/// All 500 seats are sold once, two of eight buyers paying half; the second run finds none.
fn ticket_shop(said: &[String]) -> Result<(), String> {
    for (said, sold) in said.iter().zip([500, 0]) {
        if !said.starts_with(&format!("{sold} sold now, 500 of 500 in all for ")) {
            return Err(format!("{sold} seats should be sold, and all taken"));
        }
    }
    let money = |said: &String| {
        said.lines().next().and_then(|line| line.split(" for ").nth(1).map(str::to_owned))
    };
    match (money(&said[0]), money(&said[1])) {
        (Some(first), Some(second)) if first == second => Ok(()),
        _ => Err("a restart changed what was paid".to_owned()),
    }
}

/// A thousand entries are kept; one without a time to live has expired, one of an hour is found by the next run.
fn expiring_cache(said: &[String]) -> Result<(), String> {
    let are_held =
        said.iter().all(|said| number_before(said, " pages held; the mayfly is gone") == Some(999));
    match are_held
        && said[0].contains("greeting was not there")
        && said[1].contains("greeting was there")
    {
        true => Ok(()),
        false => Err("999 pages and the greeting should be held".to_owned()),
    }
}

/// Each run notes one order, takes its goods, and is refused another that would take too many.
fn islands(said: &[String]) -> Result<(), String> {
    for (said, order) in said.iter().zip(1..) {
        let is_whole = said.contains(&format!("customer 7: order {order}\n"))
            && said.contains("sold out")
            && said.contains("in stock: [8, 9, 10, 10, 7, 10]");
        if !is_whole {
            return Err(format!("order {order} should be noted, and only its goods be taken"));
        }
    }
    Ok(())
}

/// Whatever was refused while the killed process came back, no money is lost.
fn processes(said: &[String]) -> Result<(), String> {
    let is_whole = |said: &String| {
        said.contains("killed the process of island 0: true")
            && said.contains("all money is there: true")
    };
    match said.iter().all(is_whole) {
        true => Ok(()),
        false => Err("a process should be killed, and the money stay".to_owned()),
    }
}

/// Each run adds 20,000 measurements, and what the sensors say is what is there.
fn measurements(said: &[String]) -> Result<(), String> {
    for (said, run) in said.iter().zip(1..) {
        if number_before(said, " measurements") != Some(20_000 * run) {
            return Err(format!("run {run} should end with {} measurements", 20_000 * run));
        }
    }
    Ok(())
}

/// The number before the text `behind`.
fn number_before(said: &str, behind: &str) -> Option<u64> {
    let (before, _) = said.split_once(behind)?;
    before.rsplit(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{
        expiring_cache, islands, ledger, number_before, order_desk, rate_limiter, ticket_shop,
    };

    fn said(runs: &[&str]) -> Vec<String> {
        runs.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn numbers_stand_before_words() {
        assert_eq!(number_before("order 7: 1200 cents confirmed", " cents"), Some(1_200));
        assert_eq!(number_before("no cents", " cents"), None);
        assert_eq!(number_before("7 orders", " cents"), None);
    }

    #[test]
    fn what_an_example_forgets_is_noticed() {
        let poor = "1 pays 2: Ok(()), and again: Err(Aborted(\"not enough money\"))\n";
        let rich = "1 pays 2: Ok(()), and again: Ok(())\n";
        assert!(ledger(&said(&[poor, poor, rich])).is_ok());
        assert!(ledger(&said(&[poor, poor, poor])).is_err());
        let first =
            "120 orders confirmed, 60 refused\norder 9: 500 cents confirmed, 500 by its lines";
        let later = "4 orders confirmed, 176 refused";
        assert!(order_desk(&said(&[first, later])).is_ok());
        assert!(order_desk(&said(&[first, first])).is_err());
        assert!(order_desk(&said(&[&first.replace("500 by", "400 by"), later])).is_err());
        assert!(rate_limiter(&said(&["anna: 10 of 25 requests at once passed"])).is_ok());
        assert!(rate_limiter(&said(&["anna: 3 of 25 requests at once passed"])).is_err());
        let sold = "500 sold now, 500 of 500 in all for 10718.75\n";
        let again = "0 sold now, 500 of 500 in all for 10718.75\n";
        assert!(ticket_shop(&said(&[sold, again])).is_ok());
        assert!(ticket_shop(&said(&[sold, sold])).is_err());
        assert!(ticket_shop(&said(&[sold, &again.replace("718", "719")])).is_err());
        let first = "greeting was not there\n999 pages held; the mayfly is gone\n";
        let later = "greeting was there\n999 pages held; the mayfly is gone\n";
        assert!(expiring_cache(&said(&[first, later])).is_ok());
        assert!(expiring_cache(&said(&[first, first])).is_err());
        assert!(expiring_cache(&said(&[first, &later.replace("999", "998")])).is_err());
        let first = "customer 7: order 1\ncustomer 8: sold out\nin stock: [8, 9, 10, 10, 7, 10]\n";
        let later = first.replace("order 1", "order 2");
        assert!(islands(&said(&[first, &later])).is_ok());
        assert!(islands(&said(&[first, first])).is_err());
        assert!(islands(&said(&[first, &later.replace("10]", "9]")])).is_err());
    }
}
