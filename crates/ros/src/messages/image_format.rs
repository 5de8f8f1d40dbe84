//! The `format` of a `sensor_msgs/CompressedImage`.
//!
//! `image_transport` writes `ENCODING; COMPRESSION compressed TARGET`, such as
//! `rgb8; jpeg compressed bgr8` or `bayer_rggb8; png compressed `: the encoding of the raw image,
//! the compression, and the encoding that the encoder was given, which is absent where the image
//! was not converted. Other publishers write the compression only.
//!
//! The encoder of `image_transport` is that of OpenCV, whose colours are blue, green, red: the
//! colours of a file are true if the target is `bgr8` (`bgr16`). For `rgb8`, red and blue are
//! exchanged in the file, and its subscribers exchange them again. Without a target the file has
//! its own colours.

use det_post_types::{CompressedFormat, Encoding, FileSamples};

/// Compressions that are not read.
const OTHERS: [&str; 11] =
    ["webp", "tiff", "tif", "bmp", "gif", "jp2", "j2k", "jxl", "avif", "heic", "heif"];

/// The parts of a `format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CompressedImageFormat<'a> {
    /// Encoding of the raw image, in the spelling of the message; empty if it is not named.
    encoding: &'a str,
    /// The encoding that was compressed; empty if it is not named.
    target: &'a str,
    /// The compression.
    pub(super) compression: Option<CompressedFormat>,
    /// Whether it names a compression that is not read.
    pub(super) names_other: bool,
    /// Whether the file is a depth image with a header before it.
    pub(super) is_depth: bool,
}

impl<'a> CompressedImageFormat<'a> {
    /// Splits a `format` into its parts.
    pub(super) fn parse(format: &'a str) -> Self {
        let words = |text: &'a str| text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let (encoding, rest) = format.split_once(';').unwrap_or(("", format));
        let encoding = match encoding.trim() {
            // As in `jpeg; quality 80`, `png; bayer_rggb8` and `bayer_rggb8`.
            of if of.is_empty() || compression(of).is_some() => {
                let mut before = words(rest).take_while(|word| !is_compressed(word));
                before.find(|word| is_encoding(word)).unwrap_or_default()
            }
            encoding => encoding,
        };
        let mut after = words(rest).skip_while(|word| !is_compressed(word)).skip(1);
        let target = after.find(|word| !word.is_empty()).unwrap_or_default();
        Self {
            encoding,
            target,
            compression: words(format).find_map(compression),
            names_other: words(format)
                .any(|word| OTHERS.iter().any(|other| word.eq_ignore_ascii_case(other))),
            is_depth: words(format).any(|word| word.eq_ignore_ascii_case("compressedDepth")),
        }
    }

    /// The meaning of the samples of a file; `None` if it is not supported.
    pub(super) fn samples(&self, compression: CompressedFormat) -> Option<FileSamples> {
        let target = Colors::of(self.target);
        if self.encoding.is_empty() || Colors::of(self.encoding).is_some() {
            return Some(match target {
                Some(Colors::Rgb) => FileSamples::SwappedColors,
                Some(Colors::Bgr) | None => FileSamples::Stored,
            });
        }
        if is_one_of(self.encoding, &["mono8", "mono16", "8UC1"]) {
            return Some(FileSamples::Stored);
        }
        // Colours that were made of another encoding.
        match target {
            Some(Colors::Bgr) => return Some(FileSamples::Colors),
            Some(Colors::Rgb) => return None,
            None => {}
        }
        let encoding = Encoding::from_ros(self.encoding).ok();
        if let Some(pattern) = encoding.filter(|encoding| encoding.is_bayer()) {
            // Another pattern as the target contradicts the first.
            let is_other = is_bayer(self.target) && self.target != self.encoding;
            return (!is_other).then_some(FileSamples::Mosaic(pattern));
        }
        // The colours of a JPEG are stored as luma and chroma; a PNG has no such colours.
        let is_of_file = self.target.is_empty() || compression == CompressedFormat::Jpeg;
        (is_yuv(self.encoding) && is_of_file).then_some(FileSamples::Colors)
    }
}

/// The order of the channels of a colour encoding.
#[derive(Clone, Copy)]
enum Colors {
    Rgb,
    Bgr,
}

impl Colors {
    /// The order of an encoding of 8 or 16 bits; that of OpenCV's own names is blue, green, red.
    fn of(encoding: &str) -> Option<Self> {
        if is_one_of(encoding, &["rgb8", "rgba8", "rgb16", "rgba16"]) {
            return Some(Self::Rgb);
        }
        is_one_of(encoding, &["bgr8", "bgra8", "bgr16", "bgra16", "8UC3", "8UC4"])
            .then_some(Self::Bgr)
    }
}

fn is_one_of(word: &str, names: &[&str]) -> bool {
    names.iter().any(|name| word.eq_ignore_ascii_case(name))
}

fn is_compressed(word: &str) -> bool {
    word.eq_ignore_ascii_case("compressed")
}

/// Whether a word is the name of an encoding of raw images, supported or not.
fn is_encoding(word: &str) -> bool {
    // Of OpenCV, as `16UC1`.
    let of_opencv = || {
        let digits = word.trim_start_matches(|c: char| c.is_ascii_digit());
        let kind = digits.trim_end_matches(|c: char| c.is_ascii_digit());
        digits.len() < word.len() && is_one_of(kind, &["UC", "SC", "FC"])
    };
    is_bayer(word)
        || is_yuv(word)
        || Colors::of(word).is_some()
        || Encoding::from_ros(word).is_ok()
        || of_opencv()
}

