use super::*;
use det_post_types::ErrorKind;
use nalgebra::{Quaternion, UnitQuaternion, Vector3};
use proptest::prelude::*;

fn secs(seconds: f64) -> Stamp {
    Stamp::from_nanos((seconds * 1e9).round() as i64)
}

fn pose(x: f64, y: f64, z: f64, yaw: f64) -> Isometry3<f64> {
    Isometry3::new(Vector3::new(x, y, z), Vector3::new(0.1, -0.2, yaw))
}

fn close(a: &Isometry3<f64>, b: &Isometry3<f64>) -> bool {
    (a.translation.vector - b.translation.vector).norm() < 1e-9
        && a.rotation.angle_to(&b.rotation) < 1e-7
}

/// map -> odom -> base (stamped), base -> lidar and base -> camera (static).
fn drive() -> TfBuffer {
    let mut buffer = TfBuffer::default();
    for i in 0..5 {
        let t = f64::from(i);
        buffer.insert("map", "odom", secs(t), pose(t, 0.5, 0.0, 0.1 * t), false).unwrap();
        buffer.insert("odom", "base", secs(t), pose(2.0 * t, -t, 0.1, 0.3 * t), false).unwrap();
    }
    buffer.insert("base", "lidar", secs(0.0), pose(1.0, 0.0, 2.0, 0.7), true).unwrap();
    buffer.insert("base", "/camera", secs(0.0), pose(1.5, 0.2, 1.6, -1.1), true).unwrap();
    buffer
}

#[test]
fn lookup_goes_through_the_common_ancestor() {
    let buffer = drive();
    let map_from_odom = pose(2.0, 0.5, 0.0, 0.2);
    let odom_from_base = pose(4.0, -2.0, 0.1, 0.6);
    let base_from_lidar = pose(1.0, 0.0, 2.0, 0.7);
    let base_from_camera = pose(1.5, 0.2, 1.6, -1.1);
    let map_from_lidar = map_from_odom * odom_from_base * base_from_lidar;
    let cases = [
        ("map", "odom", map_from_odom),
        ("odom", "map", map_from_odom.inverse()),
        ("map", "/lidar", map_from_lidar),
        ("lidar", "map", map_from_lidar.inverse()),
        ("camera", "lidar", base_from_camera.inverse() * base_from_lidar),
        ("lidar", "lidar", Isometry3::identity()),
    ];
    for (target, source, expected) in cases {
        let found = buffer.lookup(target, source, secs(2.0)).unwrap();
        assert!(close(&found, &expected), "{target} {source}: {found} {expected}");
    }
}

#[test]
fn an_exact_stamp_is_not_interpolated() {
    let buffer = drive();
    for i in 0..5 {
        let t = f64::from(i);
        assert_eq!(buffer.lookup("map", "odom", secs(t)).unwrap(), pose(t, 0.5, 0.0, 0.1 * t));
    }
}

#[test]
fn interpolation_is_linear_and_on_the_sphere() {
    let mut buffer = TfBuffer::default();
    let turn = |angle: f64| {
        Isometry3::from_parts(
            Vector3::new(10.0 * angle, 0.0, -angle).into(),
            UnitQuaternion::from_axis_angle(
                &nalgebra::Unit::new_normalize(Vector3::new(1.0, 2.0, -0.5)),
                angle,
            ),
        )
    };
    // Small turns lose precision in a plain slerp; large ones take the short way.
    for angle in [1e-9, 2e-8, 3e-7, 1e-3, 1.0, 3.0] {
        buffer.clear();
        buffer.insert("a", "b", secs(1.0), turn(0.0), false).unwrap();
        let mut end = turn(angle);
        end.rotation = UnitQuaternion::new_unchecked(-end.rotation.into_inner());
        buffer.insert("a", "b", secs(2.0), end, false).unwrap();
        let found = buffer.lookup("a", "b", secs(1.25)).unwrap();
        assert!(close(&found, &turn(0.25 * angle)), "{angle}: {found}");
        assert!((found.rotation.norm() - 1.0).abs() < 1e-12, "{angle}");
    }
}

