//! Kernels, memory and launches of one kind of suppression.

use super::kernels::{
    BITMASK_CAPACITY, Family, Geometry, Method, NONE_PER_BLOCK, NmsArgs, NmsCounts, OutputSlices,
    ParameterSlices, SORTED_PER_BLOCK, Step, StepOf, TILE, TILES_AT_ONCE,
};
use super::parameters::Parameters;
use super::scratch::{Scratch, Sizes};
use crate::device::cuda::{
    CudaDevice, DeviceBuffer, Grid, In, Kernel, MappedBuffer, Out, Plain, Stream, blocks,
};
use crate::nms::kernels::NmsSettings;
use crate::shared::DeviceCandidates;
use det_post_types::{Candidate, ClassMode, Error, ErrorKind, Kept, Result};

/// Blocks of the kernel `bitmask`, a power of two: about as many as a large GPU runs
/// side by side.
const BITMASK_BLOCKS: u32 = 128;

/// Sizes of a suppression on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Candidates.
    pub candidates: usize,
    /// Classes that have a threshold or a group of their own, or are named in
    /// pairs.
    pub classes: usize,
}

/// Kernels and memory of the family of `P` on one stream.
pub(super) struct Workspace<P: Family> {
    stream: Stream,
    prepare: Option<Loaded<P, { Step::Prepare as usize }>>,
    kernels: Kernels<P>,
    memory: Memory,
}

type Loaded<P, const STEP: usize> = Kernel<StepOf<P, STEP>>;

/// The kernels, by method and capacity.
enum Kernels<P: Family> {
    Only(Loaded<P, { Step::Only as usize }>),
    Bitmask(Loaded<P, { Step::Bitmask as usize }>),
    Search {
        sort: Loaded<P, { Step::Sort as usize }>,
        merge: Loaded<P, { Step::Merge as usize }>,
        leaves: Loaded<P, { Step::Leaves as usize }>,
        reduce: Loaded<P, { Step::Reduce as usize }>,
        compact: Loaded<P, { Step::Compact as usize }>,
    },
}

impl<P: Family> Kernels<P> {
    fn load(device: &CudaDevice, capacity: usize) -> Result<Self> {
        Ok(match P::METHOD {
            Method::None | Method::Soft => Self::Only(device.kernel()?),
            Method::Greedy if capacity <= BITMASK_CAPACITY => Self::Bitmask(device.kernel()?),
            Method::Greedy => Self::Search {
                sort: device.kernel()?,
                merge: device.kernel()?,
                leaves: device.kernel()?,
                reduce: device.kernel()?,
                compact: device.kernel()?,
            },
        })
    }

    /// The scratch memory for `capacity` candidates.
    fn sizes(&self, capacity: usize) -> Sizes {
        let step = match self {
            Self::Only(_) => Step::Only,
            Self::Bitmask(_) => Step::Bitmask,
            Self::Search { .. } => Step::Sort,
        };
        Sizes::of::<P>(step, capacity)
    }

    fn enqueue(&self, stream: &Stream, args: &NmsArgs<'_, Candidate<P::Bbox>>) -> Result<()> {
        let capacity = args.candidates.len();
        match self {
            Self::Only(kernel) => {
                let num_blocks = match P::METHOD {
                    Method::None => blocks(capacity, NONE_PER_BLOCK).max(1),
                    Method::Soft | Method::Greedy => 1,
                };
                kernel.enqueue(stream, grid::<P>(Step::Only, [num_blocks, 1]), *args)
            }
            Self::Bitmask(bitmask) => {
                let num_blocks = blocks(capacity, 1).next_power_of_two().min(BITMASK_BLOCKS);
                bitmask.enqueue(stream, grid::<P>(Step::Bitmask, [num_blocks, 1]), *args)
            }
            Self::Search { sort, merge, leaves, reduce, compact } => {
                let num_sorting = blocks(capacity, SORTED_PER_BLOCK).max(1);
                sort.enqueue(stream, grid::<P>(Step::Sort, [num_sorting, 2]), *args)?;
                let num_tile_groups = blocks(capacity, TILE).div_ceil(TILES_AT_ONCE);
                let mut merging = thread_per_candidate::<P>(Step::Merge, capacity);
                merging.num_blocks = [merging.num_blocks[0] * num_tile_groups, 2];
                merge.enqueue(stream, merging, *args)?;
                let leaves_grid = thread_per_candidate::<P>(Step::Leaves, capacity);
                leaves.enqueue(stream, leaves_grid, *args)?;
                let warps_per_block = Step::Reduce.num_threads(P::METHOD) / 32;
                let num_reducing = blocks(capacity, warps_per_block);
                reduce.enqueue(stream, grid::<P>(Step::Reduce, [num_reducing, 1]), *args)?;
                compact.enqueue(stream, thread_per_candidate::<P>(Step::Compact, capacity), *args)
            }
        }
    }
}

