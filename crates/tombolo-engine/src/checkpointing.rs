//! What a checkpoint stage is given when a database is opened or made: the image, which is continued, and
//! DB′ in as many parts as there are threads to write it (TPK-14, TPK-25).
//!
//! Not here: opening (`recovery/`), when a checkpoint begins, and stepping it (the stage's).

use tombolo_storage::disk::ALIGNMENT_MAX;
use tombolo_storage::memory::image::{
    CheckpointPart, Checkpoints, ImageSettings, MirroredPart, SecondCopy,
};
use tombolo_storage::value_log::LogPosition;

use crate::settings::{self, Settings};

/// The numbers of the image that the settings ask for, if they ask for checkpoints.
pub fn image_settings(settings: &Settings) -> Option<ImageSettings> {
    let block_bytes = settings.count(&settings::CHECKPOINT_BLOCK_BYTES) as u32;
    let copy = match settings.word(&settings::CHECKPOINT_COPY) {
        "memory" => SecondCopy::Memory,
        _ => SecondCopy::None,
    };
    let image = ImageSettings {
        copy,
        block_bytes: block_bytes.next_multiple_of(ALIGNMENT_MAX as u32),
        spare_blocks: settings.count(&settings::CHECKPOINT_SPARE_BLOCKS) as u32,
        ..ImageSettings::default()
    };
    (settings.word(&settings::CHECKPOINTS) == "on").then_some(image)
}

/// An image that checkpoints are written to. Everything in the log up to its end
/// (its position when it was opened) is installed.
#[derive(Debug)]
pub struct Checkpointing {
    /// Its catalogue. [`Checkpoints::writing`] is a checkpoint that the last process did not finish: the parts
    /// continue it when they are stepped.
    pub checkpoints: Checkpoints,
    /// DB′, each table in one part: one for each thread, or fewer threads step several.
    pub parts: Vec<CheckpointPart>,
}

impl Checkpointing {
    /// Continues an image, with DB′ as it is at the log's end.
    pub(crate) fn start(
        checkpoints: Checkpoints,
        mirrored: Vec<MirroredPart>,
        threads: usize,
        position: LogPosition,
    ) -> Self {
        let part = |mirrored| CheckpointPart::new(mirrored, &checkpoints, position);
        let parts = MirroredPart::divide(mirrored, threads.max(1)).into_iter().map(part).collect();
        Self { checkpoints, parts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Source;

    #[test]
    fn settings_ask_for_an_image_or_for_none() {
        let mut settings = Settings::default();
        let of_defaults = ImageSettings { copy: SecondCopy::None, ..ImageSettings::default() };
        assert_eq!(image_settings(&settings), Some(of_defaults));
        for (name, value) in [("checkpoint_block_bytes", "5000"), ("checkpoint_spare_blocks", "3")]
        {
            settings.set(name, value, Source::Flag).expect("it is within its limits");
        }
        let image = image_settings(&settings).expect("checkpoints are on");
        assert_eq!((image.block_bytes, image.spare_blocks, image.check()), (8192, 3, Ok(())));
        assert_eq!(image.copy, SecondCopy::None);
        settings.set("checkpoint_copy", "memory", Source::Flag).expect("it is a choice");
        let image = image_settings(&settings).expect("checkpoints are on");
        assert_eq!(image.copy, SecondCopy::Memory);
        settings.set("checkpoints", "off", Source::Flag).expect("it is a choice");
        assert_eq!(image_settings(&settings), None);
    }
}
