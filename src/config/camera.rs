//! Camera channels.

use std::path::PathBuf;

use super::engine::engine_options;
use super::problems::Problems;
use super::reader::Values;
use crate::types::{
    AnchorLevel, ChannelOrder, ClassMode, DetrBoxes, EngineOptions, Nms2d, NmsFast, NmsIou,
    NmsSoft, Normalization, Placement, Size, SoftDecay, YoloLayout,
};

/// How a camera channel is deployed.
#[derive(Clone, Debug, PartialEq)]
pub struct CameraConfig {
    /// Name or path of the head, as given.
    pub head: String,
    /// The network, relative to the current directory.
    pub model_path: PathBuf,
    /// What runs it.
    pub engine: EngineOptions,
    /// Boxes stay when their score is at least this.
    pub score_threshold: f32,
    /// The most decoded boxes held.
    pub candidate_capacity: usize,
    /// The most candidates that enter suppression.
    pub pre_nms_top_k: usize,
    /// Suppression. `max_num` and `score_threshold` of [`NmsIou`] are left
    /// open: the channel's own limits come before and after it.
    pub nms: Nms2d,
    /// The most detections a frame.
    pub max_detections: usize,
    /// The only classes to keep, rising; empty for all.
    pub class_filter: Vec<u32>,
    /// What the network means.
    pub facts: YoloFacts,
}

/// What a camera network takes and gives: the facts of its head file.
#[derive(Clone, Debug, PartialEq)]
pub struct YoloFacts {
    /// What the outputs hold.
    pub layout: YoloLayout,
    /// Names of the classes; the index is the class.
    pub class_names: Vec<String>,
    /// Size of the network's input; `None`: as the model says.
    pub input_size: Option<Size>,
    /// Where the picture lies in the input.
    pub placement: Placement,
    /// Order of the input's planes.
    pub channel_order: ChannelOrder,
    /// What happens to values of 0 to 255.
    pub normalization: Normalization,
    /// Grey of the padding in 0 to 255, before normalisation.
    pub pad_value: f32,
    /// Name of the input; `None`: the first.
    pub input_name: Option<String>,
    /// Names of the outputs in the order of the layout; empty: by position.
    pub output_names: Vec<String>,
}

impl CameraConfig {
    pub(super) fn new(
        prefix: &str,
        values: &Values,
        facts: YoloFacts,
        problems: &mut Problems,
    ) -> Self {
        let mut class_filter = Vec::new();
        for name in values.texts("class_filter") {
            match facts.class_names.iter().position(|class| *class == name) {
                Some(class) => class_filter.push(class as u32),
                None => problems.refuse(
                    &format!("{prefix}class_filter"),
                    name,
                    &facts.class_names.join(", "),
                ),
            }
        }
        class_filter.sort_unstable();
        class_filter.dedup();
        Self {
            head: values.text("head").to_owned(),
            model_path: values.text("model_path").into(),
            engine: engine_options(values),
            score_threshold: values.number("score_threshold"),
            candidate_capacity: values.count("candidate_capacity"),
            pre_nms_top_k: values.count("pre_nms_top_k"),
            nms: nms(values),
            max_detections: values.count("max_detections"),
            class_filter,
            facts,
        }
    }
}

fn nms(values: &Values) -> Nms2d {
    let class_mode =
        if values.flag("nms.class_aware") { ClassMode::Aware } else { ClassMode::Agnostic };
    let iou_threshold = values.number("nms.iou_threshold");
    let offset = values.count("nms.offset") as u8;
    let soft = |decay, class_mode| {
        Nms2d::Soft(NmsSoft {
            decay,
            min_score: values.number("nms.min_score"),
            offset,
            class_mode,
        })
    };
    match values.text("nms.kind") {
        "iou" => Nms2d::Iou(NmsIou {
            iou_threshold,
            offset,
            class_mode,
            score_threshold: None,
            max_num: usize::MAX,
        }),
        "fast" => Nms2d::Fast(NmsFast { iou_threshold, class_mode }),
        "soft_linear" => soft(SoftDecay::Linear { iou_threshold }, class_mode),
        "soft_gaussian" => {
            soft(SoftDecay::Gaussian { sigma: values.number("nms.sigma") }, class_mode)
        }
        _ => Nms2d::None,
    }
}

