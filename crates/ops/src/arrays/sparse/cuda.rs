//! Levels, tables and features from arrays in memory of any owner, and arrays of them: equal to
//! the CPU.

use super::kernels::{
    FeaturesArgs, FeaturesBf16, FeaturesF16, FeaturesF32, SiteArrays, SitesArgs, THREADS_PER_BLOCK,
    TableArgs, TableArrays, ValuesArgs, ValuesBf16, ValuesF16, ValuesF32,
};
use crate::device::cuda::{DeviceBuffer, Grid as Blocks, In, Kernel, Out, Stream, blocks};
use crate::sparse::conv::cuda::DeviceFeatures;
use crate::sparse::conv::{ByPrecision, ZERO_BYTES};
use crate::sparse::rulebook::args::GridArgs;
use crate::sparse::rulebook::cuda::{Cells, DeviceSites, DeviceTable, Workspace as Rulebooks};
use crate::sparse::rulebook::{Geometry, Mode};
use det_post_types::{Error, ErrorKind, Result};

/// Kernels of the op on one stream.
pub struct Workspace {
    stream: Stream,
    rulebooks: Rulebooks,
    features: ByPrecision<FeaturesF32, FeaturesF16, FeaturesBf16>,
    values: ByPrecision<ValuesF32, ValuesF16, ValuesBf16>,
    sites: Kernel<SiteArrays>,
    table: Kernel<TableArrays>,
    /// More rows than any array has, so that all of an array are taken.
    all_rows: DeviceBuffer<u32>,
}

impl Workspace {
    /// Loads the kernels.
    ///
    /// # Errors
    /// `Device` when this build has no such kernels.
    pub fn new(stream: &Stream) -> Result<Self> {
        let device = stream.device();
        let mut all_rows = DeviceBuffer::zeros(stream, 1)?;
        all_rows.write(&[u32::MAX])?;
        Ok(Self {
            stream: stream.clone(),
            rulebooks: Rulebooks::new(stream)?,
            features: ByPrecision::load(device)?,
            values: ByPrecision::load(device)?,
            sites: device.kernel()?,
            table: device.kernel()?,
            all_rows,
        })
    }

    /// The stream of all work.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Queues the making of the sites of an input, in place of those that the level held, from
    /// rows of scene, c0, c1, c2, each the bits of an i32. As
    /// [`sites_of_coordinates`](crate::sparse::rulebook::sites_of_coordinates);
    /// [`DeviceSites::fit_entrance`] waits for the counts.
    ///
    /// # Errors
    /// `Argument` when the level is not that of an input or the values are not whole rows, fewer
    /// than 2^32; `Device` when a buffer belongs to another stream or a launch fails.
    pub fn enqueue_input(&self, coordinates: In<'_, u32>, sites: &mut DeviceSites) -> Result<()> {
        let rows = coordinates.in_fours();
        if !coordinates.len().is_multiple_of(4) || u32::try_from(rows.len()).is_err() {
            let len = coordinates.len();
            return argument(format!("{len} numbers, rows of 4 below 2^32 rows are required"));
        }
        sites.enqueue_reset()?;
        self.rulebooks.enqueue_clear(std::slice::from_mut(sites))?;
        self.rulebooks.enqueue_input(Cells::Rows(rows), &self.all_rows, sites)
    }

    /// Queues the making of the sites of a strided or transposed output, in place of those that
    /// the level held, as [`output_sites`](crate::sparse::rulebook::output_sites);
    /// [`DeviceSites::fit_output`] waits for the counts.
    ///
    /// # Errors
    /// As [`output_sites`](crate::sparse::rulebook::output_sites); `Device` when a level belongs to
    /// another stream or a launch fails.
    pub fn enqueue_output(
        &self,
        input: &DeviceSites,
        geometry: &Geometry,
        mode: Mode,
        output: &mut DeviceSites,
    ) -> Result<()> {
        output.enqueue_reset()?;
        self.rulebooks.enqueue_output(input, geometry, mode, output)
    }

    /// Queues the filling of a table between two levels, as
    /// [`fill_table`](crate::sparse::rulebook::fill_table). For a submanifold one both are the same
    /// level.
    ///
    /// # Errors
    /// As [`fill_table`](crate::sparse::rulebook::fill_table); `Device` when a buffer belongs to
    /// another stream or the launch fails.
    pub fn enqueue_table(
        &self,
        input: &DeviceSites,
        output: &DeviceSites,
        table: &mut DeviceTable,
    ) -> Result<()> {
        self.rulebooks.enqueue_table(input, output, table)
    }

