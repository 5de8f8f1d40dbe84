//! Inputs and outputs of camera networks: the facts of their head files.

use std::sync::LazyLock;

use crate::config::declaration::Change::Fixed;
use crate::config::reader::Reader;
use crate::config::value::Length::{Exactly, OneOr, OneOrMore};
use crate::config::value::{above, flag, integer, list, number, one_of, text, whole};
use det_post_infer::metadata::MAX_KEYPOINTS;
use det_post_types::{
    ChannelOrder, DetrBoxes, DetrClasses, MaskParams, MaskRule, Normalization, Placement, Resize,
    Size, YoloKind, YoloLayout, YoloOptions,
};

/// Inputs and outputs of a camera network.
#[derive(Clone, Debug, PartialEq)]
pub struct YoloFacts {
    /// Layout of the outputs.
    pub layout: YoloLayout,
    /// Names of the classes; the index is the class.
    pub class_names: Vec<String>,
    /// Size of the network's input; `None`: that of the model.
    pub input_size: Option<Size>,
    /// The placement of the image in the input.
    pub placement: Placement,
    /// Order of the input's planes.
    pub channel_order: ChannelOrder,
    /// The normalization of values from 0 to 255.
    pub normalization: Normalization,
    /// Grey of the padding in 0 to 255, before normalisation.
    pub pad_value: f32,
    /// The filter that resizes the image.
    pub resize: Resize,
    /// Name of the input; `None`: the first.
    pub input_name: Option<String>,
    /// Names of the outputs in the order of the layout; empty: by position.
    pub output_names: Vec<String>,
    /// How masks are computed, of layouts with masks.
    pub masks: MaskParams,
}

const MASK_RULES: &[(&str, MaskRule)] =
    &[("straight", MaskRule::Straight), ("native", MaskRule::Native), ("box", MaskRule::Box)];

const PLACEMENTS: &[(&str, Placement)] = &[
    ("center", Placement::Center),
    ("top_left", Placement::TopLeft),
    ("top_left_rounded", Placement::TopLeftRounded),
    ("stretch", Placement::Stretch),
];
const RESIZES: &[(&str, Resize)] = &[
    ("bilinear", Resize::Bilinear),
    ("antialias", Resize::Antialias),
    ("antialias_8bit", Resize::Antialias8Bit),
];
const CHANNEL_ORDERS: &[(&str, ChannelOrder)] =
    &[("rgb", ChannelOrder::Rgb), ("bgr", ChannelOrder::Bgr)];

impl YoloFacts {
    pub(super) fn read(p: &mut Reader<'_>, class_names: Vec<String>) -> Self {
        let facts = Self::read_all(p, class_names);
        if facts.layout.has_rotated_boxes() && facts.placement == Placement::Stretch {
            let allowed = "`center` or `top_left`: rotated boxes need one scale for both axes";
            p.refuse("placement", "\"stretch\"", allowed);
        }
        facts
    }

    fn read_all(p: &mut Reader<'_>, class_names: Vec<String>) -> Self {
        Self {
            layout: layout(p),
            class_names,
            input_size: p
                .optional(
                    "input_size",
                    Fixed,
                    list(whole(1..=16384).in_unit("px"), Exactly(2)),
                    "the model's",
                    "Width and height of the network's input, for models that do not fix it.",
                )
                .map(|size| Size::new(size[0], size[1])),
            placement: p.required(
                "placement",
                one_of(PLACEMENTS),
                "Where the image is placed in the network's input.",
            ),
            channel_order: channel_order(p),
            pad_value: p.value(
                "pad_value",
                Fixed,
                number(0.0..=255.0).in_unit("0 to 255"),
                114.0,
                "Grey of the padding, before normalisation.",
            ),
            resize: p.value(
                "resize",
                Fixed,
                one_of(RESIZES),
                "bilinear",
                "Filter: the four nearest pixels, a triangle as wide as the scale, or Pillow's.",
            ),
            normalization: normalization(p),
            input_name: p.optional(
                "input_name",
                Fixed,
                text(),
                "the first input",
                "Name of the network's input.",
            ),
            output_names: p
                .optional(
                    "output_names",
                    Fixed,
                    list(text(), OneOrMore),
                    "by position",
                    "Names of the outputs in the order of the layout (`v5_raw`: by stride; `detr`: boxes, scores, \
                     labels; `mmdeploy`: boxes, labels; `seg`: predictions, prototypes; `mmdeploy_seg`, `detr_seg`: masks last).",
                )
                .unwrap_or_default(),
            masks: masks(p),
        }
    }
}

fn masks(p: &mut Reader<'_>) -> MaskParams {
    let rule = p.value(
        "masks.rule",
        Fixed,
        one_of(MASK_RULES),
        "straight",
        "Where a pixel is on a mask's map: where the letterbox puts its centre (`straight`), on the \
         map without padding cut to whole cells, as ultralytics' `retina_masks` (`native`), or the map is over \
         the box (`box`).",
    );
    let sigmoid = p.value(
        "masks.sigmoid",
        Fixed,
        flag(),
        false,
        "Whether values of masks pass a sigmoid before they are interpolated, as in older \
         releases of ultralytics.",
    );
    let threshold = p.optional(
        "masks.threshold",
        Fixed,
        number(-1e3..=1e3),
        "0; with a sigmoid 0.5",
        "The value above which a pixel of a mask is set.",
    );
    let crop = p.value(
        "masks.crop",
        Fixed,
        flag(),
        true,
        "Whether masks end at their boxes; if not, each has the size of the image (`mask_capacity_bytes`).",
    );
    MaskParams { rule, sigmoid, threshold, crop }
}

