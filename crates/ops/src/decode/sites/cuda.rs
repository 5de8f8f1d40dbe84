//! The CUDA implementation of [`decode_sites`](super::decode_sites), with the selection of the
//! best ([`crate::decode::select`]) in the same kernel. It reads the features of sites as
//! convolutions have written them, in any precision.
//!
//! From equal features the candidates equal the CPU's, limited to the capacity, then to the best
//! `pre_nms_top_k`; each limit drops the worst in the total order. Their order in memory is
//! undefined: later ops sort. Centres, velocities, classes and sources are equal, scores, sizes
//! and yaws within 1 ULP (exponentials, powers and the arc tangent are rounded from f64).
//!
//! Candidates hold only the box. Velocities are stored for each found candidate
//! ([`Workspace::motions`]) and read by `gather`.

use super::kernels::{DecodeBf16, DecodeF16, DecodeF32, MAX_TASKS, SiteArgs, SiteTaskArgs};
use super::{SiteTask, argument, check_grid, check_num_tasks, check_params, check_present, cpu};
use crate::decode::select::Limits;
use crate::decode::select::kernels::{MAX_FOUND, THREADS_PER_BLOCK};
use crate::decode::space::{Passing, SelectionMemory};
use crate::device::cuda::{DeviceBuffer, Grid, In, Stream, blocks};
use crate::shared::{DeviceCandidates, DeviceCounters, Motion};
use crate::sparse::conv::ByPrecision;
use crate::sparse::conv::cuda::DeviceFeatures;
use crate::sparse::rulebook::cuda::DeviceSites;
use det_post_types::{Box3d, Result, SiteDecode, SizeOrder, YawConvention};

/// Kernels and memory of the op on one stream, for one head.
pub struct Workspace {
    stream: Stream,
    decode: ByPrecision<DecodeF32, DecodeF16, DecodeBf16>,
    params: SiteDecode,
    memory: Memory,
}

struct Memory {
    selection: SelectionMemory,
    range: DeviceBuffer<f32>,
    bounds: DeviceBuffer<f32>,
    classes: DeviceBuffer<u32>,
    iou_weights: DeviceBuffer<f32>,
}

impl Workspace {
    /// Loads the kernels and allocates memory for up to `num_sites` sites and `num_candidates`
    /// selected candidates. No site passes before [`Workspace::set`].
    ///
    /// # Errors
    /// `Argument` for no task or too many, more pairs of a site and a class than can be counted,
    /// or a class without a threshold or weight while others have one; `Device` when this build
    /// has no such kernels or there is not enough memory.
    pub fn new(
        stream: &Stream,
        params: &SiteDecode,
        num_sites: usize,
        num_candidates: usize,
    ) -> Result<Self> {
        check_params(params)?;
        let num_tasks = params.tasks.len();
        let classes: Vec<u32> = params.tasks.iter().flatten().copied().collect();
        let num_pairs = num_sites.saturating_mul(classes.len());
        if num_tasks == 0 || num_tasks > MAX_TASKS || num_pairs > MAX_FOUND {
            return argument(format!(
                "{num_tasks} tasks of {num_sites} sites and {} classes; 1 to {MAX_TASKS} tasks and at most \
                 {MAX_FOUND} sites times classes are allowed: lower the capacity of the last level",
                classes.len()
            ));
        }
        let mut memory = Memory {
            selection: SelectionMemory::new(stream, num_pairs, num_candidates, passing(params))?,
            range: DeviceBuffer::zeros(stream, 6)?,
            bounds: DeviceBuffer::zeros(stream, classes.len())?,
            classes: DeviceBuffer::zeros(stream, classes.len())?,
            iou_weights: DeviceBuffer::zeros(stream, params.iou_weights.len())?,
        };
        memory.bounds.write(&vec![f32::NAN; classes.len()])?;
        memory.classes.write(&classes)?;
        memory.iou_weights.write(&params.iou_weights)?;
        let decode = ByPrecision::load(stream.device())?;
        Ok(Self { stream: stream.clone(), decode, params: params.clone(), memory })
    }

    /// Writes thresholds and range of `params` and the limits to the device and waits; recorded
    /// graphs use the values last set.
    ///
    /// # Errors
    /// `Argument` when `params` differ from the initial ones in anything else, or in the number
    /// of classes or bins; `Device` when a copy fails.
    pub fn set(&mut self, params: &SiteDecode, limits: Limits) -> Result<()> {
        let fixed = |params: &SiteDecode| SiteDecode {
            score_thresholds: self.params.score_thresholds.clone(),
            yaw_norm_thresholds: Vec::new(),
            center_range: None,
            ..params.clone()
        };
        if fixed(params) != fixed(&self.params) {
            return argument("thresholds and range may change, the head may not".into());
        }
        let memory = &mut self.memory;
        memory.selection.set("decode_sites", passing(params), limits)?;
        let [least, greatest] = params
            .center_range
            .map_or([[f32::NEG_INFINITY; 3], [f32::INFINITY; 3]], |range| [range.min, range.max]);
        memory.range.write([least, greatest].as_flattened())?;
        let classes = params.tasks.iter().flatten();
        let bounds: Vec<f32> = classes.map(|&class| cpu::heat_bound(class, params)).collect();
        memory.bounds.write(&bounds)
    }

