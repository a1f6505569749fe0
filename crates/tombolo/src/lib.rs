//! Tombolo, the library people embed.
