//! A copy of an image for a backup (`backup/`): every block that counts, in the same place, and nothing else.
//!
//! In the copy all rings are in one directory. The copied blocks are those that loading would read; an image that
//! loading would refuse is refused here, too. Not here: the log behind it. Invariant: no thread writes the image
//! meanwhile.

use super::block::Block;
use super::catalogue::Catalogue;
use super::load::{Image, RingReader};
use super::ring::Ring;
use super::settings::ImageFailure;
use crate::backup::Copier;
use crate::value_log::LogStart;

impl Image {
    /// Copies catalogue and rings; returns where the log takes over. Without an image that is its
    /// beginning.
    ///
    /// # Errors
    /// When the image cannot be read; `Full`, `Disk`, of either disk.
    pub(crate) fn copy(&self, copier: &mut Copier<'_>) -> Result<LogStart, ImageFailure> {
        let Some(catalogue) = self.catalogue() else { return Ok(self.log_start(0)) };
        let mut known = 0;
        for ring in &catalogue.rings {
            known = known.max(self.copy_ring(catalogue, ring, copier)?);
        }
        let in_one = |ring: &Ring| Ring { stripe: 0, ..*ring };
        let rings = catalogue.rings.iter().map(in_one).collect();
        let (name, bytes) = Catalogue { directories: 1, rings, ..catalogue.clone() }.as_file();
        let mut file = copier.file(&name, bytes.len() as u64)?;
        file.write(&bytes, 0)?;
        copier.end(file)?;
        Ok(self.log_start(known))
    }

    /// The newest group whose changes a block of the ring holds.
    fn copy_ring(
        &self,
        catalogue: &Catalogue,
        ring: &Ring,
        copier: &mut Copier<'_>,
    ) -> Result<u64, ImageFailure> {
        let mut reader = RingReader::new(self, catalogue, ring)?;
        let mut file = copier.file(&ring.file_name(), ring.file_bytes())?;
        let mut put = |block: &Block<'_>| {
            let place = ring.place(block.header.stamp.checkpoint, block.header.block);
            file.write(block.stored, ring.offset(place)).map_err(ImageFailure::from)
        };
        reader.read(&mut put, &mut |_| {})?;
        copier.end(file)?;
        Ok(reader.finish()?.newest)
    }
}
