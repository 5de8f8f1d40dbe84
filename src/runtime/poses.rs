//! Poses of the sensors of a frame.

use nalgebra::Isometry3;

use crate::detectors::{FrameInput, InputNeeds};
use det_post_types::{Error, Result, Stamp};

/// The transform between two frames at a time: `(target, source, stamp)` to `target_from_source`.
pub type TransformLookup<'a> = dyn Fn(&str, &str, Stamp) -> Result<Isometry3<f64>> + 'a;

/// Looks up the poses that the detector uses and stores them with their inputs.
pub fn look_up_poses(
    needs: &[InputNeeds],
    inputs: &mut [Option<FrameInput<'_>>],
    transforms: Option<&TransformLookup<'_>>,
) {
    let Some(lookup) = transforms else { return };
    for (needs, input) in needs.iter().zip(inputs) {
        if let (Some(world), Some(input)) = (&needs.pose_in, input) {
            input.pose = Some(lookup(world, input.header.frame_id, input.header.stamp));
        }
    }
}

/// The reason why the pose of an input is unknown, taken from the first such input.
pub fn take_unknown_pose(inputs: &mut [Option<FrameInput<'_>>]) -> Option<Error> {
    let unknown = inputs.iter_mut().flatten().find(|i| matches!(i.pose, Some(Err(_))));
    unknown.and_then(|input| input.pose.take()?.err())
}
