//! What every suppression on CUDA shares: memory, kernels, the order of steps.
//!
//! The steps and their promise stand in `kernels/nms.cuh`. The number of
//! candidates is read on the device; more than the capacity are not read. The
//! settings live in device memory: changing them changes what recorded graphs
//! do.

mod dispatch;

pub use dispatch::{Suppression2d, Suppression3d};

use crate::device::cuda::abi::nms::{
    CANDIDATES_PER_BLOCK, CHUNK, NmsArgs, NmsCounts, NmsSettings, NmsSteps, PART, SMALL_CAPACITY,
    SMALL_THREADS_PER_BLOCK, THREADS_PER_BLOCK, TILE, TILES_AT_ONCE,
};
use crate::device::cuda::{
    DeviceBuffer, Grid, In, Kernel, KernelSpec, MappedBuffer, Stream, blocks,
};
use crate::error::{Error, ErrorKind, Result};
use crate::types::{ClassMode, Kept};

/// Blocks of the step `small`: about as many as a large GPU runs side by side.
const SMALL_BLOCKS: u32 = 128;

/// How much a suppression on the device has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Candidates.
    pub candidates: usize,
    /// Classes that have a threshold or a group of their own.
    pub classes: usize,
}

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
    keys: DeviceBuffer<u64>,
    order: DeviceBuffer<Kept>,
    ranks: DeviceBuffer<u32>,
    places: DeviceBuffer<u32>,
    found_items: DeviceBuffer<[f32; 4]>,
    found_ranks: DeviceBuffer<u32>,
    found_groups: DeviceBuffer<u64>,
    bounds: DeviceBuffer<[u32; 4]>,
    states: DeviceBuffer<u32>,
    kept_bits: DeviceBuffer<u32>,
    ticket: DeviceBuffer<u32>,
    kept: DeviceBuffer<Kept>,
    counts: DeviceBuffer<NmsCounts>,
    published: MappedBuffer<Kept>,
    published_counts: MappedBuffer<NmsCounts>,
    rows: DeviceBuffer<[u32; 4]>,
    notes: DeviceBuffer<u64>,
    read_counts: Vec<NmsCounts>,
}

impl Memory {
    fn new(stream: &Stream, capacity: Capacity) -> Result<Self> {
        let Capacity { candidates, classes } = capacity;
        // One threshold holds for all classes, however many there are.
        let capacity = Capacity { candidates, classes: classes.max(1) };
        let words = candidates.div_ceil(32);
        let small = if candidates <= SMALL_CAPACITY { candidates } else { 0 };
        let large = candidates - small;
        Ok(Self {
            capacity,
            settings: DeviceBuffer::zeros(stream, 1)?,
            groups: DeviceBuffer::zeros(stream, capacity.classes)?,
            thresholds: DeviceBuffer::zeros(stream, capacity.classes)?,
            keys: DeviceBuffer::zeros(stream, 2 * large)?,
            order: DeviceBuffer::zeros(stream, large)?,
            ranks: DeviceBuffer::zeros(stream, large)?,
            places: DeviceBuffer::zeros(stream, large)?,
            found_items: DeviceBuffer::zeros(stream, large)?,
            found_ranks: DeviceBuffer::zeros(stream, large)?,
            found_groups: DeviceBuffer::zeros(stream, large)?,
            bounds: DeviceBuffer::zeros(stream, words)?,
            states: DeviceBuffer::zeros(stream, large)?,
            kept_bits: DeviceBuffer::zeros(stream, words)?,
            ticket: DeviceBuffer::zeros(stream, 2)?,
            kept: DeviceBuffer::zeros(stream, candidates)?,
            counts: DeviceBuffer::zeros(stream, 1)?,
            published: MappedBuffer::zeros(stream, candidates)?,
            published_counts: MappedBuffer::zeros(stream, 1)?,
            rows: DeviceBuffer::zeros(stream, small * small.div_ceil(CHUNK))?,
            notes: DeviceBuffer::zeros(stream, small)?,
            read_counts: Vec::with_capacity(1),
        })
    }