fn grid<P: Family>(step: Step, num_blocks: [u32; 2]) -> Grid {
    Grid { num_blocks, threads_per_block: step.num_threads(P::METHOD) }
}

fn thread_per_candidate<P: Family>(step: Step, capacity: usize) -> Grid {
    grid::<P>(step, [blocks(capacity, step.num_threads(P::METHOD)).max(1), 1])
}

/// The memory of a suppression on one stream.
pub(crate) struct Memory {
    capacity: Capacity,
    settings: DeviceBuffer<NmsSettings>,
    groups: DeviceBuffer<u32>,
    thresholds: DeviceBuffer<f32>,
    pairs: DeviceBuffer<[u32; 2]>,
    sizes: Sizes,
    scratch: DeviceBuffer<u8>,
    kept: DeviceBuffer<Kept>,
    counts: DeviceBuffer<NmsCounts>,
    host_kept: MappedBuffer<Kept>,
    host_counts: MappedBuffer<NmsCounts>,
    read_counts: Vec<NmsCounts>,
}

impl Memory {
    /// Allocates memory, scratch memory for `sizes`.
    ///
    /// # Errors
    /// `Device` when there is not enough memory.
    pub fn new(stream: &Stream, capacity: Capacity, sizes: Sizes) -> Result<Self> {
        let Capacity { candidates, classes } = capacity;
        // A single threshold applies to all classes.
        let classes = classes.max(1);
        Ok(Self {
            capacity: Capacity { candidates, classes },
            settings: DeviceBuffer::zeros(stream, 1)?,
            groups: DeviceBuffer::zeros(stream, classes)?,
            thresholds: DeviceBuffer::zeros(stream, classes)?,
            pairs: DeviceBuffer::zeros(stream, classes * classes)?,
            sizes,
            scratch: DeviceBuffer::zeros(stream, Scratch::num_bytes(&sizes))?,
            kept: DeviceBuffer::zeros(stream, candidates)?,
            counts: DeviceBuffer::zeros(stream, 1)?,
            host_kept: MappedBuffer::zeros(stream, candidates)?,
            host_counts: MappedBuffer::zeros(stream, 1)?,
            read_counts: Vec::with_capacity(1),
        })
    }

    /// Writes parameters to the device and waits.
    ///
    /// # Errors
    /// `Argument` for more thresholds, groups or pairs than fit.
    pub fn set(&mut self, op: &'static str, parameters: &Parameters<'_>) -> Result<()> {
        let Parameters { mut settings, class_mode, thresholds, forbidden, unlimited } = *parameters;
        let pairs = [forbidden, unlimited].concat();
        let (class_mode, groups) = match class_mode {
            ClassMode::Aware => (0, &[][..]),
            ClassMode::Agnostic => (1, &[][..]),
            ClassMode::Groups(groups) => (2, groups.as_slice()),
        };
        let classes = self.capacity.classes;
        check_fits(op, "groups", groups.len(), classes)?;
        check_fits(op, "thresholds", thresholds.len(), classes)?;
        check_fits(op, "pairs of classes", pairs.len(), classes * classes)?;
        settings.class_mode = class_mode;
        settings.num_groups = groups.len() as u32;
        settings.num_thresholds = thresholds.len() as u32;
        settings.num_forbidden = forbidden.len() as u32;
        settings.num_unlimited = unlimited.len() as u32;
        self.groups.write(groups)?;
        self.thresholds.write(thresholds)?;
        self.pairs.write(&pairs)?;
        self.settings.write(&[settings])
    }

    /// The parameter of a kernel that suppresses these candidates.
    ///
    /// # Errors
    /// `Argument` for more candidates than the capacity; `Device` when a buffer is of another
    /// stream.
    pub fn args<'a, C>(
        &'a mut self,
        op: &'static str,
        stream: &Stream,
        candidates: In<'a, C>,
        num_candidates: In<'a, u32>,
    ) -> Result<NmsArgs<'a, C>> {
        check_fits(op, "candidates", candidates.len(), self.capacity.candidates)?;
        let parameters = ParameterSlices {
            settings: self.settings.input(stream)?,
            groups: self.groups.input(stream)?,
            thresholds: self.thresholds.input(stream)?,
            pairs: self.pairs.input(stream)?,
        };
        let scratch = Scratch::carve(self.scratch.output(stream)?, &self.sizes)?;
        let output = OutputSlices {
            kept: self.kept.output(stream)?,
            counts: self.counts.output(stream)?,
            host_kept: self.host_kept.output(stream)?,
            host_counts: self.host_counts.output(stream)?,
        };
        Ok(NmsArgs { candidates, num_candidates, parameters, scratch, output })
    }

    /// The survivors and their number on the device.
    pub fn kept(&self) -> (&DeviceBuffer<Kept>, &DeviceBuffer<NmsCounts>) {
        (&self.kept, &self.counts)
    }
}

