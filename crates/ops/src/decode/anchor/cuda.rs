//! The CUDA implementation of [`decode_anchor`](super::decode_anchor), with the
//! selection of the best ([`crate::decode::select`]) in the same kernel: one pass over
//! the class logits; the other maps are read only for anchors that pass.
//!
//! The candidates equal the CPU's, limited to the capacity, then to the best
//! `pre_nms_top_k`; each limit drops the worst in the total order. Their order in
//! memory is undefined: later ops sort. Centres, yaws, classes and sources are
//! equal, scores and extents within 1 ULP (their exponential is rounded from f64).

use half::f16;

use super::kernels::{ANCHORS_PER_BLOCK, AnchorArgs, AnchorShape, DecodeAnchor};
use super::{AnchorOutputs, argument, check, cpu};
use crate::decode::logit::lowest_bound;
use crate::decode::select::Limits;
use crate::decode::select::cuda::Selecting;
use crate::decode::select::kernels::{MAX_FOUND, THREADS_PER_BLOCK};
use crate::decode::thresholds::DeviceThresholds;
use crate::device::cuda::{
    DeviceBuffer, DeviceFloat, DeviceTensor, Grid, In, Kernel, Stream, blocks,
};
use crate::shared::{DeviceCandidates, DeviceCounters};
use det_post_types::{AnchorDecode, Box3d, ElementType, Result};

/// Kernels and memory of the op on one stream, for one head.
pub struct Workspace {
    stream: Stream,
    f32: Kernel<DecodeAnchor<f32>>,
    f16: Kernel<DecodeAnchor<f16>>,
    params: AnchorDecode,
    memory: Memory,
}

struct Memory {
    selecting: Selecting<Box3d>,
    bound: DeviceBuffer<f32>,
    thresholds: DeviceThresholds,
    anchors: DeviceBuffer<AnchorShape>,
    rotations: DeviceBuffer<f32>,
}

impl Workspace {
    /// Loads the kernels and allocates memory for maps of `num_cells` cells. No anchor
    /// passes before [`Workspace::set`].
    ///
    /// # Errors
    /// `Argument` for no anchors or more than can be counted; `Device` when this
    /// build has no such kernels or there is not enough memory.
    pub fn new(stream: &Stream, params: &AnchorDecode, num_cells: usize) -> Result<Self> {
        let per_cell = params.anchors.len() * params.rotations_rad.len();
        let num_items = num_cells.saturating_mul(per_cell);
        if per_cell == 0 || num_items > MAX_FOUND {
            return argument(format!(
                "{num_cells} cells of {per_cell} anchors must hold 1 to {MAX_FOUND} anchors in all"
            ));
        }
        let shapes: Vec<AnchorShape> = params
            .anchors
            .iter()
            .map(|anchor| AnchorShape { size_m: anchor.size_m, center_z_m: anchor.center_z_m })
            .collect();
        let mut memory = Memory {
            selecting: Selecting::new(stream, num_items, 0)?,
            bound: DeviceBuffer::zeros(stream, 1)?,
            thresholds: DeviceThresholds::new(stream, &params.score_thresholds)?,
            anchors: DeviceBuffer::zeros(stream, shapes.len())?,
            rotations: DeviceBuffer::zeros(stream, params.rotations_rad.len())?,
        };
        memory.bound.write(&[f32::NAN])?;
        memory.anchors.write(&shapes)?;
        memory.rotations.write(&params.rotations_rad)?;
        let device = stream.device();
        let (f32, f16) = (device.kernel()?, device.kernel()?);
        Ok(Self { stream: stream.clone(), f32, f16, params: params.clone(), memory })
    }

