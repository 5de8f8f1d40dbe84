//! Inputs and outputs of LiDAR networks: the facts of their head files.

use super::anchor::AnchorFacts;
use super::center::CenterFacts;
use super::encoder::{EncoderFacts, EncoderKind, PillarFacts, VoxelFacts};
use crate::config::declaration::Change::Fixed;
use crate::config::reader::Reader;
use crate::config::value::Length::{Exactly, OneOrMore};
use crate::config::value::{above, integer, list, number, one_of, text};
use det_post_types::{Grid, PointChannel, PointRange};

/// The maximum number of pillars of a grid, which bounds the memory of a map.
const MAX_PILLARS: u64 = 1 << 24;

/// Most voxels of a grid: those that the sites of a sparse encoder are numbered by.
const MAX_VOXELS: u64 = 1 << 28;

#[derive(Clone, Copy)]
enum OutputKind {
    Center,
    Anchor,
}

const KINDS: &[(&str, OutputKind)] =
    &[("center", OutputKind::Center), ("anchor", OutputKind::Anchor)];

/// Inputs and outputs of a LiDAR network and of the encoder before it.
#[derive(Clone, Debug, PartialEq)]
pub struct LidarFacts {
    /// Names of the classes; the index is the class.
    pub class_names: Vec<String>,
    /// Crop box and voxels; pillars are one cell high.
    pub grid: Grid,
    /// The maximum number of points of a voxel; `usize::MAX` is no limit.
    pub max_points_per_voxel: usize,
    /// The default maximum number of voxels of a frame.
    pub voxel_capacity: usize,
    /// The channels of a point after x, y, z, in order.
    pub point_channels: Vec<PointChannel>,
    /// Factor on the [`PointChannel::Intensity`] of messages.
    pub intensity_scale: f32,
    /// The encoder from points to the network's input.
    pub encoder: EncoderFacts,
    /// Name of the network's input; `None`: the first.
    pub model_input: Option<String>,
    /// The outputs of the network.
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

    /// Floats of a point of a pillar, or of a voxel, in the encoder's input. Of a point: its
    /// own, three offsets from the mean, two or three from the pillar's center. Of a voxel:
    /// those of a point.
    pub fn num_features(&self) -> usize {
        match &self.encoder {
            EncoderFacts::Pillars(pillars) => {
                self.num_point_channels() + 3 + if pillars.center_offset_z { 3 } else { 2 }
            }
            EncoderFacts::Voxels(_) => self.num_point_channels(),
        }
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
            "Meaning of the outputs: CenterPoint's or PointPillars'.",
        );
        let encoder = EncoderKind::read(p);
        let grid = grid(p, encoder);
        let facts = Self {
            max_points_per_voxel: max_points_per_voxel(p, encoder),
            voxel_capacity: p.required(
                "voxel_capacity",
                integer(1..=1 << 20),
                "Default of the channel's `voxel_capacity`.",
            ),
            point_channels: p
                .optional(
                    "point_channels",
                    Fixed,
                    list(text(), OneOrMore),
                    "only x, y, z",
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
            encoder: match encoder {
                EncoderKind::Pillars => EncoderFacts::Pillars(PillarFacts::read(p)),
                EncoderKind::Voxels => EncoderFacts::Voxels(VoxelFacts::read(p)),
            },
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

fn max_points_per_voxel(p: &mut Reader<'_>, encoder: EncoderKind) -> usize {
    const KEY: &str = "max_points_per_voxel";
    let found = p.required(
        KEY,
        integer(0..=1024),
        "Most points of a voxel; the network sees no more. With `encoder: voxels` 0 is no limit.",
    );
    match (found, encoder) {
        (0, EncoderKind::Voxels) => usize::MAX,
        (0, EncoderKind::Pillars) => {
            p.refuse(KEY, 0, "an integer from 1 to 1024 with `encoder: pillars`");
            1
        }
        (limit, _) => limit,
    }
}

/// `None` when a problem was noted.
fn grid(p: &mut Reader<'_>, encoder: EncoderKind) -> Option<Grid> {
    const VOXEL_SIZE: &str = "voxel_size_m";
    let range = p.required(
        "point_range_m",
        list(number(-1e6..=1e6).in_unit("m"), Exactly(6)),
        "Crop box: least x, y, z, then greatest.",
    );
    let voxel_size_m = p.required(
        VOXEL_SIZE,
        list(above(0.0, 1e6).in_unit("m"), Exactly(3)),
        "Edge lengths of a voxel along x, y, z; z of a pillar is the whole height.",
    );
    let range = PointRange::from_bounds(range.try_into().ok()?);
    let grid = Grid::new(range, voxel_size_m.try_into().ok()?)
        .map_err(|error| p.problem(VOXEL_SIZE, error.message()))
        .ok()?;
    let (fits, allowed) = match encoder {
        EncoderKind::Pillars => (
            grid.grid_size()[2] == 1 && grid.num_cells() <= MAX_PILLARS,
            format!("one cell along z and {MAX_PILLARS} in all, or `encoder: voxels`"),
        ),
        EncoderKind::Voxels => (grid.num_cells() <= MAX_VOXELS, format!("{MAX_VOXELS} cells")),
    };
    if !fits {
        let found = format!("a grid of {:?} cells", grid.grid_size());
        p.refuse(VOXEL_SIZE, found, &allowed);
        return None;
    }
    Some(grid)
}
