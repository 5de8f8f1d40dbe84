//! Decode anchor: the maps of an anchor head (PointPillars) become candidates.
//!
//! As OpenPCDet's `AnchorHeadSingle` with its residual coder and direction
//! classifier. A cell has `A` anchors: class by class, and within a class
//! rotation by rotation. Per anchor the best class counts, ties to the lower
//! class; its score is the sigmoid of its logit. With anchor `(xa, ya, za, la,
//! wa, ha, ra)` and outputs `(x, y, z, l, w, h, r)` the box is
//! - centre `x * d + xa`, `y * d + ya` with `d = sqrt(la² + wa²)`, `z * ha + za`;
//! - extents `exp(l) * la`, `exp(w) * wa`, `exp(h) * ha`;
//! - yaw `r + ra`; with directions, that angle less the direction offset is
//!   brought into [0, π), and the offset, and π for the second direction, are
//!   added (ties to the first direction). In the end it is brought within half
//!   a turn of 0, which OpenPCDet leaves to its users: the same heading.
//!
//! A candidate's score reaches the threshold of its class at its distance,
//! `sqrt(x² + y²)` of the decoded centre, and all its numbers are finite; NaN
//! never passes. Logits below the lowest threshold are turned away before any
//! exponential, with the same decision. [`Candidate::source`] is `(row * W +
//! column) * A + anchor`.
//!
//! Arithmetic is f32 in the order written here. `exp` differs between CPU and
//! CUDA in the last places, so scores and extents do; the rest is equal.

mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
#[expect(
    unsafe_code,
    reason = "kernels are promised to fit their parameters; each block states why"
)]
pub(in crate::ops) mod kernels;

use crate::error::{Error, ErrorKind, Result};
#[cfg(doc)]
use crate::types::Candidate;
use crate::types::{AnchorDecode, Candidates, ElementType, Object3d, TensorView};

/// The maps of an anchor head, f32 or f16: `[1, channels, H, W]`, or
/// `[1, H, W, channels]` with [`AnchorDecode::channels_last`]. `A` is the number
/// of classes times the number of rotations.
#[derive(Clone, Copy, Debug)]
pub struct AnchorOutputs<'a> {
    /// `A * num_classes` channels, anchor by anchor: logits.
    pub classes: TensorView<'a>,
    /// `A * 7` channels, anchor by anchor: x y z l w h r.
    pub boxes: TensorView<'a>,
    /// `A * 2` channels, anchor by anchor: logits of the two directions.
    pub directions: Option<TensorView<'a>>,
}

/// Replaces the contents of `candidates` by those of all anchors. They are not
/// sorted yet ([`Candidates::finish`]); what is over their capacity is lost,
/// lowest score first, and counted there.
///
/// # Errors
/// `Argument` when a tensor has other dimensions or is not of floats.
pub fn decode_anchor(
    outputs: &AnchorOutputs<'_>,
    params: &AnchorDecode,
    candidates: &mut Candidates<Object3d>,
) -> Result<()> {
    candidates.clear();
    let [_, a, b, c] = outputs.classes.dims()?;
    let size = if params.channels_last { [a, b] } else { [b, c] };
    let maps = [
        ("classes", Some(outputs.classes), params.anchors.len()),
        ("boxes", Some(outputs.boxes), 7),
        ("directions", outputs.directions, 2),
    ];
    for (name, map, per_anchor) in maps {
        let Some(map) = map else { continue };
        check_map(name, (map.values().element(), map.shape()), per_anchor, size, params)?;
    }
    cpu::decode_anchor(outputs, params, size, candidates);
    Ok(())
}

/// Whether a map has `per_anchor` channels of floats for each anchor.
fn check_map(
    name: &str,
    (element, shape): (ElementType, &[usize]),
    per_anchor: usize,
    [height, width]: [usize; 2],
    params: &AnchorDecode,
) -> Result<()> {
    let num_anchors = params.anchors.len() * params.rotations_rad.len();
    let channels = num_anchors * per_anchor;
    let expected = if params.channels_last {
        [1, height, width, channels]
    } else {
        [1, channels, height, width]
    };
    if shape == expected && matches!(element, ElementType::F32 | ElementType::F16) {
        return Ok(());
    }
    argument(format!(
        "{name} are {element} {shape:?}, expected are floats {expected:?} for {num_anchors} anchors \
         a cell"
    ))
}

fn argument<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Argument, "decode_anchor", message))
}

#[cfg(test)]
mod tests;
