//! ROS 2 messages: decoded from CDR, borrowing it, and encoded as CDR.
//!
//! One file per family. `decode` reads a whole message with its encapsulation
//! header, in either byte order, and `read` one after its header. `encode` writes
//! a whole message into a buffer of the caller; after an error the buffer holds
//! no message.
//!
//! Decoding does not validate values. `view` of an image or a cloud does, and
//! returns the view that operations use. Arrays are decoded one element at a
//! time. Whatever lengths a message claims, decoding allocates only the text of
//! an error and the distortion of a `CameraInfo`.
//!
//! Each type has its ROS name as `TYPE`. [`definition`] is the text that a
//! recording stores with it, [`find_type`] its description for other nodes.

mod bond;
mod camera_info;
mod clock;
mod compressed_point_cloud;
mod compressed_video;
mod debug_time;
mod definitions;
mod detected_objects;
mod detection;
mod detection_2d;
mod detection_3d;
mod diagnostic;
mod ffmpeg_packet;
mod field;
mod header;
mod image;
mod image_annotations;
mod image_format;
mod label_info;
mod livox;
mod log;
mod marker;
mod motion;
mod node_event;
mod output;
mod point_cloud;
mod service;
mod tensor_list;
mod transform;
mod yolo_detections;

pub use bond::BondStatus;
pub use camera_info::{CameraInfo, RegionOfInterest};
pub use clock::Clock;
pub use compressed_point_cloud::CompressedPointCloud2;
pub use compressed_video::CompressedVideo;
pub use debug_time::{Float64Stamped, PublishedTime};
pub use definitions::{KnownType, definition, find_type, type_hash};
pub use detected_objects::{DetectedObjects, DetectedObjectsWithFeature};
pub use detection::{DetectionArray, Hypothesis, Pose};
pub use detection_2d::{Detection2D, Detection2DArray};
pub use detection_3d::{Detection3D, Detection3DArray};
pub use diagnostic::{DiagnosticArray, DiagnosticLevel, DiagnosticStatus};
pub use ffmpeg_packet::FfmpegPacket;
pub use header::read_header;
pub use image::{CompressedImage, Image};
pub use image_annotations::{ImageAnnotations, ImagePoints, LabeledOutline};
pub use label_info::LabelInfo;
pub use livox::LivoxCustomMsg;
pub use log::Log;
pub use marker::{Marker, MarkerAction, MarkerArray, MarkerShape};
pub use motion::{
    Imu, MotionType, MotionValues, Odometry, TwistStamped, TwistWithCovarianceStamped,
    VehicleMotion,
};
pub use node_event::{ParameterEvent, TransitionEvent};
pub use point_cloud::PointCloud2;
pub use service::{read_request, write_response};
pub use tensor_list::TensorList;
pub use transform::{TfMessage, TransformStamped};
pub use yolo_detections::{YoloDetectionArray, YoloParts};
