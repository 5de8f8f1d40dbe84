//! The CUDA side of [`nms_rotated`](super::nms_rotated): the same survivors in the
//! same order, bit for bit.

use super::check;
use crate::device::cuda::abi::nms::NmsSettings;
use crate::device::cuda::abi::nms::nms_rotated::NmsRotatedSteps;
use crate::device::cuda::{DeviceCandidates, Stream};
use crate::error::Result;
use crate::ops::nms::cuda::{Capacity, Parameters, PreparedWorkspace};
use crate::types::{NmsRotated, RotatedBox2d};

/// Kernels and memory of the op.
pub type Workspace = PreparedWorkspace<NmsRotatedSteps>;

/// Takes kernels and memory; settings come by [`set_nms_rotated`].
///
/// # Errors
/// `Device` when this build has no such kernels or there is not enough memory.
pub fn workspace(stream: &Stream, capacity: Capacity) -> Result<Workspace> {
    PreparedWorkspace::new("nms_rotated", stream, capacity)
}

/// Writes the settings to the device and waits; recorded graphs follow them.
///
/// # Errors
/// `Argument` as on the CPU, or for more groups than there is room for.
pub fn set_nms_rotated(workspace: &mut Workspace, params: &NmsRotated) -> Result<()> {
    check(params)?;
    let settings = NmsSettings {
        iou_threshold: params.iou_threshold,
        max_num: u32::MAX,
        ..NmsSettings::default()
    };
    let class_mode = &params.class_mode;
    workspace.set(&Parameters { settings, class_mode, thresholds: &[], forbidden: &[] })
}

/// Queues the suppression of `candidates`; [`Workspace::read_kept`] waits for
/// the survivors.
///
/// # Errors
/// `Argument` when the candidates' capacity is above the workspace's; `Device`
/// when a buffer is another stream's or a launch fails.
pub fn enqueue_nms_rotated(
    candidates: &DeviceCandidates<RotatedBox2d>,
    workspace: &mut Workspace,
) -> Result<()> {
    workspace.enqueue(&candidates.items, &candidates.num)
}
