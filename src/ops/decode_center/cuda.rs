//! The CUDA implementation of [`decode_center`](super::decode_center), with the
//! selection of the best ([`crate::ops::select`]) in the same kernel: one pass over
//! the heat maps, and over the other maps only for cells that pass.
//!
//! The candidates are those of the CPU, limited to the capacity, then to the best
//! `pre_nms_top_k`; each limit drops the worst in the total order. Their order in
//! memory is undefined: later ops sort. Centres, velocities, classes and sources
//! are equal; scores, sizes, yaws and variances within 1 ULP (their exponential and
//! arc tangent are rounded from f64).
//!
//! Candidates hold the box alone. Velocity and variances are stored for each found
//! candidate ([`Workspace::motions`]) and read by `gather`.

use half::f16;

pub use super::kernels::Motion;
use super::kernels::{
    CELLS_PER_BLOCK, CenterArgs, CenterMaps, CenterSettings, DecodeCenter, MAX_TASKS,
};
use super::{argument, cpu};
use crate::device::cuda::{
    DeviceBuffer, DeviceCandidates, DeviceCounters, DeviceTensor, DeviceValues, Grid, Kernel,
    Plain, Stream, blocks,
};
use crate::error::Result;
use crate::ops::select::Limits;
use crate::ops::select::cuda::Selecting;
use crate::ops::select::kernels::{MAX_FOUND, SelectSettings, THREADS_PER_BLOCK};
use crate::ops::thresholds::DeviceThresholds;
use crate::types::{Box3d, CenterDecode, SizeOrder, YawConvention};

/// The maps of one task in device memory: as [`super::CenterTask`], all of the same
/// element type.
#[derive(Clone, Copy, Debug)]
pub struct DeviceCenterTask<'a> {
    /// One channel per class.
    pub heatmap: &'a DeviceTensor,
    /// Offset of the centre in its cell, x and y, in cells.
    pub offset: &'a DeviceTensor,
    /// Height of the centre in metres.
    pub height: &'a DeviceTensor,
    /// Three extents.
    pub size: &'a DeviceTensor,
    /// Sine and cosine.
    pub rotation: &'a DeviceTensor,
    /// Velocity along x and y; not read unless [`CenterDecode::has_velocity`].
    pub velocity: Option<&'a DeviceTensor>,
}

/// Kernels and memory of the op on one stream, for one head.
pub struct Workspace {
    stream: Stream,
    f32: Kernel<DecodeCenter<f32>>,
    f16: Kernel<DecodeCenter<f16>>,
    params: CenterDecode,
    memory: Memory,
}

