//! The CUDA implementation of [`sparse_conv`](super): equal to the CPU bit for bit in
//! f32, within the tolerance of docs/numerics.md in other precisions, and the same from
//! run to run in all.

use super::kernels::{
    AddArgs, AddBf16, AddF16, AddF32, BF16_PARTS, ConvArgs, ConvKernel, F16_PARTS,
    FEATURE_THREADS_PER_BLOCK, InputArgs, InputBf16, InputF16, InputF32, Method, Shape, ZERO_BYTES,
};
use super::pack::{pack, row_len};
use super::{ConvParameters, Precision};
use crate::device::cuda::{DeviceBuffer, Grid as Blocks, In, Kernel, KernelSpec, Stream, blocks};
use crate::error::{Error, ErrorKind, Result};
use crate::ops::rulebook::cuda::{DeviceSites, DeviceTable};

/// Rows of features of the sites of a level in device memory, each padded with zeros to
/// 16 values or a multiple of 32.
///
/// The memory may hold features of other levels and widths at other times; what it holds
/// is stated where it is used.
#[derive(Debug)]
pub struct DeviceFeatures {
    /// Zeros, which stand for absent rows, then rows.
    pub(in crate::ops) bytes: DeviceBuffer<u8>,
    precision: Precision,
}

impl DeviceFeatures {
    /// Memory for `len` values of rows, of [`Self::row_len`] each.
    ///
    /// # Errors
    /// `Device` when there is not enough memory.
    pub fn new(stream: &Stream, precision: Precision, len: usize) -> Result<Self> {
        let num_bytes = len.saturating_mul(element_bytes(precision)).saturating_add(ZERO_BYTES);
        Ok(Self { bytes: DeviceBuffer::zeros(stream, num_bytes)?, precision })
    }

    /// Values of a row of so many channels.
    pub fn row_len(num_channels: usize) -> usize {
        row_len(num_channels)
    }

    /// Values of a row of the input of a network: in 16 bits it holds every channel two or
    /// three times, as parts of a sum, so that coordinates keep their places.
    pub fn input_row_len(num_channels: usize, precision: Precision) -> usize {
        row_len(num_channels * num_parts(precision))
    }

    /// How values are stored.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Bytes of device memory.
    pub fn num_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there is memory for so many rows of so many padded values.
    pub(in crate::ops) fn holds(&self, num_rows: usize, row_len: usize) -> bool {
        let row_bytes = row_len * element_bytes(self.precision);
        num_rows.saturating_mul(row_bytes) <= self.bytes.len() - ZERO_BYTES
    }

    /// Waits, then copies the first `num_rows` rows of `num_channels` to the host: for
    /// tests.
    ///
    /// # Errors
    /// `Device` when earlier work or the copy fails.
    pub fn read(&self, num_rows: usize, num_channels: usize) -> Result<Vec<f32>> {
        let bytes = self.bytes.read()?;
        let row_bytes = row_len(num_channels) * element_bytes(self.precision);
        let rows = bytes[ZERO_BYTES..].chunks_exact(row_bytes).take(num_rows);
        let value = |bytes: &[u8]| match (self.precision, bytes) {
            (Precision::F16, &[a, b]) => half::f16::from_le_bytes([a, b]).to_f32(),
            (Precision::Bf16, &[a, b]) => half::bf16::from_le_bytes([a, b]).to_f32(),
            (_, &[a, b, c, d]) => f32::from_le_bytes([a, b, c, d]),
            _ => f32::NAN,
        };
        let size = element_bytes(self.precision);
        Ok(rows.flat_map(|row| row.chunks_exact(size).take(num_channels).map(value)).collect())
    }

    /// Copies rows of `num_channels` from the host and waits: for tests.
    ///
    /// # Errors
    /// `Argument` when there are more than fit; `Device` when the copy fails.
    pub fn write(&mut self, values: &[f32], num_channels: usize) -> Result<()> {
        let mut bytes = vec![0; ZERO_BYTES];
        for row in values.chunks_exact(num_channels) {
            let padding = std::iter::repeat_n(&0.0, row_len(num_channels) - num_channels);
            for &value in row.iter().chain(padding) {
                match self.precision {
                    Precision::F16 => bytes.extend(half::f16::from_f32(value).to_le_bytes()),
                    Precision::Bf16 => bytes.extend(half::bf16::from_f32(value).to_le_bytes()),
                    Precision::F32 | Precision::Tf32 => bytes.extend(value.to_le_bytes()),
                }
            }
        }
        self.bytes.write(&bytes)
    }
}

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
        let num_inputs = parameters.num_inputs() * parts;
        let num_outputs = parameters.num_outputs();
        let row_bytes = row_len(num_inputs) * element_bytes(precision);
        if row_bytes > ZERO_BYTES {
            return argument(format!(
                "rows of {row_bytes} bytes; at most {ZERO_BYTES} are possible"
            ));
        }
        let num_taps = parameters.num_taps();
        let (shape, shared_bytes) = shape_of(precision, num_taps, num_inputs, num_outputs);
        let num_chunks = num_chunks(shape, row_bytes);
        let suffix = match precision {
            Precision::F32 => "_f32",
            Precision::Tf32 => "_tf32",
            Precision::F16 => "_f16",
            Precision::Bf16 => "_bf16",
        };
        let kernel = ConvKernel::load(stream.device(), shape, suffix)?;
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
            && features.holds(table.input_capacity(), row_len(self.num_inputs))
            && is_stored_so(features)
            && is_stored_so(out)
            && residual.is_none_or(is_stored_so);
        if !fits {
            return argument(format!(
                "a table of {} taps from {} to {} rows and features of {} bytes in {:?} and {:?}; {} taps, {} rows and \
                 {:?} are needed",
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
            reserved: 0,
            capacity: sites.capacity() as u32,
        };
        let threads_per_block = self.shape.threads_per_block();
        let grid = Blocks { num_blocks: self.num_blocks, threads_per_block };
        self.kernel.enqueue(stream, grid, args)
    }
}

