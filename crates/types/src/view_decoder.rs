//! Facts of a network that decodes boxes from the feature maps of several cameras, in
//! addition to its weights.

use super::center::{ScoreThresholds, SizeOrder, YawConvention};
use super::grid::PointRange;

/// The facts of a view decoder, by its family.
#[derive(Clone, Debug, PartialEq)]
pub enum ViewDecoder {
    /// DETR3D: reference points in a range, one projected point a query.
    Detr3d(Detr3d),
    /// Sparse4D v2 and v3: anchors with key points, and a memory of past frames.
    Sparse4d(Sparse4d),
}

impl ViewDecoder {
    /// Pairs of a query and a class.
    pub fn num_pairs(&self) -> usize {
        let (num_queries, num_classes) = match self {
            Self::Detr3d(facts) => (facts.num_queries, facts.num_classes),
            Self::Sparse4d(facts) => (facts.num_anchors, facts.num_classes),
        };
        num_queries.saturating_mul(num_classes)
    }
}

/// The order of a network's feature maps, in views N, channels C, rows H and columns W.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MapLayout {
    /// `[N, C, H, W]`.
    #[default]
    Planar,
    /// `[N, C / 32, H, W, 32]`, TensorRT's `kCHW32`; C is a multiple of 32.
    Blocks32,
    /// `[N, H, W, C]`.
    ChannelsLast,
}

/// The facts of a DETR3D decoder.
#[derive(Clone, Debug, PartialEq)]
pub struct Detr3d {
    /// Cameras.
    pub num_views: usize,
    /// Levels of the feature maps, a subsampled one included.
    pub num_levels: usize,
    /// Channels of the feature maps and of a query.
    pub num_channels: usize,
    /// Heads of the attention among queries; a divisor of the channels.
    pub num_heads: usize,
    /// Queries.
    pub num_queries: usize,
    /// Blocks of the decoder.
    pub num_blocks: usize,
    /// Classes.
    pub num_classes: usize,
    /// The range that reference points of 0 to 1 span, in metres.
    pub range: PointRange,
    /// The minimum depth, exclusive, at which a camera sees a point, in metres.
    pub min_depth_m: f32,
    /// What the attention among queries is added to.
    pub attention_residual: AttentionResidual,
}

/// What the result of DETR3D's attention among queries is added to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AttentionResidual {
    /// The content of the query, as mmcv's attention does.
    #[default]
    Query,
    /// The content and the position of the query.
    QueryWithPosition,
}

/// The facts of a Sparse4D decoder.
#[derive(Clone, Debug, PartialEq)]
pub struct Sparse4d {
    /// Cameras.
    pub num_views: usize,
    /// Levels of the feature maps.
    pub num_levels: usize,
    /// Channels of the feature maps and of an anchor's feature.
    pub num_channels: usize,
    /// Heads of both attentions; a divisor of twice the channels.
    pub num_heads: usize,
    /// Groups of channels with weights of their own; a divisor of the channels.
    pub num_groups: usize,
    /// Anchors.
    pub num_anchors: usize,
    /// Anchors that are kept for the next frame; fewer than there are.
    pub num_cached: usize,
    /// Blocks of the decoder.
    pub num_blocks: usize,
    /// Blocks before the cached anchors join; fewer than there are blocks.
    pub num_single_frame_blocks: usize,
    /// Classes.
    pub num_classes: usize,
    /// The minimum depth, exclusive, at which a camera sees a point, in metres.
    pub min_depth_m: f32,
    /// How the yaw of a cached anchor is turned into the current frame.
    pub cached_yaw: CachedYaw,
    /// Whether the last block has a head for centreness and yawness.
    pub has_quality: bool,
    /// The factor of a cached anchor's confidence from frame to frame.
    pub confidence_decay: f32,
    /// The interval in seconds by which velocities are refined in a frame without
    /// memory.
    pub default_interval_s: f32,
}

/// How the yaw of a cached Sparse4D anchor is turned into the current frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CachedYaw {
    /// The sine is written to the place of the sine.
    #[default]
    SinCos,
    /// Sine and cosine change places, as in the published code, with which the
    /// published weights were trained.
    CosSin,
}

/// The arithmetic of a view decoder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ViewPrecision {
    /// f16 on a GPU, f32 on the CPU.
    #[default]
    Auto,
    /// f32.
    F32,
    /// Weights, feature maps and activations in f16, sums in f32; only on a GPU.
    F16,
}

/// The box of a query as a view decoder refines it: the centre x, y, z in metres, the
/// natural logarithms of three extents in metres, sine and cosine of the yaw (of any
/// norm), and the velocity along x, y, z in metres per second.
pub type QueryBox = [f32; 11];

/// The motion of the vehicle from the frame before to the current one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Motion {
    /// Seconds between the frames; positive.
    pub interval_s: f32,
    /// Rows of the rigid transform from the past base frame to the current one.
    pub current_from_past: [[f32; 4]; 3],
}

/// How the boxes and logits of queries become candidates (`ops::decode_query`).
#[derive(Clone, Debug, PartialEq)]
pub struct QueryDecode {
    /// What the three extents are.
    pub size_order: SizeOrder,
    /// How sine and cosine become a yaw.
    pub yaw: YawConvention,
    /// Thresholds of the class score.
    pub score_thresholds: ScoreThresholds,
    /// Per class, the minimum norm of (sine, cosine); empty for no check.
    pub yaw_norm_thresholds: Vec<f32>,
    /// Centres outside are dropped; `None` keeps all.
    pub center_range: Option<PointRange>,
}

impl QueryDecode {
    /// The most distance bins of `ops::decode_query` on a GPU.
    pub const MAX_DISTANCE_BINS: usize = 16;

    /// The most pairs of a query and a class that `ops::decode_query` keeps on a GPU.
    pub const MAX_PAIRS: usize = 8192;
}
