//! The CUDA implementation of [`layer_chain`](super), in f16: a cluster of four thread blocks
//! has 16, 24 or 32 rows. Within the tolerance of docs/numerics.md of the operations on the CPU,
//! and the same from run to run.

use half::f16;

pub use super::args::{BOX_LEN, CHANNELS, COLUMNS, MAX_LOADS, MAX_STEPS};
pub use super::layers::{ChainEncoder, ChainLayer, chain_norm};

use super::args::{
    AfterArgs, CLUSTER_BLOCKS, ChainArgs, ENCODER_PARTS, LoadArgs, StepArgs, THREADS_PER_BLOCK,
    target,
};
use super::kernels::{Chain, ChainSpec};
use super::layers::argument;
use crate::device::cuda::{CudaDevice, DeviceBuffer, Grid, In, Kernel, Out, Stream};
use crate::error::Result;
use crate::ops::layer_norm::EPSILON;
use crate::ops::linear::cuda::DeviceRows;

/// A list of steps over rows.
pub struct Steps<'a> {
    stream: &'a Stream,
    args: ChainArgs<'a>,
    /// What the next step begins to read.
    load: u32,
}

impl<'a> Steps<'a> {
    /// No steps yet, over `num_rows` rows.
    pub fn new(stream: &'a Stream, num_rows: usize) -> Self {
        let args = ChainArgs {
            steps: [StepArgs::empty(); MAX_STEPS],
            loads: [LoadArgs::empty(); MAX_LOADS],
            anchors: In::empty(),
            interval: In::empty(),
            encoder: In::empty(),
            encoder_ends: [0; ENCODER_PARTS],
            num_steps: 0,
            num_loads: 0,
            num_rows: num_rows as u32,
            first_divided: 0,
            epsilon: EPSILON,
            reserved: 0,
        };
        Self { stream, args, load: 0 }
    }

    /// Reads the first `num_rows` rows of 256 or 512 channels to the columns from `column` on when
    /// the chain begins; the others are zeros.
    ///
    /// # Errors
    /// `Argument` when there are too many inputs; `Device` when the rows belong to another stream.
    pub fn load(&mut self, rows: &'a DeviceRows<f16>, column: u32, num_rows: usize) -> Result<()> {
        let load = self.load_args(rows, column, num_rows)?;
        let index = self.args.num_loads as usize;
        // The last place is that of rows that are read later.
        if index + 1 >= MAX_LOADS {
            return argument(format!("more than {} inputs", MAX_LOADS - 1));
        }
        self.args.loads[index] = load;
        self.args.num_loads += 1;
        Ok(())
    }

    /// Begins to read the first `num_rows` rows, as [`Self::load`], with the next step, which has to
    /// be one of [`Self::share`]: at most once in a chain. Steps may read them after the first one
    /// from there on that normalizes, keeps or adds.
    ///
    /// # Errors
    /// `Device` when the rows belong to another stream.
    pub fn load_later(
        &mut self,
        rows: &'a DeviceRows<f16>,
        column: u32,
        num_rows: usize,
    ) -> Result<()> {
        self.args.loads[MAX_LOADS - 1] = self.load_args(rows, column, num_rows)?;
        self.load = MAX_LOADS as u32;
        Ok(())
    }

