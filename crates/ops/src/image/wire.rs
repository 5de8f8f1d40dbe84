//! Source rows as samples that can be interpolated.

use multiversion::multiversion;

use det_post_types::{ChannelOrder, Encoding, ImageView, Size};

/// A source row, with [`num_channels`] samples per pixel.
pub(crate) enum Row<'a> {
    /// 8-bit samples.
    Bytes(&'a [u8]),
    /// 16-bit samples.
    Words(&'a [u8], ByteOrder),
}

/// The byte order of a 16-bit sample.
#[derive(Clone, Copy)]
pub(crate) enum ByteOrder {
    /// Low byte first.
    Little,
    /// High byte first.
    Big,
}

impl ByteOrder {
    /// The value of a 16-bit sample, in units of 8 bits.
    #[inline(always)]
    pub(crate) fn value(self, bytes: [u8; 2]) -> f32 {
        let sample = match self {
            Self::Little => u16::from_le_bytes(bytes),
            Self::Big => u16::from_be_bytes(bytes),
        };
        f32::from(sample) / 257.0
    }
}

/// A row converted to RGB, and its position.
#[derive(Debug, Default)]
pub(crate) struct RgbRow {
    y: Option<u32>,
    rgb: Vec<u8>,
}

impl RgbRow {
    /// Whether this is row `y` of the current image.
    pub(crate) fn is(&self, y: u32) -> bool {
        self.y == Some(y)
    }

    /// Invalidates the row before another image.
    pub(crate) fn clear(&mut self) {
        self.y = None;
    }
}

/// Samples per pixel of a [`Row`].
pub(crate) fn num_channels(encoding: Encoding) -> usize {
    match encoding {
        Encoding::Mono8 | Encoding::Mono16 => 1,
        Encoding::Rgba8 | Encoding::Bgra8 => 4,
        _ => 3,
    }
}

/// Order of the first three samples of a pixel.
pub(crate) fn channel_order(encoding: Encoding) -> ChannelOrder {
    match encoding {
        Encoding::Bgr8 | Encoding::Bgra8 => ChannelOrder::Bgr,
        _ => ChannelOrder::Rgb,
    }
}

/// Row `y`: borrowed from the image, or converted into `converted` unless it is there
/// already.
pub(crate) fn row<'a>(image: &ImageView<'a>, y: u32, converted: &'a mut RgbRow) -> Row<'a> {
    let index = y as usize;
    match SampleType::of(image) {
        SampleType::Bytes => return Row::Bytes(image.row(index)),
        SampleType::Words(order) => return Row::Words(image.row(index), order),
        SampleType::Converted => {}
    }
    if !converted.is(y) {
        converted.rgb.resize(3 * image.size().width as usize, 0);
        convert(image, index, &mut converted.rgb);
        converted.y = Some(y);
    }
    Row::Bytes(&converted.rgb)
}

/// How the samples of an image can be read.
enum SampleType {
    /// In place, 8-bit samples.
    Bytes,
    /// In place, 16-bit samples.
    Words(ByteOrder),
    /// After conversion to RGB.
    Converted,
}

impl SampleType {
    fn of(image: &ImageView<'_>) -> Self {
        match image.encoding() {
            Encoding::Rgb8
            | Encoding::Bgr8
            | Encoding::Rgba8
            | Encoding::Bgra8
            | Encoding::Mono8 => Self::Bytes,
            Encoding::Mono16 if image.is_big_endian() => Self::Words(ByteOrder::Big),
            Encoding::Mono16 => Self::Words(ByteOrder::Little),
            _ => Self::Converted,
        }
    }
}

/// All rows of an image: `samples`, with `step` bytes from row to row.
pub(crate) struct Rows<'a> {
    /// The samples.
    pub(crate) samples: Row<'a>,
    /// Bytes from row to row.
    pub(crate) step: usize,
}

/// The rows of an image, read in place or converted as a whole into `rgb`, which grows to the
/// image's size.
pub(crate) fn rows<'a>(image: &ImageView<'a>, rgb: &'a mut Vec<u8>) -> Rows<'a> {
    let samples = match SampleType::of(image) {
        SampleType::Bytes => Row::Bytes(image.data()),
        SampleType::Words(order) => Row::Words(image.data(), order),
        SampleType::Converted => {
            let Size { width, height } = image.size();
            let step = 3 * width as usize;
            rgb.resize(step * height as usize, 0);
            for (y, row) in rgb.chunks_exact_mut(step).enumerate() {
                convert(image, y, row);
            }
            return Rows { samples: Row::Bytes(rgb), step };
        }
    };
    Rows { samples, step: image.step() }
}

