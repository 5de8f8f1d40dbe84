//! The kinds of boxes that heads decode, and the operations on them.

use det_post_ops::decode::gather::{gather_2d, gather_rotated};
use det_post_ops::decode::yolo::{decode_yolo, decode_yolo_rotated};
use det_post_ops::nms::{Workspace, suppress_2d, suppress_rotated};
use det_post_types::{
    Affine2, Box2d, Candidate, Candidates, Detection2d, Detections, Error, ErrorKind, Kept, Nms2d,
    Result, RotatedBox2d, Size, TensorView, YoloLayout,
};

/// The signature of [`decode_yolo`].
type Decode<B> =
    fn(&[TensorView<'_>], &YoloLayout, Size, usize, f32, &mut Candidates<B>) -> Result<()>;
/// The signature of [`suppress_2d`].
type Suppress<B> = fn(&[Candidate<B>], &Nms2d, &mut Workspace, &mut Vec<Kept>) -> Result<()>;
/// The signature of [`gather_2d`].
type Gather<B> =
    fn(&[Candidate<B>], &[Kept], &Affine2, Size, usize, &mut Vec<Detection2d<B>>) -> usize;

/// Boxes in an image, from the network's outputs to detections, on the CPU.
pub trait ImageBoxes: Copy + Send + 'static {
    /// Whether they are rotated.
    const ARE_ROTATED: bool;
    /// Outputs to candidates.
    const DECODE: Decode<Self>;
    /// Candidates to survivors.
    const SUPPRESS: Suppress<Self>;
    /// Survivors to detections.
    const GATHER: Gather<Self>;

    /// The detections of a frame.
    fn detections(found: &[Detection2d<Self>]) -> Detections<'_>;
}

impl ImageBoxes for Box2d {
    const ARE_ROTATED: bool = false;
    const DECODE: Decode<Self> = decode_yolo;
    const SUPPRESS: Suppress<Self> = suppress_2d;
    const GATHER: Gather<Self> = gather_2d;

    fn detections(found: &[Detection2d<Self>]) -> Detections<'_> {
        Detections::Boxes2d(found)
    }
}

impl ImageBoxes for RotatedBox2d {
    const ARE_ROTATED: bool = true;
    const DECODE: Decode<Self> = decode_yolo_rotated;
    const SUPPRESS: Suppress<Self> = suppress_rotated;
    const GATHER: Gather<Self> = gather_rotated;

    fn detections(found: &[Detection2d<Self>]) -> Detections<'_> {
        Detections::RotatedBoxes2d(found)
    }
}

/// Refuses a layout with boxes of the other kind.
///
/// # Errors
/// `Model` naming the layout.
pub(super) fn check<B: ImageBoxes>(layout: &YoloLayout) -> Result<()> {
    if layout.has_rotated_boxes() == B::ARE_ROTATED {
        return Ok(());
    }
    let boxes = if B::ARE_ROTATED { "rotated" } else { "axis-aligned" };
    let message = format!("{layout:?} has no {boxes} boxes, but the detector has");
    Err(Error::new(ErrorKind::Model, "head", message))
}