impl YoloFacts {
    /// `None` when a problem was noted.
    pub(super) fn new(prefix: &str, values: &Values, problems: &mut Problems) -> Option<Self> {
        let layout = layout(prefix, values, problems);
        let normalization = normalization(prefix, values, problems);
        let input_size = whole(prefix, "input_size", values, problems)?;
        Some(Self {
            layout: layout?,
            class_names: values.texts("class_names"),
            input_size: match input_size[..] {
                [width, height] => Some(Size::new(width, height)),
                _ => None,
            },
            placement: match values.text("placement") {
                "center" => Placement::Center,
                "top_left" => Placement::TopLeft,
                _ => Placement::Stretch,
            },
            channel_order: match values.text("channel_order") {
                "bgr" => ChannelOrder::Bgr,
                _ => ChannelOrder::Rgb,
            },
            normalization: normalization?,
            pad_value: values.number("pad_value"),
            input_name: values.optional_text("input_name"),
            output_names: values.texts("output_names"),
        })
    }
}

fn layout(prefix: &str, values: &Values, problems: &mut Problems) -> Option<YoloLayout> {
    let strides = whole(prefix, "layout.strides", values, problems)?;
    Some(match values.text("layout.kind") {
        "v5" => YoloLayout::V5,
        "v5_raw" => YoloLayout::V5Raw { levels: levels(prefix, &strides, values, problems)? },
        "v8" => YoloLayout::V8,
        "yolox" => YoloLayout::Yolox { strides },
        "end_to_end" => YoloLayout::EndToEnd,
        _ => YoloLayout::Detr {
            boxes: match values.text("layout.boxes") {
                "corner_pixels" => DetrBoxes::CornerPixels,
                _ => DetrBoxes::CenterNormalized,
            },
            logits: values.flag("layout.logits"),
        },
    })
}

fn levels(
    prefix: &str,
    strides: &[u32],
    values: &Values,
    problems: &mut Problems,
) -> Option<Vec<AnchorLevel>> {
    let anchors = values.number_lists("layout.anchors");
    if anchors.len() != strides.len() || anchors.iter().any(|level| level.len() % 2 != 0) {
        problems.refuse(
            &format!("{prefix}layout.anchors"),
            format!("lists of {:?} numbers", anchors.iter().map(Vec::len).collect::<Vec<_>>()),
            &format!("{} lists, one per stride, of width and height in turn", strides.len()),
        );
        return None;
    }
    let level = |(&stride, sizes): (&u32, &Vec<f32>)| AnchorLevel {
        stride,
        anchors: sizes.chunks_exact(2).map(|size| [size[0], size[1]]).collect(),
    };
    Some(strides.iter().zip(&anchors).map(level).collect())
}

fn normalization(prefix: &str, values: &Values, problems: &mut Problems) -> Option<Normalization> {
    let has_factors = values.has("alpha") || values.has("beta");
    if has_factors && (values.has("mean") || values.has("std")) {
        problems.push(&format!("{prefix}alpha"), "stands beside mean or std; allowed: one pair");
        return None;
    }
    let per_plane = |key: &str, otherwise: f32| match values.numbers(key)[..] {
        [one] => [one; 3],
        [a, b, c] => [a, b, c],
        _ => [otherwise; 3],
    };
    Some(if has_factors {
        Normalization { alpha: per_plane("alpha", 1.0), beta: per_plane("beta", 0.0) }
    } else {
        Normalization::from_mean_std(per_plane("mean", 0.0), per_plane("std", 1.0))
    })
}

/// A list of whole numbers; `None` when a problem was noted.
fn whole(prefix: &str, key: &str, values: &Values, problems: &mut Problems) -> Option<Vec<u32>> {
    let numbers = values.numbers(key);
    if let Some(number) = numbers.iter().find(|number| number.fract() != 0.0) {
        problems.refuse(&format!("{prefix}{key}"), number, "whole numbers");
        return None;
    }
    Some(numbers.iter().map(|&number| number as u32).collect())
}
