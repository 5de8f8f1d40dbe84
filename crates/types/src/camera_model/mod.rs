//! The geometry of a camera: rays of space to pixels of its images.

mod distortion;
#[cfg(test)]
mod tests;

use nalgebra::{Matrix3, Vector3};

use self::distortion::{Distortion, STAGE};
use super::calibration::CameraCalibration;
use super::image::{ImageView, Size};
use crate::error::{Error, ErrorKind, Result};

/// The largest focal length and distance of the principal point from the image's origin,
/// in pixels.
const MAX_PIXELS: f64 = 1e6;

/// The smallest focal length, in pixels of the full resolution.
const MIN_FOCAL: f64 = 1e-3;

/// The largest deviation of a rectification matrix from a rotation.
const ROTATION_TOLERANCE: f64 = 1e-3;

fn uncalibrated(message: String) -> Error {
    Error::new(ErrorKind::Uncalibrated, STAGE, message)
}

/// A projection without distortion. Coordinates of pixels are those of ROS and OpenCV:
/// the centre of the first pixel is (0, 0).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pinhole {
    /// Focal lengths along x and y, in pixels.
    pub focal: [f64; 2],
    /// The pixel of the optical axis.
    pub center: [f64; 2],
}

impl Pinhole {
    /// The pixel of the ray `(x, y, 1)`.
    pub fn pixel_of(&self, ray: [f64; 2]) -> [f64; 2] {
        std::array::from_fn(|axis| self.focal[axis] * ray[axis] + self.center[axis])
    }

    /// The ray `(x, y, 1)` of a pixel.
    pub fn ray_of(&self, pixel: [f64; 2]) -> [f64; 2] {
        std::array::from_fn(|axis| (pixel[axis] - self.center[axis]) / self.focal[axis])
    }

    /// The 3x3 intrinsic matrix.
    pub fn matrix(&self) -> Matrix3<f64> {
        let ([fx, fy], [cx, cy]) = (self.focal, self.center);
        Matrix3::new(fx, 0.0, cx, 0.0, fy, cy, 0.0, 0.0, 1.0)
    }

    /// The part of the full resolution that an image shows, as `image_geometry` converts it.
    fn of_part(self, offset: [u32; 2], binning: [u32; 2]) -> Self {
        Self {
            focal: std::array::from_fn(|axis| self.focal[axis] / f64::from(binning[axis])),
            center: std::array::from_fn(|axis| {
                (self.center[axis] - f64::from(offset[axis])) / f64::from(binning[axis])
            }),
        }
    }

    /// From a 3x3 intrinsic matrix, row by row.
    fn of_matrix(name: &str, matrix: [f64; 9]) -> Result<Self> {
        let [fx, skew, cx, zero_10, fy, cy, zero_20, zero_21, one] = matrix;
        let is_finite = matrix.iter().all(|value| value.is_finite());
        let in_range = |focal: f64| (MIN_FOCAL..=MAX_PIXELS).contains(&focal);
        let is_near = |center: f64| center.abs() <= MAX_PIXELS;
        let is_plain = [skew, zero_10, zero_20, zero_21].iter().all(|&value| value == 0.0);
        if is_finite
            && is_plain
            && (one - 1.0).abs() < 1e-9
            && in_range(fx)
            && in_range(fy)
            && is_near(cx)
            && is_near(cy)
        {
            return Ok(Self { focal: [fx, fy], center: [cx, cy] });
        }
        Err(uncalibrated(format!(
            "{name} is {matrix:?}; [fx, 0, cx, 0, fy, cy, 0, 0, 1] is required, focal lengths of \
             at least {MIN_FOCAL:e}, all up to {MAX_PIXELS:e} pixels"
        )))
    }
}

/// The rectified image of a camera.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rectified {
    /// Its projection: the left 3x3 of P; K without P.
    pub pinhole: Pinhole,
    /// Rotation from the camera's frame into that of the rectified image: R; the identity
    /// without P.
    pub rotation: Matrix3<f64>,
    camera_from_rectified: Matrix3<f64>,
}

/// The checked model of a camera, for images as they are received: the region of interest
/// and binning of the calibration are applied.
///
/// The frame of a camera has x to the right, y down and z along the optical axis. A ray is
/// `(x / z, y / z)`. Everything is f64.
///
/// Distortion models are `plumb_bob` and `rational_polynomial` with 4, 5, 8, 12 or 14
/// coefficients in OpenCV's order, and `equidistant` with 4. They are inverted up to the
/// ray where the distance from the centre of distortion stops growing; farther rays have
/// no pixel. OpenCV does not limit them, so that their pixels are found twice.
///
/// P's fourth column, the baseline of a stereo pair, is not used: the calibration's frame
/// is at the camera's optical centre.
#[derive(Clone, Debug, PartialEq)]
pub struct CameraModel {
    frame_id: String,
    image_size: Size,
    raw: Pinhole,
    distortion: Distortion,
    rectified: Rectified,
}

