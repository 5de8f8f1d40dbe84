//! Sites in device memory.

use super::OnStream;
use crate::device::cuda::{DeviceBuffer, In, MappedBuffer, Out, Stream, blocks};
use crate::sparse::rulebook::args::SiteIndexArgs;
use crate::sparse::rulebook::kernels::{
    DUPLICATES, LevelArgs, NUM_COUNTS, NUM_SITES, OUTPUT_WORDS, OUTSIDE, OVER_CAPACITY,
    RANK_THREADS_PER_BLOCK,
};
use crate::sparse::rulebook::{EntranceCounts, OutputCounts, SiteGrid};
use det_post_types::{Error, ErrorKind, Result};

/// The sites of a level and their number in device memory.
#[derive(Debug)]
pub struct DeviceSites {
    pub(super) grid: SiteGrid,
    pub(super) capacity: usize,
    pub(super) num_words: u32,
    pub(super) bits: DeviceBuffer<u32>,
    pub(super) ranks: DeviceBuffer<u32>,
    pub(super) sites: DeviceBuffer<u32>,
    pub(super) counts: DeviceBuffer<u32>,
    pub(super) sums: DeviceBuffer<u32>,
    /// By site the row of the input; none on levels after the first.
    pub(super) input_rows: Option<DeviceBuffer<u32>>,
}

impl DeviceSites {
    /// The level of a network's input: no sites, with memory for `capacity`.
    ///
    /// # Errors
    /// `Device` when there is not enough memory.
    pub fn input(stream: &Stream, grid: SiteGrid, capacity: usize) -> Result<Self> {
        Self::of(grid, capacity, true, |len| DeviceBuffer::zeros(stream, len))
    }

    /// Another level: no sites, with memory for `capacity`.
    ///
    /// # Errors
    /// `Device` when there is not enough memory.
    pub fn output(stream: &Stream, grid: SiteGrid, capacity: usize) -> Result<Self> {
        Self::of(grid, capacity, false, |len| DeviceBuffer::zeros(stream, len))
    }

    /// A level in memory of any owner, of [`Self::num_bytes_for`]: no sites.
    ///
    /// # Errors
    /// `Argument` when there is less memory; `Device` when it cannot be cleared.
    pub fn in_memory(
        mut memory: DeviceBuffer<u8>,
        grid: SiteGrid,
        capacity: usize,
        is_input: bool,
    ) -> Result<Self> {
        let mut sites = Self::of(grid, capacity, is_input, |len| memory.carve(len))?;
        sites.enqueue_reset()?;
        Ok(sites)
    }

    /// Bytes of [`Self::in_memory`].
    pub fn num_bytes_for(grid: &SiteGrid, capacity: usize, is_input: bool) -> usize {
        let capacity = capacity.min(grid.num_cells());
        let num_words = num_words(grid);
        let lens = [
            num_words,
            num_words,
            capacity,
            NUM_COUNTS,
            num_tiles(num_words),
            if is_input { capacity } else { 0 },
        ];
        lens.into_iter().map(Out::<u32>::num_carved_bytes).fold(0, usize::saturating_add)
    }

    fn of(
        grid: SiteGrid,
        capacity: usize,
        is_input: bool,
        mut memory: impl FnMut(usize) -> Result<DeviceBuffer<u32>>,
    ) -> Result<Self> {
        let capacity = capacity.min(grid.num_cells());
        let num_words = num_words(&grid);
        Ok(Self {
            grid,
            capacity,
            num_words: num_words as u32,
            bits: memory(num_words)?,
            ranks: memory(num_words)?,
            sites: memory(capacity)?,
            counts: memory(NUM_COUNTS)?,
            sums: memory(num_tiles(num_words))?,
            input_rows: is_input.then(|| memory(capacity)).transpose()?,
        })
    }

