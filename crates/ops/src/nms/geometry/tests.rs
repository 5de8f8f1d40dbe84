use std::f32::consts::{FRAC_PI_2, PI};

use proptest::prelude::*;

use super::*;

fn rotated(cx: f32, cy: f32, width: f32, height: f32, angle_rad: f32) -> RotatedBox2d {
    RotatedBox2d { cx, cy, width, height, angle_rad }
}

/// Sutherland and Hodgman's clipping in f64, in world coordinates: another
/// method than the one under test.
fn intersection_f64(a: &RotatedBox2d, b: &RotatedBox2d) -> f64 {
    let corners = |r: &RotatedBox2d| -> Vec<[f64; 2]> {
        let (sin, cos) = f64::from(r.angle_rad).sin_cos();
        let (w, h) = (f64::from(r.width) * 0.5, f64::from(r.height) * 0.5);
        [[-w, -h], [w, -h], [w, h], [-w, h]]
            .into_iter()
            .map(|[x, y]| {
                [f64::from(r.cx) + cos * x - sin * y, f64::from(r.cy) + sin * x + cos * y]
            })
            .collect()
    };
    let mut polygon = corners(a);
    let clip = corners(b);
    for i in 0..4 {
        let (from, to) = (clip[i], clip[(i + 1) % 4]);
        let side = |p: [f64; 2]| {
            (to[0] - from[0]) * (p[1] - from[1]) - (to[1] - from[1]) * (p[0] - from[0])
        };
        let mut clipped = Vec::new();
        for j in 0..polygon.len() {
            let (p, q) = (polygon[j], polygon[(j + 1) % polygon.len()]);
            let (side_p, side_q) = (side(p), side(q));
            if side_p >= 0.0 {
                clipped.push(p);
            }
            if (side_p > 0.0 && side_q < 0.0) || (side_p < 0.0 && side_q > 0.0) {
                let t = side_p / (side_p - side_q);
                clipped.push([p[0] + t * (q[0] - p[0]), p[1] + t * (q[1] - p[1])]);
            }
        }
        polygon = clipped;
    }
    let doubled: f64 = (0..polygon.len())
        .map(|i| {
            let (p, q) = (polygon[i], polygon[(i + 1) % polygon.len()]);
            (p[0] - a_center(a)[0]) * (q[1] - a_center(a)[1])
                - (q[0] - a_center(a)[0]) * (p[1] - a_center(a)[1])
        })
        .sum();
    doubled * 0.5
}

fn a_center(a: &RotatedBox2d) -> [f64; 2] {
    [f64::from(a.cx), f64::from(a.cy)]
}

/// What f32 may cost: units in the last place of the products of sides.
fn tolerance(a: &RotatedBox2d, b: &RotatedBox2d) -> f64 {
    let (a_long, b_long) = (a.width.max(a.height), b.width.max(b.height));
    16.0 * f64::from(f32::EPSILON) * f64::from(a_long) * f64::from(a_long.max(b_long))
}

fn sides() -> impl Strategy<Value = f32> {
    prop_oneof![4 => 0.3_f32..8.0, 1 => 0.01_f32..0.1, 1 => 50.0_f32..100.0]
}

