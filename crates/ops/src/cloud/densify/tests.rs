use nalgebra::{Point3, Translation3, UnitQuaternion};
use proptest::prelude::*;

use super::*;

const LAG: Option<usize> = Some(4);

fn pose(x: f64, y: f64, z: f64, roll: f64, pitch: f64, yaw: f64) -> Isometry3<f64> {
    let rotation = UnitQuaternion::from_euler_angles(roll, pitch, yaw);
    Isometry3::from_parts(Translation3::new(x, y, z), rotation)
}

/// `num` points of x y z intensity time_lag whose intensity names them.
fn sweep_of(num: usize, name: f32) -> Points {
    let mut points = Points::with_capacity(5, num);
    for i in 0..num {
        let i = i as f32;
        points.push(&[1.5 + i, -2.25 * i, 0.3 + 0.1 * i, name + i, 9.0]);
    }
    points
}

fn seconds(s: f64) -> Stamp {
    Stamp::from_nanos((s * 1e9) as i64)
}

#[test]
fn past_sweeps_land_where_they_were_seen() {
    let (then, now) =
        (pose(10.0, -4.0, 1.0, 0.02, -0.01, 0.7), pose(12.5, -3.0, 1.1, 0.0, 0.03, 0.9));
    let mut sweeps = Sweeps::new(2, 5, 8);
    let past = sweep_of(3, 100.0);
    assert_eq!(sweeps.push(&past, seconds(5.0), &then), 0);
    let mut out = Points::with_capacity(5, 8);
    let current = sweep_of(2, 200.0);
    let counts = densify(&current, seconds(5.1), &now, &sweeps, LAG, 1.0, &mut out).unwrap();
    assert_eq!(counts, DensifyCounts { num_sweeps: 1, ..DensifyCounts::default() });
    assert_eq!(out.len(), 5);
    for (point, source) in out.iter().zip(current.iter().chain(past.iter())).take(2) {
        assert_eq!((&point[..4], point[4]), (&source[..4], 0.0));
    }
    for (point, source) in out.iter().skip(2).zip(past.iter()) {
        let seen = Point3::new(source[0], source[1], source[2]).cast::<f64>();
        let expected = now.inverse_transform_point(&(then * seen));
        let found = Point3::new(point[0], point[1], point[2]).cast::<f64>();
        assert!((found - expected).norm() < 1e-5, "{found} {expected}");
        assert_eq!((point[3], point[4]), (source[3], 0.1));
    }
}

#[test]
fn newest_first_and_the_oldest_is_replaced() {
    let mut sweeps = Sweeps::new(2, 5, 4);
    let here = Isometry3::identity();
    for i in 0..5 {
        assert_eq!(sweeps.len(), i.min(2));
        sweeps.push(&sweep_of(1, i as f32), seconds(i as f64), &here);
    }
    let mut out = Points::with_capacity(5, 8);
    let current = sweep_of(1, 5.0);
    densify(&current, seconds(5.0), &here, &sweeps, LAG, 9.0, &mut out).unwrap();
    let found: Vec<_> = out.iter().map(|point| (point[3], point[4])).collect();
    assert_eq!(found, [(5.0, 0.0), (4.0, 1.0), (3.0, 2.0)]);
    sweeps.clear();
    assert!(sweeps.is_empty());
    densify(&current, seconds(5.0), &here, &sweeps, LAG, 9.0, &mut out).unwrap();
    assert_eq!(out.len(), 1);
}

#[test]
fn sweeps_of_another_time_or_place_are_dropped() {
    let here = Isometry3::identity();
    let nowhere = pose(f64::NAN, 0.0, 0.0, 0.0, 0.0, 0.0);
    let far = pose(1e300, 0.0, 0.0, 0.0, 0.0, 0.0);
    // (stamp of the sweep at 10 s with ages up to 2 s, its pose, used)
    let cases = [
        (10.0, here, true),
        (8.0, here, true),
        (7.999, here, false),
        (10.001, here, false),
        (9.0, nowhere, false),
        (9.0, far, false),
    ];
    for (stamp, pose, used) in cases {
        let mut sweeps = Sweeps::new(1, 5, 4);
        sweeps.push(&sweep_of(2, 0.0), seconds(stamp), &pose);
        let mut out = Points::with_capacity(5, 8);
        let counts =
            densify(&sweep_of(1, 0.0), seconds(10.0), &here, &sweeps, LAG, 2.0, &mut out).unwrap();
        let expected = (usize::from(used), usize::from(!used), 1 + 2 * usize::from(used));
        assert_eq!((counts.num_sweeps, counts.num_sweeps_dropped, out.len()), expected, "{stamp}");
    }
}

