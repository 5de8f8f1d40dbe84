//! The CUDA implementation of [`rulebook`](super): the same sites, ranks, tables and
//! counts.
//!
//! Numbers of sites stay on the device, so that all steps of a frame can be recorded
//! as one graph: [`Workspace::enqueue_clear`] for all levels, then level by level its
//! sites, then the tables.

use super::kernels::{
    CellsArgs, Clear, ClearArgs, CountInput, CountOutput, DUPLICATES, GeometryArgs, GridArgs,
    INPUT_WORDS, LevelArgs, MAX_LEVELS, MarkCells, MarkOutputs, NUM_COUNTS, NUM_SITES,
    OUTPUT_WORDS, OUTSIDE, OVER_CAPACITY, OutputsArgs, Place, RANK_THREADS_PER_BLOCK, RankArgs,
    RankInput, RankOutput, SiteIndexArgs, THREADS_PER_BLOCK, TableArgs, TapWords, Triples,
};
use super::{EntranceCounts, Geometry, Mode, OutputCounts, SiteGrid, Table, check_grids};
use crate::device::cuda::{
    DeviceBuffer, Grid as Blocks, In, Kernel, KernelSpec, Out, Stream, blocks,
};
use crate::error::{Error, ErrorKind, Result};

/// The sites of a level and their number in device memory.
#[derive(Debug)]
pub struct DeviceSites {
    grid: SiteGrid,
    capacity: usize,
    num_words: u32,
    bits: DeviceBuffer<u32>,
    ranks: DeviceBuffer<u32>,
    sites: DeviceBuffer<u32>,
    counts: DeviceBuffer<u32>,
    sums: DeviceBuffer<u32>,
    /// By site the row of the input; none on levels after the first.
    input_rows: Option<DeviceBuffer<u32>>,
}

impl DeviceSites {
    /// The level of a network's input: no sites, with memory for `capacity`.
    ///
    /// # Errors
    /// `Device` when there is not enough memory.
    pub fn input(stream: &Stream, grid: SiteGrid, capacity: usize) -> Result<Self> {
        let mut sites = Self::output(stream, grid, capacity)?;
        sites.input_rows = Some(DeviceBuffer::zeros(stream, sites.capacity)?);
        Ok(sites)
    }

    /// Another level: no sites, with memory for `capacity`.
    ///
    /// # Errors
    /// `Device` when there is not enough memory.
    pub fn output(stream: &Stream, grid: SiteGrid, capacity: usize) -> Result<Self> {
        let capacity = capacity.min(grid.num_cells());
        let num_words = grid.num_cells().div_ceil(32).next_multiple_of(4) as u32;
        let num_tiles = blocks(num_words as usize, RANK_THREADS_PER_BLOCK * OUTPUT_WORDS) as usize;
        Ok(Self {
            grid,
            capacity,
            num_words,
            bits: DeviceBuffer::zeros(stream, num_words as usize)?,
            ranks: DeviceBuffer::zeros(stream, num_words as usize)?,
            sites: DeviceBuffer::zeros(stream, capacity)?,
            counts: DeviceBuffer::zeros(stream, NUM_COUNTS)?,
            sums: DeviceBuffer::zeros(stream, num_tiles)?,
            input_rows: None,
        })
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
            return argument("a level after the first has no input rows".into());
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
        Ok(EntranceCounts {
            num_sites: counts[NUM_SITES] as usize,
            num_outside: counts[OUTSIDE] as usize,
            num_duplicates: counts[DUPLICATES] as usize,
            num_over_capacity: counts[OVER_CAPACITY] as usize,
        })
    }

    /// Waits, then returns what became of the sites that the level before reaches.
    ///
    /// # Errors
    /// `Device` when earlier work or the copy fails.
    pub fn output_counts(&self) -> Result<OutputCounts> {
        let counts = self.counts.read()?;
        Ok(OutputCounts {
            num_sites: counts[NUM_SITES] as usize,
            num_over_capacity: counts[OVER_CAPACITY] as usize,
            num_inputs_without_output: counts[OUTSIDE] as usize,
        })
    }

