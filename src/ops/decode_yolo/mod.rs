//! Decodes the output of a YOLO-family network into candidates.
//!
//! Input: the tensors of one frame, f32 or f16, laid out as [`YoloLayout`]
//! says. Output: boxes in pixels of the network's input, one candidate a row
//! at most, its best class. What the capacity of `candidates` cannot hold is
//! lost worst first and counted there.
//!
//! # Which rows pass
//! Those with `score >= score_threshold`. The class is the one with the
//! largest value in the tensor (score or logit), the lowest index on ties.
//! NaN is never larger and never passes. A row is left out, and is no
//! candidate, when its score or a corner of its box is not finite, or when its
//! class is not one of `num_classes`.
//!
//! With an objectness the score is objectness times class, one f32 product,
//! and an objectness below the threshold rejects at once: class scores are
//! taken to be at most 1.
//!
//! # Order
//! `source` is the row of the tensor (V8: the column). For `V5Raw` rows are
//! counted on over the levels, inside a level by anchor, then y, then x; for
//! `Yolox` the tensor's rows are levels, then y, then x.
//!
//! # Numbers
//! f16 is widened exactly, then all is f32. Corners are `center - size * 0.5`
//! and `center + size * 0.5`. Grid: Yolox `(value + cell) * stride` and
//! `exp(value) * stride`; V5Raw `(sigmoid * 2 - 0.5 + cell) * stride` and
//! `(sigmoid * 2)^2 * anchor`, in that order, nothing contracted. Sigmoid and
//! exponential are those of [`super::logit`]; logits meet the threshold as
//! logits, with the decision their scores would give, and no exponential is
//! spent on a row that fails.
//!
//! Formulas: the export heads of YOLOv5, YOLOv8, YOLOX and RT-DETR.

mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
pub(in crate::ops) mod kernels;
mod values;

use crate::error::{Error, ErrorKind, Result};
use crate::types::{Box2d, Candidates, Size, TensorView, YoloLayout};

/// What all layouts share.
struct Head {
    network: Size,
    num_classes: usize,
    score_threshold: f32,
}

/// Replaces the contents of `candidates` by the rows of `outputs` that reach
/// `score_threshold`.
///
/// `network` is the size of the network's input. Order of `outputs`, their
/// shapes and what their numbers mean: [`YoloLayout`]. They are not sorted yet
/// (`ops::select`); what is over the capacity is lost, lowest score first, and
/// counted there. Nothing is allocated.
///
/// # Errors
/// `Argument`, with no candidate left, when the number, the shape or the
/// element type of the tensors does not fit the layout, naming expected and
/// found.
pub fn decode_yolo(
    outputs: &[TensorView<'_>],
    layout: &YoloLayout,
    network: Size,
    num_classes: usize,
    score_threshold: f32,
    candidates: &mut Candidates<Box2d>,
) -> Result<()> {
    candidates.clear();
    if num_classes == 0 {
        return Err(argument("0 classes; at least 1".into()));
    }
    let head = Head { network, num_classes, score_threshold };
    match layout {
        YoloLayout::V5 => cpu::v5(outputs, &head, candidates),
        YoloLayout::V5Raw { levels } => cpu::v5_raw(outputs, levels, &head, candidates),
        YoloLayout::V8 => cpu::v8(outputs, &head, candidates),
        YoloLayout::Yolox { strides } => cpu::yolox(outputs, strides, &head, candidates),
        YoloLayout::EndToEnd => cpu::end_to_end(outputs, &head, candidates),
        YoloLayout::Detr { boxes, logits } => {
            cpu::detr(outputs, *boxes, *logits, &head, candidates)
        }
    }
}

fn argument(message: String) -> Error {
    Error::new(ErrorKind::Argument, "decode_yolo", message)
}

#[cfg(test)]
mod tests;
