//! Facts of the networks that look into the feature maps of several cameras and are run
//! by operations of this program.

use crate::config::declaration::Change::Fixed;
use crate::config::reader::Reader;
use crate::config::value::Length::{Exactly, OneOrMore};
use crate::config::value::{above, flag, integer, list, number, one_of, whole};
use det_post_types::{
    AttentionResidual, CachedYaw, Detr3d, MapLayout, PointRange, Sparse4d, ViewDecoder,
};

/// A backbone's feature maps and the decoder behind them.
#[derive(Clone, Debug, PartialEq)]
pub struct ViewFacts {
    /// The decoder.
    pub decoder: ViewDecoder,
    /// The order of the backbone's feature maps.
    pub layout: MapLayout,
    /// By output of the backbone, the pixels of an image for one texel.
    pub level_strides: Vec<u32>,
    /// Whether the last level is followed by one of its even rows and columns.
    pub extra_level: bool,
}

/// The families.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::config) enum Family {
    Detr3d,
    Sparse4d,
}

const LAYOUTS: &[(&str, MapLayout)] = &[
    ("planar", MapLayout::Planar),
    ("channels_last", MapLayout::ChannelsLast),
    ("blocks_32", MapLayout::Blocks32),
];
const RESIDUALS: &[(&str, AttentionResidual)] = &[
    ("query", AttentionResidual::Query),
    ("query_with_position", AttentionResidual::QueryWithPosition),
];
const CACHED_YAWS: &[(&str, CachedYaw)] =
    &[("sin_cos", CachedYaw::SinCos), ("cos_sin", CachedYaw::CosSin)];

/// The maximum number of channels, queries or layers of a decoder.
const MAX_COUNT: usize = 1 << 14;

impl ViewFacts {
    pub(super) fn read(
        p: &mut Reader<'_>,
        family: Family,
        num_views: usize,
        num_classes: usize,
    ) -> Self {
        let layout = p.value(
            "feature_layout",
            Fixed,
            one_of(LAYOUTS),
            "planar",
            "Order of feature maps: [cameras, channels, rows, columns], channels last, or \
             [cameras, channels / 32, rows, columns, 32] (TensorRT's `kCHW32`).",
        );
        let level_strides = p.required(
            "level_strides",
            list(whole(1..=1024).in_unit("px"), OneOrMore),
            "Pixels of an image for one texel, by output of the backbone.",
        );
        let extra_level = p.value(
            "extra_level",
            Fixed,
            flag(),
            false,
            "Whether even rows and columns of the last level are another level.",
        );
        let num_levels = level_strides.len() + usize::from(extra_level);
        let sizes = Sizes { num_views, num_levels, num_classes };
        let decoder = match family {
            Family::Detr3d => ViewDecoder::Detr3d(sizes.detr3d(p)),
            Family::Sparse4d => ViewDecoder::Sparse4d(sizes.sparse4d(p)),
        };
        let num_channels = match &decoder {
            ViewDecoder::Detr3d(facts) => facts.num_channels,
            ViewDecoder::Sparse4d(facts) => facts.num_channels,
        };
        if layout == MapLayout::Blocks32 && !num_channels.is_multiple_of(32) {
            let found = format!("blocks_32 and {num_channels} channels");
            p.refuse("feature_layout", found, "blocks_32 with channels in steps of 32");
        }
        Self { decoder, layout, level_strides, extra_level }
    }
}

/// The facts of both families.
struct Sizes {
    num_views: usize,
    num_levels: usize,
    num_classes: usize,
}

fn count(p: &mut Reader<'_>, key: &str, help: &'static str) -> usize {
    p.required(key, integer(1..=MAX_COUNT), help)
}

fn min_depth(p: &mut Reader<'_>) -> f32 {
    p.value(
        "decoder.min_depth_m",
        Fixed,
        above(0.0, 100.0).in_unit("m"),
        1e-5,
        "Least depth at which a camera sees a point.",
    )
}

impl Sizes {
    fn detr3d(self, p: &mut Reader<'_>) -> Detr3d {
        let Self { num_views, num_levels, num_classes } = self;
        let range = p.required(
            "point_range_m",
            list(number(-1e6..=1e6).in_unit("m"), Exactly(6)),
            "Range of the reference points: least x, y, z, then greatest.",
        );
        Detr3d {
            num_views,
            num_levels,
            num_channels: channels(p),
            num_heads: heads(p),
            num_queries: count(p, "decoder.queries", "Queries."),
            num_blocks: blocks(p),
            num_classes,
            range: PointRange::from_bounds(range.try_into().unwrap_or_default()),
            min_depth_m: min_depth(p),
            attention_residual: p.value(
                "decoder.attention_residual",
                Fixed,
                one_of(RESIDUALS),
                "query",
                "What the attention among queries is added to: content, as in mmcv, or content and \
                 position.",
            ),
        }
    }

    fn sparse4d(self, p: &mut Reader<'_>) -> Sparse4d {
        let Self { num_views, num_levels, num_classes } = self;
        Sparse4d {
            num_views,
            num_levels,
            num_channels: channels(p),
            num_heads: heads(p),
            num_groups: count(p, "decoder.groups", "Groups of channels with separate weights."),
            num_anchors: count(p, "decoder.anchors", "Anchors."),
            num_cached: count(
                p,
                "decoder.cached",
                "Anchors that are kept for the next frame; fewer than there are.",
            ),
            num_blocks: blocks(p),
            num_single_frame_blocks: p.value(
                "decoder.single_frame_blocks",
                Fixed,
                integer(1..=64),
                1_i64,
                "Blocks before the cached anchors join.",
            ),
            num_classes,
            min_depth_m: min_depth(p),
            cached_yaw: p.value(
                "cached_yaw",
                Fixed,
                one_of(CACHED_YAWS),
                "sin_cos",
                "Order of sine and cosine of a cached anchor. `cos_sin`: they change places, as in \
                 training with the published code.",
            ),
            has_quality: p.value(
                "decoder.quality",
                Fixed,
                flag(),
                true,
                "Whether there are heads of centreness and yawness; scores are multiplied by the \
                 centreness.",
            ),
            confidence_decay: p.value(
                "decoder.confidence_decay",
                Fixed,
                number(0.0..=1.0),
                0.6,
                "Factor of a cached anchor's confidence from frame to frame.",
            ),
            default_interval_s: p.value(
                "decoder.default_interval_s",
                Fixed,
                above(0.0, 3600.0).in_unit("s"),
                0.5,
                "Interval by which velocities are refined in a frame without a memory.",
            ),
        }
    }
}

fn channels(p: &mut Reader<'_>) -> usize {
    count(p, "decoder.channels", "Channels of the feature maps and of a query.")
}

fn heads(p: &mut Reader<'_>) -> usize {
    p.value("decoder.heads", Fixed, integer(1..=MAX_COUNT), 8_i64, "Heads of the attention.")
}

fn blocks(p: &mut Reader<'_>) -> usize {
    p.required("decoder.blocks", integer(1..=64), "Blocks of the decoder.")
}