    /// The counts, of which the first is the number of sites.
    pub(in crate::ops) fn counts(&self, stream: &Stream) -> Result<In<'_, u32>> {
        self.counts.input(stream)
    }

    /// The bitmap with ranks.
    pub(in crate::ops) fn index(&self, stream: &Stream) -> Result<SiteIndexArgs<'_>> {
        Ok(SiteIndexArgs { bits: self.bits.input(stream)?, ranks: self.ranks.input(stream)? })
    }

    /// By site the row of the input; empty on levels after the first.
    pub(in crate::ops) fn input_rows(&self, stream: &Stream) -> Result<In<'_, u32>> {
        self.input_rows.as_ref().map_or_else(|| Ok(In::empty()), |rows| rows.input(stream))
    }

    fn level(&mut self, stream: &Stream) -> Result<LevelArgs<'_>> {
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

/// The cells of the voxels of a network's input.
#[derive(Clone, Copy, Debug)]
pub enum Cells<'a> {
    /// Linear indices on the grid.
    Indices(&'a DeviceBuffer<u32>),
    /// Rows of (batch, c0, c1, c2), each the bits of an i32.
    Coordinates(&'a DeviceBuffer<[u32; 4]>),
}

/// The rulebook of a convolution in device memory: a [`Table`] with room for the
/// capacity of the output's level between its groups of words.
#[derive(Debug)]
pub struct DeviceTable {
    mode: Mode,
    geometry: Geometry,
    taps_per_word: usize,
    input_capacity: usize,
    capacity: usize,
    stride: usize,
    words: DeviceBuffer<u32>,
}

impl DeviceTable {
    /// A table between levels of these capacities.
    ///
    /// # Errors
    /// `Argument` when the geometry is wrong; `Device` when there is not enough memory.
    pub fn new(
        stream: &Stream,
        geometry: &Geometry,
        mode: Mode,
        [input_capacity, capacity]: [usize; 2],
    ) -> Result<Self> {
        geometry.check(mode)?;
        let taps_per_word = Table::new(geometry, mode, 0).taps_per_word();
        let stride = capacity.next_multiple_of(32);
        let num_groups = geometry.num_taps() / taps_per_word;
        let words = DeviceBuffer::zeros(stream, num_groups.saturating_mul(stride))?;
        let geometry = *geometry;
        Ok(Self { mode, geometry, taps_per_word, input_capacity, capacity, stride, words })
    }

    /// Number of taps.
    pub fn num_taps(&self) -> usize {
        self.geometry.num_taps()
    }

    /// The most input rows; every row of the table is below it.
    pub fn input_capacity(&self) -> usize {
        self.input_capacity
    }

    /// The most output rows.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Bytes of device memory.
    pub fn num_bytes(&self) -> usize {
        size_of::<u32>() * self.words.len()
    }

    /// Waits, then copies the words of the first `len` rows to the host, as
    /// [`Table::words`] has them: for tests.
    ///
    /// # Errors
    /// `Device` when earlier work or the copy fails.
    pub fn read(&self, len: usize) -> Result<Vec<u32>> {
        let words = self.words.read()?;
        Ok(words.chunks(self.stride.max(1)).flat_map(|group| &group[..len]).copied().collect())
    }

    pub(in crate::ops) fn words(&self, stream: &Stream) -> Result<In<'_, u32>> {
        self.words.input(stream)
    }

    /// Taps per word, groups of words per row, and words from one group to the next.
    pub(in crate::ops) fn layout(&self) -> [u32; 3] {
        let num_groups = self.num_taps() / self.taps_per_word;
        [self.taps_per_word as u32, num_groups as u32, self.stride as u32]
    }
}

/// Kernels of the op on one stream.
pub struct Workspace {
    stream: Stream,
    clear: Kernel<Clear>,
    mark_cells: Kernel<MarkCells>,
    place: Kernel<Place>,
    count_input: Kernel<CountInput>,
    rank_input: Kernel<RankInput>,
    count_output: Kernel<CountOutput>,
    rank_output: Kernel<RankOutput>,
    mark_outputs: Kernel<MarkOutputs>,
    triples: Kernel<Triples>,
    taps: Kernel<TapWords>,
}