fn is_bayer(encoding: &str) -> bool {
    begins(encoding, "bayer")
}

fn is_yuv(encoding: &str) -> bool {
    ["yuv", "yuyv", "uyvy", "nv12", "nv16", "nv21", "nv24"]
        .iter()
        .any(|name| begins(encoding, name))
}

/// Whether a word begins so, in small or capital letters.
fn begins(word: &str, with: &str) -> bool {
    word.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with))
}

/// The compression that a word names.
fn compression(word: &str) -> Option<CompressedFormat> {
    let is = |name: &str| word.eq_ignore_ascii_case(name);
    if is("jpeg") || is("jpg") {
        Some(CompressedFormat::Jpeg)
    } else {
        is("png").then_some(CompressedFormat::Png)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_have_the_meaning_that_image_transport_gives_them() {
        use CompressedFormat::{Jpeg, Png};
        use FileSamples::{Colors, Mosaic, Stored, SwappedColors};
        let mosaic = |name| Some(Mosaic(Encoding::from_ros(name).unwrap()));
        let cases = [
            ("jpeg", Jpeg, Some(Stored)),
            ("PNG", Png, Some(Stored)),
            ("", Jpeg, Some(Stored)),
            ("image/jpeg", Jpeg, Some(Stored)),
            ("jpeg; quality 80", Jpeg, Some(Stored)),
            ("; jpeg compressed ", Jpeg, Some(Stored)),
            ("rgb8; jpeg compressed bgr8", Jpeg, Some(Stored)),
            ("rgba8; jpeg compressed bgr8", Jpeg, Some(Stored)),
            ("bgr8; png compressed bgr8", Png, Some(Stored)),
            ("bgr8; png compressed ", Png, Some(Stored)),
            ("rgb16; png compressed bgr16", Png, Some(Stored)),
            ("8UC3; jpeg compressed ", Jpeg, Some(Stored)),
            ("rgb8; png compressed rgb8", Png, Some(SwappedColors)),
            ("bgr8; jpeg compressed rgb8", Jpeg, Some(SwappedColors)),
            ("rgba8; png compressed rgba8", Png, Some(SwappedColors)),
            ("mono8; jpeg compressed ", Jpeg, Some(Stored)),
            ("mono8; jpeg compressed bgr8", Jpeg, Some(Stored)),
            ("mono16; png compressed ", Png, Some(Stored)),
            ("mono16; png compressed mono16", Png, Some(Stored)),
            ("8UC1; png compressed ", Png, Some(Stored)),
            ("bayer_rggb8; png compressed bayer_rggb8", Png, mosaic("bayer_rggb8")),
            ("bayer_bggr8; jpeg compressed ", Jpeg, mosaic("bayer_bggr8")),
            ("bayer_gbrg8;png compressed", Png, mosaic("bayer_gbrg8")),
            ("bayer_grbg8; jpeg compressed mono8", Jpeg, mosaic("bayer_grbg8")),
            ("bayer_grbg8", Png, mosaic("bayer_grbg8")),
            ("png; bayer_grbg8", Png, mosaic("bayer_grbg8")),
            ("jpeg bayer_rggb8", Jpeg, mosaic("bayer_rggb8")),
            ("; bayer_rggb8; png", Png, mosaic("bayer_rggb8")),
            ("png; bayer_rggb16", Png, None),
            ("png; 16UC1", Png, None),
            ("png; mono16", Png, Some(Stored)),
            ("png; rgb8", Png, Some(Stored)),
            ("jpeg; compressed rgb8", Jpeg, Some(SwappedColors)),
            ("nvjpeg", Jpeg, Some(Stored)),
            ("bayer_rggb8; jpeg compressed bgr8", Jpeg, Some(Colors)),
            ("bayer_rggb8; jpeg compressed rgb8", Jpeg, None),
            ("bayer_rggb8; png compressed bayer_bggr8", Png, None),
            ("bayer_rggb16; png compressed ", Png, None),
            ("bayer_rggb16", Png, None),
            ("bayer_rggb16; jpeg compressed bgr8", Jpeg, Some(Colors)),
            ("yuv422; jpeg compressed bgr8", Jpeg, Some(Colors)),
            ("yuv422_yuy2; jpeg compressed ", Jpeg, Some(Colors)),
            ("nv12; jpeg compressed nv12", Jpeg, Some(Colors)),
            ("yuv422; png compressed yuv422", Png, None),
            ("16UC1; png compressed ", Png, None),
            ("32FC1; png compressed ", Png, None),
            ("rgb9_unknown; jpeg compressed ", Jpeg, None),
            ("RGB8; JPEG Compressed BGR8", Jpeg, Some(Stored)),
            ("rgb8; jpeg compressed RGB8", Jpeg, Some(SwappedColors)),
            ("rgb8; jpeg compressed rgb8; quality 90", Jpeg, Some(SwappedColors)),
            ("rgb8;jpeg Compressed  rgb8 ", Jpeg, Some(SwappedColors)),
            ("png; BAYER_RGGB8", Png, None),
            ("png; BayerRG8", Png, None),
            ("png; 16uc1", Png, None),
        ];
        for (format, compression, expected) in cases {
            let found = CompressedImageFormat::parse(format).samples(compression);
            assert_eq!(found, expected, "{format:?}");
        }
    }
}