fn boxes() -> impl Strategy<Value = RotatedBox2d> {
    (-6.0_f32..6.0, -6.0_f32..6.0, sides(), sides(), -10.0_f32..10.0)
        .prop_map(|(cx, cy, width, height, angle)| rotated(cx, cy, width, height, angle))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn rotated_intersection_is_that_of_the_polygons(a in boxes(), b in boxes()) {
        let (found, expected) = (f64::from(rotated_intersection(&a, &b)), intersection_f64(&a, &b));
        prop_assert!((found - expected).abs() <= tolerance(&a, &b), "{found} for {expected}");
    }

    #[test]
    fn shared_edges_and_equal_angles(
        a in boxes(), turn in 0_u8..4, slide in -1.0_f32..1.0, scale in 0.2_f32..2.0,
    ) {
        // b touches an edge of a from outside, then is moved inside by as much.
        let (sin, cos) = a.angle_rad.sin_cos();
        let angle_rad = a.angle_rad + f32::from(turn) * FRAC_PI_2;
        let (width, height) = (a.width * scale, a.height * scale);
        let depth = if turn % 2 == 0 { height } else { width };
        for up in [-0.5, 0.5] {
            let (along, across) = (slide * a.width, 0.5 * a.height + up * depth);
            let b = RotatedBox2d {
                cx: a.cx + cos * along - sin * across,
                cy: a.cy + sin * along + cos * across,
                width,
                height,
                angle_rad,
            };
            let found = f64::from(rotated_intersection(&a, &b));
            let expected = intersection_f64(&a, &b);
            prop_assert!((found - expected).abs() <= tolerance(&a, &b), "{found} for {expected}");
        }
    }

    #[test]
    fn a_box_overlaps_itself_wholly(a in boxes()) {
        prop_assert!((rotated_iou(&a, &a) - 1.0).abs() < 1e-6);
        let turned = RotatedBox2d { angle_rad: a.angle_rad + PI, ..a };
        let long = a.width.max(a.height) / a.width.min(a.height);
        prop_assert!((rotated_iou(&a, &turned) - 1.0).abs() < 1e-5 * long);
    }

    #[test]
    fn results_are_in_range_for_any_coordinates(
        a in any::<[f32; 5]>(), b in any::<[f32; 5]>(), z in any::<[f32; 4]>(), offset in 0..2_u8,
    ) {
        let unit = 0.0..=1.0;
        let flat = |v: &[f32; 5]| Box2d::new(v[0], v[1], v[2], v[3]);
        prop_assert!(unit.contains(&iou_2d(&flat(&a), &flat(&b), f32::from(offset))));
        let [a, b] = [a, b].map(|v| rotated(v[0], v[1], v[2], v[3], v[4]));
        if [a.cx, a.cy, a.width, a.height, a.angle_rad].iter().all(|v| v.is_finite())
            && [b.cx, b.cy, b.width, b.height, b.angle_rad].iter().all(|v| v.is_finite())
        {
            prop_assert!(unit.contains(&rotated_iou(&a, &b)));
            prop_assert!(unit.contains(&rotated_iof(&a, &b)));
            let solid = |r: &RotatedBox2d, z: f32, height_m: f32| Box3d {
                center: [r.cx, r.cy, z],
                length_m: r.width,
                width_m: r.height,
                height_m,
                yaw_rad: r.angle_rad,
            };
            if z.iter().all(|v| v.is_finite()) {
                let iou = iou_3d(&solid(&a, z[0], z[1]), &solid(&b, z[2], z[3]));
                prop_assert!(unit.contains(&iou), "{iou}");
            }
        }
    }

    #[test]
    fn sine_and_cosine_are_rounded_once(angle in -1000.0_f32..1000.0) {
        let (sin, cos) = sin_cos(angle);
        let (sin_f64, cos_f64) = f64::from(angle).sin_cos();
        for (found, exact) in [(sin, sin_f64), (cos, cos_f64)] {
            let half_ulp = f64::from(f32::EPSILON) * 0.5 * exact.abs() * 1.0001 + 1e-12;
            prop_assert!((f64::from(found) - exact).abs() <= half_ulp);
        }
    }
}

#[test]
fn sine_and_cosine_of_quarters() {
    for (quarters, expected) in
        [(-2, (0.0, -1.0)), (-1, (-1.0, 0.0)), (0, (0.0, 1.0)), (1, (1.0, 0.0)), (5, (1.0, 0.0))]
    {
        let (sin, cos) = sin_cos(quarters as f32 * FRAC_PI_2);
        assert!((sin - expected.0).abs() < 1e-6 && (cos - expected.1).abs() < 1e-6);
    }
    assert!(sin_cos(f32::MAX).0.is_finite());
    assert!(sin_cos(f32::INFINITY).0.is_nan());
}

