//! Every parameter of the node and its channels: the one home of keys, types,
//! ranges, defaults and descriptions. The parse, the effective configuration
//! and `docs/parameters.md` are all made from these tables and from those of
//! the head files beside them.

use super::deployment_parameters::{
    CHANNEL_DEVICE, ENGINE_CACHE_FOLDER, ENGINE_CUDA_GRAPH, ENGINE_FP16, ENGINE_KIND,
    ENGINE_LIBRARY, ENGINE_PROVIDER, ENGINE_TF32, ENGINE_THREADS, FAILURE_WINDOW_S, FALLBACK,
    ISOLATE, MAX_FAILURES,
};
use super::live::{
    CAMERA_INFO, GAP_ERROR_S, GAP_WARN_S, INPUT_TRANSPORT, LATENCY_BUDGET_MS, MAX_AGE_S,
    MAX_PAYLOAD_BYTES, MIN_RATE_HZ, PUBLISH_DEBUG_IMAGE, PUBLISH_MARKERS, QOS_DEPTH,
    QOS_DURABILITY, QOS_RELIABILITY, TRANSFORM_WAIT_S,
};
use super::table::Default::{self, Required, Unset, Yaml};
use super::table::{Kind, Length, Parameter, Range};

/// Fixed when the node starts.
pub(super) const fn fixed(
    key: &'static str,
    kind: Kind,
    default: Default,
    unit: &'static str,
    help: &'static str,
) -> Parameter {
    Parameter { key, kind, default, unit, live: false, help }
}

/// May change while the node runs.
pub(super) const fn live(
    key: &'static str,
    kind: Kind,
    default: Default,
    unit: &'static str,
    help: &'static str,
) -> Parameter {
    Parameter { key, kind, default, unit, live: true, help }
}

const UNIT: Range = Range::new(0.0, 1.0);
const METRES: Range = Range::new(0.0, 1e6);
pub(super) const CAPACITY: Kind = Kind::Integer { min: 1, max: 1 << 20 };

/// Of the node.
pub(super) const NODE: &[Parameter] = &[
    fixed(
        "device",
        Kind::Text,
        Yaml("auto"),
        "",
        "Where the frames of all channels run: `auto` (GPU 0 when it is usable, else the CPU), `cpu` or \
         `cuda:N`.",
    ),
    fixed(
        "use_sim_time",
        Kind::Flag,
        Yaml("false"),
        "",
        "Whether the age of live frames is measured by `/clock`. Outputs carry the stamps of their \
         inputs either way.",
    ),
    fixed(
        "autostart",
        Kind::Flag,
        Yaml("true"),
        "",
        "Whether the live node configures and activates itself, or waits for `change_state`.",
    ),
    fixed(
        "diagnostics_period_s",
        Kind::Number(Range::new(0.1, 60.0)),
        Yaml("1.0"),
        "s",
        "Time from one `/diagnostics` message of the live node to the next.",
    ),
];

const INPUT: Parameter =
    fixed("input", Kind::Topic, Required, "", "Topic of the sensor's messages.");
const OUTPUT: Parameter = fixed(
    "output",
    Kind::Topic,
    Unset("`~/NAME/detections`, NAME being the channel's"),
    "",
    "Topic of the detections.",
);
const HEAD: Parameter = fixed(
    "head",
    Kind::Text,
    Required,
    "",
    "What the network means: the name of a shipped head, or the path of a head file (with a `/` or \
     ending in `.yaml`).",
);
const MODEL_PATH: Parameter =
    fixed("model_path", Kind::Text, Required, "", "The network, an ONNX file.");
const CANDIDATE_CAPACITY: Parameter = fixed(
    "candidate_capacity",
    CAPACITY,
    Yaml("8192"),
    "",
    "The most decoded boxes held. More are dropped, the lowest scores first, and counted.",
);
const PRE_NMS_TOP_K: Parameter = live(
    "pre_nms_top_k",
    CAPACITY,
    Yaml("1000"),
    "",
    "The most candidates that enter suppression, the best first; the rest is counted.",
);

