//! Projection of points into a view.

use det_post_types::{Error, ErrorKind, Result};

/// From a point to its place in a view: rows of `[3, 4]` that give `u * depth`,
/// `v * depth` and the depth in metres, with u and v in fractions of the image's
/// width and height.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Projection {
    rows: [[f32; 4]; 3],
}

/// A point in a view.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Projected {
    /// Fractions of the image's width and height.
    pub at: [f32; 2],
    /// Depth in metres.
    pub depth_m: f32,
    /// Whether the view sees the point.
    pub is_seen: bool,
}

impl Projection {
    /// A view that sees nothing: every depth is -1.
    pub const UNSEEN: Self = Self { rows: [[0.0; 4], [0.0; 4], [0.0, 0.0, 0.0, -1.0]] };

    /// From the upper rows of a matrix that gives `(u * z, v * z, z)` in pixels of a
    /// image of `[width, height]`. Divided in f64, rounded once.
    ///
    /// # Errors
    /// `Argument` when the image has no area, or the result is not finite.
    pub fn new(pixels_from_base: &[[f64; 4]; 3], size: [u32; 2]) -> Result<Self> {
        let [a, b, depth] = pixels_from_base;
        let [width, height] = size.map(f64::from);
        let rows = [a.map(|x| x / width), b.map(|x| x / height), *depth];
        let rows = rows.map(|row| row.map(|x| x as f32));
        if !rows.as_flattened().iter().all(|x| x.is_finite()) {
            let message =
                format!("{pixels_from_base:?} of {size:?} pixels is no finite projection");
            return Err(Error::new(ErrorKind::Argument, "view_sample", message));
        }
        Ok(Self { rows })
    }

    /// The rows.
    pub fn rows(&self) -> &[[f32; 4]; 3] {
        &self.rows
    }

    /// Projects a point; it is seen at depths above `min_depth_m`.
    #[inline]
    pub fn project(&self, [x, y, z]: [f32; 3], min_depth_m: f32) -> Projected {
        let [a, b, depth_m] = self.rows.map(|[m0, m1, m2, m3]| ((m0 * x + m1 * y) + m2 * z) + m3);
        // Not `f32::max`, which would turn a NaN into the least depth.
        let divisor = if depth_m < min_depth_m { min_depth_m } else { depth_m };
        let [u, v] = [a / divisor, b / divisor];
        let is_seen = depth_m > min_depth_m && u > 0.0 && u < 1.0 && v > 0.0 && v < 1.0;
        Projected { at: [u, v], depth_m, is_seen }
    }
}
