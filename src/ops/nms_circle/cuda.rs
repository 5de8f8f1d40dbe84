//! The CUDA side of [`nms_circle`](super::nms_circle): the same survivors in
//! the same order, bit for bit. Candidates carry the box alone; velocity and
//! variance lie apart and are gathered by position.

use super::check;
use crate::device::cuda::abi::nms::NmsSettings;
use crate::device::cuda::abi::nms::nms_circle::NmsCircleSteps;
use crate::device::cuda::{DeviceCandidates, Stream};
use crate::error::Result;
use crate::ops::nms::cuda::{Capacity, DeviceWorkspace, Parameters, check_some};
use crate::types::{Box3d, CircleThreshold, NmsCircle};

/// Kernels and memory of the op.
pub type Workspace = DeviceWorkspace<NmsCircleSteps>;

/// Takes kernels and memory; settings come by [`set_nms_circle`].
///
/// # Errors
/// `Device` when this build has no such kernels or there is not enough memory.
pub fn workspace(stream: &Stream, capacity: Capacity) -> Result<Workspace> {
    DeviceWorkspace::new("nms_circle", stream, capacity)
}

/// Writes the settings to the device and waits; recorded graphs follow them.
///
/// # Errors
/// `Argument` as on the CPU, for no threshold at all, or for more thresholds
/// or groups than there is room for.
pub fn set_nms_circle(workspace: &mut Workspace, params: &NmsCircle) -> Result<()> {
    check(params)?;
    check_some("nms_circle", &params.thresholds)?;
    let longest = params.thresholds.iter().fold(0.0, |longest: f32, &t| longest.max(t));
    let (radius, reading) = match params.reading {
        CircleThreshold::Radius => (longest, 0),
        CircleThreshold::SquaredDistance => (longest.sqrt(), 1),
    };
    // A square that rounds to the threshold can belong to a distance that is a
    // little longer, or, where squares vanish, to one that is not 0.
    let reach = radius * 1.0001 + 1e-18;
    let settings = NmsSettings { reach, reading, max_num: u32::MAX, ..NmsSettings::default() };
    workspace.set(&Parameters {
        settings,
        class_mode: &params.class_mode,
        thresholds: &params.thresholds,
        forbidden: &[],
    })
}

/// Queues the suppression of `candidates`; [`Workspace::read_kept`] waits for
/// the survivors.
///
/// # Errors
/// `Argument` when the candidates' capacity is above the workspace's; `Device`
/// when a buffer is another stream's or a launch fails.
pub fn enqueue_nms_circle(
    candidates: &DeviceCandidates<Box3d>,
    workspace: &mut Workspace,
) -> Result<()> {
    workspace.enqueue(&candidates.items, &candidates.num)
}