    /// The same level for the work of another stream of the same GPU, which the caller orders
    /// with that of this one.
    ///
    /// # Errors
    /// `Device` when the stream is of another GPU.
    pub fn on(&self, stream: &Stream) -> Result<OnStream<'_, Self>> {
        Ok(OnStream::new(Self {
            bits: self.bits.on(stream)?,
            ranks: self.ranks.on(stream)?,
            sites: self.sites.on(stream)?,
            counts: self.counts.on(stream)?,
            sums: self.sums.on(stream)?,
            input_rows: self.input_rows.as_ref().map(|rows| rows.on(stream)).transpose()?,
            ..*self
        }))
    }

    /// Queues the removal of all sites, whatever the memory holds. The capacity is that of the
    /// memory.
    ///
    /// # Errors
    /// `Device` with the driver's error.
    pub(crate) fn enqueue_reset(&mut self) -> Result<()> {
        self.capacity = self.sites.len();
        self.bits.enqueue_clear()?;
        self.counts.enqueue_clear()
    }

    /// The grid.
    pub fn grid(&self) -> &SiteGrid {
        &self.grid
    }

    /// The most sites that can be held.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Bytes of device memory.
    pub fn num_bytes(&self) -> usize {
        let input_rows = self.input_rows.as_ref().map_or(0, DeviceBuffer::len);
        let lens = [&self.bits, &self.ranks, &self.sites, &self.sums].map(DeviceBuffer::len);
        size_of::<u32>() * (lens.iter().sum::<usize>() + input_rows)
    }

    /// Waits, then copies the linear indices to the host: for tests.
    ///
    /// # Errors
    /// `Device` when earlier work or the copy fails.
    pub fn read(&self) -> Result<Vec<u32>> {
        let mut sites = self.sites.read()?;
        sites.truncate(self.counts.read()?[NUM_SITES] as usize);
        Ok(sites)
    }

    /// Waits, then copies the input row of every site to the host: for tests.
    ///
    /// # Errors
    /// `Argument` when the level is not that of the input; `Device` when earlier work
    /// or the copy fails.
    pub fn read_input_rows(&self) -> Result<Vec<u32>> {
        let Some(rows) = &self.input_rows else {
            let message = "a level after the first has no input rows";
            return Err(Error::new(ErrorKind::Argument, "rulebook", message));
        };
        let mut rows = rows.read()?;
        rows.truncate(self.counts.read()?[NUM_SITES] as usize);
        Ok(rows)
    }

    /// Waits, then returns what became of the rows of the input.
    ///
    /// # Errors
    /// `Device` when earlier work or the copy fails.
    pub fn entrance_counts(&self) -> Result<EntranceCounts> {
        let counts = self.counts.read()?;
        Ok(entrance(|position| counts[position]))
    }

    /// Waits, then returns what became of the sites that the level before reaches.
    ///
    /// # Errors
    /// `Device` when earlier work or the copy fails.
    pub fn output_counts(&self) -> Result<OutputCounts> {
        let counts = self.counts.read()?;
        Ok(output(|position| counts[position]))
    }

    /// As [`Self::entrance_counts`]. The capacity becomes the number of sites, until they are made
    /// again from arrays, so that tables and features of the level are no larger.
    ///
    /// # Errors
    /// `Device` when earlier work or the copy fails.
    pub fn fit_entrance(&mut self) -> Result<EntranceCounts> {
        let counts = self.entrance_counts()?;
        self.capacity = counts.num_sites;
        Ok(counts)
    }

    /// As [`Self::output_counts`], with the capacity as [`Self::fit_entrance`].
    ///
    /// # Errors
    /// `Device` when earlier work or the copy fails.
    pub fn fit_output(&mut self) -> Result<OutputCounts> {
        let counts = self.output_counts()?;
        self.capacity = counts.num_sites;
        Ok(counts)
    }

    /// The counts, of which the first is the number of sites.
    pub(crate) fn counts(&self, stream: &Stream) -> Result<In<'_, u32>> {
        self.counts.input(stream)
    }

    /// The bitmap with ranks.
    pub(crate) fn index(&self, stream: &Stream) -> Result<SiteIndexArgs<'_>> {
        Ok(SiteIndexArgs { bits: self.bits.input(stream)?, ranks: self.ranks.input(stream)? })
    }

    /// By site the row of the input; empty on levels after the first.
    pub(crate) fn input_rows(&self, stream: &Stream) -> Result<In<'_, u32>> {
        self.input_rows.as_ref().map_or_else(|| Ok(In::empty()), |rows| rows.input(stream))
    }

    /// The linear indices of the sites, as many as the capacity.
    pub(crate) fn indices(&self, stream: &Stream) -> Result<In<'_, u32>> {
        Ok(self.sites.input(stream)?.until(self.capacity))
    }

    pub(super) fn level(&mut self, stream: &Stream) -> Result<LevelArgs<'_>> {
        Ok(LevelArgs {
            sites: self.sites.output(stream)?,
            bits: self.bits.output(stream)?,
            counts: self.counts.output(stream)?,
            input_rows: match &mut self.input_rows {
                Some(rows) => rows.output(stream)?,
                None => Out::empty(),
            },
        })
    }
}

