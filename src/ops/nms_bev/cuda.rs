//! The CUDA side of [`nms_bev`](super::nms_bev): the same survivors in the
//! same order, bit for bit. Candidates carry the box alone; velocity and
//! variance lie apart and are gathered by position.

use super::check;
use crate::device::cuda::abi::nms::NmsSettings;
use crate::device::cuda::abi::nms::nms_bev::NmsBevSteps;
use crate::device::cuda::{DeviceCandidates, Stream};
use crate::error::Result;
use crate::ops::nms::cuda::{Capacity, Parameters, PreparedWorkspace, check_some};
use crate::types::{Box3d, NmsBev};

/// Kernels and memory of the op.
pub type Workspace = PreparedWorkspace<NmsBevSteps>;

/// Takes kernels and memory; settings come by [`set_nms_bev`].
///
/// # Errors
/// `Device` when this build has no such kernels or there is not enough memory.
pub fn workspace(stream: &Stream, capacity: Capacity) -> Result<Workspace> {
    PreparedWorkspace::new("nms_bev", stream, capacity)
}

/// Writes the settings to the device and waits; recorded graphs follow them.
///
/// # Errors
/// `Argument` as on the CPU, for no threshold at all, or for more thresholds,
/// groups or forbidden pairs than there is room for.
pub fn set_nms_bev(workspace: &mut Workspace, params: &NmsBev) -> Result<()> {
    check(params)?;
    check_some("nms_bev", &params.iou_thresholds)?;
    let settings = NmsSettings {
        squared_search_distance: params.search_distance_m * params.search_distance_m,
        max_num: u32::MAX,
        ..NmsSettings::default()
    };
    workspace.set(&Parameters {
        settings,
        class_mode: &params.class_mode,
        thresholds: &params.iou_thresholds,
        forbidden: &params.forbidden_pairs,
    })
}

/// Queues the suppression of `candidates`; [`Workspace::read_kept`] waits for
/// the survivors.
///
/// # Errors
/// `Argument` when the candidates' capacity is above the workspace's; `Device`
/// when a buffer is another stream's or a launch fails.
pub fn enqueue_nms_bev(
    candidates: &DeviceCandidates<Box3d>,
    workspace: &mut Workspace,
) -> Result<()> {
    workspace.enqueue(&candidates.items, &candidates.num)
}
