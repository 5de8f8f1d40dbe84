//! The CUDA implementation of [`decode_center`](super::decode_center), with the
//! selection of the best ([`crate::decode::select`]) in the same kernel: one pass over
//! the heat maps; the other maps are read only for cells that pass.
//!
//! The candidates equal the CPU's, limited to the capacity, then to the best
//! `pre_nms_top_k`; each limit drops the worst in the total order. Their order in
//! memory is undefined: later ops sort. Centres, velocities, classes and sources
//! are equal, scores, sizes, yaws and variances within 1 ULP (their exponential and
//! arc tangent are rounded from f64).
//!
//! Candidates hold only the box. Velocity and variances are stored for each found
//! candidate ([`Workspace::motions`]) and read by `gather`.

use half::f16;

use super::kernels::{
    CELLS_PER_BLOCK, CenterArgs, CenterMaps, CenterSettings, DecodeCenter, MAX_TASKS,
};
use super::{CenterTask, argument, cpu};
use crate::decode::select::Limits;
use crate::decode::select::kernels::{MAX_FOUND, THREADS_PER_BLOCK};
use crate::decode::space::{Passing, SelectionMemory};
use crate::device::cuda::{
    DeviceBuffer, DeviceFloat, DeviceTensor, Grid, In, Kernel, Stream, blocks,
};
use crate::shared::{DeviceCandidates, DeviceCounters, Motion};
use det_post_types::{Box3d, CenterDecode, ElementType, Result, SizeOrder, YawConvention};

/// Kernels and memory of the op on one stream, for one head.
pub struct Workspace {
    stream: Stream,
    f32: Kernel<DecodeCenter<f32>>,
    f16: Kernel<DecodeCenter<f16>>,
    params: CenterDecode,
    memory: Memory,
}

struct Memory {
    selection: SelectionMemory,
    settings: DeviceBuffer<CenterSettings>,
    bounds: DeviceBuffer<f32>,
    classes: DeviceBuffer<u32>,
}

impl Workspace {
    /// Loads the kernels and allocates memory for maps of `num_cells` cells in all
    /// tasks and up to `num_candidates` selected candidates. No cell passes before
    /// [`Workspace::set`].
    ///
    /// # Errors
    /// `Argument` for no task or too many, more cells than can be counted, or a
    /// class without a yaw-norm threshold while others have one; `Device` when
    /// this build has no such kernels or there is not enough memory.
    pub fn new(
        stream: &Stream,
        params: &CenterDecode,
        num_cells: usize,
        num_candidates: usize,
    ) -> Result<Self> {
        let num_tasks = params.tasks.len();
        if num_tasks == 0 || num_tasks > MAX_TASKS || num_cells > MAX_FOUND {
            return argument(format!(
                "{num_tasks} tasks of {num_cells} cells; 1 to {MAX_TASKS} tasks of at most \
                 {MAX_FOUND} cells in all are allowed"
            ));
        }
        for (index, classes) in params.tasks.iter().enumerate() {
            super::check_yaw_norms(index, classes, params)?;
        }
        let classes: Vec<u32> = params.tasks.iter().flatten().copied().collect();
        let mut memory = Memory {
            selection: SelectionMemory::new(stream, num_cells, num_candidates, passing(params))?,
            settings: DeviceBuffer::zeros(stream, 1)?,
            bounds: DeviceBuffer::zeros(stream, num_tasks)?,
            classes: DeviceBuffer::zeros(stream, classes.len())?,
        };
        memory.classes.write(&classes)?;
        memory.bounds.write(&vec![f32::NAN; num_tasks])?;
        let device = stream.device();
        let (f32, f16) = (device.kernel()?, device.kernel()?);
        Ok(Self { stream: stream.clone(), f32, f16, params: params.clone(), memory })
    }

    /// Writes thresholds and range of `params` and the limits to the device and waits;
    /// recorded graphs use the values last set.
    ///
    /// # Errors
    /// `Argument` when `params` differ from the initial ones in anything else, or in
    /// the number of classes or bins; `Device` when a copy fails.
    pub fn set(&mut self, params: &CenterDecode, limits: Limits) -> Result<()> {
        let fixed = |params: &CenterDecode| CenterDecode {
            score_thresholds: self.params.score_thresholds.clone(),
            yaw_norm_thresholds: Vec::new(),
            center_range: None,
            ..params.clone()
        };
        if fixed(params) != fixed(&self.params) {
            return argument("thresholds and range may change, the head may not".into());
        }
        let memory = &mut self.memory;
        memory.selection.set("decode_center", passing(params), limits)?;
        memory.settings.write(&[CenterSettings {
            has_range: u32::from(params.center_range.is_some()),
            min: params.center_range.map_or([0.0; 3], |range| range.min),
            max: params.center_range.map_or([0.0; 3], |range| range.max),
            reserved: 0,
        }])?;
        let bound = |classes: &Vec<u32>| cpu::heat_bound(classes, params).unwrap_or(f32::NAN);
        memory.bounds.write(&params.tasks.iter().map(bound).collect::<Vec<_>>())
    }

