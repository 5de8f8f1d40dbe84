//! Facts of anchor heads, such as PointPillars.

use crate::config::classes::per_class;
use crate::config::declaration::Change::Fixed;
use crate::config::reader::Reader;
use crate::config::value::Length::{Exactly, OneOrMore, OneOrPerClass};
use crate::config::value::{above, flag, list, number, text};
use det_post_types::{Anchor, AnchorDecode, Grid, ScoreThresholds};

/// Facts of an anchor head.
#[derive(Clone, Debug, PartialEq)]
pub struct AnchorFacts {
    /// Names of the outputs: class scores, boxes, directions. Empty: by
    /// position in this order.
    pub output_names: Vec<String>,
    /// Per class, its anchor.
    pub anchors: Vec<Anchor>,
    /// Yaws of each class's anchors.
    pub rotations_rad: Vec<f32>,
    /// Angle between the two directions.
    pub direction_offset_rad: f32,
    /// Whether anchors are at cell centres.
    pub align_center: bool,
    /// Whether outputs are `[1, H, W, channels]`.
    pub channels_last: bool,
}

impl AnchorFacts {
    /// The settings of `ops::decode_anchor` for a grid and thresholds.
    pub fn decode(&self, grid: &Grid, score_thresholds: ScoreThresholds) -> AnchorDecode {
        AnchorDecode {
            range: grid.range(),
            align_center: self.align_center,
            anchors: self.anchors.clone(),
            rotations_rad: self.rotations_rad.clone(),
            direction_offset_rad: self.direction_offset_rad,
            channels_last: self.channels_last,
            score_thresholds,
        }
    }

    pub(super) fn read(p: &mut Reader<'_>, class_names: &[String]) -> Self {
        Self {
            output_names: p
                .optional(
                    "output_names",
                    Fixed,
                    list(text(), Exactly(3)),
                    "by position",
                    "Names of the outputs: class scores, boxes, directions.",
                )
                .unwrap_or_default(),
            anchors: anchors(p, class_names.len()),
            rotations_rad: p.required(
                "rotations_rad",
                list(number(-10.0..=10.0).in_unit("rad"), OneOrMore),
                "Yaws of each class's anchors.",
            ),
            direction_offset_rad: p.required(
                "direction_offset_rad",
                number(-10.0..=10.0).in_unit("rad"),
                "Angle that separates the two directions (`dir_offset`).",
            ),
            align_center: p.value(
                "align_center",
                Fixed,
                flag(),
                false,
                "Whether anchors are at cell centres; otherwise the outermost are on the range's border.",
            ),
            channels_last: p.value(
                "channels_last",
                Fixed,
                flag(),
                true,
                "Whether outputs are [1, H, W, channels]; otherwise [1, channels, H, W].",
            ),
        }
    }
}

fn anchors(p: &mut Reader<'_>, num_classes: usize) -> Vec<Anchor> {
    const SIZES: &str = "anchor_sizes_m";
    const CENTERS: &str = "anchor_center_z_m";
    let sizes = p.required(
        SIZES,
        list(list(above(0.0, 1e3).in_unit("m"), OneOrMore), OneOrMore),
        "Per class, length, width and height of its anchor.",
    );
    let centers = p.required(
        CENTERS,
        list(number(-1e6..=1e6).in_unit("m"), OneOrPerClass),
        "Height of the anchors' centres.",
    );
    let centers = per_class(&centers, num_classes);
    let anchors: Vec<Anchor> = sizes
        .iter()
        .zip(centers)
        .filter_map(|(size, center_z_m)| {
            Some(Anchor { size_m: size[..].try_into().ok()?, center_z_m })
        })
        .collect();
    if anchors.len() != num_classes || sizes.len() != num_classes {
        let allowed = format!("{num_classes} lists, one per class, of length, width, height");
        p.conflict(&[SIZES, CENTERS, "class_names"], format!("{sizes:?}"), &allowed);
    }
    anchors
}
