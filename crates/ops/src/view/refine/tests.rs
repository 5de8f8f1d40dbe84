use super::*;
use det_post_types::{CachedYaw, Motion, PointRange, QueryBox};

const RANGE: PointRange = PointRange { min: [-50.0, -40.0, -5.0], max: [50.0, 40.0, 3.0] };

#[test]
fn the_inverse_of_the_sigmoid_is_bounded() {
    for (p, expected) in [
        (0.5, 0.0),
        (0.0, (1e-5_f64).ln()),
        (1.0, -(1e-5_f64).ln()),
        (-3.0, (1e-5_f64).ln()),
        (2.0, -(1e-5_f64).ln()),
        (0.75, 3.0_f64.ln()),
        (1e-6, (1e-5_f64).ln()),
    ] {
        let found = f64::from(inverse_sigmoid(p));
        assert!((found - expected).abs() < 1e-5, "{p}: {found}");
    }
    assert!(inverse_sigmoid(f32::NAN).is_nan());
}

#[test]
fn references_move_by_their_own_deltas_and_become_boxes() {
    let delta = [1.0, 0.0, 0.1, 0.2, -2.0, 0.3, 0.6, 0.8, 4.0, 5.0];
    let mut references = [[0.5, 0.25, 0.5]];
    refine_references(&mut references, &[delta]).unwrap();
    let [x, y, z] = references[0];
    assert!((x - 0.731_058_6).abs() < 1e-6 && (y - 0.25).abs() < 1e-6, "{references:?}");
    assert!((z - 0.119_202_92).abs() < 1e-6);
    let mut boxes = [[9.0; 11]];
    reference_boxes(&[[0.75, 0.5, 0.25]], &[delta], &RANGE, &mut boxes).unwrap();
    assert_eq!(boxes[0], [25.0, 0.0, -3.0, 0.1, 0.2, 0.3, 0.6, 0.8, 4.0, 5.0, 0.0]);
    let mut points = [[9.0; 3]];
    reference_points(&[[0.75, 0.5, 0.25]], &RANGE, &mut points).unwrap();
    assert_eq!(points[0], [25.0, 0.0, -3.0]);
    assert!(refine_references(&mut references, &[]).is_err());
    assert!(reference_points(&references, &RANGE, &mut []).is_err());
    assert!(reference_boxes(&references, &[delta], &RANGE, &mut []).is_err());
}

/// At (10, 20, 1), 4 long, 2 wide, 1 high, turned by a quarter, moving along y.
fn anchor() -> QueryBox {
    [10.0, 20.0, 1.0, 4.0_f32.ln(), 2.0_f32.ln(), 0.0, 1.0, 0.0, 0.0, 6.0, 0.0]
}

#[test]
fn anchors_are_refined_with_velocities_by_the_interval() {
    let mut anchors = [anchor()];
    refine_anchors(&mut anchors, &[[0.5; 11]], 0.25).unwrap();
    let [.., sin, cos, vx, vy, vz] = anchors[0];
    assert_eq!(anchors[0][..3], [10.5, 20.5, 1.5]);
    assert_eq!([sin, cos, vx, vy, vz], [1.5, 0.5, 2.0, 8.0, 2.0]);
    assert!(refine_anchors(&mut anchors, &[], 0.25).is_err());
}

#[test]
fn key_points_turn_with_the_box() {
    let fixed = [[0.0; 3], [0.5, 0.0, 0.0], [0.0, 0.5, 0.5]];
    // sigmoid(ln 3) - 0.5 = 0.25.
    let learned = [[3.0_f32.ln(), 0.0, 0.0]];
    let mut points = [[9.0; 3]; 4];
    key_points(&[anchor()], &fixed, &learned, &mut points).unwrap();
    let expected = [[10.0, 20.0, 1.0], [10.0, 22.0, 1.0], [9.0, 20.0, 1.5], [10.0, 21.0, 1.0]];
    for (found, expected) in points.as_flattened().iter().zip(expected.as_flattened()) {
        assert!((found - expected).abs() < 1e-5, "{points:?}");
    }
    assert!(key_points(&[anchor()], &fixed, &learned, &mut points[..3]).is_err());
    assert!(key_points(&[anchor(); 2], &fixed, &[[0.0; 3]; 3], &mut [[0.0; 3]; 9]).is_err());
    key_points(&[], &fixed, &[], &mut []).unwrap();
}

#[test]
fn the_past_is_moved_into_the_present() {
    // The vehicle has moved 3 m ahead and turned left by a quarter: what was ahead is
    // to the right.
    let motion = Motion {
        interval_s: 0.5,
        current_from_past: [[0.0, 1.0, 0.0, 0.0], [-1.0, 0.0, 0.0, 3.0], [0.0, 0.0, 1.0, 0.5]],
    };
    // Faces +y and moves along it: +x afterwards.
    for (cached_yaw, yaw) in [(CachedYaw::SinCos, [0.0, 1.0]), (CachedYaw::CosSin, [1.0, 0.0])] {
        let mut anchors = [anchor()];
        move_anchors(&mut anchors, &motion, cached_yaw);
        assert_eq!(anchors[0][..3], [23.0, -7.0, 1.5]);
        assert_eq!(anchors[0][3..6], anchor()[3..6]);
        assert_eq!(anchors[0][6..8], yaw, "{cached_yaw:?}");
        assert_eq!(anchors[0][8..], [6.0, 0.0, 0.0]);
    }
}
