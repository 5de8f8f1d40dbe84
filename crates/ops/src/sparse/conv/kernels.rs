//! The parameters of `kernels/sparse/conv.cu`.

use super::shape::{F32_INPUT_MULTIPLE, Method, Shape};
use crate::device::cuda::{
    Grid, In, KernelSpec, Out, check_lens, check_threads, kernel_constant, kernel_specs, mirrors,
    refused,
};
use det_post_types::Result;

/// Threads per block of the kernels of features.
pub const FEATURE_THREADS_PER_BLOCK: u32 =
    kernel_constant!("sparse/conv_features.cuh", "kFeatureThreads");
/// Bytes of zeros that features begin with.
pub const ZERO_BYTES: usize = kernel_constant!("sparse/conv.cuh", "kZeroBytes") as usize;
/// The rows of features have fewer bytes than this: kernels count them in 32 bits.
const MAX_FEATURE_BYTES: usize = u32::MAX as usize;

/// The parameter of the convolutions: `Args` in the kernels.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ConvArgs<'a> {
    /// Zeros, then rows.
    pub features: In<'a, u8>,
    /// Packed: `pack.rs`.
    pub weights: In<'a, u8>,
    /// Padded as rows are.
    pub bias: In<'a, f32>,
    /// Zeros, then rows as those of the output; empty: none.
    pub residual: In<'a, u8>,
    /// Words of the table.
    pub words: In<'a, u32>,
    /// Counts of the output's level.
    pub counts: In<'a, u32>,
    /// Zeros, then rows.
    pub output: Out<'a, u8>,
    /// Words per row of the table.
    pub num_groups: u32,
    /// Taps per word.
    pub width: u32,
    /// Words from one group to the next.
    pub stride: u32,
    /// Channels of the input.
    pub num_inputs: u32,
    /// Bytes of a row of the features.
    pub row_bytes: u32,
    /// Channels of the output, padded.
    pub num_outputs: u32,
    /// Steps per tap along the channels.
    pub num_chunks: u32,
    /// Whether negative values become 0.
    pub has_relu: u32,
    /// The most output rows.
    pub capacity: u32,
    /// The most input rows: those that words name are below.
    pub num_input_rows: u32,
    /// 0, which the compiler of the kernels is not to know.
    pub opaque_zero: u32,
    /// Of an f32 kernel: the rows that a block sums at once.
    pub max_rows: u32,
}

/// The parameter of `sparse_conv_input_*`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct InputArgs<'a> {
    /// Rows of `num_channels`.
    pub features: In<'a, f32>,
    /// By site the row of its features.
    pub input_rows: In<'a, u32>,
    /// Counts of the level.
    pub counts: In<'a, u32>,
    /// Zeros, then rows.
    pub output: Out<'a, u8>,
    /// Channels.
    pub num_channels: u32,
    /// Padded values of a row of the output.
    pub row_len: u32,
}

/// The parameter of `sparse_conv_add_*`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct AddArgs<'a> {
    /// Zeros, then rows.
    pub a: In<'a, u8>,
    /// Zeros, then rows; empty: none.
    pub b: In<'a, u8>,
    /// Counts of the level.
    pub counts: In<'a, u32>,
    /// Zeros, then rows.
    pub output: Out<'a, u8>,
    /// Padded values of a row.
    pub row_len: u32,
    /// Whether negative values become 0.
    pub has_relu: u32,
    /// The most rows.
    pub capacity: u32,
    /// Padding.
    pub reserved: u32,
}

