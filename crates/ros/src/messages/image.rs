//! `sensor_msgs/Image` and `sensor_msgs/CompressedImage`.

use std::sync::atomic::{AtomicBool, Ordering};

use super::field::{Field, message, record};
use crate::cdr::{Reader, Writer};
use crate::messages::image_format::CompressedImageFormat;
use det_post_types::{
    CompressedFormat, CompressedView, Encoding, Error, ErrorKind, Header, ImageView, Result, Size,
};

/// The maximum length of an encoding or format, which errors quote.
const MAX_NAME_LEN: usize = 128;

fn check_name(name: &str, what: &str) -> Result<()> {
    if name.len() <= MAX_NAME_LEN {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Encoding,
        "image",
        format!("{what} of {} bytes exceeds the limit of {MAX_NAME_LEN}", name.len()),
    ))
}

/// `sensor_msgs/Image` as in the message, unchecked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Image<'a> {
    /// Stamp and frame.
    pub header: Header<'a>,
    /// Rows.
    pub height: u32,
    /// Pixels per row.
    pub width: u32,
    /// Name of the pixel format.
    pub encoding: &'a str,
    /// Whether samples of more than a byte are big endian.
    pub is_bigendian: bool,
    /// Bytes from one row to the next.
    pub step: u32,
    /// The pixels.
    pub data: &'a [u8],
}

impl<'a> Field<'a> for Image<'a> {
    const MIN_SIZE: usize = Header::MIN_SIZE + 4 * 4 + 1 + 4;

    fn read(reader: &mut Reader<'a>) -> Result<Self> {
        Ok(Self {
            header: Field::read(reader)?,
            height: reader.u32()?,
            width: reader.u32()?,
            encoding: reader.str()?,
            is_bigendian: reader.u8()? != 0,
            step: reader.u32()?,
            data: reader.bytes()?,
        })
    }

    fn write(&self, writer: &mut Writer<'_>) {
        self.write_up_to_pixels(writer);
        writer.bytes(self.data);
    }
}

message!(Image<'a>: "sensor_msgs/msg/Image");

impl<'a> Image<'a> {
    /// Appends everything up to the pixels and their number.
    fn write_up_to_pixels(&self, writer: &mut Writer<'_>) {
        self.header.write(writer);
        writer.u32(self.height);
        writer.u32(self.width);
        writer.str(self.encoding);
        writer.bool(self.is_bigendian);
        writer.u32(self.step);
    }

    /// Appends everything up to the data, which has `num_bytes` and follows.
    pub(crate) fn write_up_to_data(&self, num_bytes: usize, writer: &mut Writer<'_>) {
        self.write_up_to_pixels(writer);
        writer.sequence_len(num_bytes);
    }

    /// The pixels, checked.
    ///
    /// # Errors
    /// `Encoding` when the encoding is not supported, `Layout` when size, step and
    /// data contradict each other.
    pub fn view(&self) -> Result<ImageView<'a>> {
        check_name(self.encoding, "encoding")?;
        let encoding = Encoding::from_ros(self.encoding)?;
        if matches!(self.encoding, "8UC3" | "8UC4") {
            warn_of_order(self.encoding, encoding, self.header.frame_id);
        }
        ImageView::new(
            Size::new(self.width, self.height),
            self.step as usize,
            encoding,
            self.is_bigendian,
            self.data,
        )
    }
}

/// Says once that an encoding states no order of colours, and which one is taken.
fn warn_of_order(name: &str, encoding: Encoding, frame_id: &str) {
    static WARNED: AtomicBool = AtomicBool::new(false);
    if !WARNED.swap(true, Ordering::Relaxed) {
        let read = encoding.to_ros();
        tracing::warn!(
            "images of {frame_id}: the encoding {name} states no order of colours; read as {read}, the order of \
             cv_bridge. Publish {read} or rgb8"
        );
    }
}

record! {
    /// `sensor_msgs/CompressedImage` as in the message, unchecked.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct CompressedImage<'a> {
        /// Stamp and frame.
        pub header: Header<'a>,
        /// How the data is compressed, such as `jpeg` or
        /// `rgb8; jpeg compressed bgr8`.
        pub format: &'a str,
        /// The file.
        pub data: &'a [u8],
    }
}

