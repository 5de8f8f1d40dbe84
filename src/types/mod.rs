//! Nouns of perception. No CUDA, no ROS, no input or output: every other module may import
//! these.

mod anchor;
mod boxes;
mod calibration;
mod candidate;
mod center;
mod cloud;
mod detection;
mod device;
mod engine;
mod failure;
mod grid;
mod header;
mod image;
mod letterbox;
mod nms;
mod report;
mod tensor;
mod truth;
mod yolo;

pub use anchor::{Anchor, AnchorDecode};
pub use boxes::{Box2d, Box3d, ImageBox, RotatedBox2d};
pub use calibration::CameraCalibration;
pub use candidate::{Candidate, Candidates, Kept, total_order};
pub use center::{CenterDecode, ScoreThresholds, SizeOrder, YawConvention};
pub use cloud::{
    CloudView, Datatype, MAX_POINT_FIELDS, PointChannel, PointField, PointFields, Points,
};
pub use detection::{Detection2d, Detection3d, Detections, Object3d, OutputType, Variance3d};
pub use device::DeviceChoice;
pub use engine::{CudaGraph, EngineKind, EngineOptions, GpuEngineOptions, Provider};
pub use failure::{FailurePolicy, Fallback};
pub use grid::{Grid, PointRange};
pub use header::{Header, Stamp};
pub use image::{CompressedFormat, CompressedView, Encoding, ImagePayload, ImageView, Size};
pub use letterbox::{Affine2, ChannelOrder, Letterbox, Normalization, Placement};
pub use nms::{
    CircleThreshold, ClassMode, Nms2d, Nms3d, NmsBev, NmsCircle, NmsFast, NmsIou, NmsIou3d,
    NmsRotated, NmsSoft, SoftDecay,
};
pub use report::{Count, FrameReport, Stage, Transfer};
pub use tensor::{Dim, ElementType, Tensor, TensorSpec, TensorValues, TensorView};
pub use truth::{Truth2d, Truth3d};
pub use yolo::{AnchorLevel, DetrBoxes, YoloLayout};