impl CameraModel {
    /// The model of a calibration.
    ///
    /// # Errors
    /// `Uncalibrated` when a matrix is zero, not finite or not of its form, or the size is
    /// not possible; `UnsupportedDistortion` naming the model and its number of
    /// coefficients.
    pub fn new(calibration: &CameraCalibration) -> Result<Self> {
        let (offset, image_size) = shown_part(calibration)?;
        let part = |pinhole: Pinhole| pinhole.of_part(offset, calibration.binning);
        let raw = part(Pinhole::of_matrix("K", calibration.intrinsics)?);
        let p = calibration.projection;
        let rectified = if p.iter().all(|&value| value == 0.0) {
            Rectified::unrotated(raw)
        } else {
            let left = [p[0], p[1], p[2], p[4], p[5], p[6], p[8], p[9], p[10]];
            let pinhole = part(Pinhole::of_matrix("the left 3x3 of P", left)?);
            Rectified::rotated(pinhole, calibration.rectification)?
        };
        let CameraCalibration { distortion_model, distortion, .. } = calibration;
        let distortion = Distortion::new(distortion_model, distortion)?;
        let frame_id = calibration.frame_id.clone();
        Ok(Self { frame_id, image_size, raw, distortion, rectified })
    }

    /// Coordinate frame of the camera; empty where a file does not name it.
    pub fn frame_id(&self) -> &str {
        &self.frame_id
    }

    /// Size of the images as received.
    pub fn image_size(&self) -> Size {
        self.image_size
    }

    /// The projection of the images as received, without their distortion.
    pub fn raw(&self) -> Pinhole {
        self.raw
    }

    /// The rectified image.
    pub fn rectified(&self) -> &Rectified {
        &self.rectified
    }

    /// Whether images as received differ from a pinhole projection.
    pub fn is_distorted(&self) -> bool {
        self.distortion != Distortion::None
    }

    /// Checks that the calibration is of an image with this frame and size. A calibration
    /// without a frame matches every frame.
    ///
    /// # Errors
    /// `CalibrationMismatch` naming both sizes or both frames.
    pub fn check_image(&self, frame_id: &str, size: Size) -> Result<()> {
        let mismatch = |message| Err(Error::new(ErrorKind::CalibrationMismatch, STAGE, message));
        if size != self.image_size {
            let Size { width, height } = self.image_size;
            return mismatch(format!(
                "the image has {}x{} pixels, its calibration is for {width}x{height}",
                size.width, size.height
            ));
        }
        if !self.frame_id.is_empty() && self.frame_id != frame_id {
            return mismatch(format!(
                "the image is of frame {frame_id:?}, its calibration is of {:?}",
                self.frame_id
            ));
        }
        Ok(())
    }

    /// The pixel of the image as received where a ray of the camera's frame arrives; `None`
    /// when it is outside the range of the distortion model.
    pub fn distort(&self, ray: [f64; 2]) -> Option<[f64; 2]> {
        Some(self.raw.pixel_of(self.distortion.apply(ray)?))
    }

    /// The ray of a pixel of the image as received: the inverse of [`CameraModel::distort`].
    pub fn undistort(&self, pixel: [f64; 2]) -> Option<[f64; 2]> {
        self.distortion.remove(self.raw.ray_of(pixel))
    }

    /// The pixel of the image as received that a pixel of the rectified image shows; `None`
    /// when the camera does not see its ray.
    pub fn raw_from_rectified(&self, pixel: [f64; 2]) -> Option<[f64; 2]> {
        let [x, y] = self.rectified.pinhole.ray_of(pixel);
        let ray = self.rectified.camera_from_rectified * Vector3::new(x, y, 1.0);
        (ray.z > 0.0).then(|| self.distort([ray.x / ray.z, ray.y / ray.z])).flatten()
    }
}

impl Rectified {
    fn unrotated(pinhole: Pinhole) -> Self {
        let identity = Matrix3::identity();
        Self { pinhole, rotation: identity, camera_from_rectified: identity }
    }

    /// All zero is the identity, as `image_geometry` reads it.
    fn rotated(pinhole: Pinhole, rectification: [f64; 9]) -> Result<Self> {
        if rectification.iter().all(|&value| value == 0.0) {
            return Ok(Self::unrotated(pinhole));
        }
        let rotation = Matrix3::from_row_slice(&rectification);
        let error = (rotation * rotation.transpose() - Matrix3::identity()).abs().max();
        // A matrix with a NaN fails both comparisons.
        let is_rotation = error <= ROTATION_TOLERANCE && rotation.determinant() > 0.0;
        match rotation.try_inverse().filter(|_| is_rotation) {
            Some(camera_from_rectified) => Ok(Self { pinhole, rotation, camera_from_rectified }),
            None => Err(uncalibrated(format!("R is {rectification:?}; a rotation is required"))),
        }
    }
}

/// The offset of the image in the full resolution, and its size.
fn shown_part(calibration: &CameraCalibration) -> Result<([u32; 2], Size)> {
    let CameraCalibration { size, binning, region, .. } = calibration;
    let [left, top, width, height] = *region;
    let full = [size.width, size.height];
    let region = if [width, height] == [0, 0] { full } else { [width, height] };
    let fits = |axis: usize, offset: u32| {
        u64::from(offset) + u64::from(region[axis]) <= u64::from(full[axis])
            && full[axis] <= ImageView::MAX_SIDE
            && binning[axis] >= 1
            && region[axis] / binning[axis] >= 1
    };
    if fits(0, left) && fits(1, top) {
        let size = Size::new(region[0] / binning[0], region[1] / binning[1]);
        return Ok(([left, top], size));
    }
    Err(uncalibrated(format!(
        "the calibration is of {}x{} pixels, region {}x{} at ({left}, {top}), binning {}x{}; \
         sides of 1 to {} and a region inside are required",
        full[0],
        full[1],
        region[0],
        region[1],
        binning[0],
        binning[1],
        ImageView::MAX_SIDE
    )))
}
