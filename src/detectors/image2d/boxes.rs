//! The kinds of boxes that heads decode, and the operations on them.

use det_post_ops::decode::gather::{GatherCounts, gather_2d, gather_rotated, sources_2d};
use det_post_ops::decode::yolo::{decode_yolo, decode_yolo_rotated};
use det_post_ops::nms::{Workspace, suppress_2d, suppress_rotated};
use det_post_types::{
    Affine2, Box2d, Candidate, Candidates, Detection2d, Detections, Error, ErrorKind, Kept,
    Keypoints, Masks, Nms2d, Result, RotatedBox2d, Size, TensorView, YoloLayout,
};

/// The signature of [`decode_yolo`].
type Decode<B> =
    fn(&[TensorView<'_>], &YoloLayout, Size, usize, f32, &mut Candidates<B>) -> Result<()>;
/// The signature of [`suppress_2d`].
type Suppress<B> = fn(&[Candidate<B>], &Nms2d, &mut Workspace, &mut Vec<Kept>) -> Result<()>;
/// The signature of [`gather_2d`].
type Gather<B> =
    fn(&[Candidate<B>], &[Kept], &Affine2, Size, usize, &mut Vec<Detection2d<B>>) -> GatherCounts;
/// The signature of [`sources_2d`].
type Sources<B> = fn(&[Candidate<B>], &[Kept], &Affine2, Size, usize, &mut Vec<u32>);

/// What detections of axis-aligned boxes have beside their boxes.
#[derive(Clone, Copy, Debug)]
pub enum Parts<'a> {
    /// Nothing.
    None,
    /// Masks.
    Masks(Masks<'a>),
    /// Keypoints.
    Keypoints(Keypoints<'a>),
}

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

    /// Survivors to the rows of their masks and keypoints; none of rotated boxes, which have neither.
    const SOURCES: Sources<Self>;

    /// The detections of a frame, with what the head has beside boxes.
    fn detections<'a>(found: &'a [Detection2d<Self>], parts: Parts<'a>) -> Detections<'a>;

    /// Detections with axis-aligned boxes: those that may have masks.
    fn aligned(found: &[Detection2d<Self>]) -> &[Detection2d];
}

impl ImageBoxes for Box2d {
    const ARE_ROTATED: bool = false;
    const DECODE: Decode<Self> = decode_yolo;
    const SUPPRESS: Suppress<Self> = suppress_2d;
    const GATHER: Gather<Self> = gather_2d;
    const SOURCES: Sources<Self> = sources_2d;

    fn detections<'a>(found: &'a [Detection2d<Self>], parts: Parts<'a>) -> Detections<'a> {
        match parts {
            Parts::None => Detections::Boxes2d(found),
            Parts::Masks(masks) => Detections::Masked2d(found, masks),
            Parts::Keypoints(keypoints) => Detections::Keypoints2d(found, keypoints),
        }
    }

    fn aligned(found: &[Detection2d<Self>]) -> &[Detection2d] {
        found
    }
}

impl ImageBoxes for RotatedBox2d {
    const ARE_ROTATED: bool = true;
    const DECODE: Decode<Self> = decode_yolo_rotated;
    const SUPPRESS: Suppress<Self> = suppress_rotated;
    const GATHER: Gather<Self> = gather_rotated;
    const SOURCES: Sources<Self> = |_, _, _, _, _, sources| sources.clear();

    fn detections<'a>(found: &'a [Detection2d<Self>], _: Parts<'a>) -> Detections<'a> {
        Detections::RotatedBoxes2d(found)
    }

    fn aligned(_: &[Detection2d<Self>]) -> &[Detection2d] {
        &[]
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
