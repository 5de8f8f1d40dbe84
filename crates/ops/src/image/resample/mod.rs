//! Resample: makes one image of a network's input from the image of a camera, undistorted,
//! resized, cropped and normalised in one pass from the wire encoding.
//!
//! A [`SampleMap`] holds the position in the image as received that each pixel of the
//! network's input shows, and the width of the filter. It is made once per calibration.
//! The images of several cameras are written side by side into one tensor `[N, 3, H, W]`.
//!
//! [`letterbox`](super::letterbox) is the operation for one camera without undistortion; its
//! bilinear interpolation reads two by two pixels.
//!
//! # Numbers
//! Positions have 16 fraction bits, rounded from f64 to nearest. The filter is a triangle: along
//! an axis, the pixel `k` has the weight `reach - |k - position|` where that is positive, in
//! units of 2^-16 and exact. `reach` is 1 for [`Resize::Bilinear`](det_post_types::Resize); for
//! [`Resize::Antialias`](det_post_types::Resize) it is the number of source pixels per network pixel, at least 1.
//! Pixels outside the image are left out: the sum of the weights is that of the others.
//!
//! All else is f32 in this order, without contraction:
//! 1. samples as f32, 0 to 255, as [`letterbox`](super::letterbox) converts them;
//! 2. for every column of the filter, `sum + weight * sample` from 0, rows ascending;
//! 3. `sum + weight * column` from 0, columns ascending;
//! 4. times `1 / (sum of row weights * sum of column weights)`, one division;
//! 5. `value * alpha + beta` of the plane;
//! 6. for f16 one rounding, to nearest even.
//!
//! A position more than half a pixel outside the image, and a pixel outside the content or
//! the camera's field of view, give `pad_value * alpha + beta`.
//!
//! Within 5e-3 of the same filter in f64 from unrounded positions, of 255, and therefore
//! within 1 of Pillow's bilinear `resize`, which rounds to 8 bits after each axis.
//!
//! In an undistorted image the filter has the width of the middle of the image
//! everywhere.

mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
mod kernels;
mod map;

use std::ops::Range;

pub use self::map::SampleMap;
use self::map::error;
use crate::image::planes::{Mapping, Planes};
use crate::image::wire::RgbRow;
use det_post_types::{ChannelOrder, Encoding, ImageView, Normalization, Result, Size, Tensor};

/// The format of a network's input images, apart from their size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResampleParams {
    /// Order of the planes.
    pub channel_order: ChannelOrder,
    /// Factor and offset per plane.
    pub normalization: Normalization,
    /// Value where the input shows nothing of the camera's image, 0 to 255 before normalisation, all
    /// planes.
    pub pad_value: f32,
}

impl ResampleParams {
    fn mapping(&self, encoding: Encoding) -> Mapping {
        Mapping::new(encoding, self.channel_order, self.normalization, self.pad_value)
    }
}

/// Row buffers, which grow at the first image of a size: later images of that size allocate
/// nothing.
#[derive(Debug, Default)]
pub struct Workspace {
    /// The filters of all columns.
    columns: Vec<Option<cpu::Column>>,
    /// The weights of those filters, one after the other.
    weights: Vec<f32>,
    /// Sums of the rows of a filter, a value per sample of a source row.
    row_sums: Vec<f32>,
    /// A source row that was converted.
    converted: RgbRow,
    /// A source image that was converted.
    rgb: Vec<u8>,
    unrounded: Vec<f32>,
}

impl Workspace {
    /// An empty workspace.
    pub fn new() -> Self {
        Self::default()
    }
}

/// Writes what `map` reads of `image` into image number `index` of `out`, a tensor
/// `[N, 3, height, width]` of the map's size. Every value of that image is written, the
/// others are left as they are.
///
/// # Errors
/// `Argument` when the image does not have the size that the map was made for, or `out` has no
/// image `index`.
pub fn resample(
    image: &ImageView<'_>,
    map: &SampleMap,
    params: &ResampleParams,
    workspace: &mut Workspace,
    index: usize,
    out: &mut Tensor,
) -> Result<()> {
    check_source(image.size(), map.source())?;
    let range = image_range(out.shape(), map.network(), index)?;
    let planes = match out {
        Tensor::F32 { values, .. } => values.get_mut(range).map(Planes::F32),
        Tensor::F16 { values, .. } => values.get_mut(range).map(Planes::F16),
    };
    let planes = planes.ok_or_else(|| error("output has fewer values than its shape".into()))?;
    cpu::resample(image, map, params, workspace, planes);
    Ok(())
}

fn check_source(found: Size, expected: Size) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(error(format!(
        "an image of {}x{} does not fit a map of images of {}x{}",
        found.width, found.height, expected.width, expected.height
    )))
}

/// The values of image `index` in a tensor `[N, 3, height, width]`, or `[1, N, ..]`.
fn image_range(shape: &[usize], network: Size, index: usize) -> Result<Range<usize>> {
    let (width, height) = (network.width as usize, network.height as usize);
    match *shape {
        [num, 3, h, w] | [1, num, 3, h, w] if index < num && (w, h) == (width, height) => {
            let len = 3 * width * height;
            Ok(index * len..(index + 1) * len)
        }
        _ => Err(error(format!(
            "output must be image {index} of [N, 3, {height}, {width}], found {shape:?}"
        ))),
    }
}

#[cfg(test)]
mod tests;