    /// Queues the decoding of `tasks` into `candidates`, whose capacity is a limit like
    /// [`Limits::pre_nms_top_k`]. Dropped candidates are added to `counters`. No cell
    /// passes when `num_voxels`, one value, is 0: without points the outputs of a
    /// network mean nothing.
    ///
    /// # Errors
    /// Returns the errors of [`decode_center`](super::decode_center); `Argument` also when the maps
    /// have several element types or more cells than the workspace; `Device` when a
    /// buffer belongs to another stream or the launch fails.
    pub fn enqueue(
        &mut self,
        tasks: &[CenterTask<&DeviceTensor>],
        num_voxels: &DeviceBuffer<u32>,
        candidates: &mut DeviceCandidates<Box3d>,
        counters: &mut DeviceCounters,
    ) -> Result<()> {
        let Self { stream, f32, f16, params, memory } = self;
        super::check_num_tasks(tasks.len(), params)?;
        let num_blocks = check(tasks, params, memory.selection.selecting.capacity())?;
        let grid = Grid { num_blocks, threads_per_block: THREADS_PER_BLOCK };
        let (network, lists) = ((tasks, num_voxels), (candidates, counters));
        if tasks.iter().any(|task| task.heatmap.element() == ElementType::F16) {
            f16.enqueue(stream, grid, memory.args(stream, params, network, lists)?)
        } else {
            f32.enqueue(stream, grid, memory.args(stream, params, network, lists)?)
        }
    }

    /// Velocities and variances of the found candidates, and by selected candidate its
    /// index among them.
    pub fn motions(&self) -> (&DeviceBuffer<Motion>, &DeviceBuffer<u32>) {
        self.memory.selection.motions()
    }
}

impl Memory {
    fn args<'a, T: DeviceFloat>(
        &'a mut self,
        stream: &Stream,
        params: &CenterDecode,
        (tasks, num_voxels): (&[CenterTask<&'a DeviceTensor>], &'a DeviceBuffer<u32>),
        (candidates, counters): (&'a mut DeviceCandidates<Box3d>, &'a mut DeviceCounters),
    ) -> Result<CenterArgs<'a, T>> {
        Ok(CenterArgs {
            selection: self.selection.selecting.slices(stream, candidates, counters)?,
            motions: self.selection.motions.output(stream)?,
            places: self.selection.places.output(stream)?,
            num_voxels: num_voxels.input(stream)?,
            settings: self.settings.input(stream)?,
            bounds: self.bounds.input(stream)?,
            classes: self.classes.input(stream)?,
            thresholds: self.selection.thresholds.args(stream)?,
            least_yaw_norms: self.selection.least_yaw_norms.input(stream)?,
            origin: params.origin_m,
            cell_size: params.cell_size_m,
            heat_is_logit: u32::from(params.heatmap_logits),
            width_comes_first: u32::from(params.size_order == SizeOrder::WidthLengthHeight),
            size_is_log: u32::from(params.size_log),
            yaw_turns_clockwise: u32::from(params.yaw == YawConvention::ClockwiseFromMinusY),
            has_velocity: u32::from(params.has_velocity),
            has_variance: u32::from(params.has_variance),
            tasks: maps(stream, tasks, params)?,
        })
    }
}

/// Checks the maps of all tasks and returns the number of blocks.
fn check(
    tasks: &[CenterTask<&DeviceTensor>],
    params: &CenterDecode,
    cell_capacity: usize,
) -> Result<[u32; 2]> {
    let (mut most, mut total) = (0, 0);
    for (index, task) in tasks.iter().enumerate() {
        let forms = task.try_map(|map| Ok((map.element(), map.shape())))?;
        let [height, width] = super::check(index, &forms, params)?;
        most = most.max(height * width);
        total += height * width;
    }
    if total > cell_capacity {
        return argument(format!("{total} cells exceed the capacity of {cell_capacity}"));
    }
    Ok([blocks(most, CELLS_PER_BLOCK).max(1), tasks.len() as u32])
}

/// The slices of all tasks. Elements past the last task repeat the first.
fn maps<'a, T: DeviceFloat>(
    stream: &Stream,
    tasks: &[CenterTask<&'a DeviceTensor>],
    params: &CenterDecode,
) -> Result<[CenterMaps<'a, T>; MAX_TASKS]> {
    let (mut all, mut first_source, mut first_class) = (Vec::new(), 0, 0);
    for (task, classes) in tasks.iter().zip(&params.tasks) {
        let &[.., height, width] = task.heatmap.shape() else { continue };
        let velocity = task.velocity.filter(|_| params.has_velocity);
        let maps = CenterTask { velocity, ..*task }.try_map(|map| map.input(stream))?;
        all.push(CenterMaps {
            heatmap: maps.heatmap,
            offset: maps.offset,
            height: maps.height,
            size: maps.size,
            rotation: maps.rotation,
            velocity: maps.velocity.unwrap_or(In::empty()),
            num_rows: height as u32,
            num_columns: width as u32,
            first_source,
            first_class,
            num_classes: classes.len() as u32,
            reserved: 0,
        });
        first_source += (height * width) as u32;
        first_class += classes.len() as u32;
    }
    let Some(&first) = all.first() else { return argument("no task".into()) };
    Ok(std::array::from_fn(|index| all.get(index).copied().unwrap_or(first)))
}

fn passing(params: &CenterDecode) -> Passing<'_> {
    Passing { scores: &params.score_thresholds, yaw_norms: &params.yaw_norm_thresholds }
}
