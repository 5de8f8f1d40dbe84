//! Facts of the encoders of LiDAR networks, and in what their kinds differ.

use super::fused_cameras::FusedCameraFacts;
use crate::config::declaration::Change::Fixed;
use crate::config::reader::{Reader, described};
use crate::config::value::Length::Exactly;
use crate::config::value::{flag, integer, list, one_of, text};
use det_post_types::{ChannelTransform, Grid, PointRange, RangeEnds, Result, VoxelCoordinates};

/// The maximum number of pillars of a grid, which bounds the memory of a map.
const MAX_PILLARS: u64 = 1 << 24;

/// Most voxels of a grid: those that the sites of a sparse encoder are numbered by.
const MAX_VOXELS: u64 = 1 << 28;

/// The encoder from the points of a frame to the network's input.
#[derive(Clone, Debug, PartialEq)]
pub enum EncoderFacts {
    /// A network on the points of each pillar (`detectors::pillars`).
    Pillars(PillarFacts),
    /// Sparse convolutions over the means of voxels (`detectors::voxels`).
    Voxels(VoxelFacts),
    /// Sparse convolutions over the means of voxels up to the outputs (`detectors::sites`).
    Sites(VoxelFacts),
    /// None: the network takes the points of voxels (`detectors::proposals`).
    None(VoxelPointFacts),
}

/// Facts of a pillar encoder.
#[derive(Clone, Debug, PartialEq)]
pub struct PillarFacts {
    /// Whether features contain three offsets from the pillar's center, or two.
    pub center_offset_z: bool,
    /// Name of the encoder's input; `None`: the first.
    pub encoder_input: Option<String>,
    /// Name of the encoder's output; `None`: the first.
    pub encoder_output: Option<String>,
}

/// Facts of a sparse encoder. The others are in its file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VoxelFacts {
    /// The transform of the intensity, after its scale and before the mean of a voxel.
    pub intensity_transform: ChannelTransform,
    /// The cameras of a network behind it that takes their map, too.
    pub cameras: Option<FusedCameraFacts>,
}

/// Facts of a network that takes the points of voxels.
#[derive(Clone, Debug, PartialEq)]
pub struct VoxelPointFacts {
    /// Names of its inputs: points, numbers of points, coordinates. Empty: by position in this
    /// order.
    pub input_names: Vec<String>,
    /// How it takes the cells of voxels.
    pub coordinates: VoxelCoordinates,
    /// The fewest voxels that it takes; a frame with fewer is dropped.
    pub min_voxels: usize,
    /// The cameras of a network that takes their images, too.
    pub cameras: Option<FusedCameraFacts>,
}

/// The kinds of [`EncoderFacts`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::config) enum EncoderKind {
    Pillars,
    Voxels,
    Sites,
    None,
}

/// The kinds by their names in head files.
pub(in crate::config) const KINDS: &[(&str, EncoderKind)] = &[
    ("pillars", EncoderKind::Pillars),
    ("voxels", EncoderKind::Voxels),
    ("sites", EncoderKind::Sites),
    ("none", EncoderKind::None),
];

const COORDINATES: &[(&str, VoxelCoordinates)] =
    &[("zyx", VoxelCoordinates::Zyx), ("batch_zyx", VoxelCoordinates::BatchZyx)];
const RANGE_ENDS: &[(&str, RangeEnds)] =
    &[("low_inside", RangeEnds::LowInside), ("both_outside", RangeEnds::BothOutside)];

const TRANSFORMS: &[(&str, ChannelTransform)] =
    &[("none", ChannelTransform::Identity), ("tanh", ChannelTransform::Tanh)];

impl EncoderKind {
    /// A shipped head of the kind.
    pub(in crate::config) fn shipped_head(self) -> &'static str {
        match self {
            Self::Pillars => "centerpoint_autoware",
            Self::Voxels => "centerpoint_voxel_nuscenes_0075",
            Self::Sites => "voxelnext_nuscenes",
            Self::None => "transfusion_autoware",
        }
    }

    /// Whether voxels may have any number of points.
    pub(super) fn may_be_unlimited(self) -> bool {
        match self {
            Self::Pillars | Self::Sites | Self::None => false,
            Self::Voxels => true,
        }
    }

    /// The name in head files.
    pub(super) fn name(self) -> &'static str {
        KINDS.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    /// The grid of a range and a voxel size, whose cells are counted as the networks of the kind
    /// have it.
    pub(super) fn grid(
        self,
        range: PointRange,
        voxel_size_m: [f32; 3],
        ends: RangeEnds,
    ) -> Result<Grid> {
        match self {
            Self::Pillars | Self::Voxels | Self::Sites => Grid::new(range, voxel_size_m),
            Self::None => Grid::truncated(range, voxel_size_m, ends),
        }
    }

    /// Which points are inside the range, where heads of the kind say so.
    pub(super) fn range_ends(self, p: &mut Reader<'_>) -> RangeEnds {
        match self {
            Self::Pillars | Self::Voxels | Self::Sites => RangeEnds::default(),
            Self::None => range_ends(p),
        }
    }

    /// The grids that the encoder takes.
    ///
    /// # Errors
    /// What is allowed in place of this grid.
    pub(super) fn check_grid(self, grid: &Grid) -> std::result::Result<(), String> {
        let (fits, allowed) = match self {
            Self::Pillars => (
                grid.grid_size()[2] == 1 && grid.num_cells() <= MAX_PILLARS,
                format!("one cell along z and {MAX_PILLARS} in all, or `encoder: voxels`"),
            ),
            Self::Voxels | Self::Sites | Self::None => {
                (grid.num_cells() <= MAX_VOXELS, format!("{MAX_VOXELS} cells"))
            }
        };
        if fits { Ok(()) } else { Err(allowed) }
    }

    /// `None` for a kind that is not known, which was reported.
    pub(super) fn read(p: &mut Reader<'_>) -> Option<Self> {
        p.choice(
            "encoder",
            one_of(KINDS),
            "pillars",
            "A network on each pillar's points; sparse convolutions over voxels, to a map or the outputs (`sites`); \
             none: the network takes points.",
        )
    }
}

