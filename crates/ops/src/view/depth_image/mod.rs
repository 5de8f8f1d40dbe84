//! Images of the depths of points, which networks with cameras and LiDAR take beside the images
//! (the depth transform of BEVFusion).
//!
//! Out `[views, 1, height, width]` of f32: the depth in metres of the nearest point of each pixel, 0
//! where there is none. A point is in the pixel (u, v) of a view, both truncated, where
//! `(u z, v z, z) = M (x, y, z, 1)`, each row `((m0 x + m1 y) + m2 z) + m3` in f32, then divided by z:
//! 0 <= u < width, 0 <= v < height, z above [`MIN_DEPTH_M`]. Points outside a range are left out, as are
//! points that fail a comparison because they are not finite; a view that is missing has no points.
//!
//! The order of the points has no effect. CPU and CUDA are equal, bit for bit. The published networks
//! keep any one of the points of a pixel, and on a GPU another one from run to run.
//!
//! Source: Liu et al., "BEVFusion" (ICRA 2023).

mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
mod kernels;

use det_post_types::{Error, ErrorKind, PointRange, Points, Result, Size, Tensor};

/// Depths up to this one are not seen.
pub const MIN_DEPTH_M: f32 = 1e-5;

/// The most views.
pub const MAX_VIEWS: usize = 16;

/// A view of the points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DepthView {
    /// From points (x, y, z, 1) to (u z, v z, z) in pixels.
    pub pixels_from_points: [[f32; 4]; 3],
    /// Whether there is an image of the view.
    pub is_present: bool,
}

impl DepthView {
    /// A view that is missing.
    pub const MISSING: Self = Self { pixels_from_points: [[0.0; 4]; 3], is_present: false };
}

/// What the images are made by.
#[derive(Clone, Debug, PartialEq)]
pub struct DepthImageParams {
    /// Size of the images.
    pub size: Size,
    /// Outside of it points are left out; the high end is outside.
    pub range: PointRange,
    /// The views, at most [`MAX_VIEWS`].
    pub views: Vec<DepthView>,
}

impl DepthImageParams {
    /// `[views, 1, height, width]`.
    pub fn shape(&self) -> [usize; 4] {
        [self.views.len(), 1, self.size.height as usize, self.size.width as usize]
    }

    fn check(&self, found: &[usize]) -> Result<()> {
        let expected = self.shape();
        let num = self.views.len();
        if num == 0 || num > MAX_VIEWS || expected.contains(&0) {
            return argument(format!(
                "{num} views of {}x{}: 1 to {MAX_VIEWS} views of images with pixels are required",
                self.size.width, self.size.height
            ));
        }
        if *found != expected {
            return argument(format!("the images are {found:?}: {expected:?} is required"));
        }
        Ok(())
    }
}

/// Writes all values of `out`, f32 of the shape of the parameters.
///
/// # Errors
/// `Argument` for no or too many views, or a tensor that is not f32 of this shape.
pub fn depth_image(points: &Points, params: &DepthImageParams, out: &mut Tensor) -> Result<()> {
    params.check(out.shape())?;
    match out {
        Tensor::F32 { values, .. } => cpu::depth_image(points, params, values),
        Tensor::F16 { .. } => return argument("the images are f16: f32 is required".into()),
    }
    Ok(())
}

fn argument<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Argument, "depth_image", message))
}

#[cfg(test)]
mod tests;
