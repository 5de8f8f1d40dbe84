//! The parameters of `kernels/linear.cu`.

use half::f16;

use crate::device::cuda::{
    CudaDevice, Grid, In, Kernel, KernelSpec, Out, Plain, Stream, assert_mirrors, check_lens,
    check_threads, kernel_constant, refused,
};
use crate::error::Result;

/// Threads per block.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("linear.cuh", "kThreads");
/// Columns of the output per block.
pub const COLUMNS_PER_BLOCK: u32 = kernel_constant!("linear.cuh", "kColumns");
/// Columns of a warp, to a multiple of which inputs and outputs are padded.
pub const WARP_COLUMNS: u32 = kernel_constant!("linear.cuh", "kWarpColumns");
/// Rows per tile.
pub const TILE_ROWS: u32 = 16;
const MAX_JOBS: usize = kernel_constant!("linear.cuh", "kMaxJobs") as usize;
const CHUNK_F16: u32 = kernel_constant!("linear.cuh", "kChunkF16");
const CHUNK_F32: u32 = kernel_constant!("linear.cuh", "kChunkF32");
const STAGE_PITCH: u32 = kernel_constant!("linear.cuh", "kStagePitch");

/// Some columns of the input.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PartArgs<'a, T> {
    /// From the first column on.
    pub rows: In<'a, T>,
    /// Values from one row to the next.
    pub stride: u32,
    /// Columns.
    pub len: u32,
}

/// One layer of a launch: `Job` in the kernels.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct JobArgs<'a, T> {
    /// The input, side by side.
    pub parts: [PartArgs<'a, T>; 3],
    /// Factors and summands of the first part's normalization; empty: none.
    pub norm: In<'a, f32>,
    /// Added to the first part after that, rows of its length; empty: none.
    pub addend: In<'a, T>,
    /// Where the first part is stored before the addend; empty: nowhere.
    pub normalized: Out<'a, T>,
    /// Reference points, 3 per row.
    pub points: In<'a, f32>,
    /// Of 3 coordinates and a bias, for each channel of the encoded points.
    pub encoder: In<'a, f32>,
    /// Packed.
    pub weights: In<'a, u8>,
    /// One per output, padded.
    pub bias: In<'a, f32>,
    /// Rows that are added; empty: none.
    pub residual: In<'a, T>,
    /// Rows that are added after that; empty: none.
    pub position: In<'a, T>,
    /// Factors and summands of their normalization, which a ReLU follows; empty: none.
    pub position_norm: In<'a, f32>,
    /// Output rows; empty: `moved` and `values`.
    pub output: Out<'a, T>,
    /// The points moved by the first three outputs; empty: nowhere.
    pub moved: Out<'a, f32>,
    /// Outputs in f32, the moved points in metres first; empty: nowhere.
    pub values: Out<'a, f32>,
    /// The least coordinates of the points' range.
    pub low: [f32; 3],
    /// The lengths of the range.
    pub extent: [f32; 3],
    /// Values from one row to the next.
    pub normalized_stride: u32,
    /// As above.
    pub residual_stride: u32,
    /// As above.
    pub position_stride: u32,
    /// As above; if transposed, from one column to the next.
    pub output_stride: u32,
    /// Rows.
    pub num_rows: u32,
    /// Outputs, padded.
    pub num_outputs: u32,
    /// Whether a ReLU follows the normalization of the input.
    pub has_input_relu: u32,
    /// Whether a ReLU follows the sum.
    pub has_relu: u32,
    /// Whether the output has a row per column.
    pub is_transposed: u32,
    /// Values from one row of `values` to the next.
    pub values_stride: u32,
    /// Outputs of a row in `values`.
    pub num_values: u32,
    /// Added to variances.
    pub epsilon: f32,
}

/// The layers of a launch: `Args` in the kernels.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LinearArgs<'a, T> {
    num_jobs: u32,
    end_blocks: [u32; MAX_JOBS],
    reserved: u32,
    jobs: [JobArgs<'a, T>; MAX_JOBS],
}

