//! Which calls were answered: what must be in the database from then on.
//!
//! Each client numbers its calls. `run --acks` writes a line `CLIENT SEQ` for each answer, and the transaction
//! of the call writes the same two numbers to the table `client_seq`. A client continues to count where the
//! database says it ended, so a client that counts an answered call again has lost it.
//!
//! A line without an end was never finished and counts for nothing.

use std::collections::BTreeMap;

/// The answers of all runs of a chain.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// The last call of each client that was answered.
    last: BTreeMap<u64, u64>,
    /// How many answers there were.
    count: u64,
    /// The first call that was answered twice.
    again: Option<String>,
}

impl Answers {
    /// Adds the answers in `text`.
    pub(super) fn add(&mut self, text: &str) {
        for (client, seq) in numbers(text) {
            self.count += 1;
            let last = self.last.entry(client).or_default();
            if seq <= *last {
                self.again.get_or_insert_with(|| {
                    format!("call {seq} of client {client} was answered twice: {last} was lost")
                });
            }
            *last = (*last).max(seq);
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// A call that the answers alone show to be lost.
    ///
    /// # Errors
    /// Names it.
    pub(super) fn verify(&self) -> Result<(), String> {
        self.again.clone().map_or(Ok(()), Err)
    }

    /// Looks for every answered call in `rows`, the table `client_seq` as text.
    ///
    /// # Errors
    /// Names the first that is not there.
    pub(super) fn verify_in(&self, rows: &str) -> Result<(), String> {
        self.verify()?;
        let there: BTreeMap<u64, u64> = numbers(rows).collect();
        for (client, &seq) in &self.last {
            let what = match there.get(client) {
                None => "it has no row".to_owned(),
                Some(&found) if found < seq => format!("the last one there is {found}"),
                Some(_) => continue,
            };
            return Err(format!("call {seq} of client {client} was answered and is lost: {what}"));
        }
        Ok(())
    }
}

/// Two numbers a line.
fn numbers(text: &str) -> impl Iterator<Item = (u64, u64)> + '_ {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().filter_map(|line| {
        let mut words = line.split_whitespace().map(str::parse);
        match (words.next(), words.next(), words.next()) {
            (Some(Ok(client)), Some(Ok(seq)), None) => Some((client, seq)),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::{Answers, numbers};

    fn answers(texts: &[&str]) -> Answers {
        let mut answers = Answers::default();
        texts.iter().for_each(|text| answers.add(text));
        answers
    }

    #[test]
    fn only_whole_lines_count() {
        let read: Vec<_> = numbers("1 2\n3\t4\nx 5\n6 7 8\n9 1").collect();
        assert_eq!(read, [(1, 2), (3, 4)]);
        assert_eq!(numbers("1 2").count(), 0);
    }

    #[test]
    fn a_call_that_is_counted_again_was_lost() {
        let well = answers(&["0 1\n1 1\n0 3\n", "0 4\n1 2\n"]);
        assert_eq!((well.count(), well.verify()), (5, Ok(())));
        let lost = answers(&["0 1\n1 2\n0 4\n", "1 3\n0 4\n0 5\n"]);
        let what = lost.verify().unwrap_err();
        assert!(what.contains("call 4 of client 0 was answered twice: 4 was lost"), "{what}");
        // Also when the table has it by now.
        assert_eq!(lost.verify_in("0\t5\n1\t3\n"), Err(what));
    }

    #[test]
    fn a_lost_call_is_named() {
        let answers = answers(&["0 5\n1 7\n"]);
        assert_eq!(answers.verify_in("0\t5\n1\t9\n2\t0\n"), Ok(()));
        let behind = answers.verify_in("0\t5\n1\t6\n").unwrap_err();
        assert!(behind.contains("call 7 of client 1") && behind.contains("is 6"), "{behind}");
        assert!(answers.verify_in("1\t7\n").unwrap_err().contains("no row"));
    }
}
