//! The CUDA side of [`nms_iou`](super::nms_iou): the same survivors in the
//! same order, bit for bit.

use super::check;
use crate::device::cuda::abi::nms::NmsSettings;
use crate::device::cuda::abi::nms::nms_iou::NmsIouSteps;
use crate::device::cuda::{DeviceCandidates, Stream};
use crate::error::Result;
use crate::ops::nms::cuda::{Capacity, DeviceWorkspace, Parameters};
use crate::types::{Box2d, NmsIou};

/// Kernels and memory of the op.
pub type Workspace = DeviceWorkspace<NmsIouSteps>;

/// Takes kernels and memory; settings come by [`set_nms_iou`].
///
/// # Errors
/// `Device` when this build has no such kernels or there is not enough memory.
pub fn workspace(stream: &Stream, capacity: Capacity) -> Result<Workspace> {
    DeviceWorkspace::new("nms_iou", stream, capacity)
}

/// Writes the settings to the device and waits; recorded graphs follow them.
///
/// # Errors
/// `Argument` as on the CPU, or for more groups than there is room for.
pub fn set_nms_iou(workspace: &mut Workspace, params: &NmsIou) -> Result<()> {
    check(params)?;
    let settings = NmsSettings {
        iou_threshold: params.iou_threshold,
        score_threshold: params.score_threshold.unwrap_or_default(),
        has_score_threshold: u32::from(params.score_threshold.is_some()),
        offset: f32::from(params.offset),
        max_num: u32::try_from(params.max_num).unwrap_or(u32::MAX),
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
pub fn enqueue_nms_iou(
    candidates: &DeviceCandidates<Box2d>,
    workspace: &mut Workspace,
) -> Result<()> {
    workspace.enqueue(&candidates.items, &candidates.num)
}
