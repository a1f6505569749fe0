//! The options of a command: flags, each with a value.

use crate::failure::Failure;

/// The options that were given.
pub(crate) struct Options<'w> {
    command: &'static str,
    given: Vec<(&'w str, &'w str)>,
}

impl<'w> Options<'w> {
    /// Reads the `words` after the name of a command that has the options `known`.
    pub(crate) fn read(
        command: &'static str,
        known: &[&str],
        words: &[&'w str],
    ) -> Result<Self, Failure> {
        let option = |pair: &[&'w str]| match *pair {
            [flag, ..] if !known.contains(&flag) => Err(Failure::usage(format!(
                "{command}: no option {flag}; there are {}",
                known.join(" ")
            ))),
            [flag, value] => Ok((flag, value)),
            _ => Err(Failure::usage(format!("{command}: {} needs a value", pair[0]))),
        };
        Ok(Self { command, given: words.chunks(2).map(option).collect::<Result<_, _>>()? })
    }

    /// The value of an option; where it was given several times, the last one.
    pub(crate) fn get(&self, flag: &str) -> Option<&'w str> {
        self.given.iter().rfind(|(given, _)| *given == flag).map(|(_, value)| *value)
    }

    /// The number that an option has, or else `default`.
    pub(crate) fn number(&self, flag: &str, default: u64) -> Result<u64, Failure> {
        let Some(value) = self.get(flag) else { return Ok(default) };
        let wrong =
            |_| Failure::usage(format!("{}: {flag} {value}: expected a number", self.command));
        value.replace('_', "").parse().map_err(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::Options;

    #[test]
    fn options_have_values_and_the_last_one_counts() {
        let read = |words: &[&'static str]| Options::read("x", &["--seed", "--out"], words);
        let given = read(&["--seed", "1", "--out", "a b", "--seed", "1_000"]).unwrap();
        assert_eq!((given.get("--out"), given.number("--seed", 7).unwrap()), (Some("a b"), 1_000));
        let none = read(&[]).unwrap();
        assert_eq!((none.get("--out"), none.number("--seed", 7).unwrap()), (None, 7));
        let refused = |words| read(words).and_then(|given| given.number("--seed", 0)).unwrap_err();
        for (words, what) in [
            (&["--frob", "1"][..], "no option --frob; there are --seed --out"),
            (&["7"], "no option 7"),
            (&["--out", "a", "--seed"], "--seed needs a value"),
            (&["--seed", "x"], "--seed x: expected a number"),
        ] {
            let refused = refused(words);
            assert!(refused.status() == 2 && refused.to_string().contains(what), "{refused}");
        }
    }
}
