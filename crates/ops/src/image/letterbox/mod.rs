//! Letterbox: resizes and normalises the image of a message to a network's input.
//!
//! One pass from the wire encoding through the affine of [`Letterbox`] with the filter of
//! [`Resize`], channel order and normalisation to planar f32 or f16. The source is
//! never converted as a whole: packed colours are read in place, of other encodings
//! the rows in use are converted.
//!
//! # Numbers
//! With `C` pixels of content and `S` pixels of the source along an axis, the source
//! position of pixel `i` of the content is `(i + 0.5) * S / C - 0.5`. It is computed
//! exactly, in integers: `n = (2 i + 1) S - C`, first pixel `n / 2C` (floor), weight of
//! the second pixel `(n mod 2C) / 2C`, one f32 division. Positions before the centre of
//! the first pixel or after that of the last one are clamped to it.
//!
//! All else is f32 in this order, without contraction, where
//! `mix(a, b, w) = a + (b - a) * w`:
//! 1. samples as f32, 0 to 255; of `mono16` the 16-bit value divided by 257;
//! 2. `mix` of the upper and the lower row, then `mix` of left and right;
//! 3. `value * alpha + beta` of the plane;
//! 4. for f16 one rounding, to nearest even.
//!
//! Content outside the network's input ([`Placement::CropTop`]) is not computed. Pixels
//! outside the content are `pad_value * alpha + beta`. A pixel whose weights
//! are both 0 equals its source pixel; an image of one colour keeps it exactly.
//!
//! Conversions, to 8 bits per colour before step 1:
//! - YUV: BT.601 limited range in 20-bit fixed point with rounding; U and V are not
//!   interpolated between the pixels that share them. Equal to OpenCV's `cvtColor`,
//!   which has the same constants.
//! - Bayer: bilinear. The two or four nearest samples of a missing colour are
//!   averaged, halves rounded up. Equal to OpenCV's `cvtColor` inside the image; at the
//!   border rows and columns are mirrored without repeating the outermost one, where
//!   OpenCV copies the neighbour's result.
//! - `mono8` and `mono16` fill all three planes.
//!
//! Within 1 of `cv2.resize` of an 8-bit image, which rounds weights to 11 bits and the
//! result to integers, and within 1e-4 of `cv2.resize` of the same image as f32. As
//! with `INTER_LINEAR`, shrinking averages at most 2x2 pixels.

//!
//! # Antialiasing
//! [`Resize::Antialias`] weights source pixel `k` by a triangle round the position: with
//! `d = |(2 k + 1) C - (2 i + 1) S|` and `D = 2 max(S, C)` its weight is `(D - d) / sum`, where
//! `d < D`, and `sum` adds these `D - d`; numerators and sums are exact. Steps 1, 3
//! and 4 are the same. In place of step 2, columns are summed first, then rows, both in ascending
//! order from 0, `sum + weight * value`; a weight is `f32(D - d) * (1 / f32(sum))`. The normalisation is
//! linear: before the filter or after it, results differ by rounding. Within 1e-4 of 255 of the
//! filter in f64, as Pillow and `antialias=True` of PyTorch compute it.
//!
//! [`Resize::Antialias8Bit`] takes samples rounded to 8 bits (`mono16`), weights rounded to whole
//! units of 2^-22, and rounds the sums of columns, then the sums of rows to 8 bits, half up: the
//! numbers of Pillow's `resize` with `BILINEAR`. Where enlarged, both are the bilinear filter.

mod antialias;
mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
pub(crate) mod kernels;

use crate::image::planes::Mapping;
use crate::image::wire;
use det_post_types::{
    ChannelOrder, Encoding, Error, ErrorKind, ImageView, Letterbox, Normalization, Placement,
    Resize, Result, Size, Tensor,
};

/// The format of a network's input, apart from its size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LetterboxParams {
    /// Position of the image in the input.
    pub placement: Placement,
    /// Order of the planes.
    pub channel_order: ChannelOrder,
    /// Factor and offset per plane.
    pub normalization: Normalization,
    /// Value around the content, 0 to 255 before normalisation, all planes.
    pub pad_value: f32,
    /// The filter.
    pub resize: Resize,
}

impl LetterboxParams {
    fn mapping(&self, encoding: Encoding) -> Mapping {
        Mapping::new(encoding, self.channel_order, self.normalization, self.pad_value)
    }
}

/// Row buffers and column tables, which grow at the first image of a size: later images
/// of that size allocate nothing.
#[derive(Debug, Default)]
pub struct Workspace {
    columns: Vec<cpu::Tap>,
    blended: Vec<f32>,
    converted: [wire::RgbRow; 2],
    unrounded: Vec<f32>,
    antialias: antialias::Memory<antialias::Unrounded>,
    antialias_8bit: antialias::Memory<antialias::Rounded>,
}

impl Workspace {
    /// An empty workspace.
    pub fn new() -> Self {
        Self::default()
    }
}

/// Writes `image` into `out`, a tensor `[1, 3, height, width]`, and returns its
/// placement, which [`Letterbox::source_from_network`] inverts. Every value of `out` is
/// written.
///
/// # Errors
/// `Argument` when `out` is not `[1, 3, height, width]` with sides of 1 to
/// [`ImageView::MAX_SIDE`], the number of its values differs from its shape, or a side of
/// the whole content exceeds [`ImageView::MAX_SIDE`].
pub fn letterbox(
    image: &ImageView<'_>,
    params: &LetterboxParams,
    workspace: &mut Workspace,
    out: &mut Tensor,
) -> Result<Letterbox> {
    let network = network_size(out.shape())?;
    let num_values = out.view().values().len();
    if num_values != out.shape().iter().product::<usize>() {
        let message = format!("output {:?} has {num_values} values", out.shape());
        return Err(Error::new(ErrorKind::Argument, "letterbox", message));
    }
    let placed = place(image.size(), network, params.placement)?;
    let Workspace { unrounded, antialias, antialias_8bit, .. } = workspace;
    match params.resize {
        Resize::Bilinear => cpu::letterbox(image, params, &placed, workspace, out),
        Resize::Antialias => {
            antialias::letterbox(image, params, &placed, (antialias, unrounded), out);
        }
        Resize::Antialias8Bit => {
            antialias::letterbox(image, params, &placed, (antialias_8bit, unrounded), out);
        }
    }
    Ok(placed)
}

/// The placement, where the kernels' whole numbers hold its content.
fn place(source: Size, network: Size, placement: Placement) -> Result<Letterbox> {
    let placed = Letterbox::new(source, network, placement);
    let Size { width, height } = placed.content;
    if width.max(height) <= ImageView::MAX_SIDE {
        return Ok(placed);
    }
    let message = format!(
        "{}x{} pixels resized to cover {}x{} have {width}x{height}; sides must be at most {}",
        source.width,
        source.height,
        network.width,
        network.height,
        ImageView::MAX_SIDE
    );
    Err(Error::new(ErrorKind::Argument, "letterbox", message))
}

fn network_size(shape: &[usize]) -> Result<Size> {
    let sides = 1..=ImageView::MAX_SIDE as usize;
    match *shape {
        [1, 3, height, width] if sides.contains(&height) && sides.contains(&width) => {
            Ok(Size::new(width as u32, height as u32))
        }
        _ => Err(Error::new(
            ErrorKind::Argument,
            "letterbox",
            format!(
                "output must be [1, 3, height, width] with sides of 1 to {}, found {shape:?}",
                ImageView::MAX_SIDE
            ),
        )),
    }
}

#[cfg(test)]
mod antialias_tests;
#[cfg(test)]
mod tests;
