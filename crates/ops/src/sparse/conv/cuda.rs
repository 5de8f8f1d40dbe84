//! The CUDA implementation of [`sparse_conv`](super): equal to the CPU bit for bit in
//! f32, within the tolerance of docs/numerics.md in other precisions, and the same from
//! run to run in all.

pub use super::features::DeviceFeatures;

use super::by_precision::ByPrecision;
use super::features::{element_bytes, num_parts};
use super::kernels::{
    AddArgs, AddBf16, AddF16, AddF32, ConvArgs, ConvKernel, FEATURE_THREADS_PER_BLOCK, InputArgs,
    InputBf16, InputF16, InputF32, ZERO_BYTES,
};
use super::pack::{pack, row_len};
use super::shape::{Method, Shape, WARPGROUP_STEP_BYTES};
use super::{ConvParameters, Precision};
use crate::device::cuda::{DeviceBuffer, Grid as Blocks, In, Stream, blocks};
use crate::sparse::rulebook::cuda::{DeviceSites, DeviceTable};
use det_post_types::{Error, ErrorKind, Result};

/// A convolution with its weights in device memory and the kernel that suits its shape.
pub struct Convolution {
    stream: Stream,
    kernel: ConvKernel,
    shape: Shape,
    precision: Precision,
    weights: DeviceBuffer<u8>,
    bias: DeviceBuffer<f32>,
    num_taps: usize,
    /// Channels of the features, parts counted.
    num_inputs: usize,
    num_outputs: usize,
    num_chunks: u32,
    max_rows: u32,
    num_blocks: [u32; 2],
}

impl Convolution {
    /// Packs the parameters of a convolution for products of a precision.
    ///
    /// # Errors
    /// `Device` when this build has no such kernels, the GPU has too little shared memory
    /// for the channels, or there is not enough memory; `Argument` when the input has more
    /// channels than a row may.
    pub fn new(
        stream: &Stream,
        parameters: &ConvParameters<'_>,
        precision: Precision,
    ) -> Result<Self> {
        Self::with_parts(stream, parameters, precision, 1)
    }

