//! Sparse4D's anchors.

use super::check_len;
use crate::decode::logit::{exp, sigmoid};
use det_post_types::{CachedYaw, Motion, QueryBox, Result};

/// Adds deltas to anchors: to centre, extents and yaw as they are, to the velocity
/// divided by the interval.
///
/// # Errors
/// `Argument` when there are not as many of both.
pub fn refine_anchors(
    anchors: &mut [QueryBox],
    deltas: &[QueryBox],
    interval_s: f32,
) -> Result<()> {
    check_len("deltas", deltas.len(), anchors.len())?;
    for (anchor, delta) in anchors.iter_mut().zip(deltas) {
        for (value, delta) in anchor[..8].iter_mut().zip(&delta[..8]) {
            *value += delta;
        }
        for (value, delta) in anchor[8..].iter_mut().zip(&delta[8..]) {
            *value += delta / interval_s;
        }
    }
    Ok(())
}

/// Writes the key points of anchors, `[Q, P, 3]` in metres: those at `fixed` shares of
/// the extents, then those at `sigmoid(logit) - 0.5` of them, `[Q, P', 3]`.
///
/// With `x, y, z` a share times `exp` of the extent's logarithm, a point is
/// `((cos x - sin y), (sin x + cos y), z) + centre`.
///
/// # Errors
/// `Argument` when logits or points are not those of the anchors.
pub fn key_points(
    anchors: &[QueryBox],
    fixed: &[[f32; 3]],
    learned_logits: &[[f32; 3]],
    points: &mut [[f32; 3]],
) -> Result<()> {
    let num_learned = learned_logits.len() / anchors.len().max(1);
    let num_points = fixed.len() + num_learned;
    check_len("logits of key points", learned_logits.len(), num_learned * anchors.len())?;
    check_len("key points", points.len(), num_points * anchors.len())?;
    for (query, anchor) in anchors.iter().enumerate() {
        let &[cx, cy, cz, e0, e1, e2, sin, cos, ..] = anchor;
        let extents = [e0, e1, e2].map(exp);
        let learned = &learned_logits[query * num_learned..][..num_learned];
        let learned = learned.iter().map(|logits| logits.map(|logit| sigmoid(logit) - 0.5));
        let shares = fixed.iter().copied().chain(learned);
        let points = &mut points[query * num_points..][..num_points];
        for (point, shares) in points.iter_mut().zip(shares) {
            let [x, y, z] = std::array::from_fn(|axis| shares[axis] * extents[axis]);
            *point = [(cos * x - sin * y) + cx, (sin * x + cos * y) + cy, z + cz];
        }
    }
    Ok(())
}

/// Moves the anchors of the frame before into the current one: first each by its own
/// velocity times the interval, then all by the motion of the vehicle.
///
/// The centre is `((m0 x + m1 y) + m2 z) + m3` a row, the velocity the same without
/// `m3`, cosine and sine `m0 cos + m1 sin` of the first two rows.
pub fn move_anchors(anchors: &mut [QueryBox], motion: &Motion, cached_yaw: CachedYaw) {
    let Motion { interval_s, current_from_past: rows } = *motion;
    for anchor in anchors {
        let &mut [cx, cy, cz, e0, e1, e2, sin, cos, vx, vy, vz] = anchor;
        let [x, y, z] = [cx + vx * interval_s, cy + vy * interval_s, cz + vz * interval_s];
        let [cx, cy, cz] = rows.map(|[m0, m1, m2, m3]| ((m0 * x + m1 * y) + m2 * z) + m3);
        let [vx, vy, vz] = rows.map(|[m0, m1, m2, _]| (m0 * vx + m1 * vy) + m2 * vz);
        let [new_cos, new_sin] = [0, 1].map(|row: usize| rows[row][0] * cos + rows[row][1] * sin);
        let [sin, cos] = match cached_yaw {
            CachedYaw::SinCos => [new_sin, new_cos],
            CachedYaw::CosSin => [new_cos, new_sin],
        };
        *anchor = [cx, cy, cz, e0, e1, e2, sin, cos, vx, vy, vz];
    }
}