message!(CompressedImage<'a>: "sensor_msgs/msg/CompressedImage");

impl<'a> CompressedImage<'a> {
    /// The file, its compression and the meaning of its samples. The signature of the file
    /// decides on the compression, else `format`; a difference between the two is in the view.
    /// The file itself is not decoded.
    ///
    /// # Errors
    /// `Encoding` when neither names JPEG or PNG, for `compressedDepth`, whose PNG is not an
    /// image, and for a `format` whose encoding is not supported.
    pub fn view(&self) -> Result<CompressedView<'a>> {
        check_name(self.format, "format")?;
        let format = CompressedImageFormat::parse(self.format);
        let detected = sniff(self.data);
        if let Some(kind) = other_kind(self.data).filter(|_| !format.is_depth) {
            let message = format!(
                "the format of the compressed image is {:?}, its file has the signature of {kind}; read are \
                 JPEG and PNG",
                self.format
            );
            return Err(Error::new(ErrorKind::Encoding, "image", message));
        }
        if !format.is_depth
            && let Some(compression) = detected.or(format.compression)
            && let Some(samples) = format.samples(compression)
        {
            let is_mislabelled =
                format.names_other || format.compression.is_some_and(|named| named != compression);
            return Ok(CompressedView {
                format: compression,
                samples,
                is_mislabelled,
                data: self.data,
            });
        }
        let message = format!(
            "compressed format {:?} is not supported; read are jpeg and png of the encodings \
             of raw images (docs/limits.md)",
            self.format
        );
        Err(Error::new(ErrorKind::Encoding, "image", message))
    }
}

/// The kind of a file of images that is not read, by its signature.
fn other_kind(data: &[u8]) -> Option<&'static str> {
    let is_riff = data.starts_with(b"RIFF") && data.get(8..12) == Some(b"WEBP");
    let box_kind = if data.get(4..8) == Some(b"ftyp") { data.get(8..12) } else { None };
    match data {
        _ if is_riff => Some("WebP"),
        [b'I', b'I', 42, 0, ..] | [b'M', b'M', 0, 42, ..] => Some("TIFF"),
        [b'B', b'M', ..] => Some("BMP"),
        [b'G', b'I', b'F', b'8', ..] => Some("GIF"),
        [0, 0, 0, 12, b'j', b'P', b' ', b' ', ..] | [0xff, 0x4f, 0xff, 0x51, ..] => {
            Some("JPEG 2000")
        }
        [0, 0, 0, 12, b'J', b'X', b'L', b' ', ..] | [0xff, 0x0a, ..] => Some("JPEG XL"),
        _ => match box_kind {
            Some(b"avif" | b"avis") => Some("AVIF"),
            Some(b"heic" | b"heix" | b"mif1") => Some("HEIF"),
            _ => None,
        },
    }
}