    fn args<'a, C>(
        &'a mut self,
        stream: &Stream,
        candidates: In<'a, C>,
        num_candidates: In<'a, u32>,
    ) -> Result<NmsArgs<'a, C>> {
        Ok(NmsArgs {
            candidates,
            num_candidates,
            settings: self.settings.input(stream)?,
            groups: self.groups.input(stream)?,
            thresholds: self.thresholds.input(stream)?,
            keys: self.keys.output(stream)?,
            order: self.order.output(stream)?,
            ranks: self.ranks.output(stream)?,
            places: self.places.output(stream)?,
            found_items: self.found_items.output(stream)?,
            found_ranks: self.found_ranks.output(stream)?,
            found_groups: self.found_groups.output(stream)?,
            bounds: self.bounds.output(stream)?,
            states: self.states.output(stream)?,
            kept_bits: self.kept_bits.output(stream)?,
            ticket: self.ticket.output(stream)?,
            kept: self.kept.output(stream)?,
            counts: self.counts.output(stream)?,
            published: self.published.output(stream)?,
            published_counts: self.published_counts.output(stream)?,
            rows: self.rows.output(stream)?,
            notes: self.notes.output(stream)?,
        })
    }
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
        let memory = Memory::new(stream, capacity)?;
        Ok(Self { op, stream: stream.clone(), kernels, memory })
    }

    /// Writes settings, groups and thresholds to the device and waits.
    pub(in crate::ops) fn set(
        &mut self,
        mut settings: NmsSettings,
        class_mode: &ClassMode,
        thresholds: &[f32],
    ) -> Result<()> {
        let groups: &[u32] = match class_mode {
            ClassMode::Aware | ClassMode::Agnostic => &[],
            ClassMode::Groups(groups) => groups,
        };
        let capacity = self.memory.capacity.classes;
        if groups.len().max(thresholds.len()) > capacity {
            let message = format!(
                "{} groups and {} thresholds, there is room for {capacity} classes",
                groups.len(),
                thresholds.len()
            );
            return Err(Error::new(ErrorKind::Argument, self.op, message));
        }
        settings.class_mode = match class_mode {
            ClassMode::Aware => 0,
            ClassMode::Agnostic => 1,
            ClassMode::Groups(_) => 2,
        };
        settings.num_groups = groups.len() as u32;
        settings.num_thresholds = thresholds.len() as u32;
        self.memory.groups.write(groups)?;
        self.memory.thresholds.write(thresholds)?;
        self.memory.settings.write(&[settings])
    }

    /// Queues all steps.
    pub(in crate::ops) fn enqueue(
        &mut self,
        items: &DeviceBuffer<S::Candidate>,
        num: &DeviceBuffer<u32>,
    ) -> Result<()> {
        let capacity = items.len();
        if capacity > self.memory.capacity.candidates {
            let message = format!(
                "room for {capacity} candidates is given, the workspace has it for {}",
                self.memory.capacity.candidates
            );
            return Err(Error::new(ErrorKind::Argument, self.op, message));
        }
        let stream = &self.stream;
        let args = self.memory.args(stream, items.input(stream)?, num.input(stream)?)?;
        match &self.kernels {
            Kernels::Small(small) => {
                let owned = blocks(capacity, SMALL_BLOCKS).max(1);
                launch(small, stream, [blocks(capacity, owned).max(1), 1], args)
            }
            Kernels::Large { tiles, merge, arrange, suppress, publish } => {
                let some = blocks(capacity, THREADS_PER_BLOCK).max(1);
                let parts = blocks(capacity, TILE).div_ceil(TILES_AT_ONCE);
                launch(tiles, stream, [blocks(capacity, PART).max(1), 2], args)?;
                launch(merge, stream, [some * parts, 2], args)?;
                launch(arrange, stream, [some, 1], args)?;
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
        keep.clear();
        self.stream.synchronize()?;
        let Memory { published, published_counts, read_counts, .. } = &mut self.memory;
        read_counts.clear();
        published_counts.copy_to(1, read_counts);
        let NmsCounts { num_kept, class_over } = read_counts.first().copied().unwrap_or_default();
        if class_over > 0 {
            let message =
                format!("class {} takes part and has no threshold", u64::from(class_over) - 1);
            return Err(Error::new(ErrorKind::Argument, self.op, message));
        }
        published.copy_to(num_kept as usize, keep);
        Ok(())
    }

    /// The survivors on the device, best first, for the ops that follow.
    pub fn kept(&self) -> (&DeviceBuffer<Kept>, &DeviceBuffer<NmsCounts>) {
        (&self.memory.kept, &self.memory.counts)
    }

    /// The most candidates it takes.
    pub fn capacity(&self) -> usize {
        self.memory.capacity.candidates
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
    let threads_per_block =
        if K::NAME.ends_with("_small") { SMALL_THREADS_PER_BLOCK } else { THREADS_PER_BLOCK };
    kernel.enqueue(stream, Grid { num_blocks, threads_per_block }, args)
}
