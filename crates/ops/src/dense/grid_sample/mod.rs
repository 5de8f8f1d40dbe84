//! Maps sampled at places that a grid names: ONNX's `GridSample` of maps, torch's `grid_sample`.
//!
//! The input is `[N, C, H, W]`, the grid `[N, rows, columns, 2]` with x, then y, from -1 to 1; the
//! output is `[N, C, rows, columns]`. A place is `((g + 1) * size - 1) / 2`, with aligned corners
//! `(g + 1) / 2 * (size - 1)`, in f32. With [`Padding::Border`] it is limited to the map. `Linear`
//! adds the values of the four corners in row-major order, `fma(value, weight, sum)` from +0 with
//! `weight = down * across`; a corner outside the map is left out. `Nearest` rounds half to even. A
//! place that is no number is outside; at the border it is 0. CPU and CUDA are equal.
//!
//! Not here: cubic interpolation, reflection.

mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
mod kernels;
#[cfg(test)]
mod tests;

pub use cpu::grid_sample;

use super::Region;
use det_post_types::{Error, ErrorKind, Result};

/// What is taken at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// The nearest value.
    Nearest,
    /// The values around it, blended.
    Linear,
}

/// What is beyond the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    /// 0.
    Zeros,
    /// The value at the border.
    Border,
}

/// A sampling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GridSample {
    /// What is taken.
    pub method: Method,
    /// What is beyond the map.
    pub padding: Padding,
    /// Whether -1 and 1 are the centres of the outer values, not their edges.
    pub aligns_corners: bool,
}

/// The dims of a sampling.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    from: [usize; 4],
    to: [usize; 4],
}

impl GridSample {
    fn check(&self, input: &Region, grid: &Region, output: &Region) -> Result<Sizes> {
        let regions = [input, grid, output];
        if let [Ok(from), Ok(grid), Ok(to)] =
            regions.map(|region| <[usize; 4]>::try_from(region.window.dims()))
        {
            // f32 has all these coordinates.
            let is_size = |size: &usize| (1..=1 << 24).contains(size);
            let fits = grid == [to[0], to[2], to[3], 2]
                && from[..2] == to[..2]
                && (from[2..].iter().all(is_size) || to.contains(&0));
            if fits {
                return Ok(Sizes { from, to });
            }
        }
        let [from, grid, to] = regions.map(|region| region.window.dims());
        let message = format!(
            "from {from:?} by {grid:?} to {to:?}: [N, C, H, W], [N, rows, columns, 2] and \
             [N, C, rows, columns] are required"
        );
        Err(Error::new(ErrorKind::Argument, "grid_sample", message))
    }
}