#[multiversion(targets("x86_64+avx2"))]
fn convert(image: &ImageView<'_>, y: usize, rgb: &mut [u8]) {
    let chroma_row = || image.row(image.size().height as usize + y / 2);
    match image.encoding() {
        Encoding::Uyvy => pairs(rgb, image.row(y), |&[u, a, v, b]: &[u8; 4]| (a, b, u, v)),
        Encoding::Yuy2 => pairs(rgb, image.row(y), |&[a, u, b, v]: &[u8; 4]| (a, b, u, v)),
        Encoding::Nv12 => planar_pairs(rgb, image.row(y), chroma_row(), |[u, v]| (u, v)),
        Encoding::Nv21 => planar_pairs(rgb, image.row(y), chroma_row(), |[v, u]| (u, v)),
        Encoding::BayerRggb8 => demosaic(image, y, &Mosaic { first: RED, chroma_x: 0 }, rgb),
        Encoding::BayerBggr8 => demosaic(image, y, &Mosaic { first: BLUE, chroma_x: 0 }, rgb),
        Encoding::BayerGbrg8 => demosaic(image, y, &Mosaic { first: BLUE, chroma_x: 1 }, rgb),
        Encoding::BayerGrbg8 => demosaic(image, y, &Mosaic { first: RED, chroma_x: 1 }, rgb),
        Encoding::Rgb8
        | Encoding::Bgr8
        | Encoding::Rgba8
        | Encoding::Bgra8
        | Encoding::Mono8
        | Encoding::Mono16 => {}
    }
}

#[inline(always)]
fn pairs(rgb: &mut [u8], row: &[u8], split: impl Fn(&[u8; 4]) -> (u8, u8, u8, u8)) {
    let (pixels, _) = rgb.as_chunks_mut::<6>();
    for (pixels, packed) in pixels.iter_mut().zip(row.as_chunks().0) {
        let (a, b, u, v) = split(packed);
        *pixels = rgb_of_pair(a, b, u, v);
    }
}

#[inline(always)]
fn planar_pairs(rgb: &mut [u8], luma: &[u8], chroma: &[u8], split: impl Fn([u8; 2]) -> (u8, u8)) {
    let (pixels, _) = rgb.as_chunks_mut::<6>();
    let pairs = luma.as_chunks().0.iter().zip(chroma.as_chunks().0);
    for (pixels, (&[a, b], &chroma)) in pixels.iter_mut().zip(pairs) {
        let (u, v) = split(chroma);
        *pixels = rgb_of_pair(a, b, u, v);
    }
}

/// BT.601 limited range: 1.164, 1.596, 0.813, 0.391 and 2.018 times 2^20, as
/// OpenCV rounds them.
const LUMA: i32 = 1_220_542;
const RED_OF_V: i32 = 1_673_527;
const GREEN_OF_V: i32 = -852_492;
const GREEN_OF_U: i32 = -409_993;
const BLUE_OF_U: i32 = 2_116_026;
const FRACTION_BITS: u32 = 20;

/// Two pixels that share one U and one V.
#[inline(always)]
fn rgb_of_pair(a: u8, b: u8, u: u8, v: u8) -> [u8; 6] {
    const HALF: i32 = 1 << (FRACTION_BITS - 1);
    let (u, v) = (i32::from(u) - 128, i32::from(v) - 128);
    let chroma =
        [HALF + RED_OF_V * v, HALF + GREEN_OF_V * v + GREEN_OF_U * u, HALF + BLUE_OF_U * u];
    let pixel = |luma: u8| {
        let luma = (i32::from(luma) - 16).max(0) * LUMA;
        chroma.map(|chroma| ((luma + chroma) >> FRACTION_BITS).clamp(0, 255) as u8)
    };
    let ([r0, g0, b0], [r1, g1, b1]) = (pixel(a), pixel(b));
    [r0, g0, b0, r1, g1, b1]
}

const RED: usize = 0;
const GREEN: usize = 1;
const BLUE: usize = 2;

/// A Bayer pattern by its first row: the colour beside green, and the parity of its
/// columns. The second row has the other colour in the other columns.
struct Mosaic {
    first: usize,
    chroma_x: usize,
}

#[inline(always)]
fn demosaic(image: &ImageView<'_>, y: usize, mosaic: &Mosaic, rgb: &mut [u8]) {
    let odd = y % 2;
    let own = if odd == 0 { mosaic.first } else { BLUE - mosaic.first };
    let chroma_x = (mosaic.chroma_x + odd) % 2;
    let [above, below] = mirrored(y, image.size().height as usize).map(|y| image.row(y));
    let row = image.row(y);
    let mean2 = |a: u8, b: u8| ((u16::from(a) + u16::from(b) + 1) >> 1) as u8;
    let mean4 = |[a, b, c, d]: [u8; 4]| {
        ((u16::from(a) + u16::from(b) + u16::from(c) + u16::from(d) + 2) >> 2) as u8
    };
    let (pixels, _) = rgb.as_chunks_mut::<3>();
    for (x, pixel) in pixels.iter_mut().enumerate() {
        let [left, right] = mirrored(x, row.len());
        if x % 2 == chroma_x {
            pixel[own] = row[x];
            pixel[GREEN] = mean4([above[x], below[x], row[left], row[right]]);
            pixel[BLUE - own] = mean4([above[left], above[right], below[left], below[right]]);
        } else {
            pixel[own] = mean2(row[left], row[right]);
            pixel[GREEN] = row[x];
            pixel[BLUE - own] = mean2(above[x], below[x]);
        }
    }
}

/// The neighbours of `i` in `0..len`, mirrored at both ends; `len` is at
/// least 2.
fn mirrored(i: usize, len: usize) -> [usize; 2] {
    [if i == 0 { 1 } else { i - 1 }, if i + 1 == len { len - 2 } else { i + 1 }]
}
