//! What lidar networks take and give: the facts of their head files.

use crate::config::LidarConfig;
use crate::config::problems::Problems;
use crate::config::reader::Values;
use crate::types::{
    Anchor, AnchorDecode, CenterDecode, Grid, PointChannel, PointRange, ScoreThresholds, SizeOrder,
    YawConvention,
};

/// The most pillars along both axes together: what a map may cost.
const MAX_CELLS: u64 = 1 << 24;

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
    pub(super) fn new(prefix: &str, values: &Values, problems: &mut Problems) -> Option<Self> {
        let class_names = values.texts("class_names");
        let grid = grid(prefix, values, problems);
        let outputs = match values.text("kind") {
            "anchor" => {
                anchor(prefix, values, class_names.len(), problems).map(LidarOutputs::Anchor)
            }
            _ => center(prefix, values, &class_names, problems).map(LidarOutputs::Center),
        };
        Some(Self {
            class_names,
            grid: grid?,
            max_points_per_voxel: values.count("max_points_per_voxel"),
            voxel_capacity: values.count("voxel_capacity"),
            point_channels: values.texts("point_channels").into_iter().map(channel).collect(),
            intensity_scale: values.number("intensity_scale"),
            center_offset_z: values.flag("center_offset_z"),
            encoder_input: values.optional_text("encoder_input"),
            encoder_output: values.optional_text("encoder_output"),
            model_input: values.optional_text("model_input"),
            outputs: outputs?,
        })
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

/// A list of six numbers as a box.
fn point_range(values: &Values, key: &str) -> Option<PointRange> {
    match values.numbers(key)[..] {
        [x0, y0, z0, x1, y1, z1] => Some(PointRange { min: [x0, y0, z0], max: [x1, y1, z1] }),
        _ => None,
    }
}

fn grid(prefix: &str, values: &Values, problems: &mut Problems) -> Option<Grid> {
    let range = point_range(values, "point_range_m")?;
    let voxel_size_m: [f32; 3] = values.numbers("voxel_size_m").try_into().ok()?;
    let grid = Grid::new(range, voxel_size_m)
        .map_err(|error| problems.push(&format!("{prefix}voxel_size_m"), error.message()))
        .ok()?;
    if grid.grid_size()[2] != 1 || grid.num_cells() > MAX_CELLS {
        problems.refuse(
            &format!("{prefix}voxel_size_m"),
            format!("a grid of {:?} cells", grid.grid_size()),
            &format!("one cell along z and {MAX_CELLS} in all"),
        );
        return None;
    }
    Some(grid)
}

fn center(
    prefix: &str,
    values: &Values,
    class_names: &[String],
    problems: &mut Problems,
) -> Option<CenterFacts> {
    let task_names = values.text_lists("tasks");
    let index_of = |name: &String| class_names.iter().position(|class| class == name);
    let tasks: Vec<Vec<u32>> = task_names
        .iter()
        .map(|names| names.iter().filter_map(index_of).map(|class| class as u32).collect())
        .collect();
    let mut classes: Vec<u32> = tasks.concat();
    classes.sort_unstable();
    if !classes.iter().copied().eq(0..class_names.len() as u32)
        || classes.len() != task_names.concat().len()
    {
        problems.refuse(
            &format!("{prefix}tasks"),
            format!("{task_names:?}"),
            "every name of class_names once",
        );
        return None;
    }
    let output_names = values.text_lists("output_names");
    let has_velocity = values.flag("has_velocity");
    let num_outputs = if has_velocity { 6 } else { 5 };
    if !output_names.is_empty()
        && (output_names.len() != tasks.len()
            || output_names.iter().any(|names| names.len() != num_outputs))
    {
        problems.refuse(
            &format!("{prefix}output_names"),
            format!("{output_names:?}"),
            &format!("{} lists, one per task, of {num_outputs} names", tasks.len()),
        );
        return None;
    }
    Some(CenterFacts {
        tasks,
        output_names,
        downsample_factor: values.count("downsample_factor") as u32,
        size_order: match values.text("size_order") {
            "length_width_height" => SizeOrder::LengthWidthHeight,
            _ => SizeOrder::WidthLengthHeight,
        },
        size_log: values.flag("size_log"),
        heatmap_logits: values.flag("heatmap_logits"),
        yaw: match values.text("yaw") {
            "clockwise_from_minus_y" => YawConvention::ClockwiseFromMinusY,
            _ => YawConvention::CounterClockwise,
        },
        has_velocity,
        has_variance: values.flag("has_variance"),
        center_range: point_range(values, "center_range_m"),
    })
}

fn anchor(
    prefix: &str,
    values: &Values,
    num_classes: usize,
    problems: &mut Problems,
) -> Option<AnchorFacts> {
    let sizes = values.number_lists("anchor_sizes_m");
    let centers = values.numbers("anchor_center_z_m");
    let anchors: Vec<Anchor> = sizes
        .iter()
        .enumerate()
        .filter_map(|(class, size)| {
            let size_m = size[..].try_into().ok()?;
            let center_z_m = *centers.get(class).or(centers.first())?;
            Some(Anchor { size_m, center_z_m })
        })
        .collect();
    if anchors.len() != num_classes || sizes.len() != num_classes {
        problems.refuse(
            &format!("{prefix}anchor_sizes_m"),
            format!("{sizes:?}"),
            &format!("{num_classes} lists, one per class, of length, width, height"),
        );
        return None;
    }
    Some(AnchorFacts {
        output_names: values.texts("output_names"),
        anchors,
        rotations_rad: values.numbers("rotations_rad"),
        direction_offset_rad: values.number("direction_offset_rad"),
        align_center: values.flag("align_center"),
        channels_last: values.flag("channels_last"),
    })
}
