//! What lidar networks take and give: the facts of their head files.

use crate::config::LidarConfig;
use crate::config::classes::{index_of, per_class};
use crate::config::reader::Change::Fixed;
use crate::config::reader::Reader;
use crate::config::value::Length::{Exactly, OneOrMore, OneOrPerClass};
use crate::config::value::{above, flag, integer, list, number, one_of, text};
use crate::types::{
    Anchor, AnchorDecode, CenterDecode, Grid, PointChannel, PointRange, ScoreThresholds, SizeOrder,
    YawConvention,
};

/// Most cells of a grid, which bounds the memory of a map.
const MAX_CELLS: u64 = 1 << 24;
const OUTPUT_NAMES: &str = "output_names";

#[derive(Clone, Copy)]
enum OutputKind {
    Center,
    Anchor,
}

const KINDS: &[(&str, OutputKind)] =
    &[("center", OutputKind::Center), ("anchor", OutputKind::Anchor)];
const SIZE_ORDERS: &[(&str, SizeOrder)] = &[
    ("width_length_height", SizeOrder::WidthLengthHeight),
    ("length_width_height", SizeOrder::LengthWidthHeight),
];
const YAWS: &[(&str, YawConvention)] = &[
    ("counter_clockwise", YawConvention::CounterClockwise),
    ("clockwise_from_minus_y", YawConvention::ClockwiseFromMinusY),
];

/// What a pillar encoder and its network take and give.
#[derive(Clone, Debug, PartialEq)]
pub struct LidarFacts {
    /// Names of the classes; the index is the class.
    pub class_names: Vec<String>,
    /// Crop box and pillars; one cell high.
    pub grid: Grid,
    /// Points of a pillar that count.
    pub max_points_per_voxel: usize,
    /// The most pillars held.
    pub voxel_capacity: usize,
    /// What a point carries beyond x, y, z, in order.
    pub point_channels: Vec<PointChannel>,
    /// Factor on [`PointChannel::Intensity`] as it stands in a message.
    pub intensity_scale: f32,
    /// Whether features hold three offsets from the pillar's centre, or two.
    pub center_offset_z: bool,
    /// Name of the encoder's input; `None`: the first.
    pub encoder_input: Option<String>,
    /// Name of the encoder's output; `None`: the first.
    pub encoder_output: Option<String>,
    /// Name of the network's input; `None`: the first.
    pub model_input: Option<String>,
    /// What the network's outputs hold.
    pub outputs: LidarOutputs,
}

/// What the outputs of a lidar network hold.
#[derive(Clone, Debug, PartialEq)]
pub enum LidarOutputs {
    /// Heat maps and regressions per cell (CenterPoint).
    Center(CenterFacts),
    /// Scores, boxes and directions per anchor (PointPillars).
    Anchor(AnchorFacts),
}

/// Facts of a CenterPoint head.
#[derive(Clone, Debug, PartialEq)]
pub struct CenterFacts {
    /// Per task, the class of each channel of its heat map; every class once.
    pub tasks: Vec<Vec<u32>>,
    /// Per task, names of its outputs: offset, height, size, rotation,
    /// velocity (if any), heat map. Empty: by position in this order.
    pub output_names: Vec<Vec<String>>,
    /// Pillars a cell of the map along one axis.
    pub downsample_factor: u32,
    /// Order of the size channels.
    pub size_order: SizeOrder,
    /// Whether sizes are logarithms.
    pub size_log: bool,
    /// Whether heat maps are logits.
    pub heatmap_logits: bool,
    /// How sine and cosine become a yaw.
    pub yaw: YawConvention,
    /// Whether there are velocity channels.
    pub has_velocity: bool,
    /// Whether variances follow the values.
    pub has_variance: bool,
    /// Box outside which centres are dropped.
    pub center_range: Option<PointRange>,
}

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
    /// Where the cut between the two directions lies.
    pub direction_offset_rad: f32,
    /// Whether anchors stand at cell centres.
    pub align_center: bool,
    /// Whether outputs are `[1, H, W, channels]`.
    pub channels_last: bool,
}

impl LidarFacts {
    /// Floats of a point: x, y, z and the channels.
    pub fn num_point_channels(&self) -> usize {
        3 + self.point_channels.len()
    }

    /// Floats of a point in the encoder's input: the point's own, three
    /// offsets from the mean, two or three from the pillar's centre.
    pub fn num_features(&self) -> usize {
        self.num_point_channels() + 3 + if self.center_offset_z { 3 } else { 2 }
    }

