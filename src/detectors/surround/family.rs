//! The families of surround heads.

use super::decoder::Family;
use super::streampetr::StreamPetrFamily;
use super::views::ViewFamily;
use crate::config::{SurroundConfig, SurroundDecoder};
use det_post_types::Result;

/// The family of a configuration.
///
/// # Errors
/// `Argument` for options of another family than the head's.
pub(super) fn family_of(config: &SurroundConfig) -> Result<Box<dyn Family + '_>> {
    Ok(match &config.decoder {
        SurroundDecoder::StreamPetr { .. } => Box::new(StreamPetrFamily::of(config)?),
        SurroundDecoder::Views { .. } => Box::new(ViewFamily::of(config)?),
    })
}
