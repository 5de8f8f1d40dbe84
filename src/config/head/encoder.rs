//! Facts of the encoders of LiDAR networks.

use crate::config::declaration::Change::Fixed;
use crate::config::reader::{Reader, described};
use crate::config::value::{flag, one_of, text};
use det_post_types::ChannelTransform;

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

const KINDS: &[(&str, EncoderKind)] =
    &[("pillars", EncoderKind::Pillars), ("voxels", EncoderKind::Voxels)];

const TRANSFORMS: &[(&str, ChannelTransform)] =
    &[("none", ChannelTransform::Identity), ("tanh", ChannelTransform::Tanh)];

impl EncoderKind {
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
    /// `None` for a kind that is not known.
    pub(super) fn read(p: &mut Reader<'_>, kind: Option<EncoderKind>) -> Option<Self> {
        match kind {
            Some(EncoderKind::Pillars) => Some(Self::Pillars(PillarFacts::read(p))),
            Some(EncoderKind::Voxels) => Some(Self::Voxels(VoxelFacts::read(p))),
            None => {
                p.accept_keys_of(|| {
                    described(|p| {
                        PillarFacts::read(p);
                        VoxelFacts::read(p);
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