#[test]
fn axis_aligned_iou_by_hand() {
    let a = Box2d::new(0.0, 0.0, 2.0, 1.0);
    for (b, offset, expected) in [
        (a, 0.0, 1.0),
        (Box2d::new(1.0, 0.0, 3.0, 1.0), 0.0, 1.0 / 3.0),
        (Box2d::new(2.0, 0.0, 3.0, 1.0), 0.0, 0.0),
        // One pixel column of two rows, of 3 x 2 and 2 x 2 pixels.
        (Box2d::new(2.0, 0.0, 3.0, 1.0), 1.0, 2.0 / 8.0),
        (Box2d::new(0.5, 0.25, 1.5, 0.75), 0.0, 0.25),
    ] {
        assert_eq!(iou_2d(&a, &b, offset), expected, "{b:?}");
        assert_eq!(iou_2d(&b, &a, offset), expected, "{b:?}");
    }
}

#[test]
fn empty_boxes_overlap_nothing() {
    let whole = Box2d::new(-5.0, -5.0, 5.0, 5.0);
    for empty in [
        Box2d::new(1.0, 1.0, 1.0, 3.0),
        Box2d::new(3.0, 1.0, 1.0, 3.0),
        Box2d::new(3.0, 3.0, 1.0, 1.0),
        Box2d::default(),
    ] {
        assert_eq!(iou_2d(&empty, &empty, 0.0), 0.0);
        assert_eq!(iou_2d(&whole, &empty, 0.0), 0.0);
    }
    let whole = rotated(0.0, 0.0, 9.0, 4.0, 0.3);
    for empty in [rotated(0.0, 0.0, 0.0, 2.0, 0.4), rotated(0.0, 0.0, -1.0, -2.0, 0.4)] {
        assert_eq!(rotated_iou(&empty, &empty), 0.0);
        assert_eq!(rotated_iou(&whole, &empty), 0.0);
        assert_eq!(rotated_iof(&empty, &whole), 0.0);
    }
}

#[test]
fn volumes_by_hand() {
    let a =
        Box3d { center: [1.0, 2.0, 0.5], length_m: 4.0, width_m: 2.0, height_m: 1.0, yaw_rad: 0.7 };
    assert!((iou_3d(&a, &a) - 1.0).abs() < 1e-6);
    let raised = Box3d { center: [1.0, 2.0, 1.0], ..a };
    assert!((iou_3d(&a, &raised) - 1.0 / 3.0).abs() < 1e-6);
    let on_top = Box3d { center: [1.0, 2.0, 1.5], ..a };
    assert_eq!(iou_3d(&a, &on_top), 0.0);
    assert!((iou_bev(&a, &on_top) - 1.0).abs() < 1e-6);
    // Turned by a quarter: 2 x 2 of 4 x 2 and 2 x 4 are shared.
    let crossed = Box3d { yaw_rad: 0.7 + FRAC_PI_2, ..a };
    assert!((iou_3d(&a, &crossed) - 4.0 / 12.0).abs() < 1e-6);
    let flat = Box3d { height_m: 0.0, ..a };
    assert_eq!(iou_3d(&a, &flat), 0.0);
    assert_eq!(iou_3d(&flat, &flat), 0.0);
}

#[test]
fn contained_boxes_count_whole() {
    let outer = rotated(3.0, -2.0, 9.0, 5.0, 0.83);
    let inner = rotated(3.4, -1.9, 2.0, 0.7, 2.1);
    assert!((rotated_intersection(&outer, &inner) - 1.4).abs() < 1e-5);
    assert!((rotated_intersection(&inner, &outer) - 1.4).abs() < 1e-5);
    assert!((rotated_iof(&inner, &outer) - 1.0).abs() < 1e-5);
}
