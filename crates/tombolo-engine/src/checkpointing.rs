//! What a checkpoint stage is given when a database is opened or made: the image, which goes on, and
//! DB′ in as many parts as there are threads to write it (TPK-14, TPK-25).
//!
//! Not here: opening (`recovery/`), when a checkpoint begins and who steps it (the stage's).

use tombolo_storage::memory::image::{CheckpointPart, Checkpoints, MirroredPart};
use tombolo_storage::value_log::LogWriter;

/// An image that checkpoints are written to. Everything in the log up to its end
/// ([`LogWriter::position`] when it was opened) is installed.
#[derive(Debug)]
pub struct Checkpointing {
    /// Its catalogue. [`Checkpoints::writing`] is a checkpoint that the last process did not finish:
    /// the parts go on with it when they are stepped.
    pub checkpoints: Checkpoints,
    /// DB′, each table in one part: one for each thread, or fewer threads step several.
    pub parts: Vec<CheckpointPart>,
}

impl Checkpointing {
    /// Goes on with an image, with DB′ as it is at the log's end.
    #[cfg_attr(loom, expect(dead_code, reason = "nothing is opened there"))]
    pub(crate) fn start(
        checkpoints: Checkpoints,
        mirrored: Vec<MirroredPart>,
        threads: usize,
        writer: &LogWriter,
    ) -> Self {
        let position = writer.position();
        let part = |mirrored| CheckpointPart::new(mirrored, &checkpoints, position);
        let parts = MirroredPart::divide(mirrored, threads.max(1)).into_iter().map(part).collect();
        Self { checkpoints, parts }
    }
}