    /// Writes the thresholds of `params` and the limits to the device and waits;
    /// recorded graphs use the values last set.
    ///
    /// # Errors
    /// `Argument` when `params` differ from the initial ones in anything else, or in
    /// the number of classes or bins; `Device` when a copy fails.
    pub fn set(&mut self, params: &AnchorDecode, limits: Limits) -> Result<()> {
        let score_thresholds = self.params.score_thresholds.clone();
        if (AnchorDecode { score_thresholds, ..params.clone() }) != self.params {
            return argument("thresholds may change, the head may not".into());
        }
        let memory = &mut self.memory;
        memory.thresholds.set("decode_anchor", &params.score_thresholds)?;
        memory.bound.write(&[lowest_bound(&params.score_thresholds)])?;
        memory.selecting.set(limits)
    }

    /// Queues the decoding of `outputs` into `candidates`, whose capacity is a limit
    /// like [`Limits::pre_nms_top_k`]. Dropped candidates are added to `counters`. No
    /// anchor passes when `num_voxels`, one value, is 0: without points the outputs of
    /// a network mean nothing.
    ///
    /// # Errors
    /// Returns the errors of [`decode_anchor`](super::decode_anchor); `Argument` also when the maps
    /// have several element types or more cells than the workspace; `Device` when a
    /// buffer belongs to another stream or the launch fails.
    pub fn enqueue(
        &mut self,
        outputs: &AnchorOutputs<&DeviceTensor>,
        num_voxels: &DeviceBuffer<u32>,
        candidates: &mut DeviceCandidates<Box3d>,
        counters: &mut DeviceCounters,
    ) -> Result<()> {
        let Self { stream, f32, f16, params, memory } = self;
        let forms = outputs.try_map(|map| Ok((map.element(), map.shape())))?;
        let size = check(&forms, params)?;
        let num_items = size[0] * size[1] * params.anchors.len() * params.rotations_rad.len();
        let max_items = memory.selecting.capacity();
        if num_items > max_items || num_items == 0 {
            return argument(format!(
                "the number of anchors must be 1 to {max_items}, found {num_items}"
            ));
        }
        let num_blocks = [blocks(num_items, ANCHORS_PER_BLOCK), 1];
        let grid = Grid { num_blocks, threads_per_block: THREADS_PER_BLOCK };
        let (network, lists) = ((outputs, size, num_voxels), (candidates, counters));
        if outputs.classes.element() == ElementType::F16 {
            f16.enqueue(stream, grid, memory.args(stream, params, network, lists)?)
        } else {
            f32.enqueue(stream, grid, memory.args(stream, params, network, lists)?)
        }
    }
}

impl Memory {
    fn args<'a, T: DeviceFloat>(
        &'a mut self,
        stream: &Stream,
        params: &AnchorDecode,
        (outputs, [height, width], num_voxels): (
            &AnchorOutputs<&'a DeviceTensor>,
            [usize; 2],
            &'a DeviceBuffer<u32>,
        ),
        (candidates, counters): (&'a mut DeviceCandidates<Box3d>, &'a mut DeviceCounters),
    ) -> Result<AnchorArgs<'a, T>> {
        let AnchorOutputs { classes, boxes, directions } =
            outputs.try_map(|map| map.input(stream))?;
        let along =
            [(0, width), (1, height)].map(|(axis, num)| cpu::Centers::new(params, axis, num));
        Ok(AnchorArgs {
            selection: self.selecting.slices(stream, candidates, counters)?,
            classes,
            boxes,
            directions: directions.unwrap_or(In::empty()),
            num_voxels: num_voxels.input(stream)?,
            bound: self.bound.input(stream)?,
            thresholds: self.thresholds.args(stream)?,
            anchors: self.anchors.input(stream)?,
            rotations: self.rotations.input(stream)?,
            num_cells: (height * width) as u32,
            num_columns: width as u32,
            num_anchors: (params.anchors.len() * params.rotations_rad.len()) as u32,
            num_classes: params.anchors.len() as u32,
            channels_last: u32::from(params.channels_last),
            direction_offset: params.direction_offset_rad,
            first: along.each_ref().map(|centers| centers.first),
            step: along.each_ref().map(|centers| centers.step),
        })
    }
}
