//! Inputs and outputs of LiDAR networks: the facts of their head files.

use super::anchor::AnchorFacts;
use super::center::CenterFacts;
use super::encoder::{EncoderFacts, EncoderKind};
use super::proposal::ProposalFacts;
use super::site::SiteFacts;
use crate::config::declaration::Change::Fixed;
use crate::config::reader::{Reader, described};
use crate::config::value::Length::{Exactly, OneOrMore};
use crate::config::value::{above, integer, list, number, one_of, text};
use det_post_types::{Grid, PointChannel, PointRange, ProposalLayout};

/// The kinds of [`LidarOutputs`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::config) enum OutputKind {
    Center,
    Anchor,
    Proposals(ProposalLayout),
    Sites,
}

/// The kinds by their names in head files.
pub(in crate::config) const KINDS: &[(&str, OutputKind)] = &[
    ("center", OutputKind::Center),
    ("anchor", OutputKind::Anchor),
    ("transfusion", OutputKind::Proposals(ProposalLayout::TransFusion)),
    ("bevfusion", OutputKind::Proposals(ProposalLayout::BevFusion)),
    ("voxelnext", OutputKind::Sites),
];

impl OutputKind {
    /// Whether its networks are behind an encoder of this kind.
    pub(super) fn is_behind(self, encoder: EncoderKind) -> bool {
        match self {
            Self::Center | Self::Anchor => {
                matches!(encoder, EncoderKind::Pillars | EncoderKind::Voxels)
            }
            Self::Proposals(ProposalLayout::TransFusion) => encoder == EncoderKind::None,
            Self::Proposals(ProposalLayout::BevFusion) => {
                matches!(encoder, EncoderKind::Voxels | EncoderKind::None)
            }
            Self::Sites => encoder == EncoderKind::Sites,
        }
    }

    /// Whether its networks may take a map of cameras beside the map of an encoder.
    fn may_have_cameras(self) -> bool {
        self == Self::Proposals(ProposalLayout::BevFusion)
    }

    /// The kinds behind an encoder, in words.
    fn names_behind(encoder: EncoderKind) -> String {
        let of = KINDS.iter().filter(|(_, kind)| kind.is_behind(encoder));
        of.map(|(name, _)| format!("`{name}`")).collect::<Vec<_>>().join(" or ")
    }
}

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
    /// Boxes of proposals (TransFusion, BEVFusion).
    Proposals(ProposalFacts),
    /// Heat maps and regressions on the sites of a map (VoxelNeXt).
    Sites(SiteFacts),
}

impl LidarFacts {
    /// Floats of a point: x, y, z and the channels.
    pub fn num_point_channels(&self) -> usize {
        3 + self.point_channels.len()
    }

    /// Floats of a point, or of a voxel, in the encoder's input.
    pub fn num_features(&self) -> usize {
        self.encoder.num_features(self.num_point_channels())
    }

    /// Per class, its task; an anchor head has one task.
    pub fn task_of_class(&self) -> Vec<u32> {
        let mut task_of_class = vec![0; self.class_names.len()];
        let tasks = match &self.outputs {
            LidarOutputs::Center(center) => &center.tasks[..],
            LidarOutputs::Sites(sites) => &sites.tasks,
            LidarOutputs::Anchor(_) | LidarOutputs::Proposals(_) => &[],
        };
        for (task, classes) in tasks.iter().enumerate() {
            for &class in classes {
                task_of_class[class as usize] = task as u32;
            }
        }
        task_of_class
    }

    /// `None` when a problem was noted. Every key is declared either way.
    pub(super) fn read(p: &mut Reader<'_>, class_names: Vec<String>) -> Option<Self> {
        let outputs = output_kind(p);
        let encoder = EncoderKind::read(p);
        if let (Some(encoder), Some(kind)) = (encoder, outputs)
            && !kind.is_behind(encoder)
        {
            let name = KINDS.iter().find(|(_, of)| *of == kind).map_or("", |(name, _)| name);
            let allowed = OutputKind::names_behind(encoder);
            let allowed = format!("{allowed} with `encoder: {}`", encoder.name());
            p.conflict(&["kind", "encoder"], format!("{name:?}"), &allowed);
        }
        Self::of_kind(p, class_names, encoder, outputs)
    }

    /// The facts of a kind; `None` for a kind that is not known.
    fn of_kind(
        p: &mut Reader<'_>,
        class_names: Vec<String>,
        encoder_kind: Option<EncoderKind>,
        output_kind: Option<OutputKind>,
    ) -> Option<Self> {
        let grid = grid(p, encoder_kind);
        let max_points_per_voxel = max_points_per_voxel(p, encoder_kind);
        let voxel_capacity = p.required(
            "voxel_capacity",
            integer(1..=1 << 20),
            "Default of the channel's `voxel_capacity`.",
        );
        let point_channels = point_channels(p);
        let intensity_scale = p.value(
            "intensity_scale",
            Fixed,
            number(-1e6..=1e6),
            1.0,
            "Factor on the intensity of a message.",
        );
        let model_input = model_input(p, encoder_kind);
        let may_have_cameras = output_kind.is_none_or(OutputKind::may_have_cameras);
        let encoder = EncoderFacts::read(p, encoder_kind, may_have_cameras);
        let outputs = outputs(p, output_kind, &class_names);
        Some(Self {
            class_names,
            grid: grid?,
            max_points_per_voxel,
            voxel_capacity,
            point_channels,
            intensity_scale,
            encoder: encoder?,
            model_input,
            outputs: outputs?,
        })
    }
}

