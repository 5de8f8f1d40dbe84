//! Updates of boxes between the blocks of a view decoder, and the points at which the
//! next block looks.
//!
//! Boxes are [`QueryBox`]es, `[Q, 11]`. All in f32, each operation rounded once, in the
//! order written at the functions; sigmoids, exponentials and logarithms are computed
//! in f64 and rounded once. Not-a-number stays in its row. Nothing is dropped.
//!
//! - DETR3D: reference points in 0 to 1 of a range ([`refine_references`],
//!   [`reference_points`], [`reference_boxes`]), as its `Detr3DTransformerDecoder` and
//!   `NMSFreeCoder`.
//! - Sparse4D: anchors ([`refine_anchors`], [`key_points`], [`move_anchors`]), as its
//!   `SparseBox3DRefinementModule` and `SparseBox3DKeyPointsGenerator`.

mod anchors;
mod references;
#[cfg(test)]
mod tests;

pub use anchors::{key_points, move_anchors, refine_anchors};
pub use references::{inverse_sigmoid, reference_boxes, reference_points, refine_references};

#[cfg(doc)]
use det_post_types::QueryBox;
use det_post_types::{Error, ErrorKind, Result};

/// Refuses lengths that are not equal.
fn check_len(name: &str, found: usize, expected: usize) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    let message = format!("{found} {name}; {expected} expected");
    Err(Error::new(ErrorKind::Argument, "refine", message))
}
