//! Every parameter there is: the one home of keys, types, ranges, defaults and
//! descriptions. The parse, the effective configuration and
//! `docs/parameters.md` are all made from these tables.

use super::table::Default::{self, Required, Unset, Yaml};
use super::table::{Kind, Length, Parameter, Range};

/// Fixed when the node starts.
const fn fixed(
    key: &'static str,
    kind: Kind,
    default: Default,
    unit: &'static str,
    help: &'static str,
) -> Parameter {
    Parameter { key, kind, default, unit, live: false, help }
}

/// May change while the node runs.
const fn live(
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
const COORDINATES: Range = Range::new(-1e6, 1e6);
const FACTORS: Range = Range::new(-1e6, 1e6);
const CAPACITY: Kind = Kind::Integer { min: 1, max: 1 << 20 };

/// Of the node.
pub(super) const NODE: &[Parameter] = &[
    fixed(
        "device",
        Kind::Text,
        Yaml("auto"),
        "",
        "Where the frames run: `auto`, `cpu` or `cuda:N`.",
    ),
    fixed(
        "use_sim_time",
        Kind::Flag,
        Yaml("false"),
        "",
        "Taken because launch files set it on every node. Outputs carry the stamps of their inputs \
         either way.",
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
const ENGINE_KIND: Parameter = fixed(
    "engine.kind",
    Kind::Choice(&["auto", "rten", "onnxruntime"]),
    Yaml("auto"),
    "",
    "What runs the network. `auto`: ONNX Runtime when its library is found, else the embedded rten.",
);
const ENGINE_LIBRARY: Parameter = fixed(
    "engine.library",
    Kind::Text,
    Unset("`ORT_DYLIB_PATH`, then the system's"),
    "",
    "Path of the ONNX Runtime library.",
);
const ENGINE_THREADS: Parameter = fixed(
    "engine.threads",
    Kind::Integer { min: 0, max: 1024 },
    Yaml("0"),
    "",
    "Threads a network may use; 0 leaves it to the engine.",
);
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
];

const SENSOR: Parameter =
    fixed("sensor", Kind::Choice(&["camera", "lidar"]), Required, "", "What the network looks at.");
const CLASS_NAMES: Parameter = fixed(
    "class_names",
    Kind::Texts(Length::Any),
    Required,
    "",
    "Names of the classes in the network's order, or the name of a shipped list: `coco80`.",
);

/// Of a camera head's file.
pub(super) const CAMERA_HEAD: &[Parameter] = &[
    SENSOR,
    CLASS_NAMES,
    fixed(
        "layout.kind",
        Kind::Choice(&["v5", "v5_raw", "v8", "yolox", "end_to_end", "detr"]),
        Required,
        "",
        "What the outputs hold. `v5`: [1, N, 5 + C]. `v5_raw`: one tensor of logits per stride. `v8`: \
         [1, 4 + C, N]. `yolox`: [1, N, 5 + C] before its grid. `end_to_end`: [1, N, 6], final. \
         `detr`: boxes [1, N, 4] and scores, final.",
    ),
    fixed(
        "layout.strides",
        Kind::Numbers(Range::new(1.0, 1024.0), Length::Any),
        Yaml("[8, 16, 32]"),
        "px",
        "Network pixels a cell, level by level (`v5_raw`, `yolox`).",
    ),
    fixed(
        "layout.anchors",
        Kind::NumberLists(Range::above(0.0, 1e5)),
        Unset("none; `v5_raw` needs them"),
        "px",
        "Per level, width and height of each anchor in turn (`v5_raw`).",
    ),
    fixed(
        "layout.boxes",
        Kind::Choice(&["center_normalized", "corner_pixels"]),
        Yaml("center_normalized"),
        "",
        "How a box of `detr` is written: cx cy w h as fractions, or x1 y1 x2 y2 in network pixels.",
    ),
    fixed("layout.logits", Kind::Flag, Yaml("true"), "", "Whether scores of `detr` are logits."),
    fixed(
        "input_size",
        Kind::Numbers(Range::new(1.0, 16384.0), Length::Exactly(2)),
        Unset("the model's"),
        "px",
        "Width and height of the network's input, for models that do not fix it.",
    ),
    fixed(
        "placement",
        Kind::Choice(&["center", "top_left", "stretch"]),
        Required,
        "",
        "Where the picture lies in the network's input.",
    ),
    fixed(
        "channel_order",
        Kind::Choice(&["rgb", "bgr"]),
        Required,
        "",
        "Order of the input's planes.",
    ),
    fixed(
        "pad_value",
        Kind::Number(Range::new(0.0, 255.0)),
        Yaml("114.0"),
        "0 to 255",
        "Grey of the padding, before normalisation.",
    ),
    fixed(
        "alpha",
        Kind::Numbers(FACTORS, Length::OneOr(3)),
        Unset("1"),
        "",
        "Factor on values of 0 to 255; one, or one per plane.",
    ),
    fixed(
        "beta",
        Kind::Numbers(FACTORS, Length::OneOr(3)),
        Unset("0"),
        "",
        "Summand after the factor; one, or one per plane.",
    ),
    fixed(
        "mean",
        Kind::Numbers(Range::new(-1e3, 1e3), Length::OneOr(3)),
        Unset("0"),
        "0 to 255",
        "Subtracted, instead of alpha and beta; one, or one per plane.",
    ),
    fixed(
        "std",
        Kind::Numbers(Range::above(0.0, 1e3), Length::OneOr(3)),
        Unset("1"),
        "0 to 255",
        "Divided by, instead of alpha and beta; one, or one per plane.",
    ),
    fixed("input_name", Kind::Text, Unset("the first input"), "", "Name of the network's input."),
    fixed(
        "output_names",
        Kind::Texts(Length::Any),
        Unset("by position"),
        "",
        "Names of the outputs in the order of the layout (`v5_raw`: by stride; `detr`: boxes, scores, \
         labels).",
    ),
];

/// Of every lidar head's file.
pub(super) const LIDAR_HEAD: &[Parameter] = &[
    SENSOR,
    CLASS_NAMES,
    fixed(
        "kind",
        Kind::Choice(&["center", "anchor"]),
        Required,
        "",
        "What the outputs hold: CenterPoint or PointPillars.",
    ),
    fixed(
        "point_range_m",
        Kind::Numbers(COORDINATES, Length::Exactly(6)),
        Required,
        "m",
        "Crop box: least x, y, z, then greatest.",
    ),
    fixed(
        "voxel_size_m",
        Kind::Numbers(Range::above(0.0, 1e6), Length::Exactly(3)),
        Required,
        "m",
        "Edge lengths of a pillar along x, y, z; z is the whole height.",
    ),
    fixed(
        "max_points_per_voxel",
        Kind::Integer { min: 1, max: 1024 },
        Required,
        "",
        "Points of a pillar that count.",
    ),
    fixed("voxel_capacity", CAPACITY, Required, "", "The most pillars held."),
    fixed(
        "point_channels",
        Kind::Texts(Length::Any),
        Unset("x, y, z alone"),
        "",
        "What a point carries beyond x, y, z, in the network's order: `intensity`, `ring`, `time_lag` or \
         the name of a field.",
    ),
    fixed(
        "intensity_scale",
        Kind::Number(FACTORS),
        Yaml("1.0"),
        "",
        "Factor on the intensity of a message.",
    ),
    fixed(
        "center_offset_z",
        Kind::Flag,
        Required,
        "",
        "Whether features hold the offset from the pillar's centre in z too: three offsets, or two.",
    ),
    fixed(
        "encoder_input",
        Kind::Text,
        Unset("the first input"),
        "",
        "Name of the encoder's input.",
    ),
    fixed(
        "encoder_output",
        Kind::Text,
        Unset("the first output"),
        "",
        "Name of the encoder's output.",
    ),
    fixed("model_input", Kind::Text, Unset("the first input"), "", "Name of the network's input."),
];

/// Of a lidar head's file of kind `center`.
pub(super) const CENTER_HEAD: &[Parameter] = &[
    fixed(
        "tasks",
        Kind::TextLists,
        Required,
        "",
        "Classes of each task's heat map; every class once.",
    ),
    fixed(
        "output_names",
        Kind::TextLists,
        Unset("by position, task by task in the order stated"),
        "",
        "Per task, names of its outputs: offset, height, size, rotation, velocity (if any), heat map.",
    ),
    fixed(
        "downsample_factor",
        Kind::Integer { min: 1, max: 64 },
        Required,
        "",
        "Pillars a cell of the map along one axis (`out_size_factor`, `feature_map_stride`).",
    ),
    fixed(
        "size_order",
        Kind::Choice(&["width_length_height", "length_width_height"]),
        Required,
        "",
        "Order of the size channels.",
    ),
    fixed("size_log", Kind::Flag, Yaml("true"), "", "Whether sizes are logarithms."),
    fixed("heatmap_logits", Kind::Flag, Yaml("true"), "", "Whether heat maps are logits."),
    fixed(
        "yaw",
        Kind::Choice(&["counter_clockwise", "clockwise_from_minus_y"]),
        Required,
        "",
        "How sine and cosine become a yaw: `atan2(s, c)`, or `-atan2(s, c) - pi/2`.",
    ),
    fixed("has_velocity", Kind::Flag, Yaml("true"), "", "Whether there are velocity channels."),
    fixed("has_variance", Kind::Flag, Yaml("false"), "", "Whether variances follow the values."),
    fixed(
        "center_range_m",
        Kind::Numbers(COORDINATES, Length::Exactly(6)),
        Unset("every centre is kept"),
        "m",
        "Box outside which centres are dropped: least x, y, z, then greatest.",
    ),
];

/// Of a lidar head's file of kind `anchor`.
pub(super) const ANCHOR_HEAD: &[Parameter] = &[
    fixed(
        "output_names",
        Kind::Texts(Length::Exactly(3)),
        Unset("by position in the order stated"),
        "",
        "Names of the outputs: class scores, boxes, directions.",
    ),
    fixed(
        "anchor_sizes_m",
        Kind::NumberLists(Range::above(0.0, 1e3)),
        Required,
        "m",
        "Per class, length, width and height of its anchor.",
    ),
    fixed(
        "anchor_center_z_m",
        Kind::Numbers(COORDINATES, Length::OneOrPerClass),
        Required,
        "m",
        "Height of the anchors' centres; one, or one per class.",
    ),
    fixed(
        "rotations_rad",
        Kind::Numbers(Range::new(-10.0, 10.0), Length::Any),
        Required,
        "rad",
        "Yaws of each class's anchors.",
    ),
    fixed(
        "direction_offset_rad",
        Kind::Number(Range::new(-10.0, 10.0)),
        Required,
        "rad",
        "Where the cut between the two directions lies (`dir_offset`).",
    ),
    fixed(
        "align_center",
        Kind::Flag,
        Yaml("false"),
        "",
        "Whether anchors stand at cell centres; otherwise the outermost stand on the border of the range.",
    ),
    fixed(
        "channels_last",
        Kind::Flag,
        Yaml("true"),
        "",
        "Whether outputs are [1, H, W, channels]; otherwise [1, channels, H, W].",
    ),
];