    /// Packs the parameters of a network's first convolution, whose features
    /// [`Workspace::enqueue_input`] writes.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn of_input(
        stream: &Stream,
        parameters: &ConvParameters<'_>,
        precision: Precision,
    ) -> Result<Self> {
        // TF32 would lose what f16 does.
        let products = if precision == Precision::Tf32 { Precision::F32 } else { precision };
        Self::with_parts(stream, parameters, products, num_parts(precision))
    }

    fn with_parts(
        stream: &Stream,
        parameters: &ConvParameters<'_>,
        precision: Precision,
        parts: usize,
    ) -> Result<Self> {
        precision.check_weights("sparse_conv", parameters.weights().iter().copied())?;
        let num_inputs = parameters.num_inputs() * parts;
        let num_outputs = parameters.num_outputs();
        let row_bytes = row_len(num_inputs) * element_bytes(precision);
        if row_bytes > ZERO_BYTES {
            return argument(format!("rows of {row_bytes} bytes exceed the limit of {ZERO_BYTES}"));
        }
        let num_taps = parameters.num_taps();
        let suffix = match precision {
            Precision::F32 => "_f32",
            Precision::Tf32 => "_tf32",
            Precision::F16 => "_f16",
            Precision::Bf16 => "_bf16",
        };
        let (kernel, shape) =
            kernel_of(stream, suffix, precision, num_taps, num_inputs, num_outputs)?;
        let num_chunks = num_chunks(shape, row_bytes);
        let max_rows = shape.max_rows(stream.device().shared_bytes_per_block()?);
        let shared_bytes = shape.shared_bytes_for(num_taps as u32, num_chunks, max_rows);
        let num_resident = kernel.reserve(shared_bytes, shape.threads_per_block())?;
        let padded = row_len(num_outputs);
        let num_columns = padded as u32 / shape.channels;
        let packed = pack(parameters, precision, shape, parts, num_chunks);
        let mut weights = DeviceBuffer::zeros(stream, packed.len())?;
        weights.write(&packed)?;
        let mut bias = DeviceBuffer::zeros(stream, padded)?;
        bias.write(parameters.bias().unwrap_or_default())?;
        Ok(Self {
            stream: stream.clone(),
            kernel,
            shape,
            precision,
            weights,
            bias,
            num_taps,
            num_inputs,
            num_outputs,
            num_chunks,
            max_rows,
            num_blocks: [(num_resident / num_columns).max(1), num_columns],
        })
    }

    /// Bytes of device memory.
    pub fn num_bytes(&self) -> usize {
        self.weights.len() + size_of::<f32>() * self.bias.len()
    }

    /// Queues the writing of the rows of `out`, which are of the level of `sites`, from
    /// `features`, whose rows are those of the level that the table reads.
    ///
    /// # Errors
    /// `Argument` when table, features and output do not fit the parameters or are stored
    /// otherwise; `Device` when a buffer belongs to another stream or the launch fails.
    pub fn enqueue(
        &self,
        features: &DeviceFeatures,
        (table, sites): (&DeviceTable, &DeviceSites),
        residual: Option<&DeviceFeatures>,
        relu: bool,
        out: &mut DeviceFeatures,
    ) -> Result<()> {
        let stored = element_bytes(self.precision);
        let is_stored_so = |features: &DeviceFeatures| {
            element_bytes(features.precision) == stored
                && (stored == 4 || features.precision == self.precision)
        };
        let fits = table.num_taps() == self.num_taps
            && table.capacity() >= sites.capacity()
            && is_stored_so(features)
            && is_stored_so(out)
            && residual.is_none_or(is_stored_so);
        if !fits {
            return argument(format!(
                "a table of {} taps from {} to {} rows and features of {} bytes in {:?} and {:?}; \
                 {} taps, {} rows and {:?} are required",
                table.num_taps(),
                table.input_capacity(),
                table.capacity(),
                features.num_bytes(),
                features.precision,
                out.precision,
                self.num_taps,
                sites.capacity(),
                self.precision
            ));
        }
        let stream = &self.stream;
        let [width, num_groups, stride] = table.layout();
        let args = ConvArgs {
            features: features.bytes.input(stream)?,
            weights: self.weights.input(stream)?,
            bias: self.bias.input(stream)?,
            residual: residual.map_or_else(|| Ok(In::empty()), |rows| rows.bytes.input(stream))?,
            words: table.words(stream)?,
            counts: sites.counts(stream)?,
            output: out.bytes.output(stream)?,
            num_groups,
            width,
            stride,
            num_inputs: self.num_inputs as u32,
            row_bytes: (row_len(self.num_inputs) * stored) as u32,
            num_outputs: row_len(self.num_outputs) as u32,
            num_chunks: self.num_chunks,
            has_relu: u32::from(relu),
            capacity: sites.capacity() as u32,
            num_input_rows: table.input_capacity() as u32,
            opaque_zero: 0,
            max_rows: self.max_rows,
        };
        let threads_per_block = self.shape.threads_per_block();
        let grid = Blocks { num_blocks: self.num_blocks, threads_per_block };
        self.kernel.enqueue(stream, grid, args)
    }
}

/// Kernels of the op that need no weights, on one stream.
pub struct Workspace {
    stream: Stream,
    input: ByPrecision<InputF32, InputF16, InputBf16>,
    add: ByPrecision<AddF32, AddF16, AddBf16>,
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
            input: ByPrecision::load(device)?,
            add: ByPrecision::load(device)?,
        })
    }

    /// Queues the writing of the input's rows in the order of the sites, from rows of
    /// `num_channels` in the order of the cells that the sites were made from. `out` has
    /// rows of [`DeviceFeatures::input_row_len`].
    ///
    /// # Errors
    /// `Argument` when `out` is too small; `Device` when a buffer belongs to another stream
    /// or the launch fails.
    pub fn enqueue_input(
        &self,
        features: &DeviceBuffer<f32>,
        num_channels: usize,
        sites: &DeviceSites,
        out: &mut DeviceFeatures,
    ) -> Result<()> {
        let stream = &self.stream;
        let precision = out.precision;
        let row_len = DeviceFeatures::input_row_len(num_channels, precision);
        let args = InputArgs {
            features: features.input(stream)?,
            input_rows: sites.input_rows(stream)?,
            counts: sites.counts(stream)?,
            output: out.bytes.output(stream)?,
            num_channels: num_channels as u32,
            row_len: row_len as u32,
        };
        let grid = values(sites.capacity() * row_len);
        self.input.enqueue(precision, stream, grid, args)
    }

    /// Queues the sum of two sets of rows of `num_channels`, or a copy of one, and a ReLU
    /// if asked for.
    ///
    /// # Errors
    /// `Argument` when they are not stored alike or too small; `Device` when a buffer
    /// belongs to another stream or the launch fails.
    pub fn enqueue_add(
        &self,
        (a, b): (&DeviceFeatures, Option<&DeviceFeatures>),
        num_channels: usize,
        sites: &DeviceSites,
        relu: bool,
        out: &mut DeviceFeatures,
    ) -> Result<()> {
        let precision = out.precision;
        let fits = |features: &DeviceFeatures| {
            features.precision == precision
                && features.holds(sites.capacity(), row_len(num_channels))
        };
        if !fits(a) || !b.is_none_or(fits) || !fits(out) {
            return argument(format!(
                "features of {:?} do not fit sums of {precision:?}",
                a.precision
            ));
        }
        let stream = &self.stream;
        let args = AddArgs {
            a: a.bytes.input(stream)?,
            b: b.map_or_else(|| Ok(In::empty()), |b| b.bytes.input(stream))?,
            counts: sites.counts(stream)?,
            output: out.bytes.output(stream)?,
            row_len: row_len(num_channels) as u32,
            has_relu: u32::from(relu),
            capacity: sites.capacity() as u32,
            reserved: 0,
        };
        let grid = values(sites.capacity() * row_len(num_channels));
        self.add.enqueue(precision, stream, grid, args)
    }
}

