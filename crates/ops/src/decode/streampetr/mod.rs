//! Decodes the outputs of a StreamPETR head into candidates.
//!
//! A query has a logit for every class and ten numbers: x, y, z of the centre in metres,
//! logarithms of three extents, sine and cosine of the yaw, velocity along x and y. Its
//! class is the one with the greatest logit, the lowest on ties; its score is the sigmoid
//! of that logit. A query becomes a candidate if
//! - its score is at least the threshold of the class at its distance, which is
//!   `sqrt(x² + y²)` of the centre;
//! - the norm of (sine, cosine) is at least the yaw-norm threshold of the class;
//! - its centre is in the centre range;
//! - it is valid: all its numbers are finite.
//!
//! A query that passes all but the last is counted ([`Candidates::num_invalid_boxes`]). If its
//! centre is not finite, the lowest threshold of the class applies and no range; a norm that is
//! NaN passes. A NaN logit never passes, and queries with one are counted
//! ([`Candidates::num_nan_scores`]).
//!
//! [`Candidate::source`] is the index of the query. Logits below the lowest threshold are
//! rejected before any exponential is computed, with the same result.
//!
//! Arithmetic is f32: centres and velocities unchanged, extents by `exp`, yaw by `atan2`.
//! `exp` and `atan2` of CPU and CUDA may differ in the last place, and with them scores,
//! extents and yaws; all else is equal.
//!
//! Source: Autoware's `autoware_camera_streampetr` and the head of StreamPETR, which
//! write all decoder layers, or only the last, as queries of one list.

mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
mod kernels;

#[cfg(doc)]
use det_post_types::Candidate;
use det_post_types::{Candidates, ElementType, Object3d, StreamPetrDecode, TensorView};
use det_post_types::{Error, ErrorKind, Result};

/// Numbers of a query in addition to its logits.
pub const NUM_BOX_CHANNELS: usize = 10;

/// The outputs of a StreamPETR head, f32 or f16: `[.., C, K]`, or `[.., K, C]` with
/// [`StreamPetrDecode::channels_last`], where K is the number of queries and all other
/// dimensions are 1.
#[derive(Clone, Copy, Debug)]
pub struct StreamPetrOutputs<T> {
    /// Logits, one channel per class.
    pub logits: T,
    /// Boxes, [`NUM_BOX_CHANNELS`].
    pub boxes: T,
}

/// Replaces the contents of `candidates` by those of all queries, unsorted: see
/// [`Candidates::finish`]. If there are more than their capacity, those with the lowest
/// scores are dropped and counted there.
///
/// # Errors
/// `Argument` when a tensor has other dimensions or does not hold floats, or a class has
/// no yaw-norm threshold while others have.
pub fn decode_streampetr(
    outputs: &StreamPetrOutputs<TensorView<'_>>,
    params: &StreamPetrDecode,
    candidates: &mut Candidates<Object3d>,
) -> Result<()> {
    candidates.clear();
    let forms = [&outputs.logits, &outputs.boxes].map(|of| (of.values().element(), of.shape()));
    let num_queries = check(forms, params)?;
    cpu::decode_streampetr(outputs, params, num_queries, candidates);
    Ok(())
}

/// Checks element types and shapes of logits and boxes. Returns the number of queries.
fn check(
    [logits, boxes]: [(ElementType, &[usize]); 2],
    params: &StreamPetrDecode,
) -> Result<usize> {
    let num_classes = params.query.score_thresholds.per_class.len();
    let num_queries = num_queries_of(logits.1, num_classes, params.channels_last);
    let of_boxes = num_queries_of(boxes.1, NUM_BOX_CHANNELS, params.channels_last);
    let is_float = |element| matches!(element, ElementType::F32 | ElementType::F16);
    match num_queries {
        Some(num) if of_boxes == Some(num) && is_float(logits.0) && is_float(boxes.0) => {
            match params.query.yaw_norm_thresholds.len() {
                0 => Ok(num),
                n if n == num_classes => Ok(num),
                n => {
                    argument(format!("{n} yaw-norm thresholds do not match {num_classes} classes"))
                }
            }
        }
        _ => argument(format!(
            "logits are {} {:?}, boxes {} {:?}; floats of K queries with {num_classes} and \
             {NUM_BOX_CHANNELS} channels expected",
            logits.0, logits.1, boxes.0, boxes.1
        )),
    }
}

/// The number of queries of a tensor of this shape with so many channels; `None` if it has
/// another shape.
pub fn num_queries_of(shape: &[usize], num_channels: usize, channels_last: bool) -> Option<usize> {
    let &[ref outer @ .., rows, columns] = shape else { return None };
    let [channels, queries] = if channels_last { [columns, rows] } else { [rows, columns] };
    (channels == num_channels && outer.iter().all(|&n| n == 1)).then_some(queries)
}

fn argument<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Argument, "decode_streampetr", message))
}

#[cfg(test)]
mod tests;
