//! Sparse operations in the memory of a GPU. All work of a workspace is on one stream, so that
//! memory of a closed object serves the next one without a wait.

use std::sync::{Arc, Mutex, PoisonError};

use det_post::{Error, ErrorKind, Result};
use det_post_ops::arrays::sparse::cuda::Workspace as Arrays;
use det_post_ops::device::cuda::{DeviceBuffer, DeviceTensor, DeviceValues, Out, Stream};
use det_post_ops::sparse::conv::cuda::{Convolution, DeviceFeatures};
use det_post_ops::sparse::conv::{ConvParameters, Precision};
use det_post_ops::sparse::max_pool::cuda::Workspace as Pool;
use det_post_ops::sparse::rulebook::cuda::{DeviceSites, DeviceTable};
use det_post_ops::sparse::rulebook::{EntranceCounts, Geometry, Mode, SiteGrid};
use det_post_ops::sparse::to_map::cuda::Workspace as Maps;

use super::call::{Call, In as Values};
use super::gpu::{in_order, values_of};
use super::sites::SiteRows;

/// The kernels of a workspace and the memory of its objects.
pub(super) struct SparseGpu {
    stream: Stream,
    arrays: Arrays,
    pool: Pool,
    maps: Maps,
    blocks: Arc<Blocks>,
}

/// Memory that no object uses now. It is freed with the stream.
struct Blocks {
    stream: Stream,
    free: Mutex<Vec<DeviceBuffer<u8>>>,
}

/// Memory of an object, which serves others after it.
pub(super) struct Block {
    memory: Option<DeviceBuffer<u8>>,
    address: u64,
    blocks: Arc<Blocks>,
}

impl Blocks {
    /// Memory for so many bytes, of a size that is a power of two.
    fn take(self: &Arc<Self>, num_bytes: usize) -> Result<Block> {
        let size = num_bytes.max(1024).checked_next_power_of_two().unwrap_or(num_bytes);
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let memory = match free.iter().position(|of| of.len() == size) {
            Some(at) => free.swap_remove(at),
            None => DeviceBuffer::zeros(&self.stream, size)?,
        };
        drop(free);
        let address = memory.address();
        Ok(Block { memory: Some(memory), address, blocks: Arc::clone(self) })
    }
}

impl Block {
    /// All of the memory, to be split.
    fn memory(&self) -> Result<DeviceBuffer<u8>> {
        let ended = || Error::new(ErrorKind::Device, "sparse", "memory that was given back");
        self.memory.as_ref().ok_or_else(ended)?.on(&self.blocks.stream)
    }

    /// Its address on the GPU.
    pub(super) fn address(&self) -> u64 {
        self.address
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let mut free = self.blocks.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.extend(self.memory.take());
    }
}

/// Sites on a GPU.
pub(super) struct GpuSites {
    sites: DeviceSites,
    /// The address of the cells.
    pub(super) coordinates: u64,
    /// The address of the rows of the coordinates.
    pub(super) rows: u64,
    _memory: [Block; 2],
}

impl GpuSites {
    pub(super) fn len(&self) -> usize {
        self.sites.capacity()
    }

    pub(super) fn grid(&self) -> &SiteGrid {
        self.sites.grid()
    }
}

/// Pairs on a GPU.
pub(super) struct GpuTable {
    table: DeviceTable,
    _memory: Block,
}

/// Rows of features as kernels read and write them.
struct Rows {
    features: DeviceFeatures,
    _memory: Block,
}

/// Rows of the caller.
#[derive(Clone, Copy)]
pub(super) struct RowsOf {
    pub(super) values: Values<f32>,
    /// Rows of the array.
    pub(super) num_rows: usize,
    pub(super) num_channels: usize,
    /// Whether they have the order of the coordinates that the sites were made of.
    pub(super) is_by_coordinates: bool,
}

/// A convolution of a layer.
#[derive(Clone, Copy)]
pub(super) struct Layer<'a> {
    pub(super) weights: &'a Convolution,
    pub(super) precision: Precision,
    pub(super) num_outputs: usize,
    pub(super) relu: bool,
    /// `[output sites, num_outputs]`.
    pub(super) residual: Option<Values<f32>>,
}

impl SparseGpu {
    /// Loads the kernels.
    pub(super) fn new(stream: &Stream) -> Result<Self> {
        let blocks = Blocks { stream: stream.clone(), free: Mutex::default() };
        Ok(Self {
            stream: stream.clone(),
            arrays: Arrays::new(stream)?,
            pool: Pool::new(stream)?,
            maps: Maps::new(stream)?,
            blocks: Arc::new(blocks),
        })
    }

