//! Memory, kernels and launches of the greedy suppressions.

use super::{Capacity, Survivors, SurvivorsOut, check_fits, class_mode_word};
use crate::device::cuda::abi::nms::{
    ARRANGE_THREADS_PER_BLOCK, CANDIDATES_PER_BLOCK, FEW_COLUMNS, NmsArgs, NmsCounts, NmsSettings,
    NmsSteps, PART, PIECE, PrepareArgs, PreparedSteps, SMALL_CAPACITY, SMALL_THREADS_PER_BLOCK,
    THREADS_PER_BLOCK, TILE, TILES_AT_ONCE,
};
use crate::device::cuda::{DeviceBuffer, Grid, In, Kernel, KernelSpec, Stream, blocks};
use crate::error::Result;
use crate::types::{ClassMode, Kept};

/// Blocks of the step `small`, a power of two: about as many as a large GPU runs
/// side by side.
const SMALL_BLOCKS: u32 = 128;

/// Kernels and memory of one suppression op on one stream.
pub struct DeviceWorkspace<S: NmsSteps> {
    op: &'static str,
    stream: Stream,
    kernels: Kernels<S>,
    memory: Memory,
}

/// The kernels, by the capacity.
enum Kernels<S: NmsSteps> {
    Small(Kernel<S::Small>),
    Large {
        tiles: Kernel<S::Tiles>,
        merge: Kernel<S::Merge>,
        arrange: Kernel<S::Arrange>,
        suppress: Kernel<S::Suppress>,
        publish: Kernel<S::Publish>,
    },
}

struct Memory {
    capacity: Capacity,
    settings: DeviceBuffer<NmsSettings>,
    groups: DeviceBuffer<u32>,
    thresholds: DeviceBuffer<f32>,
    forbidden: DeviceBuffer<[u32; 2]>,
    parts: DeviceBuffer<[f32; 4]>,
    keys: DeviceBuffer<u64>,
    order: DeviceBuffer<Kept>,
    ranks: DeviceBuffer<u32>,
    places: DeviceBuffer<u64>,
    found_candidates: DeviceBuffer<u32>,
    items: DeviceBuffer<[f32; 4]>,
    item_groups: DeviceBuffer<u64>,
    found_items: DeviceBuffer<[f32; 4]>,
    found_ranks: DeviceBuffer<u32>,
    found_groups: DeviceBuffer<u64>,
    bounds: DeviceBuffer<[u32; 4]>,
    states: DeviceBuffer<u32>,
    ticket: DeviceBuffer<u32>,
    survivors: Survivors,
    notes: DeviceBuffer<[u32; 4]>,
    entries: DeviceBuffer<u32>,
    columns: DeviceBuffer<u64>,
}

impl Memory {
    fn new(stream: &Stream, capacity: Capacity, num_parts: usize) -> Result<Self> {
        let Capacity { candidates, classes } = capacity;
        // One threshold holds for all classes, however many there are.
        let classes = classes.max(1);
        let is_small = candidates <= SMALL_CAPACITY;
        let small = if is_small { candidates } else { 0 };
        let large = if is_small { 0 } else { candidates };
        Ok(Self {
            capacity: Capacity { candidates, classes },
            settings: DeviceBuffer::zeros(stream, 1)?,
            groups: DeviceBuffer::zeros(stream, classes)?,
            thresholds: DeviceBuffer::zeros(stream, classes)?,
            forbidden: DeviceBuffer::zeros(stream, classes * classes)?,
            parts: DeviceBuffer::zeros(stream, num_parts * candidates)?,
            keys: DeviceBuffer::zeros(stream, 2 * large)?,
            order: DeviceBuffer::zeros(stream, candidates)?,
            ranks: DeviceBuffer::zeros(stream, large)?,
            places: DeviceBuffer::zeros(stream, large)?,
            found_candidates: DeviceBuffer::zeros(stream, large)?,
            items: DeviceBuffer::zeros(stream, large)?,
            item_groups: DeviceBuffer::zeros(stream, large)?,
            found_items: DeviceBuffer::zeros(stream, large)?,
            found_ranks: DeviceBuffer::zeros(stream, large)?,
            found_groups: DeviceBuffer::zeros(stream, large)?,
            bounds: DeviceBuffer::zeros(stream, large.div_ceil(32))?,
            states: DeviceBuffer::zeros(stream, large)?,
            ticket: DeviceBuffer::zeros(stream, 2)?,
            survivors: Survivors::with_capacity(stream, candidates)?,
            notes: DeviceBuffer::zeros(stream, small)?,
            entries: DeviceBuffer::zeros(stream, small.div_ceil(PIECE) * small)?,
            columns: DeviceBuffer::zeros(stream, if is_small { FEW_COLUMNS } else { 0 })?,
        })
    }

