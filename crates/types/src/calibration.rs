//! The calibration of a camera.

use super::image::Size;

/// The calibration of a camera, as `sensor_msgs/CameraInfo` states it.
/// Unchecked; matrices are row by row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CameraCalibration {
    /// Coordinate frame of the camera.
    pub frame_id: String,
    /// Size of the image that was calibrated, at full resolution.
    pub size: Size,
    /// Name of the distortion model, such as `plumb_bob`.
    pub distortion_model: String,
    /// Coefficients of the distortion model.
    pub distortion: Vec<f64>,
    /// 3x3 intrinsic matrix of the raw image; all zero when not calibrated.
    pub intrinsics: [f64; 9],
    /// 3x3 rectification rotation.
    pub rectification: [f64; 9],
    /// 3x4 projection matrix of the rectified image.
    pub projection: [f64; 12],
    /// Pixels of the full resolution that one pixel of the image covers, along x
    /// and y; at least 1.
    pub binning: [u32; 2],
    /// Left edge, top edge, width and height of the part of the full resolution
    /// that the image shows; all of it where width and height are 0.
    pub region: [u32; 4],
}

impl CameraCalibration {
    /// The maximum number of coefficients of a distortion model.
    pub const MAX_COEFFICIENTS: usize = 1024;
}
