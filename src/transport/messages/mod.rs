//! ROS 2 messages, borrowed from the CDR they came in, and written as CDR.
//!
//! One file per family. `decode` takes a whole message with its encapsulation
//! header, in either byte order, and `read` one whose header was read already;
//! `encode` writes a whole message into memory of the caller, which holds no
//! message when there is an error.
//!
//! What a message says is taken as it stands; `view` of an image or a cloud
//! checks it and gives what the ops take. Arrays are decoded one element at a
//! time. Decoding allocates nothing (but the text of an error and the
//! distortion of a `CameraInfo`), whatever lengths a message claims.
//!
//! Each type has its ROS name as `TYPE`; [`definition`] gives the text that a
//! recording stores beside it.

mod bond;
mod camera_info;
mod clock;
mod definition;
mod detection;
mod detection_2d;
mod detection_3d;
mod diagnostic;
mod header;
mod image;
mod label_info;
mod log;
mod marker;
mod node_event;
mod output;
mod point_cloud;
mod service;
mod transform;

pub use bond::BondStatus;
pub use camera_info::{CameraInfo, RegionOfInterest};
pub use clock::Clock;
pub use definition::definition;
pub use detection::{Hypothesis, Pose};
pub use detection_2d::{Detection2D, Detection2DArray};
pub use detection_3d::{Detection3D, Detection3DArray};
pub use diagnostic::{DiagnosticArray, DiagnosticLevel, DiagnosticStatus};
pub use header::{read_header, write_header};
pub use image::{CompressedImage, Image};
pub use label_info::LabelInfo;
pub use log::Log;
pub use marker::{Marker, MarkerAction, MarkerArray, MarkerShape};
pub use node_event::{ParameterEvent, TransitionEvent, write_parameter_value};
pub use point_cloud::PointCloud2;
pub use service::{read_request, write_response};
pub use transform::{TfMessage, TransformStamped};