/// Declares the facts of a kind.
pub(super) fn describe(p: &mut Reader<'_>, encoder: EncoderKind, outputs: OutputKind) {
    output_kind(p);
    EncoderKind::read(p);
    LidarFacts::of_kind(p, Vec::new(), Some(encoder), Some(outputs));
}

fn output_kind(p: &mut Reader<'_>) -> Option<OutputKind> {
    p.required_or_none("kind", one_of(KINDS), "Network whose outputs these are.")
}

/// `None` for a kind that is not known, which was reported.
fn outputs(
    p: &mut Reader<'_>,
    kind: Option<OutputKind>,
    class_names: &[String],
) -> Option<LidarOutputs> {
    match kind {
        Some(OutputKind::Center) => Some(LidarOutputs::Center(CenterFacts::read(p, class_names))),
        Some(OutputKind::Anchor) => Some(LidarOutputs::Anchor(AnchorFacts::read(p, class_names))),
        Some(OutputKind::Proposals(layout)) => {
            Some(LidarOutputs::Proposals(ProposalFacts::read(p, layout)))
        }
        Some(OutputKind::Sites) => Some(LidarOutputs::Sites(SiteFacts::read(p, class_names))),
        None => {
            p.accept_keys_of(|| {
                described(|p| {
                    for (_, kind) in KINDS {
                        outputs(p, Some(*kind), &[]);
                    }
                })
            });
            None
        }
    }
}

fn model_input(p: &mut Reader<'_>, encoder: Option<EncoderKind>) -> Option<String> {
    const KEY: &str = "model_input";
    const HELP: &str = "Name of the network's input.";
    let name = p.optional(KEY, Fixed, text(), "the first input", HELP);
    let allowed = match encoder {
        Some(EncoderKind::None) => "none with `encoder: none`, which has `input_names`",
        Some(EncoderKind::Sites) => "none with `encoder: sites`",
        Some(EncoderKind::Pillars | EncoderKind::Voxels) | None => return name,
    };
    if let Some(name) = &name {
        p.conflict(&[KEY, "encoder"], format!("{name:?}"), allowed);
    }
    name
}

fn point_channels(p: &mut Reader<'_>) -> Vec<PointChannel> {
    let names = p.optional(
        "point_channels",
        Fixed,
        list(text(), OneOrMore),
        "x, y, z only",
        "Values of a point beyond x, y, z, in order: `intensity`, `ring`, `time_lag` or a field's name.",
    );
    names.unwrap_or_default().into_iter().map(channel).collect()
}

fn channel(name: String) -> PointChannel {
    match &*name {
        "intensity" => PointChannel::Intensity,
        "ring" => PointChannel::Ring,
        "time_lag" => PointChannel::TimeLag,
        _ => PointChannel::Named(name),
    }
}

fn max_points_per_voxel(p: &mut Reader<'_>, encoder: Option<EncoderKind>) -> usize {
    const KEY: &str = "max_points_per_voxel";
    let found = p.required(
        KEY,
        integer(0..=1024),
        "Most points of a voxel; the network sees no more. With `encoder: voxels` 0 is no limit.",
    );
    match (found, encoder) {
        (0, Some(encoder)) if encoder.may_be_unlimited() => usize::MAX,
        (0, Some(encoder)) => {
            let allowed = format!("an integer from 1 to 1024 with `encoder: {}`", encoder.name());
            p.conflict(&[KEY, "encoder"], 0, &allowed);
            1
        }
        (limit, _) => limit,
    }
}

/// `None` when a problem was noted.
fn grid(p: &mut Reader<'_>, encoder: Option<EncoderKind>) -> Option<Grid> {
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
    // A kind that is not known was reported; voxels have the widest limits.
    let encoder = encoder.unwrap_or(EncoderKind::Voxels);
    let ends = encoder.range_ends(p);
    let range = PointRange::from_bounds(range.try_into().ok()?);
    let grid = encoder
        .grid(range, voxel_size_m.try_into().ok()?, ends)
        .map_err(|error| p.problem(VOXEL_SIZE, error.message()))
        .ok()?;
    if let Err(allowed) = encoder.check_grid(&grid) {
        let found = format!("a grid of {:?} cells", grid.grid_size());
        p.conflict(&[VOXEL_SIZE, "encoder"], found, &allowed);
        return None;
    }
    Some(grid)
}
