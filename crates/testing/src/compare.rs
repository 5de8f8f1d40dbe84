//! Comparison of results: with a reference, and between devices.

use det_post_types::{Object3d, Variance3d};

use super::bounds::bound;

/// The largest difference as a share of the largest value.
pub fn share(found: &[f32], expected: &[f32]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let pairs = found.iter().zip(expected);
    let most = pairs.map(|(a, b)| if a.is_nan() { f32::INFINITY } else { (a - b).abs() });
    let largest = expected.iter().fold(1e-30_f32, |most, value| most.max(value.abs()));
    f64::from(most.fold(0.0, f32::max) / largest)
}

/// The largest error of results that one operation or a small network gives,
/// as a share of the largest value.
const TOLERANCE: f32 = 1e-5;

/// Fails when a value is not finite or further from the reference than one operation or a small network errs.
#[track_caller]
pub fn assert_close(found: &[f32], expected: &[f32], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let largest = expected.iter().fold(0_f32, |largest, value| largest.max(value.abs()));
    let error = found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    println!("{what}: error {:.1e} of {largest}", error / largest);
    assert!(error <= TOLERANCE * largest, "{what}: {error} of {largest}");
    assert!(found.iter().all(|value| value.is_finite()), "{what}");
}

/// How far results may be from the reference: the largest difference, and the 99th
/// percentile.
#[derive(Clone, Copy)]
pub struct Bounds {
    pub max: f32,
    pub p99: f32,
}

#[track_caller]
pub fn assert_near(found: &[f32], expected: &[f32], bounds: Bounds, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let mut errors: Vec<f32> = found.iter().zip(expected).map(|(a, b)| (a - b).abs()).collect();
    errors.sort_by(f32::total_cmp);
    let max = errors.last().copied().unwrap_or_default();
    let p99 = errors[(errors.len() - 1) * 99 / 100];
    println!("{what}: largest {max:.1e}, 99 % within {p99:.1e}");
    assert!(max <= bounds.max && p99 <= bounds.p99, "{what}: largest {max:e}, 99 % {p99:e}");
}

/// Numbers that must be equal, and those that may be the next float: an
/// exponential came before.
fn numbers(score: f32, object: &Object3d) -> (Vec<u32>, Vec<f32>) {
    let Object3d { bbox, velocity_mps, variance } = object;
    let exact = bbox.center.iter().chain(velocity_mps.iter().flatten());
    let exact = exact.map(|value| value.to_bits()).collect();
    let mut near = vec![score, bbox.length_m, bbox.width_m, bbox.height_m];
    if let Some(Variance3d { center, size, yaw, velocity }) = variance {
        near.extend(center.iter().chain(size).chain([yaw]).chain(velocity));
    }
    (exact, near)
}

pub fn check_near((a_score, a): (f32, &Object3d), (b_score, b): (f32, &Object3d), context: &str) {
    let ((a_exact, a_near), (b_exact, b_near)) = (numbers(a_score, a), numbers(b_score, b));
    assert_eq!(a_exact, b_exact, "{context}: {a:?}, expected {b:?}");
    assert_eq!(a_near.len(), b_near.len());
    let bound_of = |number| bound("decode/center", "all", number);
    let near = bound_of("score, size, variance");
    let is_near = a_near.iter().zip(&b_near).all(|(&x, &y)| near.holds(x, y, 0.0));
    let yaw_is_near = bound_of("yaw").holds(a.bbox.yaw_rad, b.bbox.yaw_rad, 0.0);
    assert!(is_near && yaw_is_near, "{context}: {a_score} {a:?}, expected {b_score} {b:?}");
}
