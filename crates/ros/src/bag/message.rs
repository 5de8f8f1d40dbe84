//! A message of a recording.

use std::ops::Range;

use super::mapped::Mapped;
use det_post_types::Stamp;

/// One message, borrowed from the reader until its next call.
#[derive(Clone, Copy, Debug)]
pub struct BagMessage<'a> {
    /// Index into [`BagReader::topics`](super::BagReader::topics).
    pub topic: usize,
    /// When the recorder received the message.
    pub log_time: Stamp,
    /// The serialized message with its encapsulation header.
    pub data: &'a [u8],
    /// The mapped file of its source.
    pub(super) file: Option<&'a Mapped>,
}

impl<'a> BagMessage<'a> {
    /// The mapped file that `data` is a slice of, and its place there; `None` for data in a
    /// buffer. A clone of the file holds the data beyond the reader's next call.
    pub fn place(&self) -> Option<(&'a Mapped, Range<usize>)> {
        let file = self.file?;
        let start = (self.data.as_ptr() as usize).checked_sub(file.as_ptr() as usize)?;
        let place = start..start.checked_add(self.data.len())?;
        (place.end <= file.len()).then_some((file, place))
    }
}
