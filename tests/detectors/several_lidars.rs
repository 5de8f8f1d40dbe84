//! Clouds of several LiDARs in a frame: the same detections and counts on both devices, and those
//! of the merged cloud.

use det_post::detectors::motion::{Motion, SweepPoses};
use det_post::detectors::{Detector, FrameInput, FrameSet};
use det_post::{ErrorKind, Result};
use det_post_ops::cloud::unpack::placement::rows_of;
use det_post_types::{
    Count, Datatype, Detection3d, Detections, FrameReport, Header, Stamp, TimeField,
};
use nalgebra::Isometry3;

use super::lidar_pipeline::{CENTER, Pair, config, pose};
use det_post_testing::check_near;
use det_post_testing::clouds::{Cloud, uniform};
use det_post_testing::random::Random;

const NUM_LIDARS: usize = 4;
const INPUTS: &str = "c.inputs:=[/a, /b, /c, /d]";
const FRAME_IDS: [&str; NUM_LIDARS] = ["a", "b", "c", "d"];
const CROP: &str = "c.crop_boxes:=[-2.0, -1.0, -1.0, 2.0, 1.0, 2.0]";

/// The clouds of a frame, and where their sensors were.
struct Frame {
    stamp: Stamp,
    clouds: Vec<Option<Cloud>>,
    mounts: Vec<Isometry3<f64>>,
    motions: Vec<Motion>,
    target_pose: Result<Isometry3<f64>>,
}

impl Frame {
    /// A frame of clouds of `sizes`, `None` for an input that is missing, whose stamps are apart
    /// and whose sensors move.
    fn random(random: &mut Random, number: i64, sizes: [Option<usize>; NUM_LIDARS]) -> Self {
        let stamp = Stamp::from_nanos(1_000_000_000 + 100_000_000 * number);
        let mut cloud = |num: usize| {
            let mut points = uniform(random, num, 5, 11.0);
            for point in points.values_mut().chunks_exact_mut(5) {
                // One in fifty has no time.
                point[4] = if point[3].abs() < 0.2 { f32::NAN } else { point[4] / 220.0 };
            }
            Cloud::plain(points.values(), &["intensity", "time"])
        };
        let clouds = sizes.map(|size| size.map(&mut cloud)).into();
        let times = TimeField { offset: 16, datatype: Datatype::F32, base: 0.0, unit_s: 1.0 };
        let motions = (0..NUM_LIDARS).map(|_| {
            let poses = std::array::from_fn(|_| pose(random));
            let sweep = SweepPoses { times, first_s: -0.05, step_s: 0.1 / 16.0, poses };
            Motion { pose: pose(random), sweep: Some(sweep) }
        });
        let motions = motions.collect();
        let mounts = (0..NUM_LIDARS).map(|_| pose(random)).collect();
        Self { stamp, clouds, mounts, motions, target_pose: Ok(pose(random)) }
    }

    /// Detects with stamps that are apart by `skew_ns` from input to input.
    fn detect(
        &self,
        detector: &mut dyn Detector,
        skew_ns: i64,
        moves: bool,
    ) -> Result<(Vec<Detection3d>, FrameReport)> {
        let views: Vec<_> = self.clouds.iter().map(|of| of.as_ref().map(Cloud::view)).collect();
        let input = |index: usize| {
            let stamp = Stamp::from_nanos(self.stamp.nanos() - skew_ns * index as i64);
            let header = Header { stamp, frame_id: FRAME_IDS[index] };
            let motion = moves.then(|| Ok(self.motions[index].clone()));
            let input = FrameInput::cloud(header, views[index].as_ref()?);
            Some(FrameInput { motion, ..input.with_pose(self.mounts[index]) })
        };
        let inputs: Vec<_> = (0..NUM_LIDARS).map(input).collect();
        let target_pose = Some(&self.target_pose);
        detect(detector, &FrameSet { stamp: self.stamp, inputs: &inputs, target_pose })
    }

    /// All clouds as one, moved by the poses of their sensors.
    fn merged(&self) -> Cloud {
        let mut values = Vec::new();
        for (cloud, mount) in self.clouds.iter().zip(&self.mounts) {
            let Some(cloud) = cloud else { continue };
            let rows = rows_of(&mount.to_homogeneous().fixed_rows::<3>(0).into_owned());
            let floats =
                cloud.data.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap()));
            let floats: Vec<f32> = floats.collect();
            for point in floats.chunks_exact(5) {
                let [x, y, z] = [point[0], point[1], point[2]];
                values.extend(rows.map(|r| r[0] * x + r[1] * y + r[2] * z + r[3]));
                values.extend(&point[3..]);
            }
        }
        Cloud::plain(&values, &["intensity", "time"])
    }
}

