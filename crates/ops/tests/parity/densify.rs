//! Joining past sweeps: the same points in the same order, and the same counts.

use det_post_ops::cloud::DevicePoints;
use det_post_ops::cloud::densify::cuda::{DeviceSweeps, Joining, SweepCounts, Workspace};
use det_post_ops::cloud::densify::{DensifyCounts, Sweeps, densify};
use det_post_ops::device::cuda::CudaDevice;
use det_post_ops::shared::DeviceCounters;
use det_post_types::{Count, Points, Stamp};
use nalgebra::{Isometry3, Translation3, UnitQuaternion};

use det_post_testing::clouds::uniform;
use det_post_testing::random::Random;

struct Problem {
    num_past: usize,
    num_channels: usize,
    sweep_capacity: usize,
    capacity: usize,
    time_lag_channel: Option<usize>,
    max_age_s: f64,
    /// Points, stamp in seconds, pose.
    frames: Vec<(Points, f64, Option<Isometry3<f64>>)>,
}

impl Problem {
    fn check(&self, device: &CudaDevice) {
        let Self { num_past, num_channels, sweep_capacity, .. } = *self;
        let stream = device.stream().unwrap();
        let mut counters = DeviceCounters::new(&stream).unwrap();
        let mut on_cpu = Sweeps::new(num_past, num_channels, sweep_capacity);
        let mut on_gpu =
            DeviceSweeps::new(&stream, num_past, num_channels, sweep_capacity).unwrap();
        let mut workspace = Workspace::new(&stream, &on_gpu, self.time_lag_channel).unwrap();
        let mut out = DevicePoints::with_capacity(&stream, num_channels, self.capacity).unwrap();
        for (index, (points, seconds, pose)) in self.frames.iter().enumerate() {
            let stamp = Stamp::from_nanos((seconds * 1e9) as i64);
            let (expected, expected_counts) = self.reference(points, stamp, pose.as_ref(), &on_cpu);
            on_gpu.current_mut().write(points).unwrap();
            let joining =
                Joining { stamp, world_from_sensor: pose.as_ref(), max_age_s: self.max_age_s };
            for run in 0..2 {
                let sweeps = workspace.enqueue(&on_gpu, &joining, &mut out, &mut counters).unwrap();
                let context = format!(
                    "frame {index}, run {run}: {num_past} past, {num_channels} channels, capacity \
                     {} of {sweep_capacity}",
                    self.capacity
                );
                check_counts(sweeps, &mut counters, &expected_counts, &context);
                let bits = |points: &Points| -> Vec<u32> {
                    points.values().iter().map(|value| value.to_bits()).collect()
                };
                let (found, expected) = (bits(&out.read().unwrap()), bits(&expected));
                let first = found.iter().zip(&expected).position(|(a, b)| a != b);
                assert!(
                    found == expected,
                    "{context}: {} values, expected {}; first difference {first:?}: {:x?} {:x?}",
                    found.len(),
                    expected.len(),
                    first.map(|i| found[i]),
                    first.map(|i| expected[i])
                );
            }
            if let Some(pose) = pose {
                on_cpu.push(points, stamp, pose);
                on_gpu.push(stamp, pose);
            }
            assert_eq!(on_cpu.len(), on_gpu.len());
        }
    }

    fn reference(
        &self,
        points: &Points,
        stamp: Stamp,
        pose: Option<&Isometry3<f64>>,
        sweeps: &Sweeps,
    ) -> (Points, DensifyCounts) {
        let mut out = Points::with_capacity(self.num_channels, self.capacity);
        let single = Sweeps::new(0, self.num_channels, 0);
        let (sweeps, num_dropped) =
            if pose.is_some() { (sweeps, 0) } else { (&single, sweeps.len()) };
        let here = Isometry3::identity();
        let pose = pose.unwrap_or(&here);
        let lag = self.time_lag_channel;
        let mut counts =
            densify(points, stamp, pose, sweeps, lag, self.max_age_s, &mut out).unwrap();
        counts.num_sweeps_dropped += num_dropped;
        (out, counts)
    }
}

