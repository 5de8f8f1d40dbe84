//! Facts of the encoders of LiDAR networks, and in what their kinds differ.

use crate::config::declaration::Change::Fixed;
use crate::config::reader::{Reader, described};
use crate::config::value::{flag, one_of, text};
use det_post_types::{ChannelTransform, Grid};

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VoxelFacts {
    /// The transform of the intensity, after its scale and before the mean of a voxel.
    pub intensity_transform: ChannelTransform,
}

/// The kinds of [`EncoderFacts`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::config) enum EncoderKind {
    Pillars,
    Voxels,
}

/// The kinds by their names in head files.
pub(in crate::config) const KINDS: &[(&str, EncoderKind)] =
    &[("pillars", EncoderKind::Pillars), ("voxels", EncoderKind::Voxels)];

const TRANSFORMS: &[(&str, ChannelTransform)] =
    &[("none", ChannelTransform::Identity), ("tanh", ChannelTransform::Tanh)];

impl EncoderKind {
    /// A shipped head of the kind.
    pub(in crate::config) fn shipped_head(self) -> &'static str {
        match self {
            Self::Pillars => "centerpoint_autoware",
            Self::Voxels => "centerpoint_voxel_nuscenes_0075",
        }
    }

    /// Whether voxels may have any number of points.
    pub(super) fn may_be_unlimited(self) -> bool {
        match self {
            Self::Pillars => false,
            Self::Voxels => true,
        }
    }

    /// The grids that the encoder takes.
    ///
    /// # Errors
    /// What is allowed in place of this grid.
    pub(super) fn check_grid(self, grid: &Grid) -> Result<(), String> {
        let (fits, allowed) = match self {
            Self::Pillars => (
                grid.grid_size()[2] == 1 && grid.num_cells() <= MAX_PILLARS,
                format!("one cell along z and {MAX_PILLARS} in all, or `encoder: voxels`"),
            ),
            Self::Voxels => (grid.num_cells() <= MAX_VOXELS, format!("{MAX_VOXELS} cells")),
        };
        if fits { Ok(()) } else { Err(allowed) }
    }

    /// `None` for a kind that is not known, which was reported.
    pub(super) fn read(p: &mut Reader<'_>) -> Option<Self> {
        p.choice(
            "encoder",
            one_of(KINDS),
            "pillars",
            "Encoder of points: a network on the points of each pillar, or sparse convolutions over \
             voxels.",
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
            Self::Voxels(_) => num_point_channels,
        }
    }

    /// Whether the encoder takes the points of each voxel, not their mean.
    pub(in crate::config) fn has_point_rows(&self) -> bool {
        match self {
            Self::Pillars(_) => true,
            Self::Voxels(_) => false,
        }
    }

    /// Whether channels have the options of a sparse encoder.
    pub(in crate::config) fn is_sparse(&self) -> bool {
        match self {
            Self::Pillars(_) => false,
            Self::Voxels(_) => true,
        }
    }

    /// `None` for a kind that is not known.
    pub(super) fn read(p: &mut Reader<'_>, kind: Option<EncoderKind>) -> Option<Self> {
        match kind {
            Some(EncoderKind::Pillars) => Some(Self::Pillars(PillarFacts::read(p))),
            Some(EncoderKind::Voxels) => Some(Self::Voxels(VoxelFacts::read(p))),
            None => {
                p.accept_keys_of(|| {
                    described(|p| {
                        for (_, kind) in KINDS {
                            Self::read(p, Some(*kind));
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
                "Whether features hold the offset from the pillar's center in z, too: three offsets, or two.",
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
    fn read(p: &mut Reader<'_>) -> Self {
        Self {
            intensity_transform: p.value(
                "intensity_transform",
                Fixed,
                one_of(TRANSFORMS),
                "none",
                "Transform of the scaled intensity of a point before the mean of its voxel is taken.",
            ),
        }
    }
}

/// The kinds as head files name them.
pub(super) fn kind_names() -> Vec<&'static str> {
    KINDS.iter().map(|(name, _)| *name).collect()
}
