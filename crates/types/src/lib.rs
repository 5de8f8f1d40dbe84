//! Data of perception. No CUDA, no ROS, no input or output.
//!
//! Images, clouds and tensors are borrowed views of the memory of a message, checked when
//! they are created:
//!
//! ```
//! use det_post_types::{CloudView, PointField, PointFields};
//!
//! // Two points of x, y, z as a sensor_msgs/PointCloud2 holds them.
//! let values = [1.0_f32, 2.0, 0.5, -4.0, 0.0, 1.5];
//! let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
//! let mut fields = PointFields::new();
//! for (name, offset) in [("x", 0), ("y", 4), ("z", 8)] {
//!     fields.push(PointField { name, offset, datatype: 7, count: 1 })?;
//! }
//! let cloud = CloudView::new([2, 1], [12, 24], false, fields, &data)?;
//! assert_eq!(cloud.num_points(), 2);
//! assert!(CloudView::new([3, 1], [12, 36], false, fields, &data).is_err(), "a point is missing");
//! # Ok::<(), det_post_types::Error>(())
//! ```

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[macro_use]
mod named;

mod anchor;
mod boxes;
mod calibration;
mod camera_model;
mod camera_view;
mod candidate;
mod center;
mod cloud;
mod compressed_image;
mod detection;
mod device;
#[expect(unsafe_code, reason = "a constructor with a contract that no library can check")]
mod device_bytes;
mod engine;
mod error;
mod failure;
mod grid;
mod header;
mod image;
mod image_payload;
pub mod input_file;
mod keypoint;
mod layer_study;
mod letterbox;
mod mask;
mod nms;
mod outline;
mod point_channel;
mod point_time;
mod proposal;
mod received_tensors;
mod report;
mod rle;
mod site;
mod streampetr;
mod tensor;
pub mod text;
mod truth;
mod view_decoder;
mod voxel_coordinates;
mod yolo;
mod yolo_kind;

pub use anchor::{Anchor, AnchorDecode};
pub use boxes::{Box2d, Box3d, ImageBox, RotatedBox2d};
pub use calibration::CameraCalibration;
pub use camera_model::{CameraModel, Pinhole, Rectified};
pub use camera_view::{CameraView, PixelConvention, Undistort, rounded_rows};
pub use candidate::{Candidate, Candidates, Kept, total_order};
pub use center::{CenterDecode, ScoreThresholds, SizeOrder, YawConvention};
pub use cloud::{CloudView, Datatype, MAX_POINT_FIELDS, PointField, PointFields, Points};
pub use compressed_image::{CompressedFormat, CompressedView, FileSamples};
pub use detection::{Detection2d, Detection3d, Detections, Object3d, Variance3d};
pub use device::{DeviceChoice, UploadOptions, Usage};
pub use device_bytes::DeviceBytes;
pub use engine::{
    ClassVectors, EncoderPrecision, EngineKind, EngineOptions, GpuEngineOptions, NetworkPart,
    Provider,
};
pub use error::{Error, ErrorKind, Result};
pub use failure::{FailurePolicy, Fallback};
pub use grid::{Grid, PointRange, RangeEnds};
pub use header::{Header, Stamp};
pub use image::{Encoding, FrameCrop, ImageView, JpegDevice, JpegOptions, Size, VideoDevice};
pub use image_payload::ImagePayload;
pub use keypoint::{Keypoint, KeypointRows, Keypoints, bones};
pub use layer_study::{LayerStudy, StudiedLayer, StudiedNetwork};
pub use letterbox::{Affine2, ChannelOrder, Letterbox, Normalization, Placement, Resize};
pub use mask::{Mask, MaskParams, MaskRule, MaskWindow, Masks};
pub use nms::*;
pub use point_channel::{ChannelTransform, PointChannel};
pub use point_time::{MAX_POINT_TIME_S, PointTimes, TimeField, TimeOrigin, TimeUnit};
pub use proposal::{ProposalDecode, ProposalLayout};
pub use received_tensors::{
    MAX_RANK, MAX_TENSORS, OwnedTensor, ReceivedTensors, Span, TensorEntries, TensorEntry,
    TensorType,
};
pub use report::{
    Count, FRAME_SPANS, FrameReport, ImageDecoder, LevelCounts, Stage, Transfer, UnpackCounts,
};
pub use rle::Rle;
pub use site::SiteDecode;
pub use streampetr::StreamPetrDecode;
pub use tensor::{Dim, ElementType, Tensor, TensorSpec, TensorValues, TensorView};
pub use truth::{Evidence, Truth2d, Truth3d};
pub use view_decoder::{
    AttentionResidual, CachedYaw, Detr3d, MapLayout, Motion, QueryBox, QueryDecode, Sparse4d,
    ViewDecoder, ViewPrecision,
};
pub use voxel_coordinates::VoxelCoordinates;
pub use yolo::{AnchorLevel, DetrBoxes, DetrClasses, FinalRows, YoloLayout, YoloOutput};
pub use yolo_kind::{YoloKind, YoloOptions};
