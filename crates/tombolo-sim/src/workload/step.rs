//! What an execution consists of: tables, what is added to them, requests.

use super::model::Additions;
use super::request::Request;

/// Something that was executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The next table was made.
    Table,
    /// An index or a column was added while transactions ran: from now on there are so many.
    Added(Additions),
    /// A transaction ran.
    Request(Request),
}
