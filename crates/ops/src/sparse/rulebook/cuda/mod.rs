//! The CUDA implementation of [`rulebook`](super): the same sites, ranks, tables and
//! counts.
//!
//! Numbers of sites stay on the device, so that all steps of a frame can be recorded
//! as one graph: [`Workspace::enqueue_clear`] for all levels, then level by level its
//! sites, then the tables.

mod sites;
mod table;

use std::marker::PhantomData;
use std::ops::Deref;

pub use sites::{DeviceSites, PublishedCounts};
pub use table::DeviceTable;

use super::args::{GeometryArgs, GridArgs};
use super::kernels::{
    CellsArgs, Clear, ClearArgs, CountInput, CountOutput, INPUT_WORDS, LevelArgs, MAX_LEVELS,
    MarkCells, MarkMerged, MarkOutputs, MergedArgs, OUTPUT_WORDS, OutputsArgs, Place,
    RANK_THREADS_PER_BLOCK, RankArgs, RankInput, RankOutput, THREADS_PER_BLOCK, TableArgs,
    TapWords, Triples,
};
use super::{Geometry, Mode, Scaled, Table, check_grids, check_merge};
use crate::device::cuda::{
    DeviceBuffer, Grid as Blocks, In, Kernel, KernelSpec, Out, Stream, blocks,
};
use det_post_types::{Error, ErrorKind, Result};

/// The cells of the voxels of a network's input.
#[derive(Clone, Copy, Debug)]
pub enum Cells<'a> {
    /// Linear indices on the grid.
    Indices(&'a DeviceBuffer<u32>),
    /// Rows of (batch, c0, c1, c2), each the bits of an i32.
    Coordinates(&'a DeviceBuffer<[u32; 4]>),
    /// The same in memory of any owner.
    Rows(In<'a, [u32; 4]>),
}

/// A level or a table for the work of another stream, only read: while this lives, the original
/// stays as it is.
#[derive(Debug)]
pub struct OnStream<'a, T> {
    of: T,
    original: PhantomData<&'a T>,
}

impl<T> OnStream<'_, T> {
    fn new(of: T) -> Self {
        Self { of, original: PhantomData }
    }
}

impl<T> Deref for OnStream<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.of
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
    mark_merged: Kernel<MarkMerged>,
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
            mark_merged: device.kernel()?,
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
            return argument("only the first level has the input's sites".into());
        }
        let num_rows = match cells {
            Cells::Indices(cells) => cells.len(),
            Cells::Coordinates(rows) => rows.len(),
            Cells::Rows(rows) => rows.len(),
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
            return argument(format!("{mode:?} has no separate sites"));
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

    /// Queues the making of the sites of a plane, whose bitmap is clear, as
    /// [`super::merged_sites`].
    ///
    /// # Errors
    /// As [`super::merged_sites`]; `Device` when a level belongs to another stream or a launch
    /// fails.
    pub fn enqueue_merged(
        &self,
        sources: &[Scaled<&DeviceSites>],
        output: &mut DeviceSites,
    ) -> Result<()> {
        let stream = &self.stream;
        for &Scaled { level, scale } in sources {
            check_merge(&level.grid, scale, &output.grid)?;
            let args = MergedArgs {
                sites: level.sites.input(stream)?,
                counts: level.counts.input(stream)?,
                output_bits: output.bits.output(stream)?,
                input_grid: GridArgs::new(&level.grid),
                output_grid: GridArgs::new(&output.grid),
                capacity: level.capacity as u32,
                scale,
            };
            self.mark_merged.enqueue(stream, rows(level.capacity, 1), args)?;
        }
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
            sites: output.sites.input(stream)?.until(output.capacity),
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
        Cells::Rows(rows) => (rows, In::empty(), rows.len()),
    };
    Ok(CellsArgs {
        coordinates,
        cells,
        num_cells: num.input(stream)?,
        bits: sites.bits.output(stream)?,
        ranks: sites.ranks.output(stream)?,
        counts: sites.counts.output(stream)?,
        sites: sites.sites.output(stream)?.split_at(sites.capacity)[0],
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