fn sniff(data: &[u8]) -> Option<CompressedFormat> {
    if data.starts_with(&[0xff, 0xd8, 0xff]) {
        Some(CompressedFormat::Jpeg)
    } else if data.starts_with(b"\x89PNG\r\n\x1a\n") {
        Some(CompressedFormat::Png)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use det_post_types::Stamp;

    const HEADER: Header<'_> =
        Header { stamp: Stamp::from_ros(1_700_000_000, 25), frame_id: "camera" };

    fn image(data: &[u8]) -> Image<'_> {
        Image {
            header: HEADER,
            height: 2,
            width: 3,
            encoding: "bgr8",
            is_bigendian: false,
            step: 10,
            data,
        }
    }

    #[test]
    fn names_of_opencv_mean_its_order_of_colours() {
        let data = [7; 24];
        for (encoding, step, expected) in [
            ("8UC3", 12, Encoding::Bgr8),
            ("8UC4", 12, Encoding::Bgra8),
            ("8UC1", 12, Encoding::Mono8),
        ] {
            let view = Image { encoding, step, ..image(&data) }.view().unwrap();
            assert_eq!(view.encoding(), expected, "{encoding}");
        }
        for encoding in ["8UC2", "8SC3", "16UC3", "32FC3"] {
            let error = Image { encoding, ..image(&data) }.view().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Encoding, "{encoding}");
        }
    }

    #[test]
    fn an_image_round_trips_and_is_borrowed() {
        let data: Vec<u8> = (0..19).collect();
        let mut bytes = Vec::new();
        image(&data).encode(&mut bytes).unwrap();
        let decoded = Image::decode(&bytes).unwrap();
        assert_eq!(decoded, image(&data));
        assert!(bytes.as_ptr_range().contains(&decoded.data.as_ptr()));
        let view = decoded.view().unwrap();
        assert_eq!((view.size(), view.step()), (Size::new(3, 2), 10));
        assert_eq!((view.encoding(), view.row(1)), (Encoding::Bgr8, &data[10..19]));
    }

    #[test]
    fn a_bad_image_is_refused_by_its_kind() {
        let data = [0; 19];
        let long = "x".repeat(MAX_NAME_LEN + 1);
        let cases = [
            (Image { encoding: "rgb9_unknown", ..image(&data) }, ErrorKind::Encoding),
            (Image { encoding: &long, ..image(&data) }, ErrorKind::Encoding),
            (Image { width: 0, ..image(&data) }, ErrorKind::Layout),
            (Image { height: 3, ..image(&data) }, ErrorKind::Layout),
            (Image { step: 8, ..image(&data) }, ErrorKind::Layout),
        ];
        for (image, kind) in cases {
            let error = image.view().unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
        }
    }

    #[test]
    fn a_compressed_image_round_trips() {
        let message = CompressedImage { header: HEADER, format: "jpeg", data: &[0xff, 0xd8, 3] };
        let mut bytes = Vec::new();
        message.encode(&mut bytes).unwrap();
        assert_eq!(CompressedImage::decode(&bytes).unwrap(), message);
    }

    #[test]
    fn a_big_endian_message_is_read_too() {
        let mut bytes = vec![0, 0, 0, 0];
        bytes.extend(1_700_000_000u32.to_be_bytes());
        bytes.extend(25u32.to_be_bytes());
        bytes.extend(7u32.to_be_bytes());
        bytes.extend(b"camera\0\0");
        bytes.extend(4u32.to_be_bytes());
        bytes.extend(b"png\0");
        bytes.extend(2u32.to_be_bytes());
        bytes.extend([8, 9, 0, 0]);
        let expected = CompressedImage { header: HEADER, format: "png", data: &[8, 9] };
        assert_eq!(CompressedImage::decode(&bytes).unwrap(), expected);
    }

    #[test]
    fn the_format_is_named_or_detected() {
        let jpeg: &[u8] = &[0xff, 0xd8, 0xff, 0xe0];
        let png: &[u8] = b"\x89PNG\r\n\x1a\n....";
        let (jpeg_format, png_format) = (Some(CompressedFormat::Jpeg), Some(CompressedFormat::Png));
        let cases = [
            ("jpeg", jpeg, jpeg_format),
            ("JPG", &[], jpeg_format),
            // The signature decides.
            ("jpeg", png, png_format),
            ("png", jpeg, jpeg_format),
            ("rgb8; jpeg compressed bgr8", png, png_format),
            ("image/jpeg", &[], jpeg_format),
            ("rgb8; jpeg compressed bgr8", &[], jpeg_format),
            ("bgr8; png compressed ", &[], png_format),
            ("", jpeg, jpeg_format),
            ("", png, png_format),
            ("bgr8", png, png_format),
            ("", b"GIF89a", None),
            ("", &[], None),
            ("webp", b"RIFF", None),
            ("jpeg", b"RIFF....WEBPVP8 ", None),
            ("png", b"II*\0....", None),
            ("jpeg", b"\0\0\0\x20ftypavif", None),
            ("webp", jpeg, jpeg_format),
            ("tiff", png, png_format),
            ("32FC1; compressedDepth png", png, None),
            ("16UC1; compressedDepth", jpeg, None),
            ("16UC1; png compressed ", png, None),
            ("bayer_rggb16; png compressed ", png, None),
        ];
        for (format, data, expected) in cases {
            let message = CompressedImage { header: HEADER, format, data };
            match (message.view(), expected) {
                (Ok(view), Some(expected)) => {
                    assert_eq!(view.format, expected, "{format}");
                    let names_jpeg = format.to_ascii_lowercase().contains("jp");
                    let names_other = matches!(format, "webp" | "tiff")
                        || match expected {
                            CompressedFormat::Jpeg => format.contains("png"),
                            CompressedFormat::Png => names_jpeg,
                        };
                    assert_eq!(view.is_mislabelled, names_other, "{format}");
                }
                (Err(error), None) => {
                    assert_eq!(error.kind(), ErrorKind::Encoding);
                    assert!(error.message().contains(&format!("{format:?}")), "{error}");
                }
                (found, _) => panic!("{format:?}: {found:?}"),
            }
        }
    }
}