#[test]
fn nothing_is_extrapolated() {
    let mut buffer = drive();
    buffer.insert("odom", "lonely", secs(3.0), pose(0.0, 0.0, 0.0, 0.0), false).unwrap();
    buffer.insert("moon", "crater", secs(3.0), pose(0.0, 0.0, 0.0, 0.0), true).unwrap();
    // (target, source, stamp, what the message says)
    let cases = [
        ("map", "lidar", 4.1, "\"odom\" from \"base\" is known from 0.000000000 to 4.000000000"),
        ("lidar", "map", -0.1, "\"lidar\" from \"map\" at -0.100000000"),
        ("odom", "lonely", 3.1, "is known at 3.000000000 only"),
        ("map", "crater", 3.0, "not connected"),
        ("map", "mars", 3.0, "frame \"mars\" is not known"),
        ("mars", "mars", 3.0, "frame \"mars\" is not known"),
    ];
    for (target, source, t, expected) in cases {
        let error = buffer.lookup(target, source, secs(t)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Transform);
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert!(buffer.lookup("odom", "lonely", secs(3.0)).is_ok());
    assert!(buffer.lookup("lidar", "camera", secs(99.0)).is_ok());
}

#[test]
fn samples_out_of_order_are_sorted_in() {
    let mut buffer = TfBuffer::default();
    for t in [3.0, 1.0, 2.0, 0.0, 4.0, 2.0] {
        buffer.insert("a", "b", secs(t), pose(t * t, 0.0, 0.0, 0.0), false).unwrap();
    }
    for (t, x) in [(0.5, 0.5), (1.5, 2.5), (2.0, 4.0), (2.5, 6.5), (3.5, 12.5)] {
        let found = buffer.lookup("a", "b", secs(t)).unwrap();
        assert!((found.translation.x - x).abs() < 1e-12, "{t} {found}");
    }
}

#[test]
fn a_jump_back_clears_the_edge() {
    let mut buffer = drive();
    for t in [20.0, 20.5] {
        buffer.insert("map", "odom", secs(t), pose(t, 0.0, 0.0, 0.0), false).unwrap();
    }
    // The window ends where it ends: 10 s is still inside, an instant before is not.
    buffer.insert("map", "odom", secs(10.5), pose(10.5, 0.0, 0.0, 0.0), false).unwrap();
    assert!(buffer.lookup("map", "odom", secs(20.2)).is_ok());
    buffer.insert("map", "odom", secs(10.4), pose(10.4, 0.0, 0.0, 0.0), false).unwrap();
    assert!(buffer.lookup("map", "odom", secs(20.2)).is_err());
    assert!(buffer.lookup("map", "odom", secs(10.4)).is_ok());
    assert!(buffer.lookup("odom", "base", secs(3.5)).is_ok(), "other edges stay");
    assert_eq!(buffer.losses(), TfLosses::default());
}

#[test]
fn the_window_and_the_capacity_bound_an_edge() {
    let limits =
        TfLimits { window: Duration::from_secs(2), max_samples_per_edge: 4, ..TfLimits::default() };
    let mut buffer = TfBuffer::new(limits);
    let insert = |buffer: &mut TfBuffer, t: f64| {
        buffer.insert("a", "b", secs(t), pose(t, 0.0, 0.0, 0.0), false).unwrap();
        buffer.losses().num_samples_dropped
    };
    for t in [0.0, 1.0, 2.0, 3.0, 4.0] {
        assert_eq!(insert(&mut buffer, t), 0);
    }
    assert!(buffer.lookup("a", "b", secs(2.0)).is_ok());
    assert!(buffer.lookup("a", "b", secs(1.9)).is_err(), "outside the window");
    assert_eq!(insert(&mut buffer, 3.5), 0, "exactly full");
    assert_eq!(insert(&mut buffer, 3.6), 1, "one over: the oldest goes");
    assert!(buffer.lookup("a", "b", secs(2.0)).is_err());
    assert!(buffer.lookup("a", "b", secs(3.0)).is_ok());
}

#[test]
fn bad_transforms_are_refused_and_change_nothing() {
    let mut buffer = drive();
    let before = format!("{:?}", buffer.frames);
    let one = Isometry3::identity();
    let mut nan = one;
    nan.translation.x = f64::NAN;
    let mut zero = one;
    zero.rotation = UnitQuaternion::new_unchecked(Quaternion::new(0.0, 0.0, 0.0, 0.0));
    let long = "x".repeat(MAX_FRAME_ID_LEN + 1);
    let cases = [
        ("map", "odom", nan),
        ("map", "odom", zero),
        ("map", "map", one),
        ("lidar", "map", one),
        ("base", "odom", one),
        ("", "odom", one),
        ("map", "/", one),
        (&long, "odom", one),
        ("new", "newer", zero),
    ];
    for (parent, child, isometry) in cases {
        for is_static in [false, true] {
            let result = buffer.insert(parent, child, secs(1.5), isometry, is_static);
            assert_eq!(result.unwrap_err().kind(), ErrorKind::Transform, "{parent} {child}");
        }
    }
    assert_eq!(format!("{:?}", buffer.frames), before);
}

#[test]
fn a_new_parent_or_kind_replaces_the_edge() {
    let mut buffer = drive();
    buffer.insert("map", "base", secs(4.0), pose(7.0, 0.0, 0.0, 0.0), false).unwrap();
    assert!(buffer.lookup("map", "base", secs(4.0)).is_ok());
    assert!(buffer.lookup("map", "base", secs(3.0)).is_err());
    buffer.insert("map", "base", secs(4.0), pose(8.0, 0.0, 0.0, 0.0), true).unwrap();
    let found = buffer.lookup("map", "base", secs(-5.0)).unwrap();
    assert_eq!(found, pose(8.0, 0.0, 0.0, 0.0));
    buffer.insert("map", "base", secs(4.0), pose(9.0, 0.0, 0.0, 0.0), false).unwrap();
    assert!(buffer.lookup("map", "base", secs(-5.0)).is_err());
}

#[test]
fn quaternions_are_normalised_or_refused() {
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let cases = [
        ([0.0; 3], [0.0, 0.0, 0.0, 1.0], true),
        ([0.0; 3], [0.0, 0.0, 0.6, -0.8], true),
        ([0.0; 3], [0.0, 0.0, 0.602, 0.8], true),
        ([0.0; 3], [0.0, 0.0, 0.0, 0.0], false),
        ([0.0; 3], [0.0, 0.0, 0.0, 1.1], false),
        ([0.0; 3], [0.0, 0.0, nan, 1.0], false),
        ([0.0; 3], [1e200, 0.0, 0.0, 1e200], false),
        ([nan, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0], false),
        ([0.0, -inf, 0.0], [0.0, 0.0, 0.0, 1.0], false),
    ];
    for (translation, rotation, accepted) in cases {
        match isometry(translation, rotation) {
            Ok(isometry) => {
                assert!(accepted, "{rotation:?}");
                assert!((isometry.rotation.norm() - 1.0).abs() < 1e-15);
            }
            Err(error) => assert!(!accepted && error.kind() == ErrorKind::Transform, "{error}"),
        }
    }
}

#[test]
fn the_ends_of_time_do_not_overflow() {
    let mut buffer = TfBuffer::new(TfLimits { window: Duration::MAX, ..TfLimits::default() });
    for nanos in [i64::MIN, i64::MAX] {
        let x = if nanos < 0 { -1.0 } else { 1.0 };
        buffer.insert("a", "b", Stamp::from_nanos(nanos), pose(x, 0.0, 0.0, 0.0), false).unwrap();
    }
    // No window reaches that far back: the oldest goes.
    let newest = buffer.lookup("a", "b", Stamp::from_nanos(i64::MAX)).unwrap();
    assert_eq!(newest.translation.x.to_bits(), 1f64.to_bits());
    let mut buffer = TfBuffer::default();
    for nanos in [i64::MAX, i64::MIN] {
        buffer.insert("a", "b", Stamp::from_nanos(nanos), pose(0.0, 0.0, 0.0, 0.0), false).unwrap();
    }
    assert!(buffer.lookup("a", "b", Stamp::from_nanos(i64::MIN)).is_ok());
    assert!(buffer.lookup("a", "b", Stamp::from_nanos(i64::MAX)).is_err());
}

/// The same tree in another implementation.
mod oracle {
    use super::*;
    use transforms::geometry::{Quaternion as Rotation, Vector3 as Translation};
    use transforms::time::{Stamp as Time, Timestamp};
    use transforms::{Registry, Transform};

    fn nanos(stamp: Stamp) -> Timestamp {
        Timestamp::from_nanos(stamp.nanos() as u64)
    }

    pub fn insert(
        registry: &mut Registry,
        [parent, child]: [&str; 2],
        stamp: Option<Stamp>,
        isometry: &Isometry3<f64>,
    ) {
        let (t, q) = (isometry.translation, isometry.rotation);
        let translation = Translation { x: t.x, y: t.y, z: t.z };
        let rotation = Rotation { w: q.w, x: q.i, y: q.j, z: q.k };
        let time = stamp.map_or(Time::Static, |stamp| Time::At(nanos(stamp)));
        let transform = Transform::new(parent, child, translation, rotation, time).unwrap();
        registry.add_transform(transform).unwrap();
    }

    pub fn lookup(
        registry: &Registry,
        target: &str,
        source: &str,
        stamp: Stamp,
    ) -> Option<Isometry3<f64>> {
        let found = registry.get_transform(target, source, nanos(stamp)).ok()?;
        let (t, q) = (found.translation(), found.rotation());
        Some(Isometry3::from_parts(
            Vector3::new(t.x, t.y, t.z).into(),
            UnitQuaternion::new_normalize(Quaternion::new(q.w, q.x, q.y, q.z)),
        ))
    }
}

type Edges = Vec<(prop::sample::Index, bool, Vec<(i64, [f64; 6])>)>;

fn edges() -> impl Strategy<Value = Edges> {
    let sample = (1_000i64..1_030, prop::array::uniform6(-3.0..3.0));
    prop::collection::vec(
        (
            any::<prop::sample::Index>(),
            prop::bool::weighted(0.3),
            prop::collection::vec(sample, 1..12),
        ),
        1..12,
    )
}

proptest! {
    #[test]
    fn lookups_agree_with_another_implementation(
        edges in edges(),
        queries in prop::collection::vec(
            (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 998i64..1_032), 16),
    ) {
        let names: Vec<String> = (0..=edges.len()).map(|i| format!("frame{i}")).collect();
        let mut buffer = TfBuffer::default();
        let mut registry = transforms::Registry::new();
        for (i, (parent, is_static, samples)) in edges.iter().enumerate() {
            let [parent, child] = [&names[parent.index(i + 1)], &names[i + 1]];
            let num_samples = if *is_static { 1 } else { samples.len() };
            for (nanos, [x, y, z, a, b, c]) in &samples[..num_samples] {
                let isometry = Isometry3::new(Vector3::new(*x, *y, *z), Vector3::new(*a, *b, *c));
                let stamp = Stamp::from_nanos(*nanos);
                buffer.insert(parent, child, stamp, isometry, *is_static).unwrap();
                let stamp = (!is_static).then_some(stamp);
                oracle::insert(&mut registry, [parent, child], stamp, &isometry);
            }
        }
        for (target, source, nanos) in queries {
            let (target, source) = (&names[target.index(names.len())], &names[source.index(names.len())]);
            let stamp = Stamp::from_nanos(nanos);
            let found = buffer.lookup(target, source, stamp).ok();
            let expected = oracle::lookup(&registry, target, source, stamp);
            match (&found, &expected) {
                (Some(found), Some(expected)) => {
                    prop_assert!(close(found, expected), "{target} {source} {nanos}: {found} {expected}");
                }
                _ => prop_assert_eq!(found.is_some(), expected.is_some(), "{} {} {}", target, source, nanos),
            }
        }
    }
}

#[test]
fn samples_of_later_than_a_jump_are_forgotten() {
    let mut buffer = TfBuffer::default();
    let at = |seconds| Stamp::from_ros(seconds, 0);
    let pose = Isometry3::translation(1.0, 2.0, 3.0);
    buffer.insert("base", "lidar", at(0), pose, true).unwrap();
    for seconds in 10..15 {
        buffer.insert("map", "base", at(seconds), pose, false).unwrap();
    }
    buffer.forget_after(at(12));
    assert!(buffer.lookup("map", "lidar", at(12)).is_ok());
    assert!(buffer.lookup("map", "lidar", at(13)).is_err());
    buffer.forget_after(at(9));
    assert!(buffer.lookup("map", "lidar", at(10)).is_err());
    assert!(buffer.lookup("base", "lidar", at(10)).is_ok());
    buffer.insert("map", "base", at(9), pose, false).unwrap();
    assert!(buffer.lookup("map", "lidar", at(9)).is_ok());
}

#[test]
fn no_pose_is_between_what_stays_and_what_comes_after_a_jump() {
    let at = |seconds| Stamp::from_ros(seconds, 0);
    let buffer_of = |later: &[i32]| {
        let mut buffer = TfBuffer::default();
        let insert = |buffer: &mut TfBuffer, seconds: i32| {
            let pose = Isometry3::translation(f64::from(seconds), 0.0, 0.0);
            buffer.insert("map", "base", at(seconds), pose, false).unwrap();
        };
        (10..16).for_each(|seconds| insert(&mut buffer, seconds));
        buffer.forget_after(at(12));
        later.iter().for_each(|&seconds| insert(&mut buffer, seconds));
        buffer
    };
    let x = |buffer: &TfBuffer, nanos: i64| {
        let pose = buffer.lookup("map", "base", Stamp::from_nanos(nanos));
        pose.ok().map(|pose| pose.translation.x)
    };
    // One stamp was wrong: the transforms go on where they were.
    let goes_on = buffer_of(&[16, 17]);
    let found =
        [11_500, 12_000, 12_500, 15_500, 16_000, 16_500].map(|ms| x(&goes_on, ms * 1_000_000));
    assert_eq!(found, [Some(11.5), Some(12.0), None, None, Some(16.0), Some(16.5)]);
    // The recording starts over: they come again.
    let again = buffer_of(&[13, 14]);
    assert_eq!([12_500, 13_500].map(|ms| x(&again, ms * 1_000_000)), [Some(12.5), Some(13.5)]);
}
