//! Poses and motions of the sensors of a frame.

use nalgebra::Isometry3;

use crate::detectors::motion::{Motion, MotionNeeds, SweepPoses};
use crate::detectors::{FrameInput, InputNeeds, Payload};
use det_post_ops::cloud::unpack::placement::NUM_KNOTS;
use det_post_types::{Error, ErrorKind, PointTimes, Result, Stamp};

/// The transform between two frames at a time: `(target, source, stamp)` to `target_from_source`.
pub type TransformLookup<'a> = dyn Fn(&str, &str, Stamp) -> Result<Isometry3<f64>> + 'a;

/// Looks up the poses and motions that the detector uses and stores them with their inputs.
pub fn look_up_poses(
    needs: &[InputNeeds],
    inputs: &mut [Option<FrameInput<'_>>],
    transforms: Option<&TransformLookup<'_>>,
) {
    let Some(lookup) = transforms else { return };
    for (needs, input) in needs.iter().zip(inputs) {
        let Some(input) = input else { continue };
        if let Some(world) = &needs.pose_in {
            input.pose = Some(lookup(world, input.header.frame_id, input.header.stamp));
        }
        if let Some(needs) = &needs.motion {
            input.motion = Some(motion(needs, input, lookup));
        }
    }
}

/// The motion around the stamp of an input.
fn motion(
    needs: &MotionNeeds,
    input: &FrameInput<'_>,
    lookup: &TransformLookup<'_>,
) -> Result<Motion> {
    let MotionNeeds { fixed_frame, moving_frame, point_times } = needs;
    let stamp = input.header.stamp;
    let moving_frame = moving_frame.as_deref().unwrap_or(input.header.frame_id);
    let pose_at = |after_s: f64| {
        let after_ns = (after_s * 1e9).round() as i64;
        let stamp = Stamp::from_nanos(stamp.nanos().saturating_add(after_ns));
        lookup(fixed_frame, moving_frame, stamp)
    };
    let pose = pose_at(0.0)?;
    let sweep = match point_times {
        Some(times) => sweep(times, input, pose_at)?,
        None => None,
    };
    Ok(Motion { pose, sweep })
}

/// The poses while the points of a cloud were measured; `None` without usable times.
fn sweep(
    times: &PointTimes,
    input: &FrameInput<'_>,
    pose_at: impl Fn(f64) -> Result<Isometry3<f64>>,
) -> Result<Option<SweepPoses>> {
    let cloud = match input.payload {
        Payload::Cloud(cloud) => cloud,
        Payload::CloudOnDevice(_) => {
            let message = "a cloud in the memory of a GPU is not deskewed: its times are not read";
            return Err(Error::new(ErrorKind::Transform, "deskew", message));
        }
        Payload::Image(_) | Payload::Tensors(_) => return Ok(None),
    };
    let Some(times) = times.find(cloud, input.header.stamp) else { return Ok(None) };
    let Some([first_s, last_s]) = times.span(cloud) else { return Ok(None) };
    let step_s = (last_s - first_s) / (NUM_KNOTS - 1) as f32;
    let mut poses = [Isometry3::identity(); NUM_KNOTS];
    for (knot, pose) in poses.iter_mut().enumerate() {
        *pose = pose_at(f64::from(first_s) + knot as f64 * f64::from(step_s))?;
    }
    Ok(Some(SweepPoses { times, first_s, step_s, poses }))
}

/// The reason why a pose or a motion of an input is unknown, taken from the first such input.
pub fn take_unknown_pose(inputs: &mut [Option<FrameInput<'_>>]) -> Option<Error> {
    let mut inputs = inputs.iter_mut().flatten();
    inputs.find_map(|input| {
        let pose = input.pose.take_if(|pose| pose.is_err()).and_then(Result::err);
        pose.or_else(|| input.motion.take_if(|motion| motion.is_err()).and_then(Result::err))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::CloudsConfig;
    use crate::detectors::lidar::placement;
    use crate::detectors::{FrameSet, PayloadKind};
    use det_post_ops::cloud::unpack::{UnpackCounts, UnpackParams, append};
    use det_post_ros::tf::TfBuffer;
    use det_post_sim::{Drive, Options, Scan, ScanPoint};
    use det_post_types::{CloudView, Header, PointField, PointFields, Points};
    use nalgebra::{Point3, Translation3, UnitQuaternion, Vector3};

    const SPEED_MPS: f64 = 30.0;
    const TURN_RADPS: f64 = 1.0;
    const STAMP: Stamp = Stamp::from_ros(1_750_000_000, 50_000_000);

    /// The vehicle at a time from the stamp: on a circle of 30 m.
    fn vehicle(time_s: f64) -> Isometry3<f64> {
        let (turn, radius) = (TURN_RADPS * time_s, SPEED_MPS / TURN_RADPS);
        let at = Translation3::new(100.0 + radius * turn.sin(), radius * (1.0 - turn.cos()), 0.3);
        let turn = UnitQuaternion::from_axis_angle(&Vector3::z_axis(), turn);
        Isometry3::from_parts(at, turn)
    }

    fn mount() -> Isometry3<f64> {
        let turn = UnitQuaternion::from_euler_angles(0.01, -0.03, 0.7);
        Isometry3::from_parts(Translation3::new(1.25, 0.4, 1.9), turn)
    }

    /// Poses of the vehicle at 100 Hz, and its mount.
    fn transforms() -> TfBuffer {
        let mut buffer = TfBuffer::default();
        buffer.insert("base_link", "lidar", Stamp::default(), mount(), true).unwrap();
        for step in -30..30 {
            let stamp = Stamp::from_nanos(STAMP.nanos() + step * 10_000_000);
            buffer.insert("map", "base_link", stamp, vehicle(step as f64 * 0.01), false).unwrap();
        }
        buffer
    }

    /// A message of a scan of walls and cars that stand still, as a moving sensor sees them.
    fn moving_scan(points: &[ScanPoint], has_times: bool) -> Vec<u8> {
        let mut data = Vec::new();
        for point in points {
            let in_map = vehicle(0.0) * mount() * Point3::from(point.position.map(f64::from));
            let sensor = vehicle(f64::from(point.time_s)) * mount();
            let measured = sensor.inverse() * in_map;
            let time = if has_times { point.time_s } else { f32::NAN };
            let values = measured.coords.iter().map(|value| *value as f32).chain([time]);
            data.extend(values.flat_map(f32::to_le_bytes));
        }
        data
    }

    /// The points of the scan in the frame of the output, and their counts.
    fn unpacked(config: &CloudsConfig, data: &[u8]) -> (Vec<f32>, UnpackCounts) {
        let mut fields = PointFields::new();
        for (name, offset) in [("x", 0), ("y", 4), ("z", 8), ("time", 12)] {
            fields.push(PointField { name, offset, datatype: 7, count: 1 }).unwrap();
        }
        let size = [(data.len() / 16) as u32, 1];
        let cloud = CloudView::new(size, [16, 0], false, fields, data).unwrap();
        let needs = [InputNeeds {
            pose_in: config.target_frame.clone(),
            motion: Some(MotionNeeds {
                fixed_frame: "map".into(),
                moving_frame: config.target_frame.clone(),
                point_times: config.deskew.clone(),
            }),
            ..InputNeeds::of(PayloadKind::Cloud)
        }];
        let header = Header { stamp: STAMP, frame_id: "lidar" };
        let mut inputs = [Some(FrameInput::cloud(header, &cloud))];
        let buffer = transforms();
        let lookup = |target: &str, source: &str, stamp| buffer.lookup(target, source, stamp);
        look_up_poses(&needs, &mut inputs, Some(&lookup));
        assert!(take_unknown_pose(&mut inputs).is_none());
        let target_pose = lookup("map", "base_link", STAMP);
        let frame = FrameSet { stamp: STAMP, inputs: &inputs, target_pose: Some(&target_pose) };
        let placement = placement(&frame, 0, config).unwrap();
        let params = UnpackParams { channels: Vec::new(), intensity_scale: 1.0, range: None };
        let mut out = Points::with_capacity(3, cloud.num_points());
        let counts = append(&cloud, &params, &placement, &mut out).unwrap();
        (out.values().to_vec(), counts)
    }

    fn largest_error(found: &[f32], expected: impl Iterator<Item = Point3<f64>>) -> f64 {
        let found = found.chunks_exact(3).map(|p| Point3::new(p[0], p[1], p[2]).map(f64::from));
        found.zip(expected).map(|(a, b)| (a - b).norm()).fold(0.0, f64::max)
    }

    #[test]
    fn a_sweep_at_30_mps_and_1_radps_is_the_scan_of_its_stamp() {
        let options = Options { num_points: 19_200, ..Options::default() };
        let drive = Drive::new(11, &options).unwrap();
        let mut scan = Scan::default();
        drive.cloud(0, 3, &mut scan);
        let data = moving_scan(&scan.points, true);
        let truth = |target: Isometry3<f64>| {
            let points = scan.points.iter();
            points.map(move |point| target * Point3::from(point.position.map(f64::from)))
        };
        let mut config = CloudsConfig {
            num_inputs: 1,
            target_frame: None,
            compensate_skew: false,
            crop_boxes: Vec::new(),
            deskew: Some(PointTimes::default()),
        };
        for target in [None, Some("base_link")] {
            config.target_frame = target.map(str::to_owned);
            let to = target.map_or(Isometry3::identity(), |_| mount());
            config.deskew = Some(PointTimes::default());
            let (found, counts) = unpacked(&config, &data);
            let expected =
                UnpackCounts { num_points: scan.points.len(), ..UnpackCounts::default() };
            assert_eq!(counts, expected);
            let error_m = largest_error(&found, truth(to));
            assert!(error_m < 0.005, "{target:?}: {error_m} m");
            // What it would be without.
            config.deskew = None;
            let (skewed, _) = unpacked(&config, &data);
            let error_m = largest_error(&skewed, truth(to));
            assert!(error_m > 1.5, "{target:?}: {error_m} m");
            // Points without a time are where they were measured.
            config.deskew = Some(PointTimes::default());
            let (without, counts) = unpacked(&config, &moving_scan(&scan.points, false));
            assert_eq!(without, skewed);
            // No time is usable: the cloud has no sweep.
            assert_eq!(counts.num_without_time, 0);
        }
    }

    #[test]
    fn unknown_motion_has_a_reason() {
        let data = moving_scan(&[], true);
        let cloud = CloudView::new([0, 1], [16, 0], false, PointFields::new(), &data).unwrap();
        let header = Header { stamp: STAMP, frame_id: "lidar" };
        let mut inputs = [Some(FrameInput::cloud(header, &cloud))];
        let needs = [InputNeeds {
            motion: Some(MotionNeeds {
                fixed_frame: "odom".into(),
                moving_frame: None,
                point_times: None,
            }),
            ..InputNeeds::of(PayloadKind::Cloud)
        }];
        let buffer = transforms();
        let lookup = |target: &str, source: &str, stamp| buffer.lookup(target, source, stamp);
        look_up_poses(&needs, &mut inputs, Some(&lookup));
        let error = take_unknown_pose(&mut inputs).unwrap();
        assert_eq!(error.kind(), ErrorKind::Transform);
        assert!(take_unknown_pose(&mut inputs).is_none());
    }
}
