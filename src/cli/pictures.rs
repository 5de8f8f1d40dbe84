//! The first frames of every channel of a replay, drawn into a folder.

use std::path::PathBuf;

use crate::error::{Error, ErrorKind, Result};
use crate::node::pictures::Canvas;
use crate::types::Stamp;

/// A folder of pictures.
pub(super) struct Pictures {
    folder: PathBuf,
    limit: u64,
}

impl Pictures {
    /// Pictures of the first `limit` frames of each channel, below `folder`.
    pub(super) fn create(folder: PathBuf, limit: u64) -> Result<Self> {
        if limit > 0 {
            std::fs::create_dir_all(&folder).map_err(|e| {
                Error::new(ErrorKind::Io, "pictures", format!("cannot make {}", folder.display()))
                    .with_source(e)
            })?;
        }
        Ok(Self { folder, limit })
    }

    /// Whether a frame of this number (from zero) is drawn.
    pub(super) fn wants(&self, frame: u64) -> bool {
        frame < self.limit
    }

    /// Saves the picture of a frame.
    ///
    /// # Errors
    /// `Io` when it cannot be written.
    pub(super) fn save(
        &self,
        channel: &str,
        frame: u64,
        stamp: Stamp,
        canvas: &Canvas,
    ) -> Result<()> {
        canvas.save(&self.folder.join(format!("{channel}_{frame:06}_{}.png", stamp.nanos())))
    }
}