assert_mirrors!(PartArgs<'_, f32>, "linear.cuh", "Part<float>");
assert_mirrors!(JobArgs<'_, f32>, "linear.cuh", "Job<float>");
assert_mirrors!(LinearArgs<'_, f32>, "linear.cuh", "Args<float>");

impl<'a, T> PartArgs<'a, T> {
    /// No columns.
    pub fn empty() -> Self {
        Self { rows: In::empty(), stride: 0, len: 0 }
    }
}

impl<'a, T: Element> JobArgs<'a, T> {
    /// A job without rows.
    pub fn empty() -> Self {
        Self {
            parts: [PartArgs::empty(); 3],
            norm: In::empty(),
            addend: In::empty(),
            normalized: Out::empty(),
            points: In::empty(),
            encoder: In::empty(),
            weights: In::empty(),
            bias: In::empty(),
            residual: In::empty(),
            position: In::empty(),
            position_norm: In::empty(),
            output: Out::empty(),
            moved: Out::empty(),
            values: Out::empty(),
            low: [0.0; 3],
            extent: [0.0; 3],
            normalized_stride: 0,
            residual_stride: 0,
            position_stride: 0,
            output_stride: 0,
            num_rows: 0,
            num_outputs: 0,
            has_input_relu: 0,
            has_relu: 0,
            is_transposed: 0,
            values_stride: 0,
            num_values: 0,
            epsilon: crate::ops::layer_norm::EPSILON,
        }
    }

    fn num_inputs(&self) -> u32 {
        self.parts.iter().map(|part| part.len).sum()
    }

    /// Bytes of shared memory of a block of `num_tiles` tiles: `Layout` in the kernels.
    fn shared_bytes(&self, num_tiles: u32) -> u32 {
        let lens = [self.norm.len() as u32, self.position_norm.len() as u32];
        shared_bytes::<T>(num_tiles, self.num_inputs(), lens)
    }

    fn check(&self, kernel: &str, encodes: bool) -> Result<()> {
        let [first, second, third] = &self.parts;
        let num_rows = self.num_rows as usize;
        let num_outputs = self.num_outputs as usize;
        let num_inputs = self.num_inputs();
        let vector = 16 / size_of::<T>() as u32;
        let strides = [
            first.stride,
            second.stride,
            third.stride,
            self.normalized_stride,
            self.residual_stride,
            self.position_stride,
            self.output_stride,
        ];
        let position_len = self.position_norm.len() / 2;
        let norm_fits = matches!(self.norm.len(), 0) || self.norm.len() == 2 * first.len as usize;
        let fits = num_rows > 0
            && num_inputs > 0
            && num_inputs.is_multiple_of(WARP_COLUMNS)
            && self.parts.iter().all(|part| part.len.is_multiple_of(8))
            && self.num_outputs > 0
            && self.num_outputs.is_multiple_of(WARP_COLUMNS)
            && strides.iter().all(|stride| stride.is_multiple_of(vector.max(8)))
            && norm_fits
            && (position_len == 0 || position_len == num_outputs)
            && encodes != self.encoder.is_empty()
            && (!encodes || !self.norm.is_empty());
        if !fits {
            let message = format!(
                "{num_rows} rows, parts of {:?} inputs, {num_outputs} outputs, norms of {} and {}, strides {strides:?}",
                self.parts.map(|part| part.len),
                self.norm.len(),
                self.position_norm.len()
            );
            return Err(refused(kernel, &message));
        }
        self.check_lens(kernel, encodes)
    }

    fn check_lens(&self, kernel: &str, encodes: bool) -> Result<()> {
        let [first, second, third] = &self.parts;
        let num_rows = self.num_rows as usize;
        let num_outputs = self.num_outputs as usize;
        let rows = |stride: u32, len: usize| (num_rows - 1) * stride as usize + len;
        // What is empty is not used, except as the checks below say.
        let used = |len: usize, needed: usize| if len == 0 { 0 } else { needed };
        let part = |part: &PartArgs<'_, T>| match part.len {
            0 => 0,
            len => rows(part.stride, len as usize),
        };
        let output = if self.output.is_empty() {
            0
        } else if self.is_transposed != 0 {
            let padded = num_rows.next_multiple_of(TILE_ROWS as usize);
            (num_outputs - 1) * self.output_stride as usize + padded
        } else {
            rows(self.output_stride, num_outputs)
        };
        let num_values = (self.num_values as usize).min(num_outputs);
        let reads_points = encodes || (self.output.is_empty() && !self.points.is_empty());
        let encoder = if encodes { 4 * first.len as usize } else { 0 };
        let weights = self.num_inputs() as usize * num_outputs * size_of::<T>();
        let points = if reads_points { 3 * num_rows } else { 0 };
        check_lens(
            kernel,
            [
                ("first part", first.rows.len(), if encodes { 0 } else { part(first) }),
                ("second part", second.rows.len(), part(second)),
                ("third part", third.rows.len(), part(third)),
                (
                    "addend",
                    self.addend.len(),
                    used(self.addend.len(), num_rows * first.len as usize),
                ),
                (
                    "normalized rows",
                    self.normalized.len(),
                    used(self.normalized.len(), rows(self.normalized_stride, first.len as usize)),
                ),
                ("points", self.points.len(), points),
                ("encoder", self.encoder.len(), encoder),
                ("weights", self.weights.len(), weights),
                ("bias", self.bias.len(), num_outputs),
                (
                    "residual",
                    self.residual.len(),
                    used(self.residual.len(), rows(self.residual_stride, num_outputs)),
                ),
                (
                    "second residual",
                    self.position.len(),
                    used(
                        self.position.len() + self.position_norm.len(),
                        rows(self.position_stride, num_outputs),
                    ),
                ),
                ("output", self.output.len(), output),
                ("moved points", self.moved.len(), used(self.moved.len(), 3 * num_rows)),
                (
                    "values",
                    self.values.len(),
                    used(self.values.len(), rows(self.values_stride, num_values)),
                ),
            ],
        )
    }
}

/// Bytes of shared memory of a block: `Layout` in the kernels.
pub fn shared_bytes<T>(num_tiles: u32, num_inputs: u32, [norm, position_norm]: [u32; 2]) -> u32 {
    let bytes = size_of::<T>() as u32;
    let chunk = if bytes == 2 { CHUNK_F16 } else { CHUNK_F32 };
    let num_rows = TILE_ROWS * num_tiles;
    let pitch = |len: u32| len + 16 / bytes;
    let stage = THREADS_PER_BLOCK / 32 * num_rows * STAGE_PITCH * 4;
    let position = if position_norm == 0 { 0 } else { num_rows * pitch(position_norm / 2) * bytes };
    stage
        + (norm + position_norm) * 4
        + position
        + num_rows * pitch(num_inputs) * bytes
        + num_inputs.min(chunk) * COLUMNS_PER_BLOCK * bytes
}

impl<'a, T: Element> LinearArgs<'a, T> {
    /// No layers.
    pub fn empty() -> Self {
        Self {
            num_jobs: 0,
            end_blocks: [0; MAX_JOBS],
            reserved: 0,
            jobs: [JobArgs::empty(); MAX_JOBS],
        }
    }

    /// Layers that do not depend on each other, at most 4.
    ///
    /// # Errors
    /// `Argument` when there are more.
    pub fn new(jobs: &[JobArgs<'a, T>]) -> Result<Self> {
        let mut args = Self::empty();
        if jobs.len() > MAX_JOBS {
            let message = format!("{} layers; at most {MAX_JOBS} are possible", jobs.len());
            return Err(refused("linear", &message));
        }
        args.num_jobs = jobs.len() as u32;
        let mut end = 0;
        for ((job, to), end_block) in jobs.iter().zip(&mut args.jobs).zip(&mut args.end_blocks) {
            end += job.num_outputs.div_ceil(COLUMNS_PER_BLOCK);
            (*to, *end_block) = (*job, end);
        }
        Ok(args)
    }

    pub(in crate::ops) fn jobs(&self) -> &[JobArgs<'a, T>] {
        &self.jobs[..self.num_jobs as usize]
    }

    /// Column blocks of all layers.
    pub(in crate::ops) fn num_column_blocks(&self) -> u32 {
        self.num_jobs.checked_sub(1).map_or(0, |last| self.end_blocks[last as usize])
    }

    /// Blocks of rows of `num_tiles` tiles.
    pub(in crate::ops) fn num_row_blocks(&self, num_tiles: u32) -> u32 {
        let num_rows = self.jobs().iter().map(|job| job.num_rows).max().unwrap_or(0);
        num_rows.div_ceil(TILE_ROWS * num_tiles)
    }

    /// Bytes of shared memory of a block of `num_tiles` tiles.
    pub(in crate::ops) fn shared_bytes(&self, num_tiles: u32) -> u32 {
        self.jobs().iter().map(|job| job.shared_bytes(num_tiles)).max().unwrap_or(0)
    }

    pub(in crate::ops) fn check(&self, kernel: &str, encodes: bool) -> Result<()> {
        self.jobs().iter().try_for_each(|job| job.check(kernel, encodes))
    }
}

/// The elements of activations and weights.
pub trait Element: Plain {
    /// The kernels by tiles of 16 rows per block.
    type Tiles1: for<'a> KernelSpec<Args<'a> = LinearArgs<'a, Self>>;
    /// Two tiles.
    type Tiles2: for<'a> KernelSpec<Args<'a> = LinearArgs<'a, Self>>;
    /// Four tiles.
    type Tiles4: for<'a> KernelSpec<Args<'a> = LinearArgs<'a, Self>>;

    /// Rounded once.
    fn from_f32(value: f32) -> Self;
    /// Exact.
    fn to_f32(self) -> f32;
    /// Appends the bytes, little endian.
    fn extend(self, bytes: &mut Vec<u8>);
}

macro_rules! element {
    ($element:ty, $from:expr, $to:expr; $($spec:ident: $tiles:ident = $num_tiles:literal, $name:literal;)+) => {
        $(
            #[doc = concat!("`", $name, "`.")]
            pub struct $spec;

            // SAFETY: `LinearArgs`, `JobArgs` and `PartArgs` mirror the structs of the kernels.
            // Rows at and beyond `num_rows` are neither read nor written, but for the rows up
            // to the next multiple of 16 of a transposed output; columns are below those of
            // the parts and the padded outputs. The slices are long enough for them (checked;
            // a slice that is empty is not used). A block finds its layer by `end_blocks`,
            // which `LinearArgs::new` alone sets; the grid is compared with them. Shared
            // memory is what `shared_bytes` says. No block waits for another.
            unsafe impl KernelSpec for $spec {
                const NAME: &'static str = $name;
                type Args<'a> = LinearArgs<'a, $element>;
                fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
                    check_threads(Self::NAME, grid.threads_per_block, THREADS_PER_BLOCK)?;
                    let expected = [args.num_row_blocks($num_tiles), args.num_column_blocks()];
                    if args.num_jobs == 0 || grid.num_blocks != expected {
                        let message = format!("{:?} blocks, needed are {expected:?}", grid.num_blocks);
                        return Err(refused(Self::NAME, &message));
                    }
                    args.check(Self::NAME, false)
                }
                fn shared_bytes(args: &Self::Args<'_>) -> u32 {
                    args.shared_bytes($num_tiles)
                }
            }
        )+

        impl Element for $element {
            $(type $tiles = $spec;)+

            fn from_f32(value: f32) -> Self {
                $from(value)
            }
            fn to_f32(self) -> f32 {
                $to(self)
            }
            fn extend(self, bytes: &mut Vec<u8>) {
                bytes.extend(self.to_le_bytes());
            }
        }
    };
}

element! {
    f32, std::convert::identity, std::convert::identity;
    Tiles1F32: Tiles1 = 1, "linear_16_f32";
    Tiles2F32: Tiles2 = 2, "linear_32_f32";
    Tiles4F32: Tiles4 = 4, "linear_64_f32";
}
element! {
    f16, f16::from_f32, f16::to_f32;
    Tiles1F16: Tiles1 = 1, "linear_16_f16";
    Tiles2F16: Tiles2 = 2, "linear_32_f16";
    Tiles4F16: Tiles4 = 4, "linear_64_f16";
}

/// The loaded kernels.
pub struct LinearKernels<T: Element> {
    tiles_1: Kernel<T::Tiles1>,
    tiles_2: Option<Kernel<T::Tiles2>>,
    tiles_4: Option<Kernel<T::Tiles4>>,
}

/// Blocks of a launch up to which small tiles are taken, measured on an H200: eight per
/// multiprocessor in f16, three in f32.
fn max_small_blocks<T>() -> u32 {
    if size_of::<T>() == 2 { 132 * 8 } else { 132 * 3 }
}

impl<T: Element> LinearKernels<T> {
    /// Loads the kernels for layers of at most so many inputs, of which at most
    /// `max_norm` channels are normalized.
    ///
    /// # Errors
    /// `Device` when this build has no kernels, or the GPU has too little shared memory.
    pub fn load(device: &CudaDevice, max_inputs: u32, max_norm: u32) -> Result<Self> {
        let bytes = |tiles| shared_bytes::<T>(tiles, max_inputs, [2 * max_norm; 2]);
        let tiles_1: Kernel<T::Tiles1> = device.kernel()?;
        tiles_1.reserve_shared(bytes(1), THREADS_PER_BLOCK)?;
        let tiles_2: Kernel<T::Tiles2> = device.kernel()?;
        let tiles_4: Kernel<T::Tiles4> = device.kernel()?;
        // A smaller GPU runs with smaller tiles.
        let fits_2 = tiles_2.reserve_shared(bytes(2), THREADS_PER_BLOCK).is_ok();
        let fits_4 = tiles_4.reserve_shared(bytes(4), THREADS_PER_BLOCK).is_ok();
        Ok(Self { tiles_1, tiles_2: fits_2.then_some(tiles_2), tiles_4: fits_4.then_some(tiles_4) })
    }

    /// Queues layers that do not depend on each other.
    ///
    /// # Errors
    /// As [`Kernel::enqueue`].
    pub fn enqueue(&self, stream: &Stream, jobs: &[JobArgs<'_, T>]) -> Result<()> {
        let args = LinearArgs::new(jobs)?;
        let columns = args.num_column_blocks();
        let grid = |tiles| Grid {
            num_blocks: [args.num_row_blocks(tiles), columns],
            threads_per_block: THREADS_PER_BLOCK,
        };
        let is_small = |tiles| args.num_row_blocks(tiles) * columns <= max_small_blocks::<T>();
        match (&self.tiles_2, &self.tiles_4) {
            (Some(_), Some(kernel)) if !is_small(1) && !is_small(2) => {
                kernel.enqueue(stream, grid(4), args)
            }
            (Some(kernel), _) if !is_small(1) => kernel.enqueue(stream, grid(2), args),
            _ => self.tiles_1.enqueue(stream, grid(1), args),
        }
    }
}
