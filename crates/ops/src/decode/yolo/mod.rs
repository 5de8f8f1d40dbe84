//! Decodes the outputs of a YOLO-family network into candidates.
//!
//! Input: the tensors of one frame, f32 or f16, in a [`YoloLayout`]. Output: boxes in
//! pixels of the network's input, axis-aligned ([`decode_yolo`]) or rotated
//! ([`decode_yolo_rotated`]), at most one candidate per row, of its best class; with
//! [`DetrClasses::All`](det_post_types::DetrClasses) one for every class of a row whose score passes.
//! The worst candidates over the capacity of `candidates` are dropped and counted there.
//!
//! # Which rows pass
//! Rows with `score >= score_threshold`. The class is the one with the largest value in the tensor
//! (score or logit), the lowest index on ties. NaN is never larger and never passes; rows with a
//! NaN among the scores that are read are counted ([`Candidates::num_nan_scores`]). A row that
//! passes and whose score or box is not finite, or whose box is reversed ([`Box2d::is_valid`],
//! [`RotatedBox2d::is_valid`]), is dropped and counted ([`Candidates::num_invalid_boxes`]). A row
//! that passes and whose class is a number of the network that is not below `num_classes` is
//! dropped and counted, whatever its box ([`Candidates::num_unknown_classes`]).
//!
//! With an objectness the score is objectness times class, one f32 product,
//! and a row with an objectness below the threshold never passes: class scores are
//! assumed to be at most 1.
//!
//! # Order
//! `source` is the row of the tensor (V8, Obb: the column). The rows of `V5Raw` are
//! numbered by level, then anchor, then y, then x; those of `Yolox` by level, then y,
//! then x.
//!
//! # Numbers
//! f16 is widened exactly, then all is f32. Corners are `center - size * 0.5`
//! and `center + size * 0.5`. Grid: Yolox `(value + cell) * stride` and
//! `exp(value) * stride`; V5Raw `(sigmoid * 2 - 0.5 + cell) * stride` and
//! `(sigmoid * 2)^2 * anchor`, in that order, nothing contracted. Sigmoid and
//! exponential are those of `ops::logit`; logits are compared with the logit of the
//! threshold, with the same decision as their scores, and no exponential is computed
//! for a row that fails.
//!
//! The angle of Obb and ObbEndToEnd is normalized to [0, pi/2], with the sides exchanged where needed
//! ([`RotatedBox2d::regularized`]), as in the results of ultralytics.
//!
//! A class that is given as a float is truncated. Rows of Mmdeploy with a negative label are padding: they are neither
//! candidates nor counted.
//!
//! Of layouts with masks `outputs` are the predictions: coefficients are not read, and prototypes and maps
//! of masks are read by [`super::mask`]. Keypoints are not read here either, but by [`super::keypoints`].
//!
//! Formulas: the export heads of YOLOv5, YOLOv7, YOLOv8, YOLOv8-OBB, YOLO26-OBB, YOLOX,
//! RT-DETR, D-FINE, RF-DETR and mmdeploy.

mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
mod detr;
mod finals;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
pub(crate) mod kernels;
mod planes;
mod rows;
mod values;

use det_post_types::{
    Box2d, Candidates, Error, ErrorKind, Result, RotatedBox2d, Size, TensorView, YoloLayout,
};

/// The parameters that all layouts share.
struct Head {
    network: Size,
    num_classes: usize,
    score_threshold: f32,
}

impl Head {
    fn new(network: Size, num_classes: usize, score_threshold: f32) -> Result<Self> {
        if num_classes == 0 {
            return Err(argument("0 classes, at least 1 required".into()));
        }
        Ok(Self { network, num_classes, score_threshold })
    }
}

/// Replaces the contents of `candidates` by the rows of `outputs` whose score is at
/// least `score_threshold`, in no particular order.
///
/// `network` is the size of the network's input; [`YoloLayout`] defines the order and
/// the shapes of `outputs`. The worst candidates over the capacity are dropped and
/// counted. Nothing is allocated.
///
/// # Errors
/// `Argument`, with no candidates, when the number, the shape or the
/// element type of the tensors does not fit the layout, naming expected and
/// found, or when the layout has rotated boxes.
pub fn decode_yolo(
    outputs: &[TensorView<'_>],
    layout: &YoloLayout,
    network: Size,
    num_classes: usize,
    score_threshold: f32,
    candidates: &mut Candidates<Box2d>,
) -> Result<()> {
    candidates.clear();
    let head = Head::new(network, num_classes, score_threshold)?;
    cpu::aligned(outputs, layout, &head, candidates)
}

/// As [`decode_yolo`], for layouts of rotated boxes.
///
/// # Errors
/// As [`decode_yolo`], and when the layout has axis-aligned boxes.
pub fn decode_yolo_rotated(
    outputs: &[TensorView<'_>],
    layout: &YoloLayout,
    network: Size,
    num_classes: usize,
    score_threshold: f32,
    candidates: &mut Candidates<RotatedBox2d>,
) -> Result<()> {
    candidates.clear();
    let head = Head::new(network, num_classes, score_threshold)?;
    cpu::rotated(outputs, layout, &head, candidates)
}

/// The error of a layout with boxes of another kind.
fn unsupported(layout: &YoloLayout, boxes: &str) -> Error {
    argument(format!("{layout:?} has no {boxes} boxes"))
}

fn argument(message: String) -> Error {
    Error::new(ErrorKind::Argument, "decode_yolo", message)
}

#[cfg(test)]
mod dropped;
#[cfg(test)]
mod tests;
