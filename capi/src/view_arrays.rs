//! What goes into a view decoder and comes out.

use std::time::Duration;

use nalgebra::{Isometry3, Matrix3, Rotation3, Translation3, UnitQuaternion};

use super::call::{Const, ConstText, In, Text};
use super::status::Failure;
use det_post::detectors::surround::Step;
use det_post::detectors::surround::on_arrays::ArrayCamera;

/// An open view decoder: the networks of a surround channel behind its backbone (DETR3D, Sparse4D,
/// StreamPETR), and their memory of past frames.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ViewDecoder {
    /// Its number; 0 is never a view decoder.
    pub id: u64,
}

/// What a view decoder is. Valid until it is closed.
#[repr(C)]
pub struct ViewDecoderInfo {
    /// Names of the classes.
    pub class_names: Const<ConstText>,
    /// Number of `class_names`.
    pub num_classes: usize,
    /// Number of cameras.
    pub num_cameras: usize,
    /// Number of feature maps of a frame.
    pub num_maps: usize,
    /// Number of queries.
    pub num_queries: usize,
    /// Numbers of a box.
    pub box_len: usize,
    /// Width of the network's images, to whose pixels matrices lead.
    pub input_width: u32,
    /// Height of the network's images.
    pub input_height: u32,
    /// 1 if queries have logits of centreness and yawness, else 0.
    pub has_quality: u32,
    /// 1 if frames use those before, else 0.
    pub has_memory: u32,
    /// 1 if intrinsic matrices and every camera are required (heads of kind streampetr), else 0.
    pub needs_intrinsics: u32,
    /// 1 if maps and queries are in the memory of a GPU, else 0.
    pub is_on_device: u32,
}

/// A camera of the next frames.
#[repr(C)]
pub struct ViewCamera {
    /// Three rows of four: from a point of the base frame in metres to (u * z, v * z, z), u and v in pixels of
    /// the network's image.
    pub image_from_base: [f64; 12],
    /// Three rows of three: the intrinsic matrix of the network's image; not read where it is not
    /// needed.
    pub intrinsics: [f64; 9],
    /// 1 if maps have it; 0 for a camera that is missing, whose maps are not read.
    pub is_present: u32,
    /// For later versions; 0.
    pub reserved: u32,
}

/// The motion of the vehicle since the frame before.
#[repr(C)]
pub struct ViewMotion {
    /// Seconds between the frames, above 0.
    pub interval_s: f64,
    /// Four rows of four: from the base frame of the frame before to the current one.
    pub current_from_past: [f64; 16],
}

/// All queries of a frame, before any threshold, in the memory of the decoder's device.
#[repr(C)]
pub struct Queries {
    /// `[queries, box_len]`. 11 numbers of DETR3D and Sparse4D: centre in metres, logarithms of three
    /// extents in metres, sine and cosine of the yaw, velocity x, y, z in metres per second. 10 of
    /// StreamPETR, as its head gives them.
    pub boxes: Const<f32>,
    /// Class logits, `[queries, classes]`.
    pub logits: Const<f32>,
    /// Logits of centreness and yawness, `[queries, 2]`; or `NULL`.
    pub quality: Const<f32>,
    /// Number of queries.
    pub num_queries: usize,
    /// Numbers of a box.
    pub box_len: usize,
    /// Number of classes.
    pub num_classes: usize,
}

/// A tensor of a memory of past frames, in host memory.
#[repr(C)]
pub struct ViewMemoryPart {
    /// `boxes`, `features` and `confidence` of Sparse4D; `embedding`, `reference_point`, `pose`,
    /// `velocity` and `age` of StreamPETR.
    pub name: Text,
    /// Row by row.
    pub values: In<f32>,
    /// Number of `values`.
    pub num_values: usize,
    /// Number of rows; not read by `det_post_view_decoder_set_memory`.
    pub num_rows: usize,
}

/// A memory of past frames.
#[repr(C)]
pub struct ViewMemory {
    /// Its tensors.
    pub parts: In<ViewMemoryPart>,
    /// Number of `parts`; 0 for none.
    pub num_parts: usize,
}

impl ViewCamera {
    /// The camera of the caller.
    pub(super) fn camera(&self) -> Result<ArrayCamera, Failure> {
        if self.reserved != 0 || self.is_present > 1 {
            return Err(Failure::argument("camera.is_present is 0 or 1, camera.reserved 0"));
        }
        let [a, b, c]: [[f64; 4]; 3] = std::array::from_fn(|row| {
            std::array::from_fn(|column| self.image_from_base[4 * row + column])
        });
        let intrinsics = std::array::from_fn(|row| {
            std::array::from_fn(|column| self.intrinsics[3 * row + column])
        });
        Ok(ArrayCamera {
            image_from_base: [a, b, c],
            intrinsics: Some(intrinsics),
            is_present: self.is_present == 1,
        })
    }
}

impl ViewMotion {
    /// What a frame with this motion is to the one before.
    pub(super) fn step(&self) -> Result<Step, Failure> {
        let elapsed = Duration::try_from_secs_f64(self.interval_s).unwrap_or_default();
        let matrix = &self.current_from_past;
        let rotation = Matrix3::from_fn(|row, column| matrix[4 * row + column]);
        let is_rigid = matrix[12..] == [0.0, 0.0, 0.0, 1.0]
            && (rotation * rotation.transpose() - Matrix3::identity()).amax() < 1e-4
            && rotation.determinant() > 0.0
            && matrix.iter().all(|value| value.is_finite());
        if elapsed.is_zero() || !is_rigid {
            let message = "motion: interval_s above 0, and of current_from_past a rotation and a translation \
                           are required";
            return Err(Failure::argument(message));
        }
        let rotation = Rotation3::from_matrix_unchecked(rotation);
        let translation = Translation3::new(matrix[3], matrix[7], matrix[11]);
        let rotation = UnitQuaternion::from_rotation_matrix(&rotation);
        let current_from_previous = Isometry3::from_parts(translation, rotation);
        Ok(Step::Next { current_from_previous, elapsed })
    }
}