impl EncoderFacts {
    /// Floats of a point of a pillar, or of a voxel, in the encoder's input. Of a point: its
    /// own, three offsets from the mean, two or three from the pillar's center. Of a voxel:
    /// its mean point.
    pub(super) fn num_features(&self, num_point_channels: usize) -> usize {
        match self {
            Self::Pillars(pillars) => {
                num_point_channels + 3 + if pillars.center_offset_z { 3 } else { 2 }
            }
            Self::Voxels(_) | Self::Sites(_) | Self::None(_) => num_point_channels,
        }
    }

    /// Whether the encoder, or the network, takes the points of each voxel, not their mean.
    pub(in crate::config) fn has_point_rows(&self) -> bool {
        match self {
            Self::Pillars(_) | Self::None(_) => true,
            Self::Voxels(_) | Self::Sites(_) => false,
        }
    }

    /// Whether channels have the options of a sparse encoder, which may be in the network's file.
    pub(in crate::config) fn is_sparse(&self) -> bool {
        match self {
            Self::Pillars(_) => false,
            Self::Voxels(_) | Self::Sites(_) | Self::None(_) => true,
        }
    }

    /// Whether networks behind it may take images, too.
    pub(in crate::config) fn may_have_cameras(&self) -> bool {
        matches!(self, Self::None(_) | Self::Voxels(_))
    }

    /// The cameras of a network of cameras and LiDAR.
    pub fn cameras(&self) -> Option<&FusedCameraFacts> {
        match self {
            Self::None(facts) => facts.cameras.as_ref(),
            Self::Voxels(facts) => facts.cameras.as_ref(),
            Self::Pillars(_) | Self::Sites(_) => None,
        }
    }

    /// Whether there is an encoder before the network, in another file.
    pub fn has_file(&self) -> bool {
        matches!(self, Self::Pillars(_) | Self::Voxels(_))
    }

    /// `None` for a kind that is not known. The network behind a map of voxels may take a map of cameras
    /// beside it.
    pub(super) fn read(
        p: &mut Reader<'_>,
        kind: Option<EncoderKind>,
        may_have_cameras: bool,
    ) -> Option<Self> {
        match kind {
            Some(EncoderKind::Pillars) => Some(Self::Pillars(PillarFacts::read(p))),
            Some(EncoderKind::Voxels) => Some(Self::Voxels(VoxelFacts::read(p, may_have_cameras))),
            Some(EncoderKind::Sites) => Some(Self::Sites(VoxelFacts::read(p, false))),
            Some(EncoderKind::None) => Some(Self::None(VoxelPointFacts::read(p))),
            None => {
                p.accept_keys_of(|| {
                    described(|p| {
                        for (_, kind) in KINDS {
                            kind.range_ends(p);
                            Self::read(p, Some(*kind), may_have_cameras);
                        }
                    })
                });
                None
            }
        }
    }
}

impl PillarFacts {
    fn read(p: &mut Reader<'_>) -> Self {
        Self {
            center_offset_z: p.required(
                "center_offset_z",
                flag(),
                "Whether features hold the offset from the pillar's center in z, too.",
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
        }
    }
}

impl VoxelFacts {
    fn read(p: &mut Reader<'_>, may_have_cameras: bool) -> Self {
        Self {
            intensity_transform: p.value(
                "intensity_transform",
                Fixed,
                one_of(TRANSFORMS),
                "none",
                "Transform of a point's scaled intensity, before its voxel's mean.",
            ),
            cameras: if may_have_cameras { FusedCameraFacts::read(p) } else { None },
        }
    }
}

impl VoxelPointFacts {
    fn read(p: &mut Reader<'_>) -> Self {
        Self {
            input_names: p
                .optional(
                    "input_names",
                    Fixed,
                    list(text(), Exactly(3)),
                    "by position",
                    "Inputs: points of voxels, their numbers, coordinates.",
                )
                .unwrap_or_default(),
            coordinates: p.required(
                "coordinates",
                one_of(COORDINATES),
                "Columns of coordinates; `batch_zyx` begins with 0.",
            ),
            min_voxels: p.value(
                "min_voxels",
                Fixed,
                integer(1..=1 << 20),
                1,
                "Frames with fewer are dropped, without sparse convolutions.",
            ),
            cameras: FusedCameraFacts::read(p),
        }
    }
}

fn range_ends(p: &mut Reader<'_>) -> RangeEnds {
    p.value(
        "range_ends",
        Fixed,
        one_of(RANGE_ENDS),
        "low_inside",
        "Whether points on the low end of `point_range_m` are inside.",
    )
}
