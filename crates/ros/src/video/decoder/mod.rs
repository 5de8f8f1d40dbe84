//! The decoder of H.264: the crate `openh264`, with the sources of Cisco's decoder.

#[cfg(feature = "video")]
mod openh264;
#[cfg(not(feature = "video"))]
mod without;

#[cfg(feature = "video")]
pub(super) use openh264::Decoder;
#[cfg(not(feature = "video"))]
pub(super) use without::Decoder;
