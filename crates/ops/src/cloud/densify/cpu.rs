//! The reference on the CPU.

use nalgebra::Matrix3x4;

use super::{DensifyCounts, Now, Sweep, Sweeps};
use det_post_types::Points;

/// Fills `out`, which is empty and has as many channels as the points.
pub(super) fn densify(
    current: &Points,
    now: &Now,
    time_lag_channel: Option<usize>,
    sweeps: &Sweeps,
    out: &mut Points,
) -> DensifyCounts {
    let mut counts =
        DensifyCounts { num_points_over_capacity: out.extend_from(current), ..Default::default() };
    if let Some(channel) = time_lag_channel {
        let num_channels = out.num_channels();
        out.values_mut().chunks_exact_mut(num_channels).for_each(|point| point[channel] = 0.0);
    }
    for sweep in sweeps.newest_first() {
        let Some((matrix, age_s)) = now.transform_and_age(sweep.stamp, &sweep.world_from_sensor)
        else {
            counts.num_sweeps_dropped += 1;
            continue;
        };
        counts.num_sweeps += 1;
        append(sweep, &matrix, time_lag_channel, age_s, out, &mut counts);
    }
    counts
}

fn append(
    sweep: &Sweep,
    current_from_past: &Matrix3x4<f32>,
    time_lag_channel: Option<usize>,
    age_s: f32,
    out: &mut Points,
    counts: &mut DensifyCounts,
) {
    let m = current_from_past;
    let num_channels = out.num_channels();
    for point in sweep.points.iter() {
        let [x, y, z] = [point[0], point[1], point[2]];
        let moved: [f32; 3] =
            std::array::from_fn(|i| m[(i, 0)] * x + m[(i, 1)] * y + m[(i, 2)] * z + m[(i, 3)]);
        if !moved.iter().all(|value| value.is_finite()) {
            counts.num_points_not_finite += 1;
        } else if out.push(point) {
            let start = out.values().len() - num_channels;
            let placed = &mut out.values_mut()[start..];
            placed[..3].copy_from_slice(&moved);
            if let Some(channel) = time_lag_channel {
                placed[channel] = age_s;
            }
        } else {
            counts.num_points_over_capacity += 1;
        }
    }
}
