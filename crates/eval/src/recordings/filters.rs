//! Which objects count.

use serde::Serialize;

use crate::{Filter2d, Filter3d};

/// Which objects count; `docs/evaluation.md` describes each.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Filters {
    /// Largest distance from the sensor in the plane, in metres.
    pub max_range_m: f64,
    /// Fewest points of a LiDAR on an object.
    pub min_points: u32,
    /// Fewest pixels of a camera on an object in space.
    pub min_pixels: u32,
    /// Least height of a box in an image, in pixels.
    pub min_height: f64,
    /// Smallest visible part of an object, 0 to 1.
    pub min_visibility: f64,
}

impl Default for Filters {
    fn default() -> Self {
        Self {
            max_range_m: 50.0,
            min_points: 5,
            min_pixels: 12,
            min_height: 12.0,
            min_visibility: 0.5,
        }
    }
}

impl Filters {
    /// For objects in space, at all ranges that count.
    pub fn in_space(&self) -> Filter3d {
        let Self { max_range_m, min_points, min_pixels, min_visibility, .. } = *self;
        Filter3d { min_range_m: 0.0, max_range_m, min_points, min_pixels, min_visibility }
    }

    /// For objects in images, at all heights that count.
    pub fn in_images(&self) -> Filter2d {
        let Self { min_height, min_visibility, .. } = *self;
        Filter2d { min_height, max_height: f64::INFINITY, min_visibility }
    }
}