fn check_counts(
    sweeps: SweepCounts,
    counters: &mut DeviceCounters,
    expected: &DensifyCounts,
    context: &str,
) {
    let DensifyCounts { num_sweeps, num_sweeps_dropped, .. } = *expected;
    assert_eq!(sweeps, SweepCounts { num_sweeps, num_sweeps_dropped }, "{context}");
    let dropped = det_post_testing::counted([
        (Count::PointsOverCapacity, expected.num_points_over_capacity),
        (Count::PointsNotFinite, expected.num_points_not_finite),
    ]);
    assert_eq!(counters.take().unwrap(), dropped, "{context}");
}

fn pose(random: &mut Random, reach: f64) -> Isometry3<f64> {
    let mut number = || f64::from(random.range(-1.0, 1.0));
    let rotation =
        UnitQuaternion::from_euler_angles(0.1 * number(), 0.1 * number(), 3.0 * number());
    let shift = Translation3::new(reach * number(), reach * number(), number());
    Isometry3::from_parts(shift, rotation)
}

#[test]
fn drives_of_any_length_and_capacity_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(140);
    for num_past in [0, 1, 2, 9, 64] {
        for (num_channels, time_lag_channel) in
            [(3, None), (4, Some(3)), (5, Some(4)), (6, Some(3))]
        {
            for (num_points, capacity) in [(0, 10), (1, 1), (511, 2000), (1300, 1200), (1300, 9000)]
            {
                let frames = (0..num_past.min(11) + 3)
                    .map(|i| {
                        let num = random.below(num_points + 1);
                        let points = uniform(&mut random, num, num_channels, 60.0);
                        let pose = (i != 2).then(|| pose(&mut random, 30.0));
                        (points, 100.0 + 0.1 * i as f64, pose)
                    })
                    .collect();
                let sweep_capacity = num_points.max(1);
                let max_age_s = 0.75;
                Problem {
                    num_past,
                    num_channels,
                    sweep_capacity,
                    capacity,
                    time_lag_channel,
                    max_age_s,
                    frames,
                }
                .check(&device);
            }
        }
    }
}

#[test]
fn clocks_that_jump_and_numbers_that_overflow_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(141);
    let mut frames = Vec::new();
    for (seconds, reach) in [
        (10.0, 1.0),
        (10.1, 1e38),
        (9.0, 1e38),
        (9.05, 1.0),
        (50.0, 1e39),
        (50.0, 1e300),
        (50.2, 2.0),
    ] {
        let mut points = uniform(&mut random, 900, 4, 60.0);
        for value in points.values_mut().iter_mut().step_by(13) {
            *value *= 4e36;
        }
        frames.push((points, seconds, Some(pose(&mut random, reach))));
    }
    Problem {
        num_past: 3,
        num_channels: 4,
        sweep_capacity: 900,
        capacity: 2500,
        time_lag_channel: Some(3),
        max_age_s: 1.0,
        frames,
    }
    .check(&device);
}

#[test]
fn forgotten_sweeps_are_gone_and_wrong_channels_refused() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let mut counters = DeviceCounters::new(&stream).unwrap();
    let mut random = Random::new(142);
    let mut sweeps = DeviceSweeps::new(&stream, 2, 4, 100).unwrap();
    let mut workspace = Workspace::new(&stream, &sweeps, Some(3)).unwrap();
    let mut out = DevicePoints::with_capacity(&stream, 4, 300).unwrap();
    let pose = pose(&mut random, 1.0);
    let stamp = Stamp::from_nanos(0);
    sweeps.current_mut().write(&uniform(&mut random, 100, 4, 9.0)).unwrap();
    sweeps.push(stamp, &pose);
    sweeps.clear();
    sweeps.current_mut().write(&uniform(&mut random, 40, 4, 9.0)).unwrap();
    let joining = Joining { stamp, world_from_sensor: Some(&pose), max_age_s: 1.0 };
    workspace.enqueue(&sweeps, &joining, &mut out, &mut counters).unwrap();
    assert_eq!(out.num.read().unwrap(), [40]);
    let mut wide = DevicePoints::with_capacity(&stream, 5, 300).unwrap();
    assert!(workspace.enqueue(&sweeps, &joining, &mut wide, &mut counters).is_err());
    assert!(Workspace::new(&stream, &sweeps, Some(2)).is_err());
    assert!(Workspace::new(&stream, &sweeps, Some(4)).is_err());
    assert!(DeviceSweeps::new(&stream, 65, 4, 10).is_err());
}