/// Of a camera channel.
pub(super) const CAMERA: &[Parameter] = &[
    INPUT,
    OUTPUT,
    HEAD,
    MODEL_PATH,
    ENGINE_KIND,
    ENGINE_LIBRARY,
    ENGINE_THREADS,
    ENGINE_PROVIDER,
    ENGINE_CUDA_GRAPH,
    ENGINE_TF32,
    ENGINE_FP16,
    ENGINE_CACHE_FOLDER,
    CHANNEL_DEVICE,
    ISOLATE,
    FALLBACK,
    MAX_FAILURES,
    FAILURE_WINDOW_S,
    live(
        "score_threshold",
        Kind::Number(UNIT),
        Yaml("0.3"),
        "",
        "Boxes stay when their score is at least this.",
    ),
    CANDIDATE_CAPACITY,
    PRE_NMS_TOP_K,
    live(
        "nms.kind",
        Kind::Choice(&["iou", "fast", "soft_linear", "soft_gaussian", "none"]),
        Unset("`none` for heads whose answers are final, else `iou`"),
        "",
        "How overlapping boxes go. `iou`: greedy. `fast`: one pass. `soft_*`: scores are lowered.",
    ),
    live(
        "nms.iou_threshold",
        Kind::Number(UNIT),
        Yaml("0.45"),
        "",
        "A box goes when its IoU with a better one is above this (`iou`, `fast`); no decay at or below \
         it (`soft_linear`).",
    ),
    live("nms.class_aware", Kind::Flag, Yaml("true"), "", "Whether only boxes of one class meet."),
    live(
        "nms.offset",
        Kind::Integer { min: 0, max: 1 },
        Yaml("0"),
        "px",
        "Added to widths and heights in IoUs (`iou`, `soft_*`): 1 for boxes of whole pixels.",
    ),
    live(
        "nms.sigma",
        Kind::Number(Range::above(0.0, 100.0)),
        Yaml("0.5"),
        "",
        "Width of the decay of `soft_gaussian`.",
    ),
    live(
        "nms.min_score",
        Kind::Number(UNIT),
        Yaml("0.05"),
        "",
        "Boxes go when `soft_*` has lowered their score below this.",
    ),
    live(
        "max_detections",
        Kind::Integer { min: 1, max: 1 << 16 },
        Yaml("300"),
        "",
        "The most detections a frame, the best first; the rest is counted.",
    ),
    live(
        "class_filter",
        Kind::Texts(Length::Any),
        Unset("every class"),
        "",
        "Names of the only classes to keep.",
    ),
    INPUT_TRANSPORT,
    CAMERA_INFO,
    QOS_RELIABILITY,
    QOS_DURABILITY,
    QOS_DEPTH,
    MAX_PAYLOAD_BYTES,
    MAX_AGE_S,
    GAP_WARN_S,
    GAP_ERROR_S,
    MIN_RATE_HZ,
    LATENCY_BUDGET_MS,
    PUBLISH_DEBUG_IMAGE,
];

