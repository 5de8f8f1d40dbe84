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
