//! Where the points of the clouds of a frame go.
//!
//! With a target frame T every cloud is moved into T at the stamp of the frame: by the pose of its
//! sensor in T at the stamp of the cloud and, with `compensate_skew`, by the motion of T between
//! the two stamps. Deskewed, each point is moved by the pose of T when it was measured. Without a
//! target frame points stay in the frame of their sensor, deskewed at the stamp of the cloud.
//!
//! Without the motion of T, points are where they were measured, and the frame is degraded; without
//! the pose of a sensor in T it is dropped.

use nalgebra::Isometry3;

use super::refuse_input;
use crate::config::{CloudsConfig, LidarConfig};
use crate::detectors::motion::{MotionNeeds, SweepPoses};
use crate::detectors::{FrameSet, InputNeeds, MAX_INPUTS, PayloadKind, TargetFrame};
use det_post_ops::cloud::unpack::placement::{Placement, Rows, Sweep, rows_of};
use det_post_types::{CloudView, Count, Error, ErrorKind, FrameReport, Result, UnpackCounts};

/// For each cloud, what else the frame needs of its input.
pub(super) fn needs(config: &LidarConfig) -> Vec<InputNeeds> {
    let CloudsConfig { num_inputs, target_frame, compensate_skew, deskew, .. } = &config.clouds;
    let fixed_frame = || config.densification.world_frame.clone();
    let merges = config.densification.num_past_sweeps > 0;
    let pose_in = match target_frame {
        Some(target_frame) => Some(target_frame.clone()),
        None => merges.then(fixed_frame),
    };
    let moves = deskew.is_some() || (*compensate_skew && target_frame.is_some());
    let motion = moves.then(|| MotionNeeds {
        fixed_frame: fixed_frame(),
        moving_frame: target_frame.clone(),
        point_times: deskew.clone(),
    });
    let input = InputNeeds { pose_in, motion, ..InputNeeds::of(PayloadKind::Cloud) };
    vec![input; *num_inputs]
}

/// The frame of the detections, if it is not the sensor's.
pub(super) fn target(config: &LidarConfig) -> Option<TargetFrame> {
    let CloudsConfig { target_frame, compensate_skew, .. } = &config.clouds;
    let uses_pose = *compensate_skew || config.densification.num_past_sweeps > 0;
    let pose_in = uses_pose.then(|| config.densification.world_frame.clone());
    target_frame.clone().map(|frame_id| TargetFrame { frame_id, pose_in })
}

/// The pose for past sweeps: of the target frame, or of the sensor.
pub(super) fn pose_of<'a>(
    frame: &FrameSet<'a>,
    config: &CloudsConfig,
) -> Result<Option<&'a Isometry3<f64>>> {
    match config.target_frame {
        Some(_) => Ok(frame.target_pose.and_then(|pose| pose.as_ref().ok())),
        None => Ok(frame.input(super::CLOUD)?.world_from_sensor()),
    }
}

/// Where the points of the cloud of an input go.
///
/// # Errors
/// `Transform` when the pose of the sensor in the target frame is unknown.
pub(crate) fn placement(
    frame: &FrameSet<'_>,
    index: usize,
    config: &CloudsConfig,
) -> Result<Placement> {
    let input = frame.input(index)?;
    let motion = input.motion.as_ref().and_then(|motion| motion.as_ref().ok());
    let mount = match (&config.target_frame, &input.pose) {
        (None, _) => None,
        (Some(_), Some(Ok(mount))) => Some(*mount),
        (Some(_), Some(Err(error))) => return Err(refuse_input(index, input, error)),
        (Some(target_frame), None) => {
            let message = format!("its pose in {target_frame} is not given");
            let error = Error::new(ErrorKind::Transform, "lidar", message);
            return Err(refuse_input(index, input, &error));
        }
    };
    // The pose at the stamp of the frame, and that at the stamp of the cloud.
    let now = frame.target_pose.and_then(|pose| pose.as_ref().ok());
    let now = now.filter(|_| config.compensate_skew && input.header.stamp != frame.stamp);
    let since = now.zip(motion).map(|(now, motion)| now.inv_mul(&motion.pose));
    let fixed = match (since, mount) {
        (Some(since), Some(mount)) => Some(since * mount),
        (since, mount) => since.or(mount),
    };
    let sweep = motion.and_then(|motion| {
        let now = now.unwrap_or(&motion.pose);
        motion.sweep.as_ref().map(|poses| sweep(poses, now, mount.as_ref()))
    });
    let crop = config.crop_boxes.get(index).copied();
    Ok(Placement { rows: fixed.as_ref().map(rows), sweep, crop })
}

/// The transforms of a sweep into the frame that has the pose `now`.
fn sweep(poses: &SweepPoses, now: &Isometry3<f64>, mount: Option<&Isometry3<f64>>) -> Sweep {
    let SweepPoses { times, first_s, step_s, poses } = poses;
    let to = now.inverse();
    Sweep {
        times: *times,
        first_s: *first_s,
        knots_per_s: if *step_s > 0.0 { 1.0 / step_s } else { 0.0 },
        knots: poses.each_ref().map(|pose| {
            let moved = to * pose;
            rows(&mount.map_or(moved, |mount| moved * mount))
        }),
    }
}

fn rows(transform: &Isometry3<f64>) -> Rows {
    rows_of(&transform.to_homogeneous().fixed_rows::<3>(0).into_owned())
}

/// The inputs that a frame has, in their order: all but those that the synchronizer left out.
///
/// # Errors
/// `Argument` when it has none.
pub(super) fn present(frame: &FrameSet<'_>) -> Result<impl Iterator<Item = usize> + use<>> {
    let is_present: [bool; MAX_INPUTS] =
        std::array::from_fn(|index| matches!(frame.inputs.get(index), Some(Some(_))));
    if !is_present.contains(&true) {
        frame.input(super::CLOUD)?;
    }
    Ok((0..MAX_INPUTS).filter(move |index| is_present[*index]))
}

/// The error of one of several inputs.
pub(super) fn of_input(frame: &FrameSet<'_>, index: usize, error: Error) -> Error {
    match frame.input(index) {
        Ok(input) if frame.inputs.len() > 1 => refuse_input(index, input, &error),
        _ => error,
    }
}

/// Adds the points of a cloud to the counters of a frame.
pub(super) fn add_counts(report: &mut FrameReport, counts: &UnpackCounts) {
    report.add_count(Count::PointsNotFinite, counts.num_not_finite);
    report.add_count(Count::PointsCropped, counts.num_cropped);
    report.add_count(Count::PointsOutOfRange, counts.num_out_of_range);
    report.add_count(Count::PointsOverCapacity, counts.num_over_capacity);
    report.add_count(Count::PointsWithoutTime, counts.num_without_time);
}

/// Of a cloud that is to be deskewed and has no times, its points; else 0. Where the motion is
/// unknown, that is the reason.
pub(super) fn num_without_time(frame: &FrameSet<'_>, index: usize, config: &CloudsConfig) -> usize {
    let motion = frame.input(index).ok().and_then(|input| input.motion.as_ref());
    let has_none = matches!(motion, Some(Ok(motion)) if motion.sweep.is_none());
    let cloud = frame.cloud(index).ok().filter(|_| has_none && config.deskew.is_some());
    cloud.map_or(0, CloudView::num_points)
}