struct Memory {
    selecting: Selecting<Box3d>,
    motions: DeviceBuffer<Motion>,
    places: DeviceBuffer<u32>,
    settings: DeviceBuffer<CenterSettings>,
    bounds: DeviceBuffer<f32>,
    classes: DeviceBuffer<u32>,
    thresholds: DeviceThresholds,
    least_yaw_norms: DeviceBuffer<f32>,
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
                "{num_tasks} tasks of {num_cells} cells; 1 to {MAX_TASKS} of at most {MAX_FOUND} \
                 in all are possible"
            ));
        }
        for (index, classes) in params.tasks.iter().enumerate() {
            super::check_yaw_norms(index, classes, params)?;
        }
        let classes: Vec<u32> = params.tasks.iter().flatten().copied().collect();
        let mut memory = Memory {
            selecting: Selecting::new(stream, num_cells, 0)?,
            motions: DeviceBuffer::zeros(stream, num_cells)?,
            places: DeviceBuffer::zeros(stream, num_candidates)?,
            settings: DeviceBuffer::zeros(stream, 1)?,
            bounds: DeviceBuffer::zeros(stream, num_tasks)?,
            classes: DeviceBuffer::zeros(stream, classes.len())?,
            thresholds: DeviceThresholds::new(stream, &params.score_thresholds)?,
            least_yaw_norms: DeviceBuffer::zeros(stream, params.yaw_norm_thresholds.len())?,
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
        let num_norms = params.yaw_norm_thresholds.len();
        if fixed(params) != fixed(&self.params) || num_norms != self.memory.least_yaw_norms.len() {
            return argument("thresholds and range may change, the head may not".into());
        }
        let memory = &mut self.memory;
        memory.thresholds.set("decode_center", &params.score_thresholds)?;
        memory.least_yaw_norms.write(&params.yaw_norm_thresholds)?;
        memory.settings.write(&[CenterSettings {
            has_range: u32::from(params.center_range.is_some()),
            min: params.center_range.map_or([0.0; 3], |range| range.min),
            max: params.center_range.map_or([0.0; 3], |range| range.max),
            reserved: 0,
        }])?;
        let bound = |classes: &Vec<u32>| cpu::heat_bound(classes, params).unwrap_or(f32::NAN);
        memory.bounds.write(&params.tasks.iter().map(bound).collect::<Vec<_>>())?;
        memory
            .selecting
            .settings
            .write(&[SelectSettings::limits(limits.candidate_capacity, limits.pre_nms_top_k)])
    }

    /// Queues the decoding of `tasks` into `candidates`, whose capacity is a limit like
    /// [`Limits::pre_nms_top_k`]. Dropped candidates are added to `counters`. No cell
    /// passes when `num_voxels`, one value, is 0: without points the outputs of a
    /// network mean nothing.
    ///
    /// # Errors
    /// Those of [`decode_center`](super::decode_center); `Argument` also when the maps
    /// have several element types or more cells than the workspace; `Device` when a
    /// buffer belongs to another stream or the launch fails.
    pub fn enqueue(
        &mut self,
        tasks: &[DeviceCenterTask<'_>],
        num_voxels: &DeviceBuffer<u32>,
        candidates: &mut DeviceCandidates<Box3d>,
        counters: &mut DeviceCounters,
    ) -> Result<()> {
        let Self { stream, f32, f16, params, memory } = self;
        if tasks.len() != params.tasks.len() {
            return argument(format!("{} tasks, {} are expected", tasks.len(), params.tasks.len()));
        }
        let num_blocks = check(tasks, params, memory.selecting.capacity())?;
        let grid = Grid { num_blocks, threads_per_block: THREADS_PER_BLOCK };
        match tasks.first().map(|task| task.heatmap.values()) {
            Some(DeviceValues::F32(_)) => {
                let maps = maps(stream, tasks, params, f32_values)?;
                f32.enqueue(
                    stream,
                    grid,
                    memory.args(stream, params, num_voxels, (candidates, counters), maps)?,
                )
            }
            Some(DeviceValues::F16(_)) => {
                let maps = maps(stream, tasks, params, f16_values)?;
                f16.enqueue(
                    stream,
                    grid,
                    memory.args(stream, params, num_voxels, (candidates, counters), maps)?,
                )
            }
            None => Ok(()),
        }
    }

    /// Velocities and variances of the found candidates, and by selected candidate its
    /// index among them.
    pub fn motions(&self) -> (&DeviceBuffer<Motion>, &DeviceBuffer<u32>) {
        (&self.memory.motions, &self.memory.places)
    }
}

type Maps<'a, T> = [CenterMaps<'a, T>; MAX_TASKS];

