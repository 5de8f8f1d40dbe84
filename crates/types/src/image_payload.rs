//! The payload of an image message.

use super::{CompressedView, DeviceBytes, ImageView};

/// The payload of an image message.
#[derive(Clone, Copy, Debug)]
pub enum ImagePayload<'a> {
    /// Uncompressed pixels.
    Raw(ImageView<'a>),
    /// A file to decode first.
    Compressed(CompressedView<'a>),
    /// Uncompressed pixels in the memory of a GPU, which a detector on that GPU copies there.
    OnDevice(ImageView<'a, DeviceBytes<'a>>),
}