#[test]
fn capacities_cut_the_oldest_and_count() {
    let here = Isometry3::identity();
    let mut sweeps = Sweeps::new(2, 5, 3);
    assert_eq!(sweeps.push(&sweep_of(5, 10.0), seconds(1.0), &here), 2);
    assert_eq!(sweeps.push(&sweep_of(3, 20.0), seconds(2.0), &here), 0);
    let current = sweep_of(2, 30.0);
    for (capacity, names, over) in [
        (8, &[30.0, 31.0, 20.0, 21.0, 22.0, 10.0, 11.0, 12.0][..], 0),
        (7, &[30.0, 31.0, 20.0, 21.0, 22.0, 10.0, 11.0], 1),
        (3, &[30.0, 31.0, 20.0], 5),
        (1, &[30.0], 7),
    ] {
        let mut out = Points::with_capacity(5, capacity);
        let counts = densify(&current, seconds(3.0), &here, &sweeps, None, 9.0, &mut out).unwrap();
        assert_eq!(out.iter().map(|point| point[3]).collect::<Vec<_>>(), names);
        assert_eq!((counts.num_sweeps, counts.num_points_over_capacity), (2, over));
    }
    // Without a channel for it the time lag stays what it was.
    let mut out = Points::with_capacity(5, 8);
    densify(&current, seconds(3.0), &here, &sweeps, None, 9.0, &mut out).unwrap();
    assert!(out.iter().all(|point| point[4] == 9.0));
}

#[test]
fn without_past_sweeps_the_points_pass() {
    let mut sweeps = Sweeps::new(0, 5, 8);
    assert_eq!(sweeps.push(&sweep_of(2, 0.0), seconds(0.0), &Isometry3::identity()), 0);
    assert_eq!((sweeps.len(), sweeps.capacity()), (0, 0));
    let mut out = Points::with_capacity(5, 2);
    let here = Isometry3::identity();
    let counts =
        densify(&Points::with_capacity(5, 0), seconds(0.0), &here, &sweeps, LAG, 1.0, &mut out);
    assert_eq!((counts.unwrap(), out.len()), (DensifyCounts::default(), 0));
}

#[test]
fn points_that_overflow_are_dropped() {
    let mut sweeps = Sweeps::new(1, 3, 2);
    let mut points = Points::with_capacity(3, 2);
    points.push(&[3e38, 3e38, 0.0]);
    points.push(&[1.0, 2.0, 3.0]);
    sweeps.push(&points, seconds(0.0), &pose(0.0, 0.0, 0.0, 0.0, 0.0, -0.8));
    let (current, mut out) = (Points::with_capacity(3, 0), Points::with_capacity(3, 2));
    let here = Isometry3::identity();
    let counts = densify(&current, seconds(0.0), &here, &sweeps, None, 1.0, &mut out).unwrap();
    assert_eq!((counts.num_points_not_finite, out.len()), (1, 1));
}

#[test]
fn arguments_must_fit() {
    let here = Isometry3::identity();
    let nowhere = pose(0.0, f64::INFINITY, 0.0, 0.0, 0.0, 0.0);
    let sweeps = Sweeps::new(1, 5, 1);
    for (num_channels, out_channels, channel, pose, fits) in [
        (5, 5, Some(3), here, true),
        (5, 5, Some(2), here, false),
        (5, 5, Some(5), here, false),
        (5, 4, None, here, false),
        (4, 4, None, here, false),
        (5, 5, None, nowhere, false),
    ] {
        let current = Points::with_capacity(num_channels, 1);
        let mut out = Points::with_capacity(out_channels, 1);
        let result = densify(&current, seconds(0.0), &pose, &sweeps, channel, 1.0, &mut out);
        assert_eq!(result.is_ok(), fits, "{num_channels} {out_channels} {channel:?}");
    }
}

proptest! {
    /// A sweep seen from the same place is the same sweep, and a round trip
    /// through any pose keeps distances.
    #[test]
    fn transforms_are_rigid(
        (x, y, z) in (-1e3..1e3, -1e3..1e3, -10.0..10.0),
        (roll, pitch, yaw) in (-0.3..0.3, -0.3..0.3, -3.1..3.1),
    ) {
        let then = pose(x, y, z, roll, pitch, yaw);
        let now = then * pose(1.5, -0.4, 0.02, 0.001, 0.002, 0.05);
        let past = sweep_of(4, 0.0);
        let mut sweeps = Sweeps::new(1, 5, 4);
        sweeps.push(&past, seconds(1.0), &then);
        let mut out = Points::with_capacity(5, 4);
        let current = Points::with_capacity(5, 0);
        densify(&current, seconds(1.0), &then, &sweeps, None, 1.0, &mut out).unwrap();
        for (a, b) in out.values().iter().zip(past.values()) {
            prop_assert!((a - b).abs() < 1e-5);
        }
        densify(&current, seconds(1.0), &now, &sweeps, None, 1.0, &mut out).unwrap();
        let distance = |p: &Points| {
            let rows: Vec<&[f32]> = p.iter().collect();
            (0..3).map(|i| (rows[0][i] - rows[3][i]).powi(2)).sum::<f32>().sqrt()
        };
        prop_assert!((distance(&out) - distance(&past)).abs() < 1e-4);
    }
}