    fn args<'a, C>(
        &'a mut self,
        stream: &Stream,
        candidates: In<'a, C>,
        num_candidates: In<'a, u32>,
    ) -> Result<NmsArgs<'a, C>> {
        let SurvivorsOut { kept, counts, published, published_counts } =
            self.survivors.output(stream)?;
        Ok(NmsArgs {
            candidates,
            num_candidates,
            settings: self.settings.input(stream)?,
            groups: self.groups.input(stream)?,
            thresholds: self.thresholds.input(stream)?,
            forbidden: self.forbidden.input(stream)?,
            parts: self.parts.input(stream)?,
            keys: self.keys.output(stream)?,
            order: self.order.output(stream)?,
            ranks: self.ranks.output(stream)?,
            places: self.places.output(stream)?,
            found_candidates: self.found_candidates.output(stream)?,
            items: self.items.output(stream)?,
            item_groups: self.item_groups.output(stream)?,
            found_items: self.found_items.output(stream)?,
            found_ranks: self.found_ranks.output(stream)?,
            found_groups: self.found_groups.output(stream)?,
            bounds: self.bounds.output(stream)?,
            states: self.states.output(stream)?,
            ticket: self.ticket.output(stream)?,
            kept,
            counts,
            published,
            published_counts,
            notes: self.notes.output(stream)?,
            entries: self.entries.output(stream)?,
            columns: self.columns.output(stream)?,
        })
    }
}

/// What the kernels are told beside the candidates.
pub(in crate::ops) struct Parameters<'a> {
    /// Those that are single numbers; what the lists say is filled in.
    pub settings: NmsSettings,
    pub class_mode: &'a ClassMode,
    pub thresholds: &'a [f32],
    pub forbidden: &'a [[u32; 2]],
}

impl<S: NmsSteps> DeviceWorkspace<S> {
    pub(in crate::ops) fn new(
        op: &'static str,
        stream: &Stream,
        capacity: Capacity,
    ) -> Result<Self> {
        let device = stream.device();
        let kernels = if capacity.candidates <= SMALL_CAPACITY {
            Kernels::Small(device.kernel()?)
        } else {
            Kernels::Large {
                tiles: device.kernel()?,
                merge: device.kernel()?,
                arrange: device.kernel()?,
                suppress: device.kernel()?,
                publish: device.kernel()?,
            }
        };
        let memory = Memory::new(stream, capacity, S::NUM_PARTS)?;
        Ok(Self { op, stream: stream.clone(), kernels, memory })
    }

    /// Writes settings and lists to the device and waits.
    pub(in crate::ops) fn set(&mut self, parameters: &Parameters<'_>) -> Result<()> {
        let Parameters { mut settings, class_mode, thresholds, forbidden } = *parameters;
        let (class_mode, groups) = class_mode_word(class_mode);
        let classes = self.memory.capacity.classes;
        check_fits(self.op, "groups", groups.len(), classes)?;
        check_fits(self.op, "thresholds", thresholds.len(), classes)?;
        check_fits(self.op, "forbidden pairs", forbidden.len(), classes * classes)?;
        settings.class_mode = class_mode;
        settings.num_groups = groups.len() as u32;
        settings.num_thresholds = thresholds.len() as u32;
        settings.num_forbidden = forbidden.len() as u32;
        self.memory.groups.write(groups)?;
        self.memory.thresholds.write(thresholds)?;
        self.memory.forbidden.write(forbidden)?;
        self.memory.settings.write(&[settings])
    }

