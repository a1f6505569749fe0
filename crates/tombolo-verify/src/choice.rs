//! Chooses between assumptions so that every cycle found so far is broken.
//!
//! A variable is the order of a pair of versions, or the version that a read of none saw; its values are the
//! assumptions. A cycle forbids a combination of values. Values are chosen one variable at a time, preferably as in
//! the last order; if all but one assumption of a cycle are chosen, the last one is excluded (unit propagation); a
//! contradiction undoes the last choice (backtracking).

use std::collections::BTreeMap;

use crate::facts::{Facts, number};
use crate::order::{Assumption, Decision};

/// A variable's number, and one of its values.
type Literal = (u32, u32);

/// A variable.
#[derive(Debug)]
struct Variable {
    values: Vec<Assumption>,
    /// The value it had in the last order.
    last: u32,
    /// The cycles in which it occurs.
    circles: Vec<u32>,
}

/// The open variables, and the cycles found so far.
#[derive(Debug, Default)]
pub(crate) struct Choices {
    numbers: BTreeMap<Assumption, Literal>,
    variables: Vec<Variable>,
    circles: Vec<Vec<Literal>>,
}

/// Values for all variables.
pub(crate) enum Solved {
    With(Vec<Decision>),
    /// There are none; these decisions follow without any choice, up to the contradiction.
    Never(Vec<Decision>),
    GaveUp,
}

impl Choices {
    /// Forbids this combination of assumptions.
    pub(crate) fn forbid(&mut self, facts: &Facts<'_>, circle: &[Assumption]) {
        let literals: Vec<Literal> = circle.iter().map(|&one| self.literal(facts, one)).collect();
        let circle = number(self.circles.len());
        for literal in &literals {
            self.variables[literal.0 as usize].circles.push(circle);
        }
        self.circles.push(literals);
    }

    fn literal(&mut self, facts: &Facts<'_>, assumption: Assumption) -> Literal {
        if let Some(&known) = self.numbers.get(&assumption) {
            return known;
        }
        let values = match assumption {
            Assumption::Order(a, b) => vec![assumption, Assumption::Order(b, a)],
            Assumption::Saw(read, _) => {
                let of = &facts.reads[read as usize];
                facts.absent(of.txn, of.key).map(|version| Assumption::Saw(read, version)).collect()
            }
        };
        let variable = number(self.variables.len());
        for (value, &one) in (0..).zip(&values) {
            self.numbers.insert(one, (variable, value));
        }
        let last = self.numbers[&assumption].1;
        self.variables.push(Variable { values, last, circles: Vec::new() });
        (variable, last)
    }

    /// Values that break every cycle, close to the last ones.
    pub(crate) fn solve(&mut self, effort: &mut u64) -> Solved {
        let mut solving = Solving::new(self, effort);
        let Some(values) = solving.run() else {
            let forced = solving.forced();
            return if *effort == 0 { Solved::GaveUp } else { Solved::Never(forced) };
        };
        let mut decisions = Vec::with_capacity(values.len());
        for (variable, (value, is_proved)) in self.variables.iter_mut().zip(values) {
            variable.last = value;
            decisions.push(Decision { of: variable.values[value as usize], is_proved });
        }
        Solved::With(decisions)
    }
}

/// A choice that can be undone.
struct Level {
    /// The number of values excluded before it.
    excluded: usize,
    variable: u32,
    value: u32,
}

/// One search for values.
struct Solving<'c> {
    choices: &'c Choices,
    effort: &'c mut u64,
    /// For each variable, the excluded values, and the number of remaining ones.
    is_excluded: Vec<Vec<bool>>,
    left: Vec<u32>,
    /// The values excluded so far, in order, and the number of them that were propagated.
    trail: Vec<Literal>,
    followed: usize,
    levels: Vec<Level>,
}

impl<'c> Solving<'c> {
    fn new(choices: &'c Choices, effort: &'c mut u64) -> Self {
        let is_excluded =
            choices.variables.iter().map(|variable| vec![false; variable.values.len()]).collect();
        let left = choices.variables.iter().map(|v| number(v.values.len())).collect();
        let (trail, followed, levels) = (Vec::new(), 0, Vec::new());
        Self { choices, effort, is_excluded, left, trail, followed, levels }
    }