    /// Queues the decoding of `tasks`, rows of features of `sites`, into `candidates`, whose
    /// capacity is a limit like [`Limits::pre_nms_top_k`]. Dropped candidates are added to
    /// `counters`.
    ///
    /// # Errors
    /// Returns the errors of [`decode_sites`](super::decode_sites); `Argument` also when outputs
    /// are stored in several ways, or there may be more sites than the workspace is for;
    /// `Device` when a buffer belongs to another stream or the launch fails.
    pub fn enqueue(
        &mut self,
        tasks: &[SiteTask<&DeviceFeatures>],
        sites: &DeviceSites,
        candidates: &mut DeviceCandidates<Box3d>,
        counters: &mut DeviceCounters,
    ) -> Result<()> {
        let Self { stream, decode, params, memory } = self;
        check_num_tasks(tasks.len(), params)?;
        check_grid(sites.grid(), params)?;
        for (index, task) in tasks.iter().enumerate() {
            check_present(index, task, params)?;
        }
        let num_classes = params.tasks.iter().map(Vec::len).sum::<usize>();
        if sites.capacity().saturating_mul(num_classes) > memory.selection.selecting.capacity() {
            return argument(format!(
                "{} sites of {num_classes} classes exceed the limit of {} pairs",
                sites.capacity(),
                memory.selection.selecting.capacity()
            ));
        }
        let precision = tasks[0].heatmap.precision();
        let num_blocks = [blocks(sites.capacity(), THREADS_PER_BLOCK).max(1), num_classes as u32];
        let grid = Grid { num_blocks, threads_per_block: THREADS_PER_BLOCK };
        let args = memory.args(stream, params, (tasks, sites), (candidates, counters))?;
        decode.enqueue(precision, stream, grid, args)
    }

    /// Velocities of the found candidates, zero without, and by selected candidate its index
    /// among them.
    pub fn motions(&self) -> (&DeviceBuffer<Motion>, &DeviceBuffer<u32>) {
        self.memory.selection.motions()
    }
}

impl Memory {
    fn args<'a>(
        &'a mut self,
        stream: &Stream,
        params: &SiteDecode,
        (tasks, sites): (&[SiteTask<&'a DeviceFeatures>], &'a DeviceSites),
        (candidates, counters): (&'a mut DeviceCandidates<Box3d>, &'a mut DeviceCounters),
    ) -> Result<SiteArgs<'a>> {
        Ok(SiteArgs {
            selection: self.selection.selecting.slices(stream, candidates, counters)?,
            motions: self.selection.motions.output(stream)?,
            places: self.selection.places.output(stream)?,
            sites: sites.indices(stream)?,
            counts: sites.counts(stream)?,
            range: self.range.input(stream)?,
            bounds: self.bounds.input(stream)?,
            classes: self.classes.input(stream)?,
            thresholds: self.selection.thresholds.args(stream)?,
            least_yaw_norms: self.selection.least_yaw_norms.input(stream)?,
            iou_weights: self.iou_weights.input(stream)?,
            origin: params.origin_m,
            cell_size: params.cell_size_m,
            num_columns: sites.grid().shape()[2],
            capacity: sites.capacity() as u32,
            row_len: DeviceFeatures::row_len(3) as u32,
            num_tasks: tasks.len() as u32,
            has_velocity: u32::from(params.has_velocity),
            width_comes_first: u32::from(params.size_order == SizeOrder::WidthLengthHeight),
            yaw_turns_clockwise: u32::from(params.yaw == YawConvention::ClockwiseFromMinusY),
            reserved: 0,
            tasks: task_args(stream, (tasks, sites), params)?,
        })
    }
}

/// The outputs of all tasks. Elements past the last task repeat the first.
fn task_args<'a>(
    stream: &Stream,
    (tasks, sites): (&[SiteTask<&'a DeviceFeatures>], &DeviceSites),
    params: &SiteDecode,
) -> Result<[SiteTaskArgs<'a>; MAX_TASKS]> {
    let precision = tasks[0].heatmap.precision();
    let (mut all, mut first_class, mut first_source) = (Vec::new(), 0, 0);
    for (task, classes) in tasks.iter().zip(&params.tasks) {
        let input = |features: &'a DeviceFeatures| match features.precision() {
            found if found == precision => features.bytes.input(stream),
            found => argument(format!("outputs are in {precision:?} and in {found:?}")),
        };
        let task = SiteTask {
            velocity: task.velocity.filter(|_| params.has_velocity),
            iou: task.iou.filter(|_| !params.iou_weights.is_empty()),
            ..*task
        };
        let outputs = task.try_map(input)?;
        all.push(SiteTaskArgs {
            heatmap: outputs.heatmap,
            offset: outputs.offset,
            height: outputs.height,
            size: outputs.size,
            rotation: outputs.rotation,
            velocity: outputs.velocity.unwrap_or(In::empty()),
            iou: outputs.iou.unwrap_or(In::empty()),
            first_source,
            first_class,
            num_classes: classes.len() as u32,
            heat_len: DeviceFeatures::row_len(classes.len()) as u32,
        });
        first_class += classes.len() as u32;
        first_source += sites.grid().num_cells() as u32;
    }
    let Some(&first) = all.first() else { return argument("no task".into()) };
    Ok(std::array::from_fn(|index| all.get(index).copied().unwrap_or(first)))
}

fn passing(params: &SiteDecode) -> Passing<'_> {
    Passing { scores: &params.score_thresholds, yaw_norms: &params.yaw_norm_thresholds }
}
