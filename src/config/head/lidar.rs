//! Inputs and outputs of LiDAR networks: the facts of their head files.

use super::anchor::AnchorFacts;
use super::center::CenterFacts;
use crate::config::declaration::Change::Fixed;
use crate::config::reader::Reader;
use crate::config::value::Length::{Exactly, OneOrMore};
use crate::config::value::{above, flag, integer, list, number, one_of, text};
use crate::types::{Grid, PointChannel, PointRange};

/// Most cells of a grid, which bounds the memory of a map.
const MAX_CELLS: u64 = 1 << 24;

#[derive(Clone, Copy)]
enum OutputKind {
    Center,
    Anchor,
}

const KINDS: &[(&str, OutputKind)] =
    &[("center", OutputKind::Center), ("anchor", OutputKind::Anchor)];

/// Inputs and outputs of a pillar encoder and its network.
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
    /// Factor on the [`PointChannel::Intensity`] of messages.
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

/// The outputs of a LiDAR network.
#[derive(Clone, Debug, PartialEq)]
pub enum LidarOutputs {
    /// Heat maps and regressions per cell (CenterPoint).
    Center(CenterFacts),
    /// Scores, boxes and directions per anchor (PointPillars).
    Anchor(AnchorFacts),
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

fn channel(name: String) -> PointChannel {
    match &*name {
        "intensity" => PointChannel::Intensity,
        "ring" => PointChannel::Ring,
        "time_lag" => PointChannel::TimeLag,
        _ => PointChannel::Named(name),
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
    let range = PointRange::from_bounds(range.try_into().ok()?);
    let grid = Grid::new(range, voxel_size_m.try_into().ok()?)
        .map_err(|error| p.problem(VOXEL_SIZE, error.message()))
        .ok()?;
    if grid.grid_size()[2] != 1 || grid.num_cells() > MAX_CELLS {
        let found = format!("a grid of {:?} cells", grid.grid_size());
        p.refuse(VOXEL_SIZE, found, &format!("one cell along z and {MAX_CELLS} in all"));
        return None;
    }
    Some(grid)
}
