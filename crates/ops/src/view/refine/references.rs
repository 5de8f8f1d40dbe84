//! DETR3D's reference points.

use super::check_len;
use crate::decode::logit::sigmoid;
use det_post_types::{PointRange, QueryBox, Result};

/// The least distance from 0 and 1 in [`inverse_sigmoid`].
const EPSILON: f32 = 1e-5;

/// `ln(max(p, 1e-5) / max(1 - p, 1e-5))`, p first cut to 0 to 1: the inverse of the
/// sigmoid, bounded. In f64, rounded once; NaN stays NaN.
pub fn inverse_sigmoid(p: f32) -> f32 {
    let p = f64::from(p.clamp(0.0, 1.0));
    let epsilon = f64::from(EPSILON);
    let [above, below] = [p, 1.0 - p].map(|x| if x < epsilon { epsilon } else { x });
    (above / below).ln() as f32
}

/// Moves references by the deltas of a block, `[cx cy log log cz log sin cos vx vy]`:
/// `r = sigmoid(d + inverse_sigmoid(r))` with deltas 0, 1 and 4.
///
/// # Errors
/// `Argument` when there are not as many of both.
pub fn refine_references(references: &mut [[f32; 3]], deltas: &[[f32; 10]]) -> Result<()> {
    check_len("deltas", deltas.len(), references.len())?;
    for (reference, delta) in references.iter_mut().zip(deltas) {
        for (value, delta) in reference.iter_mut().zip([delta[0], delta[1], delta[4]]) {
            *value = sigmoid(delta + inverse_sigmoid(*value));
        }
    }
    Ok(())
}

/// Writes the references in metres: `fma(r, max - min, min)`.
///
/// # Errors
/// `Argument` when there are not as many of both.
pub fn reference_points(
    references: &[[f32; 3]],
    range: &PointRange,
    points: &mut [[f32; 3]],
) -> Result<()> {
    check_len("points", points.len(), references.len())?;
    for (point, reference) in points.iter_mut().zip(references) {
        *point = in_metres(reference, range);
    }
    Ok(())
}

/// Writes the boxes of references and the deltas that moved them.
///
/// # Errors
/// `Argument` when there are not as many of each.
pub fn reference_boxes(
    references: &[[f32; 3]],
    deltas: &[[f32; 10]],
    range: &PointRange,
    boxes: &mut [QueryBox],
) -> Result<()> {
    check_len("deltas", deltas.len(), references.len())?;
    check_len("boxes", boxes.len(), references.len())?;
    for ((bbox, reference), delta) in boxes.iter_mut().zip(references).zip(deltas) {
        let [x, y, z] = in_metres(reference, range);
        let &[_, _, extent_0, extent_1, _, extent_2, sin, cos, vx, vy] = delta;
        *bbox = [x, y, z, extent_0, extent_1, extent_2, sin, cos, vx, vy, 0.0];
    }
    Ok(())
}

fn in_metres(reference: &[f32; 3], range: &PointRange) -> [f32; 3] {
    let PointRange { min, max } = range;
    std::array::from_fn(|axis| reference[axis].mul_add(max[axis] - min[axis], min[axis]))
}
