//! The kinds of layouts of YOLO-family networks, as head files name them.

use std::mem::discriminant;

use super::yolo::{AnchorLevel, DetrBoxes, DetrClasses, YoloLayout};

/// A kind of layout, as head files name it.
#[derive(Clone, Copy, Debug)]
pub struct YoloKind {
    /// Shapes and columns of its outputs, for the manual.
    pub outputs: &'static str,
    /// Whether it has anchors: a list for every stride.
    pub has_anchors: bool,
    layout: fn(&YoloOptions) -> YoloLayout,
}

/// The parameters of layouts. Each kind reads its own.
#[derive(Clone, Debug, PartialEq)]
pub struct YoloOptions {
    /// Strides of the levels, in network pixels per cell.
    pub strides: Vec<u32>,
    /// Per level, width and height of each anchor in network pixels.
    pub anchors: Vec<Vec<[f32; 2]>>,
    /// The meaning of the four numbers of a box of `detr` and `detr_seg`.
    pub boxes: DetrBoxes,
    /// Whether scores of `detr` are logits.
    pub logits: bool,
    /// The classes of a row of `detr` without a label.
    pub classes: DetrClasses,
    /// Coefficients of the masks of `seg` and `seg_end_to_end`.
    pub num_coefficients: usize,
    /// Keypoints of `pose` and `pose_end_to_end`.
    pub num_keypoints: usize,
    /// Numbers of a keypoint: x y, and where there are three its score.
    pub num_keypoint_values: usize,
}

impl Default for YoloOptions {
    fn default() -> Self {
        Self {
            strides: vec![8, 16, 32],
            anchors: Vec::new(),
            boxes: DetrBoxes::CenterNormalized,
            logits: true,
            classes: DetrClasses::Best,
            num_coefficients: 32,
            num_keypoints: 17,
            num_keypoint_values: 3,
        }
    }
}

impl YoloKind {
    /// The layout of this kind.
    pub fn layout(&self, options: &YoloOptions) -> YoloLayout {
        (self.layout)(options)
    }

    const fn new(outputs: &'static str, layout: fn(&YoloOptions) -> YoloLayout) -> Self {
        Self { outputs, has_anchors: false, layout }
    }
}

impl YoloLayout {
    /// The kinds of layouts by their names in head files.
    pub const KINDS: &[(&str, YoloKind)] = &[
        ("v5", YoloKind::new("[1,N,5+C]", |_| Self::V5)),
        (
            "v5_raw",
            YoloKind {
                has_anchors: true,
                ..YoloKind::new("a tensor of logits per stride", |options| {
                    let levels = options.strides.iter().zip(&options.anchors);
                    let level = |(&stride, anchors): (&u32, &Vec<[f32; 2]>)| AnchorLevel {
                        stride,
                        anchors: anchors.clone(),
                    };
                    Self::V5Raw { levels: levels.map(level).collect() }
                })
            },
        ),
        ("v8", YoloKind::new("[1,4+C,N], or [1,N,6] as `end_to_end`", |_| Self::V8)),
        (
            "obb",
            YoloKind::new(
                "[1,4+C+1,N], rotated, the angle in radians last, or [1,N,7] as \
                 `obb_end_to_end`",
                |_| Self::Obb,
            ),
        ),
        (
            "seg",
            YoloKind::new(
                "[1,4+C+M,N] with M coefficients of masks, and prototypes [1,M,H,W]",
                |options| Self::Seg { num_coefficients: options.num_coefficients },
            ),
        ),
        (
            "pose",
            YoloKind::new(
                "[1,4+C+K*D,N] with K keypoints of D numbers: x y, or x y score",
                |options| Self::Pose {
                    num_keypoints: options.num_keypoints,
                    num_values: options.num_keypoint_values,
                },
            ),
        ),
        (
            "yolox",
            YoloKind::new("[1,N,5+C] without grid and strides", |options| Self::Yolox {
                strides: options.strides.clone(),
            }),
        ),
        ("end_to_end", YoloKind::new("[1,N,6], final", |_| Self::EndToEnd)),
        (
            "seg_end_to_end",
            YoloKind::new("[1,N,6+M] and prototypes of masks [1,M,H,W], final", |options| {
                Self::SegEndToEnd { num_coefficients: options.num_coefficients }
            }),
        ),
        (
            "pose_end_to_end",
            YoloKind::new("[1,N,6+K*D] with K keypoints of D numbers, final", |options| {
                Self::PoseEndToEnd {
                    num_keypoints: options.num_keypoints,
                    num_values: options.num_keypoint_values,
                }
            }),
        ),
        ("obb_end_to_end", YoloKind::new("[1,N,7], rotated, final", |_| Self::ObbEndToEnd)),
        ("v7_end_to_end", YoloKind::new("[N,7], final", |_| Self::V7EndToEnd)),
        (
            "mmdeploy",
            YoloKind::new("boxes with scores [1,N,5] and labels [1,N], final", |_| Self::Mmdeploy),
        ),
        (
            "detr",
            YoloKind::new("boxes [1,N,4] and scores, final", |options| Self::Detr {
                boxes: options.boxes,
                logits: options.logits,
                classes: options.classes,
            }),
        ),
        (
            "mmdeploy_seg",
            YoloKind::new("as `mmdeploy` with masks [1,N,H,W], a map a row, final", |_| {
                Self::MmdeploySeg
            }),
        ),
        (
            "detr_seg",
            YoloKind::new("boxes [1,N,4], scores [1,N,C], masks [1,N,H,W], final", |options| {
                Self::DetrSeg {
                    boxes: options.boxes,
                    logits: options.logits,
                    classes: options.classes,
                }
            }),
        ),
    ];

    /// Its name in head files.
    pub fn name(&self) -> &'static str {
        let options = YoloOptions::default();
        let is_own = |kind: &YoloKind| discriminant(&kind.layout(&options)) == discriminant(self);
        Self::KINDS.iter().find(|(_, kind)| is_own(kind)).map_or("", |(name, _)| name)
    }
}