mirrors!(ConvArgs<'_>, "sparse/conv.cuh", "Args");
mirrors!(InputArgs<'_>, "sparse/conv_features.cuh", "InputArgs");
mirrors!(AddArgs<'_>, "sparse/conv_features.cuh", "AddArgs");

fn check(kernel: &str, args: &ConvArgs<'_>, grid: &Grid, shape: Shape) -> Result<()> {
    check_threads(kernel, grid.threads_per_block, shape.threads_per_block())?;
    let num_taps = u64::from(args.num_groups) * u64::from(args.width);
    let row_values = args.row_bytes / shape.element_bytes;
    let row_is_padded = args.num_inputs <= row_values && args.row_bytes.is_multiple_of(32);
    let chunks_cover = args.num_chunks * shape.chunk_bytes >= args.row_bytes;
    let chunk_is_whole = match shape.method {
        Method::Resident | Method::Warpgroup => args.row_bytes.is_multiple_of(shape.chunk_bytes),
        Method::Staged | Method::Exact => true,
    };
    let fits = matches!(args.width, 1 | 3)
        && row_is_padded
        && (if shape.method == Method::Exact {
            args.max_rows != 0
        } else {
            chunks_cover && chunk_is_whole
        })
        && args.row_bytes as usize <= ZERO_BYTES
        && args.opaque_zero == 0
        && grid.num_blocks[1] * shape.channels == args.num_outputs;
    if !fits {
        let message = format!(
            "{:?} blocks, {num_taps} taps from {} channels of {} bytes in {} steps to {}",
            grid.num_blocks, args.num_inputs, args.row_bytes, args.num_chunks, args.num_outputs
        );
        return Err(refused(kernel, &message));
    }
    let rows = |num: usize, bytes: usize| ZERO_BYTES.saturating_add(num.saturating_mul(bytes));
    let capacity = args.capacity as usize;
    let out_bytes = args.num_outputs as usize * shape.element_bytes as usize;
    let out_len = rows(capacity, out_bytes);
    let weights = match shape.method {
        Method::Exact => {
            let num_inputs = args.num_inputs.next_multiple_of(F32_INPUT_MULTIPLE);
            4 * num_taps * u64::from(num_inputs * args.num_outputs)
        }
        _ => u64::from(grid.num_blocks[1]) * num_taps * u64::from(shape.tap_bytes(args.num_chunks)),
    };
    let residual_len = if args.residual.is_empty() { 0 } else { out_len };
    let features_len = rows(args.num_input_rows as usize, args.row_bytes as usize);
    if features_len.max(out_len) > MAX_FEATURE_BYTES {
        let message =
            format!("features of {features_len} to {out_len} bytes exceed the limit of 2^32 - 1");
        return Err(refused(kernel, &message));
    }
    check_lens(
        kernel,
        [
            ("features", args.features.len(), features_len),
            ("weights", args.weights.len(), weights as usize),
            ("bias", args.bias.len(), args.num_outputs as usize),
            ("residual", args.residual.len(), residual_len),
            ("words", args.words.len(), args.num_groups as usize * args.stride as usize),
            ("capacity", args.stride as usize, capacity),
            ("counts", args.counts.len(), 1),
            ("output", args.output.len(), out_len),
        ],
    )
}

/// Declares a kernel per row: its name, method, bytes of an element, output channels and
/// bytes of a chunk; and the enumeration of them, loaded.
macro_rules! convolutions {
    ($($spec:ident: $name:literal, $method:ident, $element:literal, $channels:literal, $chunk:literal;)+) => {
        $(
            #[doc = concat!("`", $name, "`.")]
            pub struct $spec;

            impl $spec {
                const SHAPE: Shape = Shape {
                    method: Method::$method,
                    element_bytes: $element,
                    channels: $channels,
                    chunk_bytes: $chunk,
                };
            }

            // SAFETY: `ConvArgs` mirrors `sparse_conv::Args`. Output rows are below the
            // number of sites and the capacity, for which output, residual and words are
            // long enough (checked), as weights and bias are for taps and channels. Words
            // of the table name rows below `num_input_rows`, for which the features are long
            // enough (checked). An absent row reads the zeros in front, a row at most
            // `ZERO_BYTES` long. Shared memory is what `shared_bytes` says. No block waits
            // for another; warps of a warpgroup kernel wait for copies that one of them has
            // begun.
            unsafe impl KernelSpec for $spec {
                const NAME: &'static str = $name;
                type Args<'a> = ConvArgs<'a>;
                fn check(args: &ConvArgs<'_>, grid: &Grid) -> Result<()> {
                    check(Self::NAME, args, grid, Self::SHAPE)
                }
                fn shared_bytes(args: &ConvArgs<'_>) -> u32 {
                    let num_taps = args.num_groups * args.width;
                    Self::SHAPE.shared_bytes_for(num_taps, args.num_chunks, args.max_rows)
                }
            }
        )+

        /// A loaded kernel.
        pub enum ConvKernel {
            $(
                #[doc = concat!("`", $name, "`.")]
                $spec($crate::device::cuda::Kernel<$spec>),
            )+
        }

        impl ConvKernel {
            /// The kernel of a shape whose name ends with `suffix`; `None` when there is none
            /// for this GPU.
            ///
            /// # Errors
            /// `Device` when the kernel has another parameter, or with the driver's error.
            pub fn find(
                device: &$crate::device::cuda::CudaDevice,
                shape: Shape,
                suffix: &str,
            ) -> Result<Option<Self>> {
                $(
                    if $spec::SHAPE == shape && $name.ends_with(suffix) {
                        return Ok(device.kernel_if_present()?.map(Self::$spec));
                    }
                )+
                Ok(None)
            }

            /// Queues it.
            ///
            /// # Errors
            /// As [`Kernel::enqueue`](crate::device::cuda::Kernel::enqueue).
            pub fn enqueue(
                &self,
                stream: &$crate::device::cuda::Stream,
                grid: Grid,
                args: ConvArgs<'_>,
            ) -> Result<()> {
                match self {
                    $(Self::$spec(kernel) => kernel.enqueue(stream, grid, args),)+
                }
            }

            /// Reserves the shared memory of a launch; the number of resident blocks.
            ///
            /// # Errors
            /// As [`Kernel::reserve_shared`](crate::device::cuda::Kernel::reserve_shared).
            pub fn reserve(&self, bytes: u32, threads_per_block: u32) -> Result<u32> {
                match self {
                    $(Self::$spec(kernel) => kernel.reserve_shared(bytes, threads_per_block),)+
                }
            }
        }
    };
}

convolutions! {
    ResidentNarrow16F16: "sparse_conv_resident_narrow_16_f16", Resident, 2, 16, 32;
    ResidentNarrow32F16: "sparse_conv_resident_narrow_32_f16", Resident, 2, 32, 32;
    Resident16F16: "sparse_conv_resident_16_f16", Resident, 2, 16, 64;
    Resident32F16: "sparse_conv_resident_32_f16", Resident, 2, 32, 64;
    Staged16F16: "sparse_conv_staged_16_f16", Staged, 2, 16, 64;
    Staged32F16: "sparse_conv_staged_32_f16", Staged, 2, 32, 64;
    Staged64F16: "sparse_conv_staged_64_f16", Staged, 2, 64, 64;
    Staged128F16: "sparse_conv_staged_128_f16", Staged, 2, 128, 64;
    Warpgroup64F16: "sparse_conv_warpgroup_64_f16", Warpgroup, 2, 64, 128;
    Warpgroup128F16: "sparse_conv_warpgroup_128_f16", Warpgroup, 2, 128, 128;
    ResidentNarrow16Bf16: "sparse_conv_resident_narrow_16_bf16", Resident, 2, 16, 32;
    ResidentNarrow32Bf16: "sparse_conv_resident_narrow_32_bf16", Resident, 2, 32, 32;
    Resident16Bf16: "sparse_conv_resident_16_bf16", Resident, 2, 16, 64;
    Resident32Bf16: "sparse_conv_resident_32_bf16", Resident, 2, 32, 64;
    Staged16Bf16: "sparse_conv_staged_16_bf16", Staged, 2, 16, 64;
    Staged32Bf16: "sparse_conv_staged_32_bf16", Staged, 2, 32, 64;
    Staged64Bf16: "sparse_conv_staged_64_bf16", Staged, 2, 64, 64;
    Staged128Bf16: "sparse_conv_staged_128_bf16", Staged, 2, 128, 64;
    Warpgroup64Bf16: "sparse_conv_warpgroup_64_bf16", Warpgroup, 2, 64, 128;
    Warpgroup128Bf16: "sparse_conv_warpgroup_128_bf16", Warpgroup, 2, 128, 128;
    Resident16Tf32: "sparse_conv_resident_16_tf32", Resident, 4, 16, 64;
    Resident32Tf32: "sparse_conv_resident_32_tf32", Resident, 4, 32, 64;
    Staged16Tf32: "sparse_conv_staged_16_tf32", Staged, 4, 16, 64;
    Staged32Tf32: "sparse_conv_staged_32_tf32", Staged, 4, 32, 64;
    Staged64Tf32: "sparse_conv_staged_64_tf32", Staged, 4, 64, 64;
    Exact16: "sparse_conv_16_f32", Exact, 4, 16, 16;
    Exact32: "sparse_conv_32_f32", Exact, 4, 32, 16;
    Exact64: "sparse_conv_64_f32", Exact, 4, 64, 16;
    Exact128: "sparse_conv_128_f32", Exact, 4, 128, 16;
}

fn check_input(
    kernel: &str,
    args: &InputArgs<'_>,
    grid: &Grid,
    [bytes, parts]: [u32; 2],
) -> Result<()> {
    check_threads(kernel, grid.threads_per_block, FEATURE_THREADS_PER_BLOCK)?;
    if args.num_channels == 0 || args.num_channels * parts > args.row_len {
        let message = format!("{} channels do not fit rows of {}", args.num_channels, args.row_len);
        return Err(refused(kernel, &message));
    }
    let row_bytes = args.row_len as usize * bytes as usize;
    let needed = ZERO_BYTES + args.input_rows.len().saturating_mul(row_bytes);
    check_lens(kernel, [("counts", args.counts.len(), 1), ("output", args.output.len(), needed)])
}

fn check_add(kernel: &str, args: &AddArgs<'_>, grid: &Grid, bytes: usize) -> Result<()> {
    check_threads(kernel, grid.threads_per_block, FEATURE_THREADS_PER_BLOCK)?;
    if args.row_len == 0 {
        return Err(refused(kernel, "rows must have values"));
    }
    let needed =
        ZERO_BYTES + (args.capacity as usize).saturating_mul(args.row_len as usize * bytes);
    check_lens(
        kernel,
        [
            ("a", args.a.len(), needed),
            ("b", args.b.len(), if args.b.is_empty() { 0 } else { needed }),
            ("counts", args.counts.len(), 1),
            ("output", args.output.len(), needed),
        ],
    )
}

/// Bytes of a value and parts of a value of the input, by precision: f16.
pub const F16_PARTS: u32 = 2;
/// The same of bf16.
pub const BF16_PARTS: u32 = 3;

/// `sparse_conv_input_f32`.
pub struct InputF32;
/// `sparse_conv_input_f16`.
pub struct InputF16;
/// `sparse_conv_input_bf16`.
pub struct InputBf16;

// SAFETY: `InputArgs` mirrors the struct of that name. A thread writes a value of a row below
// the number of sites and the length of `input_rows`, for which the output is long enough
// (checked). A row of the input is read if it ends within the features. No thread waits.
kernel_specs! {
    check_input;
    unsafe InputF32: "sparse_conv_input_f32", InputArgs, [4, 1];
    unsafe InputF16: "sparse_conv_input_f16", InputArgs, [2, F16_PARTS];
    unsafe InputBf16: "sparse_conv_input_bf16", InputArgs, [2, BF16_PARTS];
}

/// `sparse_conv_add_f32`.
pub struct AddF32;
/// `sparse_conv_add_f16`.
pub struct AddF16;
/// `sparse_conv_add_bf16`.
pub struct AddBf16;

// SAFETY: `AddArgs` mirrors the struct of that name. A thread writes a value of a row below
// the number of sites and the capacity, for which the slices are long enough (checked). No
// thread waits.
kernel_specs! {
    check_add;
    unsafe AddF32: "sparse_conv_add_f32", AddArgs, 4;
    unsafe AddF16: "sparse_conv_add_f16", AddArgs, 2;
    unsafe AddBf16: "sparse_conv_add_bf16", AddArgs, 2;
}
