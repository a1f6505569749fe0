//! What must hold, and what did not.

use tombolo_storage::store::Damage;

/// A rule that does not hold, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule's name.
    pub rule: Rule,
    /// What was found.
    pub what: String,
}

impl Violation {
    /// A breach of `rule`.
    pub fn new(rule: Rule, what: impl Into<String>) -> Self {
        Self { rule, what: what.into() }
    }
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.rule.name(), self.what)
    }
}

/// What must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A transaction answers what the model answers at its place in the order.
    RightAnswer,
    /// What comes back is a prefix of what ran.
    Prefix,
    /// It contains everything acknowledged, read for an answer, or shown by an earlier recovery.
    AcknowledgedIsDurable,
    /// Recovering the same files again gives the same state.
    RecoveryRepeats,
    /// A flipped bit in a log that is durable and vouched for costs no row without a refusal.
    RotIsNoticed,
    /// A store that came back has no damage.
    SoundStore,
    /// Nothing is refused unless the medium broke a promise; then the place is named.
    JustRefusal,
    /// An engine that has neither crashed nor been poisoned makes progress.
    Progress,
    /// A database that was restored to a group is what ran up to there.
    Restored,
    /// A transaction over several islands is committed on all of them or on none, once.
    Atomic,
    /// The answer to the caller of a transaction over several islands is true.
    AnswerHolds,
    /// No transaction makes money or loses it.
    Money,
    /// There is one order of all transactions that explains what each has seen.
    Serializable,
    /// Once faults stop no lock is held and no row of the commit protocol is left.
    NothingLeft,
    /// Only requests that are meant to panic do.
    NoPanic,
}

impl Rule {
    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RightAnswer => "right-answer",
            Self::Prefix => "prefix",
            Self::AcknowledgedIsDurable => "acknowledged-is-durable",
            Self::RecoveryRepeats => "recovery-repeats",
            Self::RotIsNoticed => "rot-is-noticed",
            Self::SoundStore => "sound-store",
            Self::JustRefusal => "just-refusal",
            Self::Progress => "progress",
            Self::Restored => "restored",
            Self::Atomic => "atomic",
            Self::AnswerHolds => "answer-holds",
            Self::Money => "money",
            Self::Serializable => "serializable",
            Self::NothingLeft => "nothing-left",
            Self::NoPanic => "no-panic",
        }
    }
}

/// A store finds nothing wrong with itself.
///
/// # Errors
/// What it found first.
pub(crate) fn sound(damage: &[Damage]) -> Result<(), Violation> {
    damage.first().map_or(Ok(()), |damage| {
        let what = format!("{}: {}", damage.check, damage.what);
        Err(Violation::new(Rule::SoundStore, what))
    })
}