fn detect(
    detector: &mut dyn Detector,
    frame: &FrameSet<'_>,
) -> Result<(Vec<Detection3d>, FrameReport)> {
    let mut report = FrameReport::new();
    match detector.detect(frame, &mut report)? {
        Detections::Boxes3d(found) => Ok((found.to_vec(), report)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn both_devices_find_the_same_in_several_clouds() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(170);
    for (past, more) in [("0", &[][..]), ("2", &[]), ("0", &[CROP, "c.deskew.enabled:=true"])] {
        let past = format!("c.densification.num_past_sweeps:={past}");
        let parameters = [&[INPUTS, &past], more].concat();
        let config = config(CENTER, &parameters);
        let mut pair = Pair::new(&device, &config, false);
        let mut num_detections = 0;
        for (number, sizes) in [
            [Some(700), Some(500), Some(600), Some(513)],
            [Some(700), None, Some(0), Some(1)],
            [Some(900), Some(400), None, None],
            [Some(0), Some(0), Some(0), Some(0)],
            [Some(2000), Some(2000), Some(2000), Some(2000)],
        ]
        .into_iter()
        .enumerate()
        {
            let frame = Frame::random(&mut random, number as i64, sizes);
            for skew_ns in [0, 7_000_000] {
                let context = format!("{parameters:?}, frame {number}, {skew_ns}");
                let (expected, of_cpu) = frame.detect(&mut pair.on_cpu, skew_ns, true).unwrap();
                let (found, of_gpu) = frame.detect(&mut pair.on_gpu, skew_ns, true).unwrap();
                for count in Count::ALL {
                    let pair = (of_gpu.count(count), of_cpu.count(count));
                    assert_eq!(pair.0, pair.1, "{context}: {}", count.name());
                }
                assert_eq!(of_gpu.clouds(), of_cpu.clouds(), "{context}");
                assert_eq!(found.len(), expected.len(), "{context}");
                for (a, b) in found.iter().zip(&expected) {
                    assert_eq!(a.class, b.class, "{context}");
                    check_near((a.score, &a.object), (b.score, &b.object), &context);
                }
                num_detections += found.len();
            }
        }
        assert!(num_detections > 100, "{parameters:?}: {num_detections}");
    }
}

#[test]
fn several_clouds_have_the_detections_of_the_merged_one() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(171);
    let past = "c.densification.num_past_sweeps:=1";
    let mut several = Pair::new(&device, &config(CENTER, &[INPUTS, past, CROP]), false);
    let mut one = Pair::new(&device, &config(CENTER, &[past, CROP]), false);
    for number in 0..4 {
        let sizes = [Some(700), Some(513), Some(1), Some(900)];
        let frame = Frame::random(&mut random, number, sizes);
        let merged = frame.merged();
        let view = merged.view();
        for is_gpu in [false, true] {
            let [several, one] = [&mut several, &mut one].map(|pair| match is_gpu {
                true => &mut pair.on_gpu as &mut dyn Detector,
                false => &mut pair.on_cpu,
            });
            let (found, report) = frame.detect(several, 0, false).unwrap();
            let header = Header { stamp: frame.stamp, frame_id: "base_link" };
            let pose = *frame.target_pose.as_ref().unwrap();
            let input = [Some(FrameInput::cloud(header, &view).with_pose(pose))];
            let (expected, of_one) = detect(one, &FrameSet::single(&input)).unwrap();
            assert!(!found.is_empty());
            assert_eq!(format!("{found:?}"), format!("{expected:?}"), "frame {number}, {is_gpu}");
            let points = [Count::PointsCropped, Count::PointsOutOfRange, Count::PointsNotFinite];
            for count in points {
                assert_eq!(report.count(count), of_one.count(count), "{}", count.name());
            }
        }
    }
}

#[test]
fn a_bad_cloud_of_several_leaves_the_channel_usable() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(172);
    let mut pair = Pair::new(&device, &config(CENTER, &[INPUTS]), false);
    let good = Frame::random(&mut random, 0, [Some(700); NUM_LIDARS]);
    let mut bad = Frame::random(&mut random, 1, [Some(700); NUM_LIDARS]);
    bad.clouds[2].as_mut().unwrap().fields.remove(1);
    let (expected, _) = good.detect(&mut pair.on_gpu, 0, true).unwrap();
    for detector in [&mut pair.on_cpu as &mut dyn Detector, &mut pair.on_gpu] {
        let error = bad.detect(detector, 0, true).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PointField);
        assert!(error.message().contains("input 2 (c)"), "{error}");
        detector.reset().unwrap();
    }
    let (found, report) = good.detect(&mut pair.on_gpu, 0, true).unwrap();
    assert_eq!(format!("{found:?}"), format!("{expected:?}"));
    let num_points: usize = report.clouds().iter().map(|cloud| cloud.num_points).sum();
    assert_eq!(num_points, 4 * 700);
}
