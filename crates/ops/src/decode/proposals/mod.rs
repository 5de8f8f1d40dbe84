//! Decodes the proposals of a LiDAR network (TransFusion, BEVFusion) into candidates.
//!
//! The class of a proposal is its label or, where there are scores by class
//! ([`ProposalLayout::TransFusion`]), the first one with the greatest score; a NaN of class 0 is
//! not exceeded by any. Scores are the network's, without a sigmoid. A proposal becomes
//! a candidate if
//! - its score is above 0 and at least the threshold of the class at its distance, which is
//!   `sqrt(x² + y²)` of the decoded centre;
//! - the norm of (sine, cosine) is at least the yaw-norm threshold of the class;
//! - it is valid: all its numbers are finite, and no extent is negative.
//!
//! A proposal that passes all but the last is counted ([`Candidates::num_invalid_boxes`]). If its
//! centre is not finite, the lowest threshold of the class applies; a norm that is NaN passes. NaN
//! never passes as a score, and proposals with a NaN among their scores are counted
//! ([`Candidates::num_nan_scores`]). Labels that are no class of the head are counted where the
//! score reaches the lowest threshold of any class ([`Candidates::num_unknown_classes`]).
//!
//! Arithmetic is f32 in the order written here: x = `channel * cell_size + origin`, y likewise, z
//! unchanged; length, width and height are `exp` of their channels, the yaw is
//! `atan2(sine, cosine)`. [`Candidate::source`] is the proposal. `exp` and `atan2` of CPU and CUDA
//! may differ in the last place, and with them sizes and yaws; the other numbers are equal.
//!
//! Autoware's nodes decode the same boxes; they compare squares of distances, which differ from
//! ours in the last place at the limit of a bin.

mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
pub(crate) mod kernels;

#[cfg(doc)]
use det_post_types::Candidate;
use det_post_types::{
    Candidates, ElementType, Error, ErrorKind, Object3d, ProposalDecode, ProposalLayout, Result,
    TensorView,
};

/// The outputs of a network, in the shapes of [`ProposalLayout`]. `T` is a tensor in host memory
/// ([`TensorView`]) or in device memory, or where to find one.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProposalOutputs<T> {
    /// Numbers of the boxes, of f32 or f16.
    pub boxes: T,
    /// Scores, of f32 or f16.
    pub scores: T,
    /// Sine and cosine of f32 or f16 ([`ProposalLayout::TransFusion`]), or labels, integers of any
    /// type ([`ProposalLayout::BevFusion`]).
    pub directions_or_labels: T,
}

impl<T: Copy> ProposalOutputs<T> {
    /// The outputs with each tensor replaced by `map` of it.
    ///
    /// # Errors
    /// The first error of `map`.
    pub fn try_map<U>(&self, mut map: impl FnMut(T) -> Result<U>) -> Result<ProposalOutputs<U>> {
        Ok(ProposalOutputs {
            boxes: map(self.boxes)?,
            scores: map(self.scores)?,
            directions_or_labels: map(self.directions_or_labels)?,
        })
    }
}

/// Replaces the contents of `candidates` by the candidates of all proposals, unsorted: see
/// [`Candidates::finish`]. If there are more than their capacity, those with the lowest scores are
/// dropped and counted there.
///
/// # Errors
/// `Argument` when a tensor has another shape than the layout or does not hold numbers of its
/// type, or the numbers of yaw-norm thresholds and classes differ.
pub fn decode_proposals(
    outputs: &ProposalOutputs<TensorView<'_>>,
    params: &ProposalDecode,
    candidates: &mut Candidates<Object3d>,
) -> Result<()> {
    candidates.clear();
    let forms = outputs.try_map(|output| Ok((output.values().element(), output.shape())))?;
    let num_proposals = check(&forms, params)?;
    cpu::decode_proposals(outputs, params, num_proposals, candidates);
    Ok(())
}

/// Checks element types, shapes and thresholds. Returns the number of proposals.
fn check(
    outputs: &ProposalOutputs<(ElementType, &[usize])>,
    params: &ProposalDecode,
) -> Result<usize> {
    let num_classes = params.score_thresholds.per_class.len();
    let num_norms = params.yaw_norm_thresholds.len();
    if num_norms != 0 && num_norms != num_classes {
        return argument(format!(
            "{num_norms} yaw-norm thresholds do not match {num_classes} classes"
        ));
    }
    let ProposalOutputs { boxes, scores, directions_or_labels: others } = *outputs;
    let num = boxes.1.last().copied().unwrap_or(0);
    let num_channels = params.layout.num_box_channels();
    let (of_boxes, of_scores, of_others) = match params.layout {
        ProposalLayout::TransFusion => {
            (vec![1, num_channels, num], vec![1, num_classes, num], vec![1, 2, num])
        }
        ProposalLayout::BevFusion => (vec![num_channels, num], vec![num], vec![num]),
    };
    let has_labels = params.layout == ProposalLayout::BevFusion;
    let is_float = |element| matches!(element, ElementType::F32 | ElementType::F16);
    for (name, (element, shape), expected, takes) in [
        ("boxes", boxes, of_boxes, is_float(boxes.0)),
        ("scores", scores, of_scores, is_float(scores.0)),
        (
            if has_labels { "labels" } else { "directions" },
            others,
            of_others,
            has_labels || is_float(others.0),
        ),
    ] {
        if shape != expected || !takes {
            let kind = if name == "labels" { "numbers" } else { "floats" };
            return argument(format!(
                "{name} are {element} {shape:?}; {kind} {expected:?} expected"
            ));
        }
    }
    Ok(num)
}

fn argument<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Argument, "decode_proposals", message))
}

#[cfg(test)]
mod tests;