/// The kernel for a convolution: the first that this GPU has of those that suit it, fastest
/// first.
fn kernel_of(
    stream: &Stream,
    suffix: &str,
    precision: Precision,
    num_taps: usize,
    num_inputs: usize,
    num_outputs: usize,
) -> Result<(ConvKernel, Shape)> {
    for shape in shapes_of(precision, num_taps, num_inputs, num_outputs) {
        if let Some(kernel) = ConvKernel::find(stream.device(), shape, suffix)? {
            return Ok((kernel, shape));
        }
    }
    argument(format!("no kernel for {num_inputs} to {num_outputs} channels in {precision:?}"))
}

/// The kernels that suit a convolution, fastest first.
fn shapes_of(
    precision: Precision,
    num_taps: usize,
    num_inputs: usize,
    num_outputs: usize,
) -> impl Iterator<Item = Shape> {
    let element_bytes = element_bytes(precision) as u32;
    let padded = row_len(num_outputs) as u32;
    let narrowest = if padded == 16 { 16 } else { 32 };
    let row_bytes = row_len(num_inputs) * element_bytes as usize;
    let channels = match precision {
        Precision::Tf32 if padded.is_multiple_of(64) => 64,
        Precision::Tf32 => narrowest,
        _ if padded.is_multiple_of(128) => 128,
        _ if padded.is_multiple_of(64) => 64,
        _ => narrowest,
    };
    let shape = |method, chunk_bytes| Shape { method, element_bytes, channels, chunk_bytes };
    let exact = (precision == Precision::F32).then(|| shape(Method::Exact, 16));
    let resident = shape(Method::Resident, if row_bytes == 32 { 32 } else { 64 });
    let resident_bytes =
        resident.shared_bytes_for(num_taps as u32, num_chunks(resident, row_bytes), 0);
    let fits = channels <= 32 && resident_bytes <= MAX_RESIDENT_BYTES;
    let warpgroup = shape(Method::Warpgroup, WARPGROUP_STEP_BYTES);
    let is_whole = row_bytes.is_multiple_of(WARPGROUP_STEP_BYTES as usize);
    let others = [fits.then_some(resident), is_whole.then_some(warpgroup)];
    let staged = shape(Method::Staged, 64);
    exact.into_iter().chain(others.into_iter().flatten()).chain([staged])
}

/// The most shared memory of a block that has all weights: two fit an H100, one any GPU.
const MAX_RESIDENT_BYTES: u32 = 96 << 10;

/// Steps per tap along the channels.
fn num_chunks(shape: Shape, row_bytes: usize) -> u32 {
    (row_bytes as u32).div_ceil(shape.chunk_bytes)
}

/// A thread per value.
fn values(num: usize) -> Blocks {
    let threads_per_block = FEATURE_THREADS_PER_BLOCK;
    Blocks { num_blocks: [blocks(num, threads_per_block), 1], threads_per_block }
}

fn argument<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Argument, "sparse_conv", message))
}
