//! `CompressedPointCloud2`: its formats, and the bytes of its data.

use std::io::Read;

use super::codec::{Codecs, Fill, STAGE, contradicts, undecodable};
use super::{cloudini, draco};
use crate::messages::{CompressedPointCloud2, PointCloud2};
use det_post_types::{Error, ErrorKind, Result};
use flate2::bufread::{GzDecoder, ZlibDecoder};
use zstd::zstd_safe::get_frame_content_size;

/// The first bytes of a gzip file, which point_cloud_transport's `zlib` makes.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// The last bytes of a gzip file: its check sum and its length.
const GZIP_TAIL: usize = 8;

/// How the points of a `CompressedPointCloud2` are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloudFormat {
    /// `zlib`: deflate in gzip's container, as point_cloud_transport writes it, or in zlib's.
    Zlib,
    /// `zstd`.
    Zstd,
    /// `draco`.
    Draco,
    /// `cloudini`.
    Cloudini,
}

impl CloudFormat {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Zlib, Self::Zstd, Self::Draco, Self::Cloudini];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Zlib => "zlib",
            Self::Zstd => "zstd",
            Self::Draco => "draco",
            Self::Cloudini => "cloudini",
        }
    }

    /// The format that a message names; where it names none, the one of its first bytes.
    ///
    /// # Errors
    /// `Encoding` for another one.
    pub fn of(message: &CompressedPointCloud2<'_>) -> Result<Self> {
        let CompressedPointCloud2 { format, compressed_data, .. } = message;
        let named = Self::ALL.into_iter().find(|known| known.name() == *format);
        let signed = || format.is_empty().then(|| Self::by_signature(compressed_data)).flatten();
        named.or_else(signed).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            let message = format!(
                "a cloud of format {format:?}; allowed: {names}. `ros2 run point_cloud_transport republish` makes \
                 another format or a PointCloud2 of it"
            );
            Error::new(ErrorKind::Encoding, STAGE, message)
        })
    }

    fn by_signature(data: &[u8]) -> Option<Self> {
        let signatures: [(&[u8], Self); 4] = [
            (cloudini::MAGIC, Self::Cloudini),
            (b"DRACO", Self::Draco),
            (&GZIP_MAGIC, Self::Zlib),
            (&zstd::zstd_safe::MAGICNUMBER.to_le_bytes(), Self::Zstd),
        ];
        signatures.into_iter().find(|(magic, _)| data.starts_with(magic)).map(|(_, known)| known)
    }
}

/// A message and its format.
pub(super) struct Compressed<'a> {
    message: &'a CompressedPointCloud2<'a>,
    format: CloudFormat,
}

impl<'a> Compressed<'a> {
    pub(super) fn new(message: &'a CompressedPointCloud2<'a>) -> Result<Self> {
        let format = match CloudFormat::of(message) {
            // A cloud without points may have no payload, whatever its format.
            Err(_) if is_empty(message) => CloudFormat::Zlib,
            format => format?,
        };
        Ok(Self { message, format })
    }

    /// Bytes of the data.
    pub(super) fn num_bytes(&self) -> Result<usize> {
        let CompressedPointCloud2 { compressed_data: payload, row_step, height, .. } = self.message;
        if is_empty(self.message) {
            return Ok(0);
        }
        let claimed =
            || product([*row_step, *height]).map(|rows| rows.max(self.tight().unwrap_or(0)));
        match self.format {
            CloudFormat::Zlib => match payload.last_chunk().filter(|_| is_gzip(payload)) {
                Some(length) => Ok(u32::from_le_bytes(*length) as usize),
                None => claimed(),
            },
            CloudFormat::Zstd => match get_frame_content_size(payload) {
                Ok(Some(length)) => usize::try_from(length).map_err(|_| too_many()),
                Ok(None) => claimed(),
                Err(_) => Err(undecodable("the payload is no zstd frame")),
            },
            CloudFormat::Draco | CloudFormat::Cloudini => self.tight(),
        }
    }

    /// Bytes of all points.
    fn tight(&self) -> Result<usize> {
        let CompressedPointCloud2 { width, height, point_step, .. } = self.message;
        product([*width, *point_step])
            .and_then(|row| row.checked_mul(*height as usize).ok_or_else(too_many))
    }

    /// The message without its data. The decoders of points write rows without padding.
    pub(super) fn cloud(&self) -> PointCloud2<'a> {
        let CompressedPointCloud2 { header, height, width, fields, .. } = *self.message;
        let CompressedPointCloud2 { is_bigendian, point_step, row_step, is_dense, .. } =
            *self.message;
        let is_tight = matches!(self.format, CloudFormat::Draco | CloudFormat::Cloudini);
        let row_step = if is_tight { width.saturating_mul(point_step) } else { row_step };
        let (is_bigendian, data) = (is_bigendian && !is_tight, &[][..]);
        PointCloud2 {
            header,
            height,
            width,
            fields,
            is_bigendian,
            point_step,
            row_step,
            data,
            is_dense,
        }
    }
}

impl Fill for Compressed<'_> {
    fn fill(&self, codecs: &mut Codecs, data: &mut [u8]) -> Result<()> {
        let payload = self.message.compressed_data;
        if is_empty(self.message) {
            return Ok(());
        }
        match self.format {
            CloudFormat::Zlib if is_gzip(payload) => inflate(GzDecoder::new(payload), data),
            CloudFormat::Zlib => inflate(ZlibDecoder::new(payload), data),
            CloudFormat::Zstd => decompress_zstd(codecs, payload, data),
            CloudFormat::Draco => draco::decode(self.message, data),
            CloudFormat::Cloudini => cloudini::decode(self.message, codecs, data),
        }
    }
}

/// Whether a message has neither points nor a payload.
fn is_empty(message: &CompressedPointCloud2<'_>) -> bool {
    message.compressed_data.is_empty() && (message.width == 0 || message.height == 0)
}

fn is_gzip(payload: &[u8]) -> bool {
    payload.starts_with(&GZIP_MAGIC) && payload.len() >= GZIP_TAIL
}

fn product(factors: [u32; 2]) -> Result<usize> {
    let [a, b] = factors.map(|factor| factor as usize);
    a.checked_mul(b).ok_or_else(too_many)
}

fn too_many() -> Error {
    Error::new(ErrorKind::TooLarge, STAGE, "the cloud has more bytes than this machine counts")
}

/// Fills the data, and reads to the end, where the check sum is.
fn inflate(mut stream: impl Read, data: &mut [u8]) -> Result<()> {
    let failed = |error| undecodable("zlib").with_source(error);
    let mut filled = 0;
    while filled < data.len() {
        match stream.read(&mut data[filled..]).map_err(failed)? {
            0 => {
                let needed = data.len();
                return Err(contradicts(format!("zlib: {filled} bytes, the cloud has {needed}")));
            }
            num => filled += num,
        }
    }
    match stream.read(&mut [0]).map_err(failed)? {
        0 => Ok(()),
        _ => Err(contradicts(format!("zlib: the data exceeds the {filled} bytes of the cloud"))),
    }
}

fn decompress_zstd(codecs: &mut Codecs, payload: &[u8], data: &mut [u8]) -> Result<()> {
    let failed = |error| undecodable("zstd").with_source(error);
    let num = codecs.zstd.decompress(payload, data).map_err(failed)?;
    match num == data.len() {
        true => Ok(()),
        false => Err(contradicts(format!("zstd: {num} bytes, the cloud has {}", data.len()))),
    }
}
