//! One layer of a launch of `kernels/view/linear.cu`.

use crate::device::cuda::{
    In, Mirror, Out, Plain, VECTOR_BYTES, check_lens, kernel_constant, mirrors, refused,
};
use crate::view::layer_norm::EPSILON;
use det_post_types::Result;

/// Threads per block.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("view/linear.cuh", "kThreads");
/// Columns of the output per block.
pub const COLUMNS_PER_BLOCK: u32 = kernel_constant!("view/linear.cuh", "kColumns");
/// Columns of a warp, to a multiple of which inputs and outputs are padded.
pub const WARP_COLUMNS: u32 = kernel_constant!("view/linear_products.cuh", "kWarpColumns");
/// Rows per tile.
pub const TILE_ROWS: u32 = 16;
const CHUNK_F16: u32 = kernel_constant!("view/linear.cuh", "kChunkF16");
const CHUNK_F32: u32 = kernel_constant!("view/linear.cuh", "kChunkF32");
const STAGE_PITCH: u32 = kernel_constant!("view/linear.cuh", "kStagePitch");

/// Channels as they are stored.
pub fn padded(num_channels: usize) -> usize {
    num_channels.next_multiple_of(WARP_COLUMNS as usize)
}

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

mirrors!(PartArgs<'_, T>, "view/linear.cuh", "Part", T; where T: Mirror);
mirrors!(JobArgs<'_, T>, "view/linear.cuh", "Job", T; where T: Mirror);

impl<'a, T> PartArgs<'a, T> {
    /// No columns.
    pub fn empty() -> Self {
        Self { rows: In::empty(), stride: 0, len: 0 }
    }
}

impl<'a, T: Plain> JobArgs<'a, T> {
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
            epsilon: EPSILON,
        }
    }

    /// The rows that are added to the first part, as a part of the input.
    pub(super) fn addend_part(&self) -> Option<PartArgs<'a, T>> {
        let len = self.parts[0].len;
        (!self.addend.is_empty()).then_some(PartArgs { rows: self.addend, stride: len, len })
    }

    /// Whether the job has only parts, a norm, an addend and a ReLU at the end.
    pub(super) fn is_plain_linear(&self) -> bool {
        self.has_input_relu == 0
            && self.points.is_empty()
            && self.encoder.is_empty()
            && self.residual.is_empty()
            && self.position.is_empty()
            && self.position_norm.is_empty()
            && self.moved.is_empty()
    }

    fn num_inputs(&self) -> u32 {
        self.parts.iter().map(|part| part.len).sum()
    }

    /// Bytes of shared memory of a block of `num_tiles` tiles: `Layout` in the kernels.
    pub(super) fn shared_bytes(&self, num_tiles: u32) -> u32 {
        let lens = [self.norm.len() as u32, self.position_norm.len() as u32];
        shared_bytes::<T>(num_tiles, self.num_inputs(), lens)
    }

    pub(super) fn check(&self, kernel: &str, encodes: bool) -> Result<()> {
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
            && (self.is_transposed == 0 || !self.output.is_empty())
            && self.parts.iter().all(|part| part.rows.is_aligned_to(VECTOR_BYTES))
            && self.weights.is_aligned_to(VECTOR_BYTES)
            && norm_fits
            && (position_len == 0 || position_len == num_outputs)
            && encodes != self.encoder.is_empty()
            && (!encodes || !self.norm.is_empty());
        if !fits {
            let message = format!(
                "{num_rows} rows, parts of {:?} inputs, {num_outputs} outputs, norms of {} and \
                 {}, strides {strides:?} do not fit",
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
