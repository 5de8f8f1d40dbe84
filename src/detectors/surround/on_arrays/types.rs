//! What goes in and comes out.

use crate::detectors::surround::STAGE;
use det_post_types::{Error, ErrorKind, QueryBox, Result, Size};

/// Numbers of a query of StreamPETR.
pub(super) const STREAMPETR_BOX: usize = det_post_ops::decode::streampetr::NUM_BOX_CHANNELS;
/// Numbers of a query of the other families.
pub(super) const QUERY_BOX: usize = size_of::<QueryBox>() / size_of::<f32>();

/// The lengths of a decoder's arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewSizes {
    /// Cameras.
    pub num_cameras: usize,
    /// Size of the network's images, to whose pixels the matrices lead.
    pub input_size: Size,
    /// Feature maps of a frame: the outputs of the backbone that are read.
    pub num_maps: usize,
    /// Queries.
    pub num_queries: usize,
    /// Classes.
    pub num_classes: usize,
    /// Numbers of a box.
    pub box_len: usize,
    /// Whether there are logits of centreness and yawness.
    pub has_quality: bool,
    /// Whether frames use those before.
    pub has_memory: bool,
    /// Whether intrinsic matrices are needed, and every camera.
    pub needs_intrinsics: bool,
}

/// A camera of a frame.
#[derive(Clone, Copy, Debug)]
pub struct ArrayCamera {
    /// From a point of the base frame in metres to `(u * z, v * z, z)`, u and v in pixels of the
    /// network's image.
    pub image_from_base: [[f64; 4]; 3],
    /// The intrinsic matrix of the network's image.
    pub intrinsics: Option<[[f64; 3]; 3]>,
    /// Whether there are maps of it; without, its maps are not read.
    pub is_present: bool,
}

/// The queries of a frame.
#[derive(Clone, Copy, Debug)]
pub struct Queries<'a> {
    /// `[Q, box_len]`.
    pub boxes: &'a [f32],
    /// `[Q, classes]`.
    pub logits: &'a [f32],
    /// Logits of centreness and yawness, `[Q, 2]`.
    pub quality: Option<&'a [f32]>,
}

/// A tensor of a memory.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryPart {
    /// Its name: `boxes`, `features`, `confidence` of Sparse4D; `embedding`, `reference_point`, `pose`,
    /// `velocity`, `age` of StreamPETR.
    pub name: &'static str,
    /// Rows, and the sizes of a row.
    pub shape: Vec<usize>,
    /// Row by row.
    pub values: Vec<f32>,
}

/// An error of arguments.
pub(super) fn argument_error(message: &str) -> Error {
    Error::new(ErrorKind::Argument, STAGE, message.to_owned())
}

/// As [`argument_error`].
///
/// # Errors
/// Always.
pub(super) fn argument<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Argument, STAGE, message))
}