const DETR_BOXES: &[(&str, DetrBoxes)] = &[
    ("center_normalized", DetrBoxes::CenterNormalized),
    ("corner_pixels", DetrBoxes::CornerPixels),
];

const DETR_CLASSES: &[(&str, DetrClasses)] =
    &[("best", DetrClasses::Best), ("all", DetrClasses::All)];

/// The help of `layout.kind`: the outputs of every kind.
static KINDS_HELP: LazyLock<String> = LazyLock::new(|| {
    let kind = |(name, kind): &(&str, YoloKind)| format!(" `{name}`: {}.", kind.outputs);
    "Outputs, for N boxes and C classes.".to_owned()
        + &YoloLayout::KINDS.iter().map(kind).collect::<String>()
});

fn layout(p: &mut Reader<'_>) -> YoloLayout {
    let kind = p.required("layout.kind", one_of(YoloLayout::KINDS), &KINDS_HELP);
    let strides = p.value(
        "layout.strides",
        Fixed,
        list(whole(1..=1024).in_unit("px"), OneOrMore),
        [8, 16, 32],
        "Network pixels of a cell, level by level (`v5_raw`, `yolox`).",
    );
    let anchors = p.optional(
        "layout.anchors",
        Fixed,
        list(list(above(0.0, 1e5).in_unit("px"), OneOrMore), OneOrMore),
        "none; `v5_raw` needs them",
        "Per level, width and height of each anchor in turn (`v5_raw`).",
    );
    let boxes = p.value(
        "layout.boxes",
        Fixed,
        one_of(DETR_BOXES),
        "center_normalized",
        "How `detr` and `detr_seg` write a box: cx cy w h as fractions, or x1 y1 x2 y2 in network pixels.",
    );
    let logits =
        p.value("layout.logits", Fixed, flag(), true, "Whether scores of `detr` are logits.");
    let classes = p.value(
        "layout.classes",
        Fixed,
        one_of(DETR_CLASSES),
        "best",
        "Classes of a `detr` box without a label: the best, or all whose score passes.",
    );
    let num_coefficients = p.value(
        "layout.coefficients",
        Fixed,
        integer(1..=256),
        32,
        "Coefficients of a mask and prototypes, M (`seg`, `seg_end_to_end`).",
    );
    let num_keypoints = p.value(
        "layout.keypoints",
        Fixed,
        integer(1..=MAX_KEYPOINTS),
        17,
        "Keypoints, K (`pose`, `pose_end_to_end`).",
    );
    let num_keypoint_values =
        p.value("layout.keypoint_values", Fixed, integer(2..=3), 3, "Numbers of a keypoint, D.");
    let anchors: Vec<Vec<f32>> = anchors.unwrap_or_default();
    if kind.has_anchors {
        check_anchors(p, &strides, &anchors);
    }
    let in_pairs = |level: Vec<f32>| level.as_chunks::<2>().0.to_vec();
    let anchors = anchors.into_iter().map(in_pairs).collect();
    kind.layout(&YoloOptions {
        strides,
        anchors,
        boxes,
        logits,
        classes,
        num_coefficients,
        num_keypoints,
        num_keypoint_values,
    })
}

fn check_anchors(p: &mut Reader<'_>, strides: &[u32], anchors: &[Vec<f32>]) {
    if anchors.len() != strides.len() || anchors.iter().any(|level| level.len() % 2 != 0) {
        p.conflict(
            &["layout.anchors", "layout.strides"],
            format!("lists of {:?} numbers", anchors.iter().map(Vec::len).collect::<Vec<_>>()),
            &format!("{} lists, one per stride, of width and height in turn", strides.len()),
        );
    }
}

pub(super) fn channel_order(p: &mut Reader<'_>) -> ChannelOrder {
    p.required(
        "channel_order",
        one_of(CHANNEL_ORDERS),
        "Order of the planes of the network's input.",
    )
}

pub(super) fn normalization(p: &mut Reader<'_>) -> Normalization {
    let factors = || list(number(-1e6..=1e6), OneOr(3));
    let alpha = p.optional(
        "alpha",
        Fixed,
        factors(),
        "1",
        "Factor on values of 0 to 255: value·alpha+beta.",
    );
    let beta = p.optional("beta", Fixed, factors(), "0", "Summand after the factor.");
    let mean = p.optional(
        "mean",
        Fixed,
        list(number(-1e3..=1e3).in_unit("0 to 255"), OneOr(3)),
        "0",
        "Subtracted from values of 0 to 255, instead of alpha and beta: (value-mean)/std.",
    );
    let std = p.optional(
        "std",
        Fixed,
        list(above(0.0, 1e3).in_unit("0 to 255"), OneOr(3)),
        "1",
        "Divisor after the mean is subtracted.",
    );
    let has_factors = alpha.is_some() || beta.is_some();
    if has_factors && (mean.is_some() || std.is_some()) {
        let allowed = "alpha and beta, or mean and std: remove one pair";
        p.refuse("alpha", "alpha or beta beside mean or std", allowed);
    }
    let per_plane = |values: Option<Vec<f32>>, otherwise: f32| match values.as_deref() {
        Some(&[one]) => [one; 3],
        Some(&[a, b, c]) => [a, b, c],
        Some(_) | None => [otherwise; 3],
    };
    match has_factors {
        true => Normalization { alpha: per_plane(alpha, 1.0), beta: per_plane(beta, 0.0) },
        false => Normalization::from_mean_std(per_plane(mean, 0.0), per_plane(std, 1.0)),
    }
}

/// The kinds as head files name them.
pub(super) fn kind_names() -> Vec<&'static str> {
    YoloLayout::KINDS.iter().map(|(name, _)| *name).collect()
}
