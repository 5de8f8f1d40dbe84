//! Six cameras of 736 x 288 in a ring, and their feature maps: 256 channels, four levels.

use half::f16;

use crate::bench::inputs::Random;
use det_post_infer::view_decoder::View;
use det_post_ops::view::sample::{FeatureLevel, FeatureMaps, Texels};
use det_post_types::Result;

pub(super) const NUM_VIEWS: usize = 6;
pub(super) const CHANNELS: usize = 256;
pub(super) const IMAGE: [u32; 2] = [736, 288];
/// Columns and rows at strides of 8 to 64.
pub(super) const LEVELS: [[usize; 2]; 4] = [[92, 36], [46, 18], [23, 9], [12, 5]];

/// The elements of the maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MapElement {
    F32,
    F16,
    Int8,
}

impl MapElement {
    pub(super) const ALL: [Self; 3] = [Self::F32, Self::F16, Self::Int8];

    /// The arithmetic of a decoder of such maps, as in the names of cases.
    pub(super) fn precision(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Int8 => "f16, int8 maps",
        }
    }
}

/// Cameras 60 degrees apart, each 71 degrees wide.
pub(super) fn views() -> Vec<View> {
    let [width, height] = IMAGE.map(f64::from);
    let focal = 0.5 * width / 35.5_f64.to_radians().tan();
    let view = |index: usize| {
        let (sin, cos) = (60.0 * index as f64).to_radians().sin_cos();
        // Depth is ahead, columns grow to the right, rows downwards.
        let [ahead, right, down] =
            [[cos, sin, 0.0, 0.0], [sin, -cos, 0.0, 0.0], [0.0, 0.0, -1.0, 1.6]];
        let row = |axis: [f64; 4], centre: f64| {
            std::array::from_fn(|i| focal * axis[i] + centre * ahead[i])
        };
        View {
            pixels_from_base: [row(right, 0.5 * width), row(down, 0.5 * height), ahead],
            size: IMAGE,
            is_present: true,
        }
    };
    (0..NUM_VIEWS).map(view).collect()
}

/// Random maps.
pub(super) fn maps(element: MapElement) -> Result<FeatureMaps> {
    let mut random = Random::new(11);
    let level = |size: [usize; 2]| {
        let num = NUM_VIEWS * size[0] * size[1] * CHANNELS;
        let values = std::iter::repeat_with(|| random.range(-1.0, 1.0)).take(num);
        let texels = match element {
            MapElement::F32 => Texels::F32(values.collect()),
            MapElement::F16 => Texels::F16(values.map(f16::from_f32).collect()),
            MapElement::Int8 => Texels::I8 {
                values: values.map(|x| (127.0 * x) as i8).collect(),
                scale: 1.0 / 127.0,
            },
        };
        FeatureLevel::new(size, texels)
    };
    FeatureMaps::new(NUM_VIEWS, CHANNELS, LEVELS.map(level).into())
}
