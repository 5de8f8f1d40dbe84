//! The CUDA side of [`nms_soft`](super::nms_soft): the same boxes in the same
//! order with the same scores, bit for bit. One block works, since every turn
//! hangs on the one before.

use super::check;
use crate::device::cuda::abi::nms::NmsCounts;
use crate::device::cuda::abi::nms_soft::{
    NmsSoftKernel, SoftArgs, SoftSettings, THREADS_PER_BLOCK,
};
use crate::device::cuda::{DeviceBuffer, DeviceCandidates, Grid, Kernel, Stream};
use crate::error::Result;
use crate::ops::nms::cuda::{Capacity, Survivors, SurvivorsOut, check_fits, class_mode_word};
use crate::types::{Box2d, Kept, NmsSoft, SoftDecay};

/// Kernel and memory of the op on one stream.
pub struct Workspace {
    stream: Stream,
    kernel: Kernel<NmsSoftKernel>,
    settings: DeviceBuffer<SoftSettings>,
    groups: DeviceBuffer<u32>,
    scores: DeviceBuffer<f32>,
    survivors: Survivors,
}

/// Takes the kernel and memory; settings come by [`set_nms_soft`].
///
/// # Errors
/// `Device` when this build has no such kernel or there is not enough memory.
pub fn workspace(stream: &Stream, capacity: Capacity) -> Result<Workspace> {
    Ok(Workspace {
        stream: stream.clone(),
        kernel: stream.device().kernel()?,
        settings: DeviceBuffer::zeros(stream, 1)?,
        groups: DeviceBuffer::zeros(stream, capacity.classes)?,
        scores: DeviceBuffer::zeros(stream, capacity.candidates)?,
        survivors: Survivors::with_capacity(stream, capacity.candidates)?,
    })
}

/// Writes the settings to the device and waits; recorded graphs follow them.
///
/// # Errors
/// `Argument` as on the CPU, or for more groups than there is room for.
pub fn set_nms_soft(workspace: &mut Workspace, params: &NmsSoft) -> Result<()> {
    check(params)?;
    let (class_mode, groups) = class_mode_word(&params.class_mode);
    check_fits("nms_soft", "groups", groups.len(), workspace.groups.len())?;
    let (sigma, iou_threshold) = match params.decay {
        SoftDecay::Linear { iou_threshold } => (0.0, iou_threshold),
        SoftDecay::Gaussian { sigma } => (sigma, 0.0),
    };
    workspace.groups.write(groups)?;
    workspace.settings.write(&[SoftSettings {
        sigma,
        iou_threshold,
        min_score: params.min_score,
        offset: f32::from(params.offset),
        class_mode,
        num_groups: groups.len() as u32,
    }])
}

/// Queues the suppression of `candidates`; [`Workspace::read_kept`] waits for
/// the survivors.
///
/// # Errors
/// `Argument` when the candidates' capacity is above the workspace's; `Device`
/// when a buffer is another stream's or the launch fails.
pub fn enqueue_nms_soft(
    candidates: &DeviceCandidates<Box2d>,
    workspace: &mut Workspace,
) -> Result<()> {
    let Workspace { stream, kernel, settings, groups, scores, survivors } = workspace;
    check_fits("nms_soft", "candidates", candidates.capacity(), scores.len())?;
    let SurvivorsOut { kept, counts, published, published_counts } = survivors.output(stream)?;
    let args = SoftArgs {
        candidates: candidates.items.input(stream)?,
        num_candidates: candidates.num.input(stream)?,
        settings: settings.input(stream)?,
        groups: groups.input(stream)?,
        scores: scores.output(stream)?,
        kept,
        counts,
        published,
        published_counts,
    };
    kernel.enqueue(stream, Grid { num_blocks: [1, 1], threads_per_block: THREADS_PER_BLOCK }, args)
}

impl Workspace {
    /// Waits for the queued suppression and reads the taken boxes, in order.
    ///
    /// # Errors
    /// `Device` when queued work failed.
    pub fn read_kept(&mut self, keep: &mut Vec<Kept>) -> Result<()> {
        self.survivors.read("nms_soft", &self.stream, keep)
    }

    /// The taken boxes on the device, in order, for the ops that follow.
    pub fn kept(&self) -> (&DeviceBuffer<Kept>, &DeviceBuffer<NmsCounts>) {
        self.survivors.on_device()
    }
}