    /// Queues the writing of `num_rows` rows of features from rows of `num_channels` values: of
    /// an input's level in the order of its sites, or, without one, in the order of the values.
    ///
    /// # Errors
    /// `Argument` when there are no channels, or fewer values or less memory than the rows need;
    /// `Device` when a buffer belongs to another stream or the launch fails.
    pub fn enqueue_features(
        &self,
        (values, num_channels): (In<'_, f32>, usize),
        sites: Option<&DeviceSites>,
        num_rows: usize,
        out: &mut DeviceFeatures,
    ) -> Result<()> {
        let stream = &self.stream;
        let precision = out.precision();
        let input_rows = match sites {
            Some(sites) => sites.input_rows(stream)?,
            None => In::empty(),
        };
        let row_len = DeviceFeatures::row_len(num_channels);
        let args = FeaturesArgs {
            values,
            input_rows,
            features: out.bytes.output(stream)?,
            num_rows: in_32_bits(num_rows)?,
            num_channels: in_32_bits(num_channels)?,
            row_len: in_32_bits(row_len)?,
            reserved: 0,
        };
        // Elements have at least 2 bytes.
        let num_threads = num_rows.saturating_mul(row_len).max(ZERO_BYTES / 2);
        self.features.enqueue(precision, stream, threads(num_threads, 1), args)
    }

    /// Queues the writing of all values of `out`, rows of `num_channels`, from rows of features.
    ///
    /// # Errors
    /// `Argument` when there are no channels or fewer rows; `Device` when a buffer belongs to
    /// another stream or the launch fails.
    pub fn enqueue_values(
        &self,
        features: &DeviceFeatures,
        num_channels: usize,
        out: Out<'_, f32>,
    ) -> Result<()> {
        let stream = &self.stream;
        let args = ValuesArgs {
            features: features.bytes.input(stream)?,
            values: out,
            num_channels: in_32_bits(num_channels)?,
            row_len: in_32_bits(DeviceFeatures::row_len(num_channels))?,
        };
        self.values.enqueue(features.precision(), stream, threads(out.len(), 1), args)
    }

    /// Queues the writing of arrays of a level's first sites: `cells`, scene, c0, c1, c2 by site,
    /// and `rows`, by site the row of the input, the bits of an i64. Either may be empty.
    ///
    /// # Errors
    /// `Argument` when the capacity of the level is lower than the arrays are long, or rows are
    /// asked of a level after the first; `Device` when the level belongs to another stream or the
    /// launch fails.
    pub fn enqueue_sites(
        &self,
        sites: &DeviceSites,
        cells: Out<'_, u32>,
        rows: Out<'_, u64>,
    ) -> Result<()> {
        let stream = &self.stream;
        let num_threads = (cells.len() / 4).max(rows.len());
        let args = SitesArgs {
            sites: sites.indices(stream)?,
            input_rows: sites.input_rows(stream)?.until(sites.capacity()),
            cells,
            rows,
            grid: GridArgs::new(sites.grid()),
        };
        self.sites.enqueue(stream, threads(num_threads, 1), args)
    }

    /// Queues the writing of all values of `out`: by tap and row of the output the row of the
    /// input, the bits of an i32, -1 where there is no site.
    ///
    /// # Errors
    /// `Argument` when the values are not those of whole rows of the table; `Device` when the
    /// table belongs to another stream or the launch fails.
    pub fn enqueue_table_rows(&self, table: &DeviceTable, out: Out<'_, u32>) -> Result<()> {
        let stream = &self.stream;
        let num_taps = table.num_taps();
        let num_rows = out.len() / num_taps;
        if num_rows * num_taps != out.len() || num_rows > table.capacity() {
            let (len, capacity) = (out.len(), table.capacity());
            return argument(format!(
                "the array has {len} values; the table has {num_taps} taps of up to {capacity} rows"
            ));
        }
        let [width, _, stride] = table.layout();
        let args = TableArgs {
            words: table.words(stream)?,
            rows: out,
            num_rows: in_32_bits(num_rows)?,
            width,
            stride,
            reserved: 0,
        };
        self.table.enqueue(stream, threads(num_rows, in_32_bits(num_taps)?), args)
    }
}

/// A thread per item, `y` times.
fn threads(num: usize, y: u32) -> Blocks {
    Blocks { num_blocks: [blocks(num, THREADS_PER_BLOCK), y], threads_per_block: THREADS_PER_BLOCK }
}

fn in_32_bits(number: usize) -> Result<u32> {
    u32::try_from(number).or_else(|_| argument(format!("{number} is over 2^32")))
}

fn argument<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Argument, "sparse_arrays", message))
}
