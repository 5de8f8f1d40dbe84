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
    /// The network from images to their features; with a fuser, and images of depths, to depths and features
    /// of pixels.
    pub image_backbone_path: PathBuf,
    /// The networks between the map of the cameras and the head, where they have files of their own.
    pub fuser: Option<FuserPaths>,
    /// Static transforms in addition to the graph's or the recording's.
    pub transforms_path: Option<PathBuf>,
    /// Whether images are undistorted.
    pub undistort: Undistort,
    /// What the networks take and give.
    pub facts: FusedCameraFacts,
}

/// The networks of CUDA-BEVFusion from the maps of cameras and LiDAR to the input of the head.
#[derive(Clone, Debug, PartialEq)]
pub struct FuserPaths {
    /// The network behind the map of the cameras (`camera.vtransform`).
    pub camera_transform_path: PathBuf,
    /// The network from both maps to one (`fuser`).
    pub fuser_path: PathBuf,
}

impl FuserPaths {
    fn read(p: &mut Reader<'_>) -> Self {
        let mut required =
            |key, help| -> PathBuf { p.required(key, path(PathUse::Read), help).into() };
        Self {
            camera_transform_path: required(
                "camera_transform_path",
                "Network behind the cameras' map.",
            ),
            fuser_path: required("fuser_path", "Network of both maps."),
        }
    }
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
        let fuser = matches!(encoder, EncoderFacts::Voxels(_)).then(|| FuserPaths::read(p));
        let (transforms_path, undistort) = (transforms_path(p), undistort(p));
        let facts = *facts?;
        let image_backbone_path = image_backbone_path.into();
        Some(Self { image_backbone_path, fuser, transforms_path, undistort, facts })
    }
}
