//! The CUDA implementation of [`decode_streampetr`](super::decode_streampetr()), with the selection
//! of the best ([`crate::decode::select`]) in the same kernel.
//!
//! The candidates equal the CPU's, limited to the capacity, then to the best
//! `pre_nms_top_k`; each limit drops the worst in the total order. Their order in memory is
//! undefined: later ops sort. Centres, velocities, classes and sources are equal, scores, extents
//! and yaws within 1 ULP (their exponential and arc tangent are rounded from f64).

use half::f16;

use super::kernels::{DecodeStreamPetr, StreamPetrArgs};
use super::{StreamPetrOutputs, argument, check};
use crate::decode::logit::lowest_bound;
use crate::decode::select::Limits;
use crate::decode::select::kernels::{MAX_FOUND, THREADS_PER_BLOCK};
use crate::decode::space::{Passing, SelectionMemory};
use crate::device::cuda::{DeviceBuffer, DeviceFloat, DeviceTensor, Grid, Kernel, Stream, blocks};
use crate::shared::{DeviceCandidates, DeviceCounters, Motion};
use det_post_types::{
    Box3d, ElementType, QueryDecode, Result, SizeOrder, StreamPetrDecode, YawConvention,
};

/// Kernels and memory of the op on one stream, for one head.
pub struct Workspace {
    stream: Stream,
    f32: Kernel<DecodeStreamPetr<f32>>,
    f16: Kernel<DecodeStreamPetr<f16>>,
    params: StreamPetrDecode,
    memory: Memory,
}

struct Memory {
    selection: SelectionMemory,
    bound: DeviceBuffer<f32>,
}

impl Workspace {
    /// Loads the kernels and allocates memory for up to `num_queries` queries and
    /// `num_candidates` selected candidates.
    ///
    /// # Errors
    /// `Argument` for more queries than can be counted; `Device` when this build has no such
    /// kernels or there is not enough memory.
    pub fn new(
        stream: &Stream,
        params: &StreamPetrDecode,
        num_queries: usize,
        num_candidates: usize,
        limits: Limits,
    ) -> Result<Self> {
        if num_queries > MAX_FOUND {
            return argument(format!("{num_queries} queries exceed the limit of {MAX_FOUND}"));
        }
        let query = &params.query;
        let mut memory = Memory {
            selection: SelectionMemory::new(stream, num_queries, num_candidates, passing(query))?,
            bound: DeviceBuffer::zeros(stream, 1)?,
        };
        memory.bound.write(&[lowest_bound(&query.score_thresholds)])?;
        memory.selection.selecting.set(limits)?;
        let device = stream.device();
        let (f32, f16) = (device.kernel()?, device.kernel()?);
        Ok(Self { stream: stream.clone(), f32, f16, params: params.clone(), memory })
    }

    /// Queues the decoding of `outputs` into `candidates`, whose capacity is a limit like
    /// [`Limits::pre_nms_top_k`]. Dropped candidates are added to `counters`.
    ///
    /// # Errors
    /// Returns the errors of [`decode_streampetr`](super::decode_streampetr()); `Argument` also
    /// when logits and boxes have two element types or more queries than the workspace; `Device`
    /// when a buffer belongs to another stream or the launch fails.
    pub fn enqueue(
        &mut self,
        outputs: &StreamPetrOutputs<&DeviceTensor>,
        candidates: &mut DeviceCandidates<Box3d>,
        counters: &mut DeviceCounters,
    ) -> Result<()> {
        let Self { stream, f32, f16, params, memory } = self;
        let forms = [outputs.logits, outputs.boxes].map(|of| (of.element(), of.shape()));
        let num_queries = check(forms, params)?;
        let most = memory.selection.selecting.capacity();
        if num_queries > most {
            return argument(format!("{num_queries} queries exceed the limit of {most}"));
        }
        let num_blocks = [blocks(num_queries, THREADS_PER_BLOCK).max(1), 1];
        let grid = Grid { num_blocks, threads_per_block: THREADS_PER_BLOCK };
        let (network, lists) = ((outputs, num_queries), (candidates, counters));
        if outputs.logits.element() == ElementType::F16 {
            f16.enqueue(stream, grid, memory.args(stream, params, network, lists)?)
        } else {
            f32.enqueue(stream, grid, memory.args(stream, params, network, lists)?)
        }
    }

    /// Velocities of the found candidates, and by selected candidate its index among them.
    pub fn motions(&self) -> (&DeviceBuffer<Motion>, &DeviceBuffer<u32>) {
        self.memory.selection.motions()
    }
}

impl Memory {
    fn args<'a, T: DeviceFloat>(
        &'a mut self,
        stream: &Stream,
        params: &StreamPetrDecode,
        (outputs, num_queries): (&StreamPetrOutputs<&'a DeviceTensor>, usize),
        (candidates, counters): (&'a mut DeviceCandidates<Box3d>, &'a mut DeviceCounters),
    ) -> Result<StreamPetrArgs<'a, T>> {
        let query = &params.query;
        Ok(StreamPetrArgs {
            selection: self.selection.selecting.slices(stream, candidates, counters)?,
            motions: self.selection.motions.output(stream)?,
            places: self.selection.places.output(stream)?,
            logits: outputs.logits.input(stream)?,
            boxes: outputs.boxes.input(stream)?,
            bound: self.bound.input(stream)?,
            thresholds: self.selection.thresholds.args(stream)?,
            least_yaw_norms: self.selection.least_yaw_norms.input(stream)?,
            min: query.center_range.map_or([0.0; 3], |range| range.min),
            max: query.center_range.map_or([0.0; 3], |range| range.max),
            num_queries: num_queries as u32,
            num_classes: query.score_thresholds.per_class.len() as u32,
            has_range: u32::from(query.center_range.is_some()),
            channels_last: u32::from(params.channels_last),
            width_comes_first: u32::from(query.size_order == SizeOrder::WidthLengthHeight),
            yaw_turns_clockwise: u32::from(query.yaw == YawConvention::ClockwiseFromMinusY),
        })
    }
}

fn passing(params: &QueryDecode) -> Passing<'_> {
    Passing { scores: &params.score_thresholds, yaw_norms: &params.yaw_norm_thresholds }
}
