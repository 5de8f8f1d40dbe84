//! The decoder by `openh264`.

use openh264::OpenH264API;
use openh264::decoder::{DecodeOptions, Decoder as OpenH264, DecoderConfig, Flush};
use openh264::formats::YUVSource;

use super::super::bits::{STAGE, damaged};
use super::super::picture::{Picture, Plane};
use det_post_types::{Error, ErrorKind, Result, Size};

/// A decoder, which is made for the first picture and again after each that does not decode.
#[derive(Default)]
pub(in crate::video) struct Decoder(Option<OpenH264>);

impl Decoder {
    /// Forgets all pictures.
    pub(in crate::video) fn reset(&mut self) {
        self.0 = None;
    }

    /// Decodes the NAL units of one picture, with start codes, and passes it to `read`. Pictures come in the order in
    /// which they are sent: none waits in the decoder. Parts that are missing are not concealed.
    ///
    /// # Errors
    /// `VideoCodec` when it does not decode; [`Self::reset`] must follow. `Memory` when there is none for a
    /// decoder. Returns the errors of `read`.
    pub(in crate::video) fn decode<T>(
        &mut self,
        units: &[u8],
        read: impl FnOnce(&Picture<'_>) -> Result<T>,
    ) -> Result<T> {
        let decoder = match &mut self.0 {
            Some(decoder) => decoder,
            none => none.insert(open()?),
        };
        let options = DecodeOptions::new().flush_after_decode(Flush::Flush);
        let decoded = decoder.decode_with_options(units, options);
        let decoded =
            decoded.map_err(|error| damaged("the image does not decode").with_source(error))?;
        let decoded = decoded.ok_or_else(|| damaged("the packet decodes to no image"))?;
        let (width, height) = decoded.dimensions();
        let [width, height] = [width, height].map(|side| u32::try_from(side).unwrap_or(0));
        let (luma_step, u_step, v_step) = decoded.strides();
        let picture = Picture {
            size: Size::new(width, height),
            luma: Plane { bytes: decoded.y(), step: luma_step },
            chroma: [
                Plane { bytes: decoded.u(), step: u_step },
                Plane { bytes: decoded.v(), step: v_step },
            ],
        };
        picture.check()?;
        read(&picture)
    }
}

fn open() -> Result<OpenH264> {
    OpenH264::with_api_config(OpenH264API::from_source(), DecoderConfig::new()).map_err(|error| {
        Error::new(ErrorKind::Memory, STAGE, "the decoder does not start").with_source(error)
    })
}