    /// Queues all steps.
    pub(in crate::ops) fn enqueue(
        &mut self,
        items: &DeviceBuffer<S::Candidate>,
        num: &DeviceBuffer<u32>,
    ) -> Result<()> {
        let capacity = items.len();
        check_fits(self.op, "candidates", capacity, self.capacity())?;
        let stream = &self.stream;
        let args = self.memory.args(stream, items.input(stream)?, num.input(stream)?)?;
        match &self.kernels {
            Kernels::Small(small) => {
                let num_blocks = [blocks(capacity, 1).next_power_of_two().min(SMALL_BLOCKS), 1];
                let grid = Grid { num_blocks, threads_per_block: SMALL_THREADS_PER_BLOCK };
                small.enqueue(stream, grid, args)
            }
            Kernels::Large { tiles, merge, arrange, suppress, publish } => {
                let some = blocks(capacity, THREADS_PER_BLOCK).max(1);
                let parts = blocks(capacity, TILE).div_ceil(TILES_AT_ONCE);
                launch(tiles, stream, [blocks(capacity, PART).max(1), 2], args)?;
                launch(merge, stream, [some * parts, 2], args)?;
                let threads_per_block = ARRANGE_THREADS_PER_BLOCK;
                let num_blocks = [blocks(capacity, threads_per_block).max(1), 1];
                arrange.enqueue(stream, Grid { num_blocks, threads_per_block }, args)?;
                launch(suppress, stream, [blocks(capacity, CANDIDATES_PER_BLOCK), 1], args)?;
                launch(publish, stream, [some, 1], args)
            }
        }
    }

    /// Waits for the queued suppression and reads the survivors, best first.
    ///
    /// # Errors
    /// `Argument` when a class that took part has no threshold; `Device` when
    /// queued work failed.
    pub fn read_kept(&mut self, keep: &mut Vec<Kept>) -> Result<()> {
        self.memory.survivors.read(self.op, &self.stream, keep)
    }

    /// The survivors on the device, best first, for the ops that follow.
    pub fn kept(&self) -> (&DeviceBuffer<Kept>, &DeviceBuffer<NmsCounts>) {
        self.memory.survivors.on_device()
    }

    /// The most candidates it takes.
    pub fn capacity(&self) -> usize {
        self.memory.capacity.candidates
    }
}

/// A [`DeviceWorkspace`] of an op whose exact comparison reads parts, made once
/// per candidate before all else.
pub struct PreparedWorkspace<S: PreparedSteps> {
    prepare: Kernel<S::Prepare>,
    greedy: DeviceWorkspace<S>,
}

impl<S: PreparedSteps> PreparedWorkspace<S> {
    pub(in crate::ops) fn new(
        op: &'static str,
        stream: &Stream,
        capacity: Capacity,
    ) -> Result<Self> {
        let greedy = DeviceWorkspace::new(op, stream, capacity)?;
        Ok(Self { prepare: stream.device().kernel()?, greedy })
    }

    /// As [`DeviceWorkspace::set`].
    pub(in crate::ops) fn set(&mut self, parameters: &Parameters<'_>) -> Result<()> {
        self.greedy.set(parameters)
    }

    /// Queues all steps.
    pub(in crate::ops) fn enqueue(
        &mut self,
        items: &DeviceBuffer<S::Candidate>,
        num: &DeviceBuffer<u32>,
    ) -> Result<()> {
        let Self { prepare, greedy } = self;
        check_fits(greedy.op, "candidates", items.len(), greedy.capacity())?;
        let stream = &greedy.stream;
        let args = PrepareArgs {
            candidates: items.input(stream)?,
            num_candidates: num.input(stream)?,
            parts: greedy.memory.parts.output(stream)?,
        };
        let num_blocks = [blocks(items.len(), THREADS_PER_BLOCK), 1];
        prepare.enqueue(stream, Grid { num_blocks, threads_per_block: THREADS_PER_BLOCK }, args)?;
        greedy.enqueue(items, num)
    }

    /// As [`DeviceWorkspace::read_kept`].
    ///
    /// # Errors
    /// Those of [`DeviceWorkspace::read_kept`].
    pub fn read_kept(&mut self, keep: &mut Vec<Kept>) -> Result<()> {
        self.greedy.read_kept(keep)
    }

    /// As [`DeviceWorkspace::kept`].
    pub fn kept(&self) -> (&DeviceBuffer<Kept>, &DeviceBuffer<NmsCounts>) {
        self.greedy.kept()
    }

    /// The most candidates it takes.
    pub fn capacity(&self) -> usize {
        self.greedy.capacity()
    }
}

fn launch<'a, K, C>(
    kernel: &Kernel<K>,
    stream: &Stream,
    num_blocks: [u32; 2],
    args: NmsArgs<'a, C>,
) -> Result<()>
where
    C: 'static,
    K: for<'b> KernelSpec<Args<'b> = NmsArgs<'b, C>>,
{
    kernel.enqueue(stream, Grid { num_blocks, threads_per_block: THREADS_PER_BLOCK }, args)
}