impl Workspace {
    /// Loads the kernels.
    ///
    /// # Errors
    /// `Device` when this build has no such kernels.
    pub fn new(stream: &Stream) -> Result<Self> {
        let device = stream.device();
        Ok(Self {
            stream: stream.clone(),
            clear: device.kernel()?,
            mark_cells: device.kernel()?,
            place: device.kernel()?,
            count_input: device.kernel()?,
            rank_input: device.kernel()?,
            count_output: device.kernel()?,
            rank_output: device.kernel()?,
            mark_outputs: device.kernel()?,
            triples: device.kernel()?,
            taps: device.kernel()?,
        })
    }

    /// Queues the removal of all sites of levels: the first step of a frame.
    ///
    /// # Errors
    /// `Device` when a level belongs to another stream or the launch fails.
    pub fn enqueue_clear(&self, levels: &mut [DeviceSites]) -> Result<()> {
        let stream = &self.stream;
        for levels in levels.chunks_mut(MAX_LEVELS) {
            let capacity = levels.iter().map(DeviceSites::capacity).max().unwrap_or(0);
            let num_levels = levels.len() as u32;
            let none = || LevelArgs {
                sites: Out::empty(),
                bits: Out::empty(),
                counts: Out::empty(),
                input_rows: Out::empty(),
            };
            let mut args =
                ClearArgs { levels: std::array::from_fn(|_| none()), num_levels, reserved: 0 };
            for (level, args) in levels.iter_mut().zip(&mut args.levels) {
                *args = level.level(stream)?;
            }
            let grid = rows(capacity.max(1), num_levels);
            self.clear.enqueue(stream, grid, args)?;
        }
        Ok(())
    }

    /// Queues the making of the sites of the input, whose bitmap is clear, from `num`
    /// cells.
    ///
    /// # Errors
    /// `Argument` when the level is not that of an input; `Device` when a buffer
    /// belongs to another stream or a launch fails.
    pub fn enqueue_input(
        &self,
        cells: Cells<'_>,
        num: &DeviceBuffer<u32>,
        sites: &mut DeviceSites,
    ) -> Result<()> {
        let stream = &self.stream;
        if sites.input_rows.is_none() {
            return argument("the input's sites on a level after the first".into());
        }
        let num_rows = match cells {
            Cells::Indices(cells) => cells.len(),
            Cells::Coordinates(rows) => rows.len(),
        };
        let grid = rows(num_rows, 1);
        self.mark_cells.enqueue(stream, grid, cells_args(stream, cells, num, sites)?)?;
        self.enqueue_ranks(&self.count_input, &self.rank_input, INPUT_WORDS, sites)?;
        self.place.enqueue(stream, grid, cells_args(stream, cells, num, sites)?)
    }

    /// Queues the making of the sites of a strided or transposed output, whose bitmap
    /// is clear, as [`super::output_sites`].
    ///
    /// # Errors
    /// As [`super::output_sites`]; `Device` when a level belongs to another stream or a
    /// launch fails.
    pub fn enqueue_output(
        &self,
        input: &DeviceSites,
        geometry: &Geometry,
        mode: Mode,
        output: &mut DeviceSites,
    ) -> Result<()> {
        geometry.check(mode)?;
        check_grids(&input.grid, &output.grid, geometry, mode)?;
        if !matches!(mode, Mode::Strided | Mode::Transposed) {
            return argument(format!("{mode:?} has no sites of its own"));
        }
        let stream = &self.stream;
        let args = OutputsArgs {
            sites: input.sites.input(stream)?,
            counts: input.counts.input(stream)?,
            output_bits: output.bits.output(stream)?,
            output_counts: output.counts.output(stream)?,
            input_grid: GridArgs::new(&input.grid),
            output_grid: GridArgs::new(&output.grid),
            geometry: GeometryArgs::new(geometry),
            capacity: input.capacity as u32,
            is_transposed: u32::from(mode == Mode::Transposed),
        };
        self.mark_outputs.enqueue(stream, rows(input.capacity, 1), args)?;
        self.enqueue_ranks(&self.count_output, &self.rank_output, OUTPUT_WORDS, output)
    }