    /// Packs weights, in memory that is freed with them.
    pub(super) fn weights(
        &self,
        parameters: &ConvParameters<'_>,
        precision: Precision,
    ) -> Result<Convolution> {
        Convolution::new(&self.stream.with_own_memory(), parameters, precision)
    }

    /// The sites of rows of coordinates.
    pub(super) fn sites(
        &self,
        call: &Call,
        caller: u64,
        rows: &SiteRows,
        (grid, capacity): (SiteGrid, usize),
    ) -> Result<(GpuSites, EntranceCounts)> {
        in_order(&self.stream, caller, || {
            let len = rows.num_rows.saturating_mul(4);
            let coordinates = values_of(call, &self.stream, rows.coordinates.bits(), len)?;
            let (memory, mut sites) = self.level(grid, capacity, true)?;
            self.arrays.enqueue_input(coordinates, &mut sites)?;
            let counts = sites.fit_entrance()?;
            Ok((self.with_arrays(memory, sites, true)?, counts))
        })
    }

    /// The sites of a strided or transposed output, and how many are over the limit.
    pub(super) fn reached(
        &self,
        caller: u64,
        input: &GpuSites,
        (geometry, mode): (&Geometry, Mode),
        (grid, capacity): (SiteGrid, usize),
    ) -> Result<(GpuSites, usize)> {
        in_order(&self.stream, caller, || {
            let (memory, mut sites) = self.level(grid, capacity, false)?;
            self.arrays.enqueue_output(&input.sites, geometry, mode, &mut sites)?;
            let counts = sites.fit_output()?;
            Ok((self.with_arrays(memory, sites, false)?, counts.num_over_capacity))
        })
    }

    fn level(
        &self,
        grid: SiteGrid,
        capacity: usize,
        is_input: bool,
    ) -> Result<(Block, DeviceSites)> {
        let memory = self.blocks.take(DeviceSites::num_bytes_for(&grid, capacity, is_input))?;
        let sites = DeviceSites::in_memory(memory.memory()?, grid, capacity, is_input)?;
        Ok((memory, sites))
    }

    /// Queues the writing of the arrays of sites.
    fn with_arrays(&self, memory: Block, sites: DeviceSites, is_input: bool) -> Result<GpuSites> {
        let lens = [4 * sites.capacity(), if is_input { sites.capacity() } else { 0 }];
        let num_bytes =
            Out::<u32>::num_carved_bytes(lens[0]) + Out::<u64>::num_carved_bytes(lens[1]);
        let block = self.blocks.take(num_bytes)?;
        let mut left = block.memory()?;
        let mut coordinates = left.carve::<u32>(lens[0])?;
        let mut rows = left.carve::<u64>(lens[1])?;
        let stream = &self.stream;
        self.arrays.enqueue_sites(&sites, coordinates.output(stream)?, rows.output(stream)?)?;
        let (coordinates, rows) = (coordinates.address(), rows.address());
        Ok(GpuSites { sites, coordinates, rows, _memory: [memory, block] })
    }

    /// The pairs between two levels.
    pub(super) fn table(
        &self,
        caller: u64,
        [input, output]: [&GpuSites; 2],
        geometry: &Geometry,
        mode: Mode,
    ) -> Result<GpuTable> {
        in_order(&self.stream, caller, || {
            let num_words = DeviceTable::num_words_for(geometry, mode, output.len());
            let memory = self.blocks.take(Out::<u32>::num_carved_bytes(num_words))?;
            let words = memory.memory()?.carve(num_words)?;
            let lens = [input.len(), output.len()];
            let mut table = DeviceTable::in_memory(words, geometry, mode, lens)?;
            self.arrays.enqueue_table(&input.sites, &output.sites, &mut table)?;
            Ok(GpuTable { table, _memory: memory })
        })
    }

    /// By tap and row of the output the row of the input, on the GPU and, after a wait, on the host.
    pub(super) fn pairs(
        &self,
        caller: u64,
        pairs: &GpuTable,
        num_rows: usize,
    ) -> Result<(Block, Vec<u32>)> {
        in_order(&self.stream, caller, || {
            let len = pairs.table.num_taps().saturating_mul(num_rows);
            let block = self.blocks.take(Out::<u32>::num_carved_bytes(len))?;
            let mut rows = block.memory()?.carve::<u32>(len)?;
            self.arrays.enqueue_table_rows(&pairs.table, rows.output(&self.stream)?)?;
            let on_host = rows.read()?;
            Ok((block, on_host))
        })
    }

