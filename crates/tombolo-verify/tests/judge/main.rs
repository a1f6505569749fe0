//! Histories and what they are judged to be: by hand, made at random, and compared with the definitions.
#![expect(clippy::unwrap_used, reason = "a test that panics has failed, as it should")]

mod anomalies;
mod definition;
mod files;
mod generated;
mod random;