/// Words of the bitmap of a grid.
fn num_words(grid: &SiteGrid) -> usize {
    grid.num_cells().div_ceil(32).next_multiple_of(4)
}

/// Tiles of the words of a bitmap.
fn num_tiles(num_words: usize) -> usize {
    blocks(num_words, RANK_THREADS_PER_BLOCK * OUTPUT_WORDS) as usize
}

/// The counts of the levels of a network in memory that the host reads.
#[derive(Debug)]
pub struct PublishedCounts {
    values: MappedBuffer<u32>,
}

impl PublishedCounts {
    /// Memory for the counts of `num_levels`, all 0.
    ///
    /// # Errors
    /// `Device` when there is not enough memory.
    pub fn new(stream: &Stream, num_levels: usize) -> Result<Self> {
        Ok(Self { values: MappedBuffer::zeros(stream, num_levels * NUM_COUNTS)? })
    }

    /// Queues the copying of the counts of levels.
    ///
    /// # Errors
    /// `Argument` when there are more levels than there is memory for; `Device` when a level
    /// belongs to another stream or a copy fails.
    pub fn enqueue(&mut self, levels: &[DeviceSites]) -> Result<()> {
        for (level, sites) in levels.iter().enumerate() {
            self.values.enqueue_copy(level * NUM_COUNTS, &sites.counts)?;
        }
        Ok(())
    }

    /// Bytes of the counts of `num_levels`.
    pub fn num_bytes(num_levels: usize) -> usize {
        num_levels * NUM_COUNTS * size_of::<u32>()
    }

    /// What became of the rows of the input; the caller has waited for the stream.
    pub fn entrance(&self) -> EntranceCounts {
        entrance(|position| self.values.get(position).unwrap_or(0))
    }

    /// What became of the sites of a level after the first; the caller has waited for the
    /// stream.
    pub fn output(&self, level: usize) -> OutputCounts {
        output(|position| self.values.get(level * NUM_COUNTS + position).unwrap_or(0))
    }
}

fn entrance(count: impl Fn(usize) -> u32) -> EntranceCounts {
    EntranceCounts {
        num_sites: count(NUM_SITES) as usize,
        num_outside: count(OUTSIDE) as usize,
        num_duplicates: count(DUPLICATES) as usize,
        num_over_capacity: count(OVER_CAPACITY) as usize,
    }
}

fn output(count: impl Fn(usize) -> u32) -> OutputCounts {
    OutputCounts {
        num_sites: count(NUM_SITES) as usize,
        num_over_capacity: count(OVER_CAPACITY) as usize,
        num_inputs_without_output: count(OUTSIDE) as usize,
    }
}