impl Memory {
    fn args<'a, T>(
        &'a mut self,
        stream: &Stream,
        params: &CenterDecode,
        num_voxels: &'a DeviceBuffer<u32>,
        (candidates, counters): (&'a mut DeviceCandidates<Box3d>, &'a mut DeviceCounters),
        tasks: Maps<'a, T>,
    ) -> Result<CenterArgs<'a, T>> {
        Ok(CenterArgs {
            selection: self.selecting.slices(stream, candidates, counters)?,
            motions: self.motions.output(stream)?,
            places: self.places.output(stream)?,
            num_voxels: num_voxels.input(stream)?,
            settings: self.settings.input(stream)?,
            bounds: self.bounds.input(stream)?,
            classes: self.classes.input(stream)?,
            limits: self.thresholds.limits.input(stream)?,
            least_scores: self.thresholds.least_scores.input(stream)?,
            least_yaw_norms: self.least_yaw_norms.input(stream)?,
            origin: params.origin_m,
            cell_size: params.cell_size_m,
            heat_is_logit: u32::from(params.heatmap_logits),
            width_comes_first: u32::from(params.size_order == SizeOrder::WidthLengthHeight),
            size_is_log: u32::from(params.size_log),
            yaw_turns_clockwise: u32::from(params.yaw == YawConvention::ClockwiseFromMinusY),
            has_velocity: u32::from(params.has_velocity),
            has_variance: u32::from(params.has_variance),
            tasks,
        })
    }
}

/// Checks the maps of all tasks and returns the number of blocks.
fn check(
    tasks: &[DeviceCenterTask<'_>],
    params: &CenterDecode,
    cell_capacity: usize,
) -> Result<[u32; 2]> {
    let (mut most, mut total) = (0, 0);
    for (index, task) in tasks.iter().enumerate() {
        let &[_, _, height, width] = task.heatmap.shape() else {
            let shape = task.heatmap.shape();
            return argument(format!("heatmap of task {index} has the shape {shape:?}"));
        };
        for ((name, channels), map) in super::channels(index, params).into_iter().zip(task.maps()) {
            if channels == 0 {
                continue;
            }
            let Some(map) = map else { return argument(format!("task {index} has no {name}")) };
            let found = (map.element(), map.shape());
            super::check_map(index, name, found, [1, channels, height, width])?;
        }
        most = most.max(height * width);
        total += height * width;
    }
    if total > cell_capacity {
        return argument(format!("{total} cells; at most {cell_capacity} are possible"));
    }
    Ok([blocks(most, CELLS_PER_BLOCK).max(1), tasks.len() as u32])
}

impl<'a> DeviceCenterTask<'a> {
    /// The maps in the order of [`super::channels`].
    fn maps(&self) -> [Option<&'a DeviceTensor>; 6] {
        [
            Some(self.heatmap),
            Some(self.offset),
            Some(self.height),
            Some(self.size),
            Some(self.rotation),
            self.velocity,
        ]
    }
}

/// The slices of all tasks; the first again behind the last.
fn maps<'a, T: Plain>(
    stream: &Stream,
    tasks: &[DeviceCenterTask<'a>],
    params: &CenterDecode,
    values_of: impl Fn(&'a DeviceTensor) -> Option<&'a DeviceBuffer<T>>,
) -> Result<Maps<'a, T>> {
    let input = |map: Option<&'a DeviceTensor>| match map.and_then(&values_of) {
        Some(values) => values.input(stream),
        None => argument("maps of several element types; one is possible".into()),
    };
    let (mut all, mut first_source, mut first_class) = (Vec::new(), 0, 0);
    for (task, classes) in tasks.iter().zip(&params.tasks) {
        let &[.., height, width] = task.heatmap.shape() else { continue };
        let [heatmap, offset, height_map, size, rotation, velocity] = task.maps();
        let has_velocity = params.has_velocity;
        all.push(CenterMaps {
            heatmap: input(heatmap)?,
            offset: input(offset)?,
            height: input(height_map)?,
            size: input(size)?,
            rotation: input(rotation)?,
            velocity: input(if has_velocity { velocity } else { heatmap })?,
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

fn f32_values(tensor: &DeviceTensor) -> Option<&DeviceBuffer<f32>> {
    match tensor.values() {
        DeviceValues::F32(values) => Some(values),
        DeviceValues::F16(_) => None,
    }
}

fn f16_values(tensor: &DeviceTensor) -> Option<&DeviceBuffer<f16>> {
    match tensor.values() {
        DeviceValues::F16(values) => Some(values),
        DeviceValues::F32(_) => None,
    }
}
