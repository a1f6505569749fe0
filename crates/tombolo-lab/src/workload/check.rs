//! What came of asking one condition of consistency.

/// One condition of consistency and whether it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Its name.
    pub name: &'static str,
    /// Where it does not hold and by what; nothing if it holds everywhere.
    pub violation: Option<String>,
}

impl Check {
    /// Whether the condition holds.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.violation.is_none()
    }
}