    /// Per class, its task; an anchor head has one task.
    pub fn task_of_class(&self) -> Vec<u32> {
        let mut task_of_class = vec![0; self.class_names.len()];
        if let LidarOutputs::Center(center) = &self.outputs {
            for (task, classes) in center.tasks.iter().enumerate() {
                for &class in classes {
                    task_of_class[class as usize] = task as u32;
                }
            }
        }
        task_of_class
    }

    /// `None` when a problem was noted.
    pub(super) fn read(p: &mut Reader<'_>, class_names: Vec<String>) -> Option<Self> {
        let kind = p.required(
            "kind",
            one_of(KINDS),
            "What the outputs hold: those of CenterPoint or of PointPillars.",
        );
        let grid = grid(p);
        let facts = Self {
            max_points_per_voxel: p.required(
                "max_points_per_voxel",
                integer(1..=1024),
                "Most points of a pillar; the network sees no more.",
            ),
            voxel_capacity: p.required(
                "voxel_capacity",
                integer(1..=1 << 20),
                "Most pillars of a frame. More are dropped and counted.",
            ),
            point_channels: p
                .optional(
                    "point_channels",
                    Fixed,
                    list(text(), OneOrMore),
                    "x, y, z alone",
                    "Values of a point beyond x, y, z, in the network's order: `intensity`, `ring`, `time_lag` or the \
                     name of a field.",
                )
                .unwrap_or_default()
                .into_iter()
                .map(channel)
                .collect(),
            intensity_scale: p.value(
                "intensity_scale",
                Fixed,
                number(-1e6..=1e6),
                1.0,
                "Factor on the intensity of a message.",
            ),
            center_offset_z: p.required(
                "center_offset_z",
                flag(),
                "Whether features hold the offset from the pillar's centre in z, too: three offsets, or two.",
            ),
            encoder_input: p.optional(
                "encoder_input",
                Fixed,
                text(),
                "the first input",
                "Name of the encoder's input.",
            ),
            encoder_output: p.optional(
                "encoder_output",
                Fixed,
                text(),
                "the first output",
                "Name of the encoder's output.",
            ),
            model_input: p.optional(
                "model_input",
                Fixed,
                text(),
                "the first input",
                "Name of the network's input.",
            ),
            outputs: match kind {
                OutputKind::Center => LidarOutputs::Center(CenterFacts::read(p, &class_names)),
                OutputKind::Anchor => LidarOutputs::Anchor(AnchorFacts::read(p, &class_names)),
            },
            class_names,
            grid: grid?,
        };
        Some(facts)
    }
}

impl CenterFacts {
    /// The settings of `ops::decode_center` for a channel with this head.
    pub fn decode(&self, config: &LidarConfig) -> CenterDecode {
        let grid = &config.facts.grid;
        let [size_x, size_y, _] = grid.voxel_size_m();
        let [min_x, min_y, _] = grid.range().min;
        let factor = self.downsample_factor as f32;
        CenterDecode {
            origin_m: [min_x, min_y],
            cell_size_m: [size_x * factor, size_y * factor],
            tasks: self.tasks.clone(),
            heatmap_logits: self.heatmap_logits,
            size_order: self.size_order,
            size_log: self.size_log,
            yaw: self.yaw,
            score_thresholds: config.score_thresholds.clone(),
            yaw_norm_thresholds: config.yaw_norm_thresholds.clone(),
            center_range: self.center_range,
            has_velocity: self.has_velocity,
            has_variance: self.has_variance,
        }
    }
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
}

fn channel(name: String) -> PointChannel {
    match &*name {
        "intensity" => PointChannel::Intensity,
        "ring" => PointChannel::Ring,
        "time_lag" => PointChannel::TimeLag,
        _ => PointChannel::Named(name),
    }
}

/// Six numbers as a box.
fn point_range(numbers: &[f32]) -> Option<PointRange> {
    match *numbers {
        [x0, y0, z0, x1, y1, z1] => Some(PointRange { min: [x0, y0, z0], max: [x1, y1, z1] }),
        _ => None,
    }
}

/// `None` when a problem was noted.
fn grid(p: &mut Reader<'_>) -> Option<Grid> {
    const VOXEL_SIZE: &str = "voxel_size_m";
    let range = p.required(
        "point_range_m",
        list(number(-1e6..=1e6).in_unit("m"), Exactly(6)),
        "Crop box: least x, y, z, then greatest.",
    );
    let voxel_size_m = p.required(
        VOXEL_SIZE,
        list(above(0.0, 1e6).in_unit("m"), Exactly(3)),
        "Edge lengths of a pillar along x, y, z; z is the whole height.",
    );
    let grid = Grid::new(point_range(&range)?, voxel_size_m.try_into().ok()?)
        .map_err(|error| p.problem(VOXEL_SIZE, error.message()))
        .ok()?;
    if grid.grid_size()[2] != 1 || grid.num_cells() > MAX_CELLS {
        let found = format!("a grid of {:?} cells", grid.grid_size());
        p.refuse(VOXEL_SIZE, found, &format!("one cell along z and {MAX_CELLS} in all"));
        return None;
    }
    Some(grid)
}