    /// Queues the filling of a table between two levels, as [`super::fill_table`].
    /// For a submanifold one both are the same level.
    ///
    /// # Errors
    /// As [`super::fill_table`]; `Device` when a buffer belongs to another stream or the
    /// launch fails.
    pub fn enqueue_table(
        &self,
        input: &DeviceSites,
        output: &DeviceSites,
        table: &mut DeviceTable,
    ) -> Result<()> {
        let (mut geometry, mode) = (table.geometry, table.mode);
        check_grids(&input.grid, &output.grid, &geometry, mode)?;
        let fits = output.capacity <= table.capacity
            && input.capacity <= table.input_capacity
            && input.capacity < 1 << (u32::BITS - Table::PRESENT_BITS);
        if !fits {
            return argument(format!(
                "{} input and {} output sites, the table is for {} and {}",
                input.capacity, output.capacity, table.input_capacity, table.capacity
            ));
        }
        if mode == Mode::Submanifold {
            // The padding that centres the kernel.
            geometry.padding =
                std::array::from_fn(|axis| geometry.kernel[axis] / 2 * geometry.dilation[axis]);
        }
        let stream = &self.stream;
        let args = TableArgs {
            input: input.index(stream)?,
            sites: output.sites.input(stream)?,
            counts: output.counts.input(stream)?,
            words: table.words.output(stream)?,
            input_grid: GridArgs::new(&input.grid),
            output_grid: GridArgs::new(&output.grid),
            geometry: GeometryArgs::new(&geometry),
            stride: table.stride as u32,
            is_divided: u32::from(matches!(mode, Mode::Transposed | Mode::Inverse)),
        };
        let [k0, k1, _] = geometry.kernel;
        if table.taps_per_word == 3 {
            self.triples.enqueue(stream, rows(output.capacity, k0), args)
        } else {
            self.taps.enqueue(stream, rows(output.capacity, k0 * k1), args)
        }
    }

    fn enqueue_ranks<Count, Rank>(
        &self,
        count: &Kernel<Count>,
        rank: &Kernel<Rank>,
        words_per_thread: u32,
        level: &mut DeviceSites,
    ) -> Result<()>
    where
        Count: for<'a> KernelSpec<Args<'a> = RankArgs<'a>>,
        Rank: for<'a> KernelSpec<Args<'a> = RankArgs<'a>>,
    {
        let stream = &self.stream;
        let num_words = level.num_words;
        let num_tiles = num_words.div_ceil(RANK_THREADS_PER_BLOCK * words_per_thread);
        let grid = Blocks { num_blocks: [num_tiles, 1], threads_per_block: RANK_THREADS_PER_BLOCK };
        let args = RankArgs {
            bits: level.bits.output(stream)?,
            ranks: level.ranks.output(stream)?,
            sites: level.sites.output(stream)?,
            sums: level.sums.output(stream)?,
            counts: level.counts.output(stream)?,
            num_words,
            capacity: level.capacity as u32,
        };
        count.enqueue(stream, grid, args)?;
        rank.enqueue(stream, grid, args)
    }
}

fn cells_args<'a>(
    stream: &Stream,
    cells: Cells<'a>,
    num: &'a DeviceBuffer<u32>,
    sites: &'a mut DeviceSites,
) -> Result<CellsArgs<'a>> {
    let (coordinates, cells, capacity) = match cells {
        Cells::Indices(cells) => (In::empty(), cells.input(stream)?, cells.len()),
        Cells::Coordinates(rows) => (rows.input(stream)?, In::empty(), rows.len()),
    };
    Ok(CellsArgs {
        coordinates,
        cells,
        num_cells: num.input(stream)?,
        bits: sites.bits.output(stream)?,
        ranks: sites.ranks.output(stream)?,
        counts: sites.counts.output(stream)?,
        sites: sites.sites.output(stream)?,
        input_rows: match &mut sites.input_rows {
            Some(rows) => rows.output(stream)?,
            None => Out::empty(),
        },
        grid: GridArgs::new(&sites.grid),
        capacity: capacity as u32,
        reserved: 0,
    })
}

/// A thread per row, `y` times.
fn rows(num: usize, y: u32) -> Blocks {
    Blocks { num_blocks: [blocks(num, THREADS_PER_BLOCK), y], threads_per_block: THREADS_PER_BLOCK }
}

fn argument<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Argument, "rulebook", message))
}
