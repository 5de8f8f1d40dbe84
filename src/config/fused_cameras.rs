//! The cameras of a channel of cameras and LiDAR.

use std::path::PathBuf;

use super::camera_inputs::{transforms_path, undistort};
use super::head::{EncoderFacts, FusedCameraFacts};
use super::paths::PathUse;
use super::reader::Reader;
use super::value::path;
use det_post_types::Undistort;

/// How the cameras of a channel of cameras and LiDAR are deployed.
#[derive(Clone, Debug, PartialEq)]
pub struct FusedCamerasConfig {
    /// The network from images to their features.
    pub image_backbone_path: PathBuf,
    /// Static transforms in addition to the graph's or the recording's.
    pub transforms_path: Option<PathBuf>,
    /// Whether images are undistorted.
    pub undistort: Undistort,
    /// What the networks take and give.
    pub facts: FusedCameraFacts,
}

impl FusedCamerasConfig {
    /// `None` for a head without cameras.
    pub(super) fn read(p: &mut Reader<'_>, encoder: &EncoderFacts) -> Option<Self> {
        let facts = encoder.cameras();
        if facts.is_none() && !(p.is_manual() && encoder.may_have_cameras()) {
            return None;
        }
        let image_backbone_path = p.required(
            "image_backbone_path",
            path(PathUse::Read),
            "Network from images to features.",
        );
        let (transforms_path, undistort) = (transforms_path(p), undistort(p));
        let facts = *facts?;
        let image_backbone_path = image_backbone_path.into();
        Some(Self { image_backbone_path, transforms_path, undistort, facts })
    }
}