impl CenterFacts {
    pub(super) fn read(p: &mut Reader<'_>, class_names: &[String]) -> Self {
        let tasks = tasks(p, class_names);
        let output_names = p.optional(
            OUTPUT_NAMES,
            Fixed,
            list(list(text(), OneOrMore), OneOrMore),
            "by position, task by task in the order stated",
            "Per task, names of its outputs: offset, height, size, rotation, velocity (if any), heat map.",
        );
        let downsample_factor = p.required(
            "downsample_factor",
            integer(1..=64),
            "Pillars of a cell of the map along one axis (`out_size_factor`, `feature_map_stride`).",
        );
        let size_order =
            p.required("size_order", one_of(SIZE_ORDERS), "Order of the size channels.");
        let size_log = p.value("size_log", Fixed, flag(), true, "Whether sizes are logarithms.");
        let heatmap_logits =
            p.value("heatmap_logits", Fixed, flag(), true, "Whether heat maps are logits.");
        let yaw = p.required(
            "yaw",
            one_of(YAWS),
            "How sine and cosine become a yaw: `atan2(s, c)`, or `-atan2(s, c) - pi/2`.",
        );
        let has_velocity =
            p.value("has_velocity", Fixed, flag(), true, "Whether there are velocity channels.");
        let has_variance =
            p.value("has_variance", Fixed, flag(), false, "Whether variances follow the values.");
        let center_range = p.optional(
            "center_range_m",
            Fixed,
            list(number(-1e6..=1e6).in_unit("m"), Exactly(6)),
            "every centre is kept",
            "Box outside which centres are dropped: least x, y, z, then greatest.",
        );
        let num_outputs = if has_velocity { 6 } else { 5 };
        if let Some(names) = output_names.as_ref().filter(|names| {
            names.len() != tasks.len() || names.iter().any(|names| names.len() != num_outputs)
        }) {
            let allowed = format!("{} lists, one per task, of {num_outputs} names", tasks.len());
            p.refuse(OUTPUT_NAMES, format!("{names:?}"), &allowed);
        }
        Self {
            tasks,
            output_names: output_names.unwrap_or_default(),
            downsample_factor: downsample_factor as u32,
            size_order,
            size_log,
            heatmap_logits,
            yaw,
            has_velocity,
            has_variance,
            center_range: center_range.and_then(|range| point_range(&range)),
        }
    }
}

fn tasks(p: &mut Reader<'_>, class_names: &[String]) -> Vec<Vec<u32>> {
    let names = p.required(
        "tasks",
        list(list(text(), OneOrMore), OneOrMore),
        "Classes of each task's heat map; every class once.",
    );
    let index_of = |name: &String| index_of(name, class_names);
    let tasks: Vec<Vec<u32>> =
        names.iter().map(|names| names.iter().filter_map(index_of).collect()).collect();
    let mut classes = tasks.concat();
    classes.sort_unstable();
    let is_each_once = classes.iter().copied().eq(0..class_names.len() as u32);
    if !is_each_once || classes.len() != names.concat().len() {
        p.refuse("tasks", format!("{names:?}"), "every name of class_names once");
    }
    tasks
}

impl AnchorFacts {
    pub(super) fn read(p: &mut Reader<'_>, class_names: &[String]) -> Self {
        Self {
            output_names: p
                .optional(
                    OUTPUT_NAMES,
                    Fixed,
                    list(text(), Exactly(3)),
                    "by position in the order stated",
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
                "Whether anchors are at cell centres; otherwise the outermost are on the border of the range.",
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
    let sizes = p.required(
        SIZES,
        list(list(above(0.0, 1e3).in_unit("m"), OneOrMore), OneOrMore),
        "Per class, length, width and height of its anchor.",
    );
    let centers = p.required(
        "anchor_center_z_m",
        list(number(-1e6..=1e6).in_unit("m"), OneOrPerClass),
        "Height of the anchors' centres; one, or one per class.",
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
        p.refuse(SIZES, format!("{sizes:?}"), &allowed);
    }
    anchors
}
