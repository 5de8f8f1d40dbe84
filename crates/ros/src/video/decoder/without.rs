//! In place of a decoder, in a build without the feature `video`.

use super::super::bits::STAGE;
use super::super::picture::Picture;
use det_post_types::{Error, ErrorKind, Result};

/// Decodes nothing.
#[derive(Default)]
pub(in crate::video) struct Decoder;

impl Decoder {
    /// Does nothing.
    pub(in crate::video) fn reset(&mut self) {}

    /// Refuses a picture.
    ///
    /// # Errors
    /// `Encoding`.
    pub(in crate::video) fn decode<T>(
        &mut self,
        _units: &[u8],
        _read: impl FnOnce(&Picture<'_>) -> Result<T>,
    ) -> Result<T> {
        let message = "this build has no decoder of video: build it with the feature `video`, or publish images";
        Err(Error::new(ErrorKind::Encoding, STAGE, message))
    }
}
