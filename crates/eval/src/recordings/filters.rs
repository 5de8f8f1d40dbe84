//! Which objects count.

use serde::Serialize;

use crate::eval::{Filter2d, Filter3d};

/// Which objects count; `docs/evaluation.md` describes each.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Filters {
    pub(crate) max_range_m: f64,
    pub(crate) min_points: u32,
    pub(crate) min_pixels: u32,
    pub(crate) min_height: f64,
    pub(crate) min_visibility: f64,
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
    pub(crate) fn in_space(&self) -> Filter3d {
        let Self { max_range_m, min_points, min_pixels, min_visibility, .. } = *self;
        Filter3d { min_range_m: 0.0, max_range_m, min_points, min_pixels, min_visibility }
    }

    /// For objects in images, at all heights that count.
    pub(crate) fn in_images(&self) -> Filter2d {
        let Self { min_height, min_visibility, .. } = *self;
        Filter2d { min_height, max_height: f64::INFINITY, min_visibility }
    }
}