/// Kernels of the op that need no weights, on one stream.
pub struct Workspace {
    stream: Stream,
    input_f32: Kernel<InputF32>,
    input_f16: Kernel<InputF16>,
    input_bf16: Kernel<InputBf16>,
    add_f32: Kernel<AddF32>,
    add_f16: Kernel<AddF16>,
    add_bf16: Kernel<AddBf16>,
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
            input_f32: device.kernel()?,
            input_f16: device.kernel()?,
            input_bf16: device.kernel()?,
            add_f32: device.kernel()?,
            add_f16: device.kernel()?,
            add_bf16: device.kernel()?,
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
        match precision {
            Precision::F32 | Precision::Tf32 => self.input_f32.enqueue(stream, grid, args),
            Precision::F16 => self.input_f16.enqueue(stream, grid, args),
            Precision::Bf16 => self.input_bf16.enqueue(stream, grid, args),
        }
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
            return argument(format!("sums of {:?} as {precision:?}", a.precision));
        }
        match precision {
            Precision::F32 | Precision::Tf32 => {
                self.add(&self.add_f32, (a, b), num_channels, sites, relu, out)
            }
            Precision::F16 => self.add(&self.add_f16, (a, b), num_channels, sites, relu, out),
            Precision::Bf16 => self.add(&self.add_bf16, (a, b), num_channels, sites, relu, out),
        }
    }

    fn add<K>(
        &self,
        kernel: &Kernel<K>,
        (a, b): (&DeviceFeatures, Option<&DeviceFeatures>),
        num_channels: usize,
        sites: &DeviceSites,
        relu: bool,
        out: &mut DeviceFeatures,
    ) -> Result<()>
    where
        K: for<'a> KernelSpec<Args<'a> = AddArgs<'a>>,
    {
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
        kernel.enqueue(stream, values(sites.capacity() * row_len(num_channels)), args)
    }
}

/// The kernel for a convolution and the shared memory that a launch takes.
fn shape_of(
    precision: Precision,
    num_taps: usize,
    num_inputs: usize,
    num_outputs: usize,
) -> (Shape, u32) {
    let element = element_bytes(precision) as u32;
    let padded = row_len(num_outputs) as u32;
    let narrowest = if padded == 16 { 16 } else { 32 };
    let row_bytes = row_len(num_inputs) * element as usize;
    if precision == Precision::F32 {
        let channels = if padded.is_multiple_of(64) { 64 } else { narrowest };
        let shape = Shape { method: Method::Exact, element_bytes: 4, channels, chunk_bytes: 16 };
        return (shape, 0);
    }
    let channels = match precision {
        Precision::F16 | Precision::Bf16 if padded.is_multiple_of(128) => 128,
        _ if padded.is_multiple_of(64) => 64,
        _ => narrowest,
    };
    let chunk_bytes = if row_bytes == 32 { 32 } else { 64 };
    let resident =
        Shape { method: Method::Resident, element_bytes: element, channels, chunk_bytes };
    let bytes = resident.shared_bytes_for(num_taps as u32, num_chunks(resident, row_bytes));
    if channels <= 32 && bytes <= MAX_RESIDENT_BYTES {
        return (resident, bytes);
    }
    let staged = Shape { method: Method::Staged, chunk_bytes: 64, ..resident };
    (staged, staged.shared_bytes_for(num_taps as u32, num_chunks(staged, row_bytes)))
}

/// The most shared memory of a block that has all weights: two fit an H100.
const MAX_RESIDENT_BYTES: u32 = 112 << 10;

/// Steps per tap along the channels.
fn num_chunks(shape: Shape, row_bytes: usize) -> u32 {
    (row_bytes as u32).div_ceil(shape.chunk_bytes)
}

/// How many parts of a sum a value of the input is stored as.
fn num_parts(precision: Precision) -> usize {
    match precision {
        Precision::F32 | Precision::Tf32 => 1,
        Precision::F16 => F16_PARTS as usize,
        Precision::Bf16 => BF16_PARTS as usize,
    }
}

/// Bytes of a stored value.
fn element_bytes(precision: Precision) -> usize {
    match precision {
        Precision::F32 | Precision::Tf32 => 4,
        Precision::F16 | Precision::Bf16 => 2,
    }
}

/// A thread per value.
fn values(num: usize) -> Blocks {
    let threads_per_block = FEATURE_THREADS_PER_BLOCK;
    Blocks { num_blocks: [blocks(num, threads_per_block), 1], threads_per_block }
}

fn argument<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Argument, "sparse_conv", message))
}
