//! The CUDA implementation of [`decode_proposals`](super::decode_proposals), with the selection of
//! the best ([`crate::decode::select`]) in the same kernel.
//!
//! The candidates equal the CPU's, limited to the capacity, then to the best
//! `pre_nms_top_k`; each limit drops the worst in the total order. Their order in memory is
//! undefined: later ops sort. Scores, centres, velocities, classes and sources are equal, extents
//! and yaws within 1 ULP (their exponential and arc tangent are rounded from f64).
//!
//! Candidates hold only the box. Velocities are stored for each found candidate
//! ([`Workspace::motions`]) and read by `gather`.

use half::f16;

use super::kernels::{DecodeProposals, ProposalArgs};
use super::{ProposalOutputs, argument, check, cpu};
use crate::decode::select::Limits;
use crate::decode::select::kernels::{MAX_FOUND, THREADS_PER_BLOCK};
use crate::decode::space::{Passing, SelectionMemory};
use crate::device::cuda::{
    DeviceBuffer, DeviceFloat, DeviceTensor, Grid, In, Kernel, Stream, blocks,
};
use crate::shared::{DeviceCandidates, DeviceCounters, Motion};
use det_post_types::{Box3d, ElementType, ProposalDecode, ProposalLayout, Result};

/// Kernels and memory of the op on one stream, for one head.
pub struct Workspace {
    stream: Stream,
    f32: Kernel<DecodeProposals<f32>>,
    f16: Kernel<DecodeProposals<f16>>,
    params: ProposalDecode,
    memory: Memory,
}

struct Memory {
    selection: SelectionMemory,
    lowest: DeviceBuffer<f32>,
}

impl Workspace {
    /// Loads the kernels and allocates memory for up to `num_proposals` proposals and
    /// `num_candidates` selected candidates. No proposal passes before [`Workspace::set`].
    ///
    /// # Errors
    /// `Argument` for more proposals than can be counted; `Device` when this build has no such
    /// kernels or there is not enough memory.
    pub fn new(
        stream: &Stream,
        params: &ProposalDecode,
        num_proposals: usize,
        num_candidates: usize,
    ) -> Result<Self> {
        if num_proposals > MAX_FOUND {
            return argument(format!("{num_proposals} proposals exceed the limit of {MAX_FOUND}"));
        }
        let mut memory = Memory {
            selection: SelectionMemory::new(
                stream,
                num_proposals,
                num_candidates,
                passing(params),
            )?,
            lowest: DeviceBuffer::zeros(stream, 1)?,
        };
        memory.lowest.write(&[f32::NAN])?;
        let device = stream.device();
        let (f32, f16) = (device.kernel()?, device.kernel()?);
        Ok(Self { stream: stream.clone(), f32, f16, params: params.clone(), memory })
    }

    /// Writes the thresholds of `params` and the limits to the device and waits; recorded graphs
    /// use the values last set.
    ///
    /// # Errors
    /// `Argument` when `params` differ from the initial ones in anything else, or in the number of
    /// classes or bins; `Device` when a copy fails.
    pub fn set(&mut self, params: &ProposalDecode, limits: Limits) -> Result<()> {
        let fixed = |params: &ProposalDecode| ProposalDecode {
            score_thresholds: self.params.score_thresholds.clone(),
            yaw_norm_thresholds: Vec::new(),
            ..params.clone()
        };
        if fixed(params) != fixed(&self.params) {
            return argument("thresholds may change, the head may not".into());
        }
        let memory = &mut self.memory;
        memory.selection.set("decode_proposals", passing(params), limits)?;
        memory.lowest.write(&[cpu::lowest_threshold(params)])
    }

    /// Queues the decoding of `outputs` into `candidates`, whose capacity is a limit like
    /// [`Limits::pre_nms_top_k`]. Labels are of f32. Dropped candidates are added to `counters`. No
    /// proposal passes when `num_voxels`, one value, is 0: without points the outputs of a network
    /// mean nothing.
    ///
    /// # Errors
    /// Returns the errors of [`decode_proposals`](super::decode_proposals); `Argument` also when
    /// the floats have several element types, labels are not of f32, or there are more proposals
    /// than the workspace is for; `Device` when a buffer belongs to another stream or the launch
    /// fails.
    pub fn enqueue(
        &mut self,
        outputs: &ProposalOutputs<&DeviceTensor>,
        num_voxels: &DeviceBuffer<u32>,
        candidates: &mut DeviceCandidates<Box3d>,
        counters: &mut DeviceCounters,
    ) -> Result<()> {
        let Self { stream, f32, f16, params, memory } = self;
        let forms = outputs.try_map(|output| Ok((output.element(), output.shape())))?;
        let num_proposals = check(&forms, params)?;
        let most = memory.selection.selecting.capacity();
        if num_proposals > most {
            return argument(format!("{num_proposals} proposals exceed the limit of {most}"));
        }
        let num_blocks = [blocks(num_proposals, THREADS_PER_BLOCK).max(1), 1];
        let grid = Grid { num_blocks, threads_per_block: THREADS_PER_BLOCK };
        let network = Network { outputs, num_voxels, num_proposals };
        let lists = (candidates, counters);
        if outputs.scores.element() == ElementType::F16 {
            f16.enqueue(stream, grid, memory.args(stream, params, network, lists)?)
        } else {
            f32.enqueue(stream, grid, memory.args(stream, params, network, lists)?)
        }
    }

    /// Velocities of the found candidates, zero without, and by selected candidate its index among
    /// them.
    pub fn motions(&self) -> (&DeviceBuffer<Motion>, &DeviceBuffer<u32>) {
        self.memory.selection.motions()
    }
}

/// What a network has given.
#[derive(Clone, Copy)]
struct Network<'n, 'a> {
    outputs: &'n ProposalOutputs<&'a DeviceTensor>,
    num_voxels: &'a DeviceBuffer<u32>,
    num_proposals: usize,
}

impl Memory {
    fn args<'a, T: DeviceFloat>(
        &'a mut self,
        stream: &Stream,
        params: &ProposalDecode,
        Network { outputs, num_voxels, num_proposals }: Network<'_, 'a>,
        (candidates, counters): (&'a mut DeviceCandidates<Box3d>, &'a mut DeviceCounters),
    ) -> Result<ProposalArgs<'a, T>> {
        let others = outputs.directions_or_labels;
        let (directions, labels) = match params.layout {
            ProposalLayout::TransFusion => (others.input(stream)?, In::empty()),
            ProposalLayout::BevFusion => (In::empty(), others.input(stream)?),
        };
        Ok(ProposalArgs {
            selection: self.selection.selecting.slices(stream, candidates, counters)?,
            motions: self.selection.motions.output(stream)?,
            places: self.selection.places.output(stream)?,
            num_voxels: num_voxels.input(stream)?,
            boxes: outputs.boxes.input(stream)?,
            scores: outputs.scores.input(stream)?,
            directions,
            labels,
            lowest: self.lowest.input(stream)?,
            thresholds: self.selection.thresholds.args(stream)?,
            least_yaw_norms: self.selection.least_yaw_norms.input(stream)?,
            origin: params.origin_m,
            cell_size: params.cell_size_m,
            num_proposals: num_proposals as u32,
            num_classes: params.score_thresholds.per_class.len() as u32,
            has_labels: u32::from(params.layout == ProposalLayout::BevFusion),
            reserved: 0,
        })
    }
}

fn passing(params: &ProposalDecode) -> Passing<'_> {
    Passing { scores: &params.score_thresholds, yaw_norms: &params.yaw_norm_thresholds }
}
