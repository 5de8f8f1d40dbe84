//! Compressed images in the memory of a message, and the meaning of their samples.

use super::Encoding;
use crate::error::{Error, ErrorKind, Result};

/// How a `sensor_msgs/CompressedImage` is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompressedFormat {
    /// JPEG, baseline or progressive.
    Jpeg,
    /// PNG, 8 or 16 bit.
    Png,
}

/// The meaning of the samples of a compressed image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileSamples {
    /// As the file has them: grey values, or colours in the order of the file.
    #[default]
    Stored,
    /// Colours whose red and blue are exchanged in the file. Grey values are as stored.
    SwappedColors,
    /// Colours in the order of the file; a grey file contradicts it.
    Colors,
    /// A mosaic of this Bayer pattern of 8 bits, stored as grey values; a file of colours, or of
    /// 16 bits, contradicts it.
    Mosaic(Encoding),
}

impl FileSamples {
    /// Every value that does not depend on an encoding, and the mosaics.
    pub const ALL: [Self; 7] = [
        Self::Stored,
        Self::SwappedColors,
        Self::Colors,
        Self::Mosaic(Encoding::BayerRggb8),
        Self::Mosaic(Encoding::BayerBggr8),
        Self::Mosaic(Encoding::BayerGbrg8),
        Self::Mosaic(Encoding::BayerGrbg8),
    ];

    /// The encoding of the pixels of a file that decodes to `decoded` (`rgb8`, `rgba8`, `mono8` or
    /// `mono16`).
    ///
    /// # Errors
    /// `Encoding` when the file contradicts the meaning.
    pub fn encoding(self, decoded: Encoding) -> Result<Encoding> {
        let is_grey = matches!(decoded, Encoding::Mono8 | Encoding::Mono16);
        match (self, decoded) {
            (Self::SwappedColors, Encoding::Rgb8) => Ok(Encoding::Bgr8),
            (Self::SwappedColors, Encoding::Rgba8) => Ok(Encoding::Bgra8),
            (Self::Mosaic(pattern), Encoding::Mono8) => Ok(pattern),
            (Self::Mosaic(pattern), _) => Err(Error::new(
                ErrorKind::Encoding,
                "image",
                format!(
                    "the format of the compressed image is {}, its file decodes to {}; a mosaic \
                     needs one grey channel of 8 bits",
                    pattern.to_ros(),
                    decoded.to_ros()
                ),
            )),
            (Self::Colors, _) if is_grey => Err(Error::new(
                ErrorKind::Encoding,
                "image",
                format!(
                    "the format of the compressed image is of colours, its file decodes to {}",
                    decoded.to_ros()
                ),
            )),
            (Self::Stored | Self::SwappedColors | Self::Colors, _) => Ok(decoded),
        }
    }
}

/// A compressed image in the memory of its message.
#[derive(Clone, Copy, Debug)]
pub struct CompressedView<'a> {
    /// Compression, by the signature of the file; of a file without one, by the message's
    /// `format`.
    pub format: CompressedFormat,
    /// The meaning of the samples, by the message's `format`.
    pub samples: FileSamples,
    /// Whether the message's `format` names another compression than the signature.
    pub is_mislabelled: bool,
    /// The file's bytes.
    pub data: &'a [u8],
}

impl<'a> CompressedView<'a> {
    /// A file whose samples have the meaning that it states itself.
    pub const fn new(format: CompressedFormat, data: &'a [u8]) -> Self {
        Self { format, samples: FileSamples::Stored, is_mislabelled: false, data }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_a_file_have_the_meaning_of_the_format() {
        use Encoding::{BayerGrbg8, Bgr8, Bgra8, Mono8, Mono16, Rgb8, Rgba8};
        let decoded = [Mono8, Mono16, Rgb8, Rgba8];
        let cases = [
            (FileSamples::Stored, [Some(Mono8), Some(Mono16), Some(Rgb8), Some(Rgba8)]),
            (FileSamples::SwappedColors, [Some(Mono8), Some(Mono16), Some(Bgr8), Some(Bgra8)]),
            (FileSamples::Colors, [None, None, Some(Rgb8), Some(Rgba8)]),
            (FileSamples::Mosaic(BayerGrbg8), [Some(BayerGrbg8), None, None, None]),
        ];
        for (samples, expected) in cases {
            assert_eq!(decoded.map(|of| samples.encoding(of).ok()), expected, "{samples:?}");
        }
        let error = FileSamples::Mosaic(BayerGrbg8).encoding(Rgb8).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Encoding);
        assert!(error.message().contains("bayer_grbg8"), "{error}");
    }
}
