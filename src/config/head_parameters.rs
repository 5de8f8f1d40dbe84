//! Every fact a head file holds, in tables as those of the parameters.

use super::parameters::{CAPACITY, fixed};
use super::reader::Default::{Required, Unset, Yaml};
use super::reader::{Kind, Length, Parameter, Range};

const COORDINATES: Range = Range::new(-1e6, 1e6);
const FACTORS: Range = Range::new(-1e6, 1e6);

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