/// The methods of [`Suppression`](super::Suppression) for one kind.
pub trait Op<B>: Send {
    /// The name of the op.
    fn name(&self) -> &'static str;
    /// Writes parameters to the device and waits.
    fn set(&mut self, parameters: &Parameters<'_>) -> Result<()>;
    /// Queues all kernels; `prepare` only unless the geometry is written already.
    fn enqueue(&mut self, candidates: &DeviceCandidates<B>, is_prepared: bool) -> Result<()>;
    /// Where the footprints of candidates are written, vector by vector; `None` for kinds
    /// that compare something else.
    fn footprints(&mut self) -> Result<Option<Out<'_, [f32; 4]>>>;
    /// Waits for the stream and reads the survivors.
    fn read_kept(&mut self, keep: &mut Vec<Kept>) -> Result<()>;
    /// The survivors and their number on the device.
    fn kept(&self) -> (&DeviceBuffer<Kept>, &DeviceBuffer<NmsCounts>);
}

impl<P: Family> Workspace<P> {
    pub(super) fn new(stream: &Stream, capacity: Capacity) -> Result<Self> {
        let device = stream.device();
        let has_geometry = P::GEOMETRY != Geometry::None;
        let kernels = Kernels::<P>::load(device, capacity.candidates)?;
        let memory = Memory::new(stream, capacity, kernels.sizes(capacity.candidates))?;
        let prepare = has_geometry.then(|| device.kernel()).transpose()?;
        Ok(Self { stream: stream.clone(), prepare, kernels, memory })
    }
}

impl<P: Family> Op<P::Bbox> for Workspace<P>
where
    Candidate<P::Bbox>: Plain,
{
    fn name(&self) -> &'static str {
        P::OP
    }

    fn set(&mut self, parameters: &Parameters<'_>) -> Result<()> {
        self.memory.set(P::OP, parameters)
    }

    fn footprints(&mut self) -> Result<Option<Out<'_, [f32; 4]>>> {
        if P::GEOMETRY != Geometry::Footprint {
            return Ok(None);
        }
        let Memory { scratch, sizes, .. } = &mut self.memory;
        Ok(Some(Scratch::carve(scratch.output(&self.stream)?, sizes)?.geometry()))
    }

    fn enqueue(&mut self, candidates: &DeviceCandidates<P::Bbox>, is_prepared: bool) -> Result<()> {
        let Self { stream, prepare, kernels, memory } = self;
        let capacity = candidates.capacity();
        let (items, num) = (candidates.items.input(stream)?, candidates.num.input(stream)?);
        let args = memory.args(P::OP, stream, items, num)?;
        if let Some(prepare) = prepare
            && !is_prepared
        {
            prepare.enqueue(stream, thread_per_candidate::<P>(Step::Prepare, capacity), args)?;
        }
        kernels.enqueue(stream, &args)
    }

    fn read_kept(&mut self, keep: &mut Vec<Kept>) -> Result<()> {
        keep.clear();
        self.stream.synchronize()?;
        let Memory { host_kept, host_counts, read_counts, .. } = &mut self.memory;
        read_counts.clear();
        host_counts.copy_to(1, read_counts);
        let NmsCounts { num_kept, class_over } = read_counts.first().copied().unwrap_or_default();
        if let Some(class) = class_over.checked_sub(1) {
            let message = format!("class {class} of an eligible candidate has no threshold");
            return Err(Error::new(ErrorKind::Argument, P::OP, message));
        }
        host_kept.copy_to(num_kept as usize, keep);
        Ok(())
    }

    fn kept(&self) -> (&DeviceBuffer<Kept>, &DeviceBuffer<NmsCounts>) {
        self.memory.kept()
    }
}

/// Refuses more values than there is memory for.
fn check_fits(op: &'static str, what: &str, num: usize, capacity: usize) -> Result<()> {
    if num <= capacity {
        return Ok(());
    }
    let message = format!("{num} {what}, at most {capacity} fit");
    Err(Error::new(ErrorKind::Argument, op, message))
}
