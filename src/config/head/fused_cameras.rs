//! Facts of the cameras of a network of cameras and LiDAR.

use crate::config::declaration::Change::Fixed;
use crate::config::inputs::MAX_INPUTS;
use crate::config::reader::Reader;
use crate::config::value::Length::Exactly;
use crate::config::value::{above, integer, list, number, whole};
use det_post_types::{PointRange, Size};

/// The cameras of a network that sees their images from above, beside the points (BEVFusion).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FusedCameraFacts {
    /// Number of cameras.
    pub num_cameras: usize,
    /// Size of the network's images.
    pub input_size: Size,
    /// From received images to the network's, which then are cut; `None`: as far as the input is filled.
    pub image_scale: Option<f32>,
    /// The first depth of a pixel, and from one to the next, in metres.
    pub depths_m: [f32; 2],
    /// The range of the map of the cameras.
    pub range: PointRange,
}

const CAMERAS: &str = "cameras";
const INPUT_SIZE: &str = "input_size";
const SCALE: &str = "image_scale";
const DEPTHS: &str = "depths_m";
const RANGE: &str = "camera_range_m";

impl FusedCameraFacts {
    /// `None` for a network without cameras.
    pub(super) fn read(p: &mut Reader<'_>) -> Option<Self> {
        let num_cameras = p.optional(
            CAMERAS,
            Fixed,
            integer(1..=MAX_INPUTS - 1),
            "none",
            "Cameras beside the LiDAR.",
        );
        let size = p.optional(
            INPUT_SIZE,
            Fixed,
            list(whole(1..=16384).in_unit("px"), Exactly(2)),
            "required with `cameras`",
            "Size of the network's images.",
        );
        let image_scale = p.optional(
            SCALE,
            Fixed,
            above(0.0, 16.0),
            "fills the input",
            "Resize before images are cut.",
        );
        let depths = p.optional(
            DEPTHS,
            Fixed,
            list(above(0.0, 1e4).in_unit("m"), Exactly(2)),
            "required with `cameras`",
            "First depth of a pixel, step to the next.",
        );
        let range = p.optional(
            RANGE,
            Fixed,
            list(number(-1e6..=1e6).in_unit("m"), Exactly(6)),
            "required with `cameras`",
            "Range of the cameras' map.",
        );
        let num_cameras = num_cameras?;
        for (key, is_missing) in
            [(INPUT_SIZE, size.is_none()), (DEPTHS, depths.is_none()), (RANGE, range.is_none())]
        {
            if is_missing && !p.is_manual() {
                p.problem(key, "is missing; it is required with `cameras`");
            }
        }
        let (size, range) = (size?, PointRange::from_bounds(range?.try_into().ok()?));
        if let Some(axis) = (0..3).find(|&axis| range.min[axis] >= range.max[axis]) {
            let (min, max) = (range.min[axis], range.max[axis]);
            p.refuse(RANGE, format!("{min} to {max}"), "least x, y, z below the greatest");
        }
        Some(Self {
            num_cameras,
            input_size: Size::new(size[0], size[1]),
            image_scale,
            depths_m: depths?.try_into().ok()?,
            range,
        })
    }
}
