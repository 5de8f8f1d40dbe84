//! Maps `[N, C, H, W]` of another size: ONNX's `Resize` of rows and columns, by the nearest value
//! or linear interpolation.
//!
//! The place of an output coordinate in the input is computed in f32, in the order written at
//! [`Coordinates`], with the scale of the axis (output over input). [`Method::Nearest`] rounds it
//! and takes the value there; what is beyond the map is its border. [`Method::Linear`] limits it to
//! the map and blends along rows, then the two rows: `a + (b - a) * w`. Values are copied or
//! blended in f32. CPU and CUDA are equal.
//!
//! Not here: cubic interpolation, `tf_crop_and_resize`, `antialias`, `exclude_outside`.

mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
mod kernels;
#[cfg(test)]
mod tests;

pub use cpu::resize;

use super::Region;
use det_post_types::{Error, ErrorKind, Result};

/// The place in the input of an output coordinate `x`, by the names of ONNX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coordinates {
    /// `(x + 0.5) / scale - 0.5`.
    HalfPixel,
    /// `shift + (x + 0.5) / scale - 0.5`, where the shift centres the output in the input if the
    /// scale is not exactly output over input.
    HalfPixelSymmetric,
    /// As `HalfPixel`, 0 where the output has one coordinate.
    PytorchHalfPixel,
    /// `x * (input - 1) / (output - 1)`, 0 where the output has one coordinate.
    AlignCorners,
    /// `x / scale`.
    Asymmetric,
}

/// How a place between coordinates is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nearest {
    /// To the nearest; halves down.
    RoundPreferFloor,
    /// To the nearest; halves up.
    RoundPreferCeil,
    /// Down.
    Floor,
    /// Up.
    Ceil,
}

/// What becomes of the values around a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// The nearest is taken.
    Nearest(Nearest),
    /// The four around it are blended.
    Linear,
}

/// A change of size. Pairs are rows and columns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resize {
    /// The places of coordinates.
    pub coordinates: Coordinates,
    /// What is taken there.
    pub method: Method,
    /// As the node has them; `None`: output over input.
    pub scales: Option<[f32; 2]>,
}

/// A checked change of size: an axis each, rows and columns.
#[derive(Clone, Copy, Debug)]
struct Checked {
    from: [usize; 4],
    to: [usize; 4],
    scales: [f32; 2],
    /// Of [`Coordinates::HalfPixelSymmetric`].
    shifts: [f32; 2],
}

impl Resize {
    fn check(&self, input: &Region, output: &Region) -> Result<Checked> {
        let (from, to) = (input.window.dims(), output.window.dims());
        let refused = || {
            let message = format!(
                "{self:?} from {from:?} to {to:?}: maps [N, C, H, W] of equal N and C, at most \
                 2^24 rows and columns and scales above 0 are required"
            );
            Error::new(ErrorKind::Argument, "resize", message)
        };
        let (Ok(from), Ok(to)) = (<[usize; 4]>::try_from(from), <[usize; 4]>::try_from(to)) else {
            return Err(refused());
        };
        let of_sizes = [2, 3].map(|axis| to[axis] as f32 / from[axis] as f32);
        let scales = self.scales.unwrap_or(of_sizes);
        let shifts = [0, 1].map(|axis| {
            let [size, found] = [from[axis + 2], to[axis + 2]].map(|size| size as f32);
            let adjustment = found / (scales[axis] * size);
            size / 2.0 * (1.0 - adjustment)
        });
        // f32 has all these coordinates.
        let is_size = |size: &usize| (1..=1 << 24).contains(size);
        let fits = from[..2] == to[..2]
            && (from[2..].iter().chain(&to[2..]).all(is_size) || to.contains(&0))
            && (scales.iter().all(|&scale| scale > 0.0 && scale.is_finite()) || to.contains(&0));
        fits.then_some(Checked { from, to, scales, shifts }).ok_or_else(refused)
    }
}