/// Of a lidar channel.
pub(super) const LIDAR: &[Parameter] = &[
    INPUT,
    OUTPUT,
    HEAD,
    fixed("encoder_path", Kind::Text, Required, "", "The pillar encoder, an ONNX file."),
    MODEL_PATH,
    ENGINE_KIND,
    ENGINE_LIBRARY,
    ENGINE_THREADS,
    ENGINE_PROVIDER,
    ENGINE_CUDA_GRAPH,
    ENGINE_TF32,
    ENGINE_FP16,
    ENGINE_CACHE_FOLDER,
    CHANNEL_DEVICE,
    ISOLATE,
    FALLBACK,
    MAX_FAILURES,
    FAILURE_WINDOW_S,
    live(
        "score_thresholds",
        Kind::Numbers(UNIT, Length::OneOrPerClass),
        Yaml("0.35"),
        "",
        "Boxes stay when their score is at least this; one for all classes, or one per class.",
    ),
    live(
        "distance_upper_limits_m",
        Kind::Numbers(Range::above(0.0, 1e6), Length::Any),
        Unset("one bin without a limit"),
        "m",
        "Upper limits of distance bins, rising. Boxes at or beyond the last are dropped.",
    ),
    live(
        "score_thresholds_by_distance.<CLASS>",
        Kind::Numbers(UNIT, Length::Any),
        Unset("the class's `score_thresholds` in every bin"),
        "",
        "Score thresholds of a class, one per bin of `distance_upper_limits_m`.",
    ),
    live(
        "yaw_norm_thresholds",
        Kind::Numbers(UNIT, Length::OneOrPerClass),
        Yaml("0.0"),
        "",
        "Boxes of centre heads go when the norm of their (sine, cosine) is below this; one for all \
         classes, or one per class.",
    ),
    live(
        "nms.kind",
        Kind::Choice(&["circle", "bev", "iou_3d", "none"]),
        Yaml("circle"),
        "",
        "What overlap means: distance of centres, IoU of footprints, IoU of volumes.",
    ),
    live(
        "nms.circle_radius_m",
        Kind::Numbers(METRES, Length::OneOrPerClass),
        Yaml("0.5"),
        "m",
        "Threshold of `circle`; one for all classes, or one per class (that of the better box counts).",
    ),
    live(
        "nms.circle_reading",
        Kind::Choice(&["radius", "squared_distance"]),
        Yaml("radius"),
        "",
        "`radius`: suppressed when distance < threshold. `squared_distance`: when distance² <= \
         threshold, as mmdet3d has it.",
    ),
    live(
        "nms.iou_thresholds",
        Kind::Numbers(UNIT, Length::OneOrPerClass),
        Yaml("0.1"),
        "",
        "A box goes when its IoU with a better one is above this (`bev`, `iou_3d`); one for all \
         classes, or one per class (that of the better box counts).",
    ),
    live(
        "nms.search_distance_m",
        Kind::Number(Range::above(0.0, 1e6)),
        Unset("no limit"),
        "m",
        "Boxes farther apart than this never meet (`bev`).",
    ),
    live(
        "nms.forbidden_pairs",
        Kind::Texts(Length::Any),
        Unset("none"),
        "",
        "Pairs of classes that never suppress each other (`bev`), as `CAR-PEDESTRIAN`; \
         `PEDESTRIAN-*` pairs one with every other.",
    ),
    live(
        "nms.class_mode",
        Kind::Choice(&["aware", "agnostic", "task"]),
        Yaml("agnostic"),
        "",
        "Which boxes meet: those of one class, all, or those of one task of the head.",
    ),
    fixed(
        "point_capacity",
        Kind::Integer { min: 1, max: 1 << 24 },
        Yaml("2000000"),
        "",
        "The most points held, all sweeps together; the rest is counted.",
    ),
    CANDIDATE_CAPACITY,
    PRE_NMS_TOP_K,
    live(
        "max_detections",
        Kind::Integer { min: 1, max: 1 << 16 },
        Yaml("500"),
        "",
        "The most detections a frame, the best first; the rest is counted.",
    ),
    fixed(
        "densification.num_past_sweeps",
        Kind::Integer { min: 0, max: 64 },
        Yaml("1"),
        "",
        "Past sweeps merged into the current one.",
    ),
    fixed(
        "densification.world_frame",
        Kind::Text,
        Yaml("map"),
        "",
        "Fixed frame through which past sweeps are moved.",
    ),
    live(
        "densification.max_sweep_age_s",
        Kind::Number(Range::above(0.0, 60.0)),
        Yaml("1.0"),
        "s",
        "Older sweeps are not merged.",
    ),
    TRANSFORM_WAIT_S,
    QOS_RELIABILITY,
    QOS_DURABILITY,
    QOS_DEPTH,
    MAX_PAYLOAD_BYTES,
    MAX_AGE_S,
    GAP_WARN_S,
    GAP_ERROR_S,
    MIN_RATE_HZ,
    LATENCY_BUDGET_MS,
    PUBLISH_MARKERS,
    PUBLISH_DEBUG_IMAGE,
];