    /// The value of each variable, and whether it follows without any choice.
    fn run(&mut self) -> Option<Vec<(u32, bool)>> {
        if !self.choices.circles.iter().all(|circle| self.break_circle(circle)) {
            return None;
        }
        let mut next = 0;
        loop {
            if *self.effort == 0 {
                return None;
            }
            if !self.follow() {
                self.take_back()?;
                next = 0;
                continue;
            }
            let open = self.left[next..].iter().position(|&left| left > 1);
            match open {
                Some(place) => {
                    next += place;
                    self.choose(number(next));
                }
                None => return Some(self.values()),
            }
        }
    }

    /// Gives a variable its last value, or the first remaining one.
    fn choose(&mut self, variable: u32) {
        let excluded = &self.is_excluded[variable as usize];
        let last = self.choices.variables[variable as usize].last;
        let first = || number(excluded.iter().position(|&is| !is).expect("several are left"));
        let value = if excluded[last as usize] { first() } else { last };
        self.levels.push(Level { excluded: self.trail.len(), variable, value });
        for other in (0..number(excluded.len())).filter(|&other| other != value) {
            self.exclude((variable, other));
        }
    }

    fn exclude(&mut self, (variable, value): Literal) {
        let excluded = &mut self.is_excluded[variable as usize][value as usize];
        if !std::mem::replace(excluded, true) {
            self.left[variable as usize] -= 1;
            self.trail.push((variable, value));
        }
    }

    /// Propagates exclusions; returns whether there is no contradiction.
    fn follow(&mut self) -> bool {
        let choices = self.choices;
        while let Some(&(variable, _)) = self.trail.get(self.followed) {
            self.followed += 1;
            match self.left[variable as usize] {
                0 => return false,
                1 => {
                    for &circle in &choices.variables[variable as usize].circles {
                        if !self.break_circle(&choices.circles[circle as usize]) {
                            return false;
                        }
                    }
                }
                _ => {}
            }
        }
        true
    }

    /// Excludes the only assumption of a cycle that is not chosen; returns whether there was one, or the cycle is
    /// broken.
    fn break_circle(&mut self, circle: &[Literal]) -> bool {
        *self.effort = self.effort.saturating_sub(circle.len() as u64);
        let mut open = None;
        for &(variable, value) in circle {
            if self.is_excluded[variable as usize][value as usize] {
                return true;
            }
            if self.left[variable as usize] > 1 {
                if open.is_some() {
                    return true;
                }
                open = Some((variable, value));
            }
        }
        if let Some(literal) = open {
            self.exclude(literal);
        }
        open.is_some()
    }

    /// Undoes the last choice and excludes it; `None` if there was no choice.
    fn take_back(&mut self) -> Option<()> {
        let level = self.levels.pop()?;
        for (variable, value) in self.trail.drain(level.excluded..) {
            self.is_excluded[variable as usize][value as usize] = false;
            self.left[variable as usize] += 1;
        }
        self.followed = level.excluded;
        self.exclude((level.variable, level.value));
        Some(())
    }

    /// The variables with one remaining value.
    fn forced(&self) -> Vec<Decision> {
        let variables = self.choices.variables.iter().zip(&self.is_excluded);
        let values = variables.filter_map(|(variable, excluded)| {
            let mut left = variable.values.iter().zip(excluded).filter(|(_, is)| !**is);
            let (&of, _) = left.next()?;
            left.next().is_none().then_some(Decision { of, is_proved: true })
        });
        values.collect()
    }

    fn values(&self) -> Vec<(u32, bool)> {
        let proved = self.levels.first().map_or(self.trail.len(), |level| level.excluded);
        let mut left: Vec<usize> = self.choices.variables.iter().map(|v| v.values.len()).collect();
        self.trail[..proved].iter().for_each(|&(variable, _)| left[variable as usize] -= 1);
        let value = |excluded: &Vec<bool>| {
            number(excluded.iter().position(|&is| !is).expect("one is left"))
        };
        self.is_excluded
            .iter()
            .zip(left)
            .map(|(excluded, left)| (value(excluded), left == 1))
            .collect()
    }
}
