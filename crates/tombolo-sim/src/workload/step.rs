//! What an execution consists of: tables, what is added to them, requests.

use super::model::Additions;
use super::request::Request;

/// Something that was executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The next table was made.
    Table,
    /// Something was added next to transactions: from now on there is so much.
    Added(Additions),
    /// A transaction ran.
    Request(Request),
}