    fn load_args(
        &self,
        rows: &'a DeviceRows<f16>,
        column: u32,
        num_rows: usize,
    ) -> Result<LoadArgs<'a>> {
        Ok(LoadArgs {
            rows: rows.input(self.stream)?,
            stride: rows.stride(),
            column,
            num_rows: num_rows as u32,
            log_len: rows.stride().max(1).ilog2(),
        })
    }

    /// The anchors that are refined or encoded, and the interval that divides deltas from
    /// `first_divided` on.
    pub fn anchors(&mut self, anchors: In<'a, f32>, interval: In<'a, f32>, first_divided: u32) {
        self.args.anchors = anchors;
        self.args.interval = interval;
        self.args.first_divided = first_divided;
    }

    fn push(&mut self, step: StepArgs<'a>) -> Result<&mut StepArgs<'a>> {
        let index = self.args.num_steps as usize;
        let Some(place) = self.args.steps.get_mut(index) else {
            return argument(format!("more than {MAX_STEPS} steps"));
        };
        self.args.num_steps += 1;
        *place = StepArgs { load: std::mem::take(&mut self.load), ..step };
        Ok(place)
    }

    fn layer(&self, layer: &'a ChainLayer, input: u32, target: u32) -> Result<StepArgs<'a>> {
        Ok(StepArgs {
            weights: layer.weights.input(self.stream)?,
            bias: layer.bias.input(self.stream)?,
            input,
            num_inputs: layer.num_inputs,
            num_tiles: layer.num_tiles,
            target,
            has_relu: u32::from(layer.has_relu),
            ..StepArgs::empty()
        })
    }

    /// A layer over the columns from `input` on to those from `output` on, with its normalization.
    ///
    /// # Errors
    /// `Argument` when there are too many steps; `Device` when something belongs to another stream.
    pub fn share(
        &mut self,
        layer: &'a ChainLayer,
        input: u32,
        output: u32,
    ) -> Result<After<'_, 'a>> {
        let mut step = StepArgs { output, ..self.layer(layer, input, target::ALL)? };
        step.after.column = output;
        if let Some(norm) = &layer.norm {
            step.after.norm = norm.input(self.stream)?;
        }
        let stream = self.stream;
        Ok(After { stream, args: &mut self.push(step)?.after })
    }

    /// A layer to the first `num_rows` rows.
    ///
    /// # Errors
    /// As [`Self::share`].
    pub fn rows(
        &mut self,
        layer: &'a ChainLayer,
        input: u32,
        to: &'a mut DeviceRows<f16>,
        num_rows: usize,
    ) -> Result<()> {
        let stride = to.stride();
        let step = StepArgs {
            stride,
            num_values: stride,
            num_rows: num_rows as u32,
            rows: to.output(self.stream)?,
            ..self.layer(layer, input, target::ROWS)?
        };
        self.push(step).map(|_| ())
    }

    /// A layer of the first `num_rows` rows to a row per output, `stride` values from one to the
    /// next. Values of the rows after them in the same cluster are written as well, within `stride`.
    ///
    /// # Errors
    /// As [`Self::share`].
    pub fn columns(
        &mut self,
        layer: &'a ChainLayer,
        input: u32,
        (to, stride): (Out<'a, f16>, usize),
        num_rows: usize,
    ) -> Result<()> {
        let step = StepArgs {
            stride: stride as u32,
            num_rows: num_rows as u32,
            rows: to,
            ..self.layer(layer, input, target::COLUMNS)?
        };
        self.push(step).map(|_| ())
    }

    /// A layer to rows of `num_values` values in f32.
    ///
    /// # Errors
    /// As [`Self::share`].
    pub fn values(
        &mut self,
        layer: &'a ChainLayer,
        input: u32,
        (to, num_values): (Out<'a, f32>, usize),
    ) -> Result<()> {
        let step = StepArgs {
            stride: num_values as u32,
            num_values: num_values as u32,
            num_rows: self.args.num_rows,
            values: to,
            ..self.layer(layer, input, target::VALUES)?
        };
        self.push(step).map(|_| ())
    }

    /// A layer, packed by [`ChainLayer::repeated`], whose outputs are added to the anchors.
    ///
    /// # Errors
    /// As [`Self::share`].
    pub fn refine(&mut self, layer: &'a ChainLayer, input: u32, to: Out<'a, f32>) -> Result<()> {
        let step = StepArgs {
            stride: BOX_LEN,
            num_values: BOX_LEN,
            num_rows: self.args.num_rows,
            values: to,
            ..self.layer(layer, input, target::ANCHORS)?
        };
        self.push(step).map(|_| ())
    }

    /// Encodes the anchors to the columns from the last of `columns` on; the results of the first
    /// three layers take the columns from the others on. `to` gets the rows as well.
    ///
    /// # Errors
    /// As [`Self::share`].
    pub fn encode(
        &mut self,
        encoder: &'a ChainEncoder,
        columns: [u32; 4],
        to: &'a mut DeviceRows<f16>,
    ) -> Result<()> {
        self.args.encoder = encoder.first.input(self.stream)?;
        self.args.encoder_ends = encoder.ends;
        let mut first = StepArgs::empty();
        first.after.column = columns[0];
        first.after.norm_parts = 0;
        first.after.norm = encoder.norm.input(self.stream)?;
        self.push(first)?;
        let num_rows = self.args.num_rows as usize;
        let mut to = Some(to);
        for (index, layer) in encoder.layers.iter().enumerate() {
            let mut after = self.share(layer, columns[index], columns[index + 1])?;
            after.args.norm_parts = 0;
            if index + 1 == encoder.layers.len()
                && let Some(to) = to.take()
            {
                after.keep(to, num_rows)?;
            }
        }
        Ok(())
    }
}

/// What follows the results of a step.
pub struct After<'s, 'a> {
    stream: &'a Stream,
    args: &'s mut AfterArgs<'a>,
}

impl<'a> After<'_, 'a> {
    /// Normalizes 512 columns, of which the results are the first 256.
    ///
    /// # Errors
    /// `Device` when something belongs to another stream.
    pub fn normalize_wide(&mut self, norm: &'a DeviceBuffer<f32>) -> Result<()> {
        self.args.norm = norm.input(self.stream)?;
        self.args.norm_parts = 2;
        Ok(())
    }

    /// Stores the rows.
    ///
    /// # Errors
    /// As [`Self::normalize_wide`].
    pub fn keep(&mut self, to: &'a mut DeviceRows<f16>, num_rows: usize) -> Result<()> {
        self.args.stride = to.stride();
        self.args.num_rows = num_rows as u32;
        self.args.rows = to.output(self.stream)?;
        Ok(())
    }

    /// Stores the sum with the columns from `addend` on in those from `sum` on.
    pub fn add(&mut self, addend: u32, sum: u32) {
        self.args.addend = addend;
        self.args.sum = sum;
    }
}

/// The loaded kernel for a number of rows.
pub enum LayerChain {
    /// 16 rows per cluster.
    Rows16(Kernel<Chain<16>>),
    /// 24 rows.
    Rows24(Kernel<Chain<24>>),
    /// 32 rows.
    Rows32(Kernel<Chain<32>>),
}

impl LayerChain {
    /// Loads the kernel with the fewest rows per cluster whose clusters run at the same time, else
    /// that with the most; `None` when the GPU has no such kernels or too little shared memory.
    ///
    /// # Errors
    /// `Device` when this build has no kernels.
    pub fn load(device: &CudaDevice, num_rows: usize) -> Result<Option<Self>> {
        if let Some((kernel, true)) = find::<Chain<16>>(device, num_rows)? {
            return Ok(Some(Self::Rows16(kernel)));
        }
        if let Some((kernel, true)) = find::<Chain<24>>(device, num_rows)? {
            return Ok(Some(Self::Rows24(kernel)));
        }
        Ok(find::<Chain<32>>(device, num_rows)?.map(|(kernel, _)| Self::Rows32(kernel)))
    }

    /// Queues a chain after another kernel; it may begin while that one ends.
    ///
    /// # Errors
    /// `Argument` when the steps do not fit the rows or each other; `Device` when the launch fails.
    pub fn enqueue(&self, steps: &Steps<'_>) -> Result<()> {
        match self {
            Self::Rows16(kernel) => enqueue(kernel, steps),
            Self::Rows24(kernel) => enqueue(kernel, steps),
            Self::Rows32(kernel) => enqueue(kernel, steps),
        }
    }
}

/// The kernel where the GPU has it, and whether all its clusters run at the same time.
fn find<K: ChainSpec>(device: &CudaDevice, num_rows: usize) -> Result<Option<(Kernel<K>, bool)>> {
    let kernel: Option<Kernel<K>> = device.kernel_if_present()?;
    Ok(kernel.and_then(|kernel| {
        let num_resident = kernel.reserve_shared(K::SHARED_BYTES, THREADS_PER_BLOCK).ok()?;
        let num_blocks = num_rows.div_ceil(K::CLUSTER_ROWS as usize) * CLUSTER_BLOCKS as usize;
        // The blocks of a cluster are in one part of the GPU, whose multiprocessors are not always
        // a multiple of four: a tenth of them have no cluster.
        Some((kernel, 10 * num_blocks <= 9 * num_resident as usize))
    }))
}

fn enqueue<K: ChainSpec>(kernel: &Kernel<K>, steps: &Steps<'_>) -> Result<()> {
    let num_blocks = [steps.args.num_rows.div_ceil(K::CLUSTER_ROWS) * CLUSTER_BLOCKS, 1];
    let grid = Grid { num_blocks, threads_per_block: THREADS_PER_BLOCK };
    kernel.enqueue_overlapping(steps.stream, grid, steps.args)
}