    /// Rows in memory of this workspace.
    fn rows(&self, num_rows: usize, num_channels: usize, precision: Precision) -> Result<Rows> {
        let num_bytes = DeviceFeatures::num_bytes_for(num_rows, num_channels, precision);
        let memory = self.blocks.take(num_bytes)?;
        let features = DeviceFeatures::in_memory(memory.memory()?, precision)?;
        Ok(Rows { features, _memory: memory })
    }

    /// Queues the writing of rows of the caller in the order of the sites.
    fn rows_of(
        &self,
        call: &Call,
        of: RowsOf,
        sites: &GpuSites,
        precision: Precision,
    ) -> Result<Rows> {
        let RowsOf { values, num_rows, num_channels, is_by_coordinates } = of;
        let len = num_rows.saturating_mul(num_channels);
        let values = values_of(call, &self.stream, values, len)?;
        let mut rows = self.rows(sites.len(), num_channels, precision)?;
        let order = is_by_coordinates.then_some(&sites.sites);
        let of = (values, num_channels);
        self.arrays.enqueue_features(of, order, sites.len(), &mut rows.features)?;
        Ok(rows)
    }

    /// Queues the writing of all rows as an array of f32.
    fn array_of(&self, rows: &Rows, num_rows: usize, num_channels: usize) -> Result<Block> {
        let len = num_rows.saturating_mul(num_channels);
        let block = self.blocks.take(Out::<f32>::num_carved_bytes(len))?;
        let mut values = block.memory()?.carve::<f32>(len)?;
        let out = values.output(&self.stream)?;
        self.arrays.enqueue_values(&rows.features, num_channels, out)?;
        Ok(block)
    }

    /// The output of a convolution, `[output sites, num_outputs]`.
    pub(super) fn convolve(
        &self,
        call: &Call,
        caller: u64,
        (input, rows): (&GpuSites, RowsOf),
        (table, output): (&GpuTable, &GpuSites),
        layer: Layer<'_>,
    ) -> Result<Block> {
        let Layer { weights, precision, num_outputs, relu, residual } = layer;
        in_order(&self.stream, caller, || {
            let from = self.rows_of(call, rows, input, precision)?;
            let added = residual.map(|values| {
                let num_rows = output.len();
                let of = RowsOf {
                    values,
                    num_rows,
                    num_channels: num_outputs,
                    is_by_coordinates: false,
                };
                self.rows_of(call, of, output, precision)
            });
            let added = added.transpose()?;
            let mut to = self.rows(output.len(), num_outputs, precision)?;
            if output.len() > 0 {
                let added = added.as_ref().map(|rows| &rows.features);
                let levels = (&table.table, &output.sites);
                weights.enqueue(&from.features, levels, added, relu, &mut to.features)?;
            }
            self.array_of(&to, output.len(), num_outputs)
        })
    }

    /// The pooled features of the output's sites.
    pub(super) fn pooled(
        &self,
        call: &Call,
        caller: u64,
        (input, rows): (&GpuSites, RowsOf),
        (table, output): (&GpuTable, &GpuSites),
    ) -> Result<Block> {
        let num_channels = rows.num_channels;
        in_order(&self.stream, caller, || {
            let from = self.rows_of(call, rows, input, Precision::F32)?;
            let mut to = self.rows(output.len(), num_channels, Precision::F32)?;
            let levels = (&table.table, &output.sites);
            self.pool.enqueue(&from.features, num_channels, levels, &mut to.features)?;
            self.array_of(&to, output.len(), num_channels)
        })
    }

    /// The features of sites as a map of a shape.
    pub(super) fn map(
        &self,
        call: &Call,
        caller: u64,
        (sites, rows): (&GpuSites, RowsOf),
        axes: [usize; 3],
        shape: [usize; 4],
    ) -> Result<Block> {
        in_order(&self.stream, caller, || {
            let from = self.rows_of(call, rows, sites, Precision::F32)?;
            let len = shape.iter().fold(1_usize, |len, &size| len.saturating_mul(size));
            let block = self.blocks.take(Out::<f32>::num_carved_bytes(len))?;
            let values = DeviceValues::F32(block.memory()?.carve(len)?);
            let mut map = DeviceTensor::of(&shape, values)?;
            let num_channels = rows.num_channels;
            self.maps.enqueue(&from.features, &sites.sites, axes, num_channels, &mut map)?;
            Ok(block)
        })
    }
}
