//! Decodes the maps of an anchor head (PointPillars) into candidates.
//!
//! As OpenPCDet's `AnchorHeadSingle` with its residual coder and direction
//! classifier. A cell has `A` anchors, ordered by class, then by rotation. An
//! anchor's class is the one with the greatest logit, the lowest on ties; its
//! score is the sigmoid of that logit. With anchor `(xa, ya, za, la, wa, ha, ra)`
//! and outputs `(x, y, z, l, w, h, r)` the box is
//! - centre `x * d + xa`, `y * d + ya` with `d = sqrt(la² + wa²)`, `z * ha + za`;
//! - extents `exp(l) * la`, `exp(w) * wa`, `exp(h) * ha`;
//! - yaw `r + ra`. With directions, the yaw minus the direction offset is reduced
//!   to [0, π); then the offset is added, and π for the second direction (on ties
//!   the first). Finally the yaw is reduced to [-π, π), the same heading, which
//!   OpenPCDet leaves to its users.
//!
//! An anchor becomes a candidate if its score is at least the threshold of its
//! class at its distance, `sqrt(x² + y²)` of the decoded centre, and all its
//! numbers are finite, and no logit of its directions is NaN. An anchor whose score passes and whose
//! numbers are others is counted ([`Candidates::num_invalid_boxes`]); if its centre is not
//! finite, the lowest threshold of the class applies. A NaN logit never passes, and anchors with one
//! are counted ([`Candidates::num_nan_scores`]). Logits below the lowest threshold are
//! rejected before any exponential is computed, with the same result.
//! [`Candidate::source`] is `(row * W + column) * A + anchor`.
//!
//! Arithmetic is f32 in the order written here. `exp` of CPU and CUDA may differ
//! in the last place, and with it scores and extents; all else is equal.

mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
pub(crate) mod kernels;

#[cfg(doc)]
use det_post_types::Candidate;
use det_post_types::{AnchorDecode, Candidates, ElementType, Object3d, TensorView};
use det_post_types::{Error, ErrorKind, Result};

/// The maps of an anchor head, f32 or f16: `[1, channels, H, W]`, or
/// `[1, H, W, channels]` with [`AnchorDecode::channels_last`]. `A` is the number
/// of classes times the number of rotations. `T` is a tensor in host memory
/// ([`TensorView`]) or in device memory, or where to find one.
#[derive(Clone, Copy, Debug)]
pub struct AnchorOutputs<T> {
    /// `A * num_classes` channels, anchor by anchor: logits.
    pub classes: T,
    /// `A * 7` channels, anchor by anchor: x y z l w h r.
    pub boxes: T,
    /// `A * 2` channels, anchor by anchor: logits of the two directions.
    pub directions: Option<T>,
}

impl<T: Copy> AnchorOutputs<T> {
    /// The outputs with each map replaced by `map` of it.
    ///
    /// # Errors
    /// The first error of `map`.
    pub fn try_map<U>(&self, mut map: impl FnMut(T) -> Result<U>) -> Result<AnchorOutputs<U>> {
        Ok(AnchorOutputs {
            classes: map(self.classes)?,
            boxes: map(self.boxes)?,
            directions: self.directions.map(map).transpose()?,
        })
    }
}

/// Replaces the contents of `candidates` by those of all anchors, unsorted: see
/// [`Candidates::finish`]. If there are more than their capacity, those with the
/// lowest scores are dropped and counted there.
///
/// # Errors
/// `Argument` when a tensor has other dimensions or does not hold floats.
pub fn decode_anchor(
    outputs: &AnchorOutputs<TensorView<'_>>,
    params: &AnchorDecode,
    candidates: &mut Candidates<Object3d>,
) -> Result<()> {
    candidates.clear();
    let forms = outputs.try_map(|map| Ok((map.values().element(), map.shape())))?;
    let size = check(&forms, params)?;
    cpu::decode_anchor(outputs, params, size, candidates);
    Ok(())
}

/// Checks element types and shapes of all maps. Returns rows and columns.
fn check(
    outputs: &AnchorOutputs<(ElementType, &[usize])>,
    params: &AnchorDecode,
) -> Result<[usize; 2]> {
    let AnchorOutputs { classes, boxes, directions } = *outputs;
    let (element, shape) = classes;
    let &[_, a, b, c] = shape else {
        return argument(format!("classes are {element} {shape:?}; 4 dimensions expected"));
    };
    let [height, width] = if params.channels_last { [a, b] } else { [b, c] };
    let num_anchors = params.anchors.len() * params.rotations_rad.len();
    let maps = [
        ("classes", Some(classes), params.anchors.len()),
        ("boxes", Some(boxes), 7),
        ("directions", directions, 2),
    ];
    for (name, map, per_anchor) in maps {
        let Some((element, shape)) = map else { continue };
        let channels = num_anchors * per_anchor;
        let expected = match params.channels_last {
            true => [1, height, width, channels],
            false => [1, channels, height, width],
        };
        if shape != expected || !matches!(element, ElementType::F32 | ElementType::F16) {
            return argument(format!(
                "{name} are {element} {shape:?}; floats {expected:?} expected for {num_anchors} \
                 anchors per cell"
            ));
        }
    }
    Ok([height, width])
}

fn argument<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Argument, "decode_anchor", message))
}

#[cfg(test)]
mod tests;
