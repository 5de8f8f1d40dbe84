//! The parameters of `kernels/view/attention.cu`.

use std::marker::PhantomData;

use half::f16;

use crate::device::cuda::{
    CudaDevice, DependentKernel, Grid, In, Kernel, KernelSpec, Mirror, Out, Stream, VECTOR_BYTES,
    check_lens, check_threads, kernel_constant, mirrors, refused,
};
use crate::view::linear::cuda::{Element, JobArgs, LinearArgs};
use det_post_types::Result;

/// Threads per block.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("view/attention.cuh", "kThreads");
/// Keys of a step: rows of transposed values are padded to a multiple.
pub const STEP_KEYS: u32 = kernel_constant!("view/attention.cuh", "kKeys");
const QUERIES: u32 = kernel_constant!("view/attention.cuh", "kQueries");
const SHORT_HEAD: u32 = kernel_constant!("view/attention.cuh", "kShortHead");
const WARPGROUP_THREADS: u32 =
    kernel_constant!("view/attention_warpgroup.cuh", "kWarpgroupThreads");
const WARPGROUP_QUERIES: u32 =
    kernel_constant!("view/attention_warpgroup.cuh", "kWarpgroupQueries");
const WARPGROUP_BYTES: u32 = kernel_constant!("view/attention_warpgroup.cuh", "kWarpgroupBytes");
/// The longest heads.
const MAX_HEAD: u32 = 64;

/// The parameter of attention: `Args` in the kernels.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct AttentionArgs<'a, T> {
    /// A row per query, heads side by side.
    pub queries: In<'a, T>,
    /// A row per key.
    pub keys: In<'a, T>,
    /// A row per channel, a value per key.
    pub values: In<'a, T>,
    /// A row per query.
    pub output: Out<'a, T>,
    /// Values from one row to the next.
    pub query_stride: u32,
    /// As above.
    pub key_stride: u32,
    /// As above: a multiple of 32, the values beyond the keys finite.
    pub value_stride: u32,
    /// As above.
    pub output_stride: u32,
    /// Queries.
    pub num_queries: u32,
    /// Keys; at least one.
    pub num_keys: u32,
    /// Channels of a head.
    pub head_len: u32,
    /// Of the scores, to the base 2.
    pub scale: f32,
}

/// Attention and linear layers beside it: `WithLinearArgs` in the kernels.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct WithLinearArgs<'a, T> {
    attention: AttentionArgs<'a, T>,
    num_query_blocks: u32,
    num_heads: u32,
    num_row_blocks: u32,
    reserved: u32,
    linear: LinearArgs<'a, T>,
}

mirrors!(AttentionArgs<'_, T>, "view/attention.cuh", "Args", T; where T: Mirror);
mirrors!(WithLinearArgs<'_, T>, "view/attention.cuh", "WithLinearArgs", T; where T: Mirror);

/// Elements that attention is compiled for.
pub trait AttentionElement: Element {
    /// By the padded length of a head: 16.
    type Head16: for<'a> DependentKernel<Args<'a> = WithLinearArgs<'a, Self>>;
    /// 32.
    type Head32: for<'a> DependentKernel<Args<'a> = WithLinearArgs<'a, Self>>;
    /// 64.
    type Head64: for<'a> DependentKernel<Args<'a> = WithLinearArgs<'a, Self>>;
}

fn queries_per_block<T>(head_len: u32) -> u32 {
    if size_of::<T>() == 2 && head_len <= SHORT_HEAD { QUERIES / 2 } else { QUERIES }
}

fn check<T: Element>(
    kernel: &str,
    args: &WithLinearArgs<'_, T>,
    grid: &Grid,
    max_head_len: u32,
) -> Result<()> {
    check_threads(kernel, grid.threads_per_block, THREADS_PER_BLOCK)?;
    let of = &args.attention;
    let num_blocks = args.num_query_blocks * args.num_heads
        + args.num_row_blocks * args.linear.num_column_blocks();
    let grid_fits = grid.num_blocks == [num_blocks, 1]
        && queries_per_block::<T>(max_head_len) * args.num_query_blocks >= of.num_queries
        && args.num_row_blocks == args.linear.num_row_blocks(1);
    check_attention(kernel, of, args.num_heads, max_head_len, (grid, grid_fits))?;
    args.linear.check(kernel, false)
}

/// Sizes, strides and slices, and what was found of the grid.
fn check_attention<T>(
    kernel: &str,
    of: &AttentionArgs<'_, T>,
    num_heads: u32,
    max_head_len: u32,
    (grid, grid_fits): (&Grid, bool),
) -> Result<()> {
    let strides = [of.query_stride, of.key_stride, of.value_stride, of.output_stride];
    let fits = grid_fits
        && of.num_queries > 0
        && of.num_keys > 0
        && of.head_len > 0
        && of.head_len.is_multiple_of(8)
        && of.head_len <= max_head_len
        && of.value_stride.is_multiple_of(STEP_KEYS)
        && of.value_stride >= of.num_keys
        && strides.iter().all(|stride| stride.is_multiple_of(8))
        && [&of.queries, &of.keys, &of.values].iter().all(|rows| rows.is_aligned_to(VECTOR_BYTES))
        && of.output.is_aligned_to(VECTOR_BYTES);
    if !fits {
        let message = format!(
            "{:?} blocks do not fit {} queries, {} keys, {num_heads} heads of {}, strides \
             {strides:?}",
            grid.num_blocks, of.num_queries, of.num_keys, of.head_len
        );
        return Err(refused(kernel, &message));
    }
    let num_columns = (num_heads * of.head_len) as usize;
    let rows = |num: u32, stride: u32| (num as usize - 1) * stride as usize + num_columns;
    check_lens(
        kernel,
        [
            ("queries", of.queries.len(), rows(of.num_queries, of.query_stride)),
            ("keys", of.keys.len(), rows(of.num_keys, of.key_stride)),
            ("values", of.values.len(), num_columns * of.value_stride as usize),
            ("output", of.output.len(), rows(of.num_queries, of.output_stride)),
        ],
    )
}

/// `attention_warpgroup_64_f16`, only on compute capability 9.0: of f16, without layers beside it.
pub struct Warpgroup<T>(PhantomData<T>);

// SAFETY: `AttentionArgs` mirrors the struct of the kernel, whose elements are f16 (checked).
// Blocks are of 64 queries along x, of a head along y (checked). Queries and keys at and beyond
// their numbers are not read, values up to the padded stride are; channels are below those of the
// heads. The slices are long enough (checked). Shared memory is what the kernel's layout takes
// (asserted there). No block waits for another.
unsafe impl<T: AttentionElement> KernelSpec for Warpgroup<T> {
    const NAME: &'static str = "attention_warpgroup_64_f16";
    type Args<'a> = AttentionArgs<'a, T>;
    fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
        check_threads(Self::NAME, grid.threads_per_block, WARPGROUP_THREADS)?;
        let [num_query_blocks, num_heads] = grid.num_blocks;
        let grid_fits =
            size_of::<T>() == 2 && num_query_blocks == args.num_queries.div_ceil(WARPGROUP_QUERIES);
        check_attention(Self::NAME, args, num_heads, MAX_HEAD, (grid, grid_fits))
    }
    fn shared_bytes(_args: &Self::Args<'_>) -> u32 {
        WARPGROUP_BYTES
    }
}

// SAFETY: before its `griddepcontrol.wait` the kernel reads only its parameters and writes
// nothing.
unsafe impl<T: AttentionElement> DependentKernel for Warpgroup<T> {}

macro_rules! attention {
    ($element:ty; $($spec:ident: $head:ident = $head_len:literal, $name:literal;)+) => {
        $(
            #[doc = concat!("`", $name, "`.")]
            pub struct $spec;

            // SAFETY: `WithLinearArgs` and `AttentionArgs` mirror the structs of the kernels.
            // Queries and keys at and beyond their numbers are not read, values up to the padded
            // stride are; channels are below those of the heads. The slices are long enough
            // (checked). The first blocks compute attention, the others are those of the linear
            // layers, checked as those of `linear`; the grid is compared with both. Shared memory
            // beside the declared is that of the layers. No block waits.
            unsafe impl KernelSpec for $spec {
                const NAME: &'static str = $name;
                type Args<'a> = WithLinearArgs<'a, $element>;
                fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
                    check(Self::NAME, args, grid, $head_len)
                }
                fn shared_bytes(args: &Self::Args<'_>) -> u32 {
                    args.linear.shared_bytes(1)
                }
            }

            // SAFETY: before they wait, the kernels read what those of `linear` do.
            unsafe impl DependentKernel for $spec {}
        )+

        impl AttentionElement for $element {
            $(type $head = $spec;)+
        }
    };
}

attention! {
    f32;
    Head16F32: Head16 = 16, "attention_16_f32";
    Head32F32: Head32 = 32, "attention_32_f32";
    Head64F32: Head64 = 64, "attention_64_f32";
}
attention! {
    f16;
    Head16F16: Head16 = 16, "attention_16_f16";
    Head32F16: Head32 = 32, "attention_32_f16";
    Head64F16: Head64 = 64, "attention_64_f16";
}

/// The loaded kernel for heads of a length.
pub enum AttentionKernel<T: AttentionElement> {
    /// Up to 16 channels.
    Head16(Kernel<T::Head16>),
    /// Up to 32.
    Head32(Kernel<T::Head32>),
    /// Up to 64; where the GPU has it, the one without layers beside it.
    Head64(Kernel<T::Head64>, Option<Kernel<Warpgroup<T>>>),
}

impl<T: AttentionElement> AttentionKernel<T> {
    /// Loads the kernel for heads of `head_len` channels, beside which layers of at most
    /// `max_inputs` inputs are computed.
    ///
    /// # Errors
    /// `Argument` when there is none for heads of this length; `Device` when this build
    /// has no kernels, or the GPU has too little shared memory.
    pub fn load(device: &CudaDevice, head_len: u32, max_inputs: u32) -> Result<Self> {
        if head_len == 0 || head_len > MAX_HEAD || !head_len.is_multiple_of(8) {
            let message =
                format!("channels of a head must be 8 to 64 in steps of 8, found {head_len}");
            return Err(refused("attention", &message));
        }
        let bytes = crate::view::linear::cuda::shared_bytes::<T>(1, max_inputs, [0; 2]);
        Ok(match head_len {
            8..=16 => {
                let kernel: Kernel<T::Head16> = device.kernel()?;
                kernel.reserve_shared(bytes, THREADS_PER_BLOCK)?;
                Self::Head16(kernel)
            }
            17..=32 => {
                let kernel: Kernel<T::Head32> = device.kernel()?;
                kernel.reserve_shared(bytes, THREADS_PER_BLOCK)?;
                Self::Head32(kernel)
            }
            _ => {
                let kernel: Kernel<T::Head64> = device.kernel()?;
                kernel.reserve_shared(bytes, THREADS_PER_BLOCK)?;
                let mut warpgroup: Option<Kernel<Warpgroup<T>>> = None;
                if size_of::<T>() == 2 {
                    warpgroup = device.kernel_if_present()?;
                }
                if let Some(kernel) = &warpgroup {
                    kernel.reserve_shared(WARPGROUP_BYTES, WARPGROUP_THREADS)?;
                }
                Self::Head64(kernel, warpgroup)
            }
        })
    }

    /// Queues attention of `num_heads` heads and, beside it, layers that do not depend on it.
    ///
    /// # Errors
    /// As [`Kernel::enqueue`].
    pub fn enqueue(
        &self,
        stream: &Stream,
        attention: AttentionArgs<'_, T>,
        num_heads: u32,
        jobs: &[JobArgs<'_, T>],
    ) -> Result<()> {
        let padded_head = match self {
            Self::Head16(_) => 16,
            Self::Head32(_) => 32,
            Self::Head64(_, Some(kernel)) if jobs.is_empty() => {
                let num_query_blocks = attention.num_queries.div_ceil(WARPGROUP_QUERIES);
                let num_blocks = [num_query_blocks, num_heads];
                let grid = Grid { num_blocks, threads_per_block: WARPGROUP_THREADS };
                return kernel.enqueue_dependent(stream, grid, attention);
            }
            Self::Head64(..) => MAX_HEAD,
        };
        let linear = LinearArgs::new(jobs)?;
        let args = WithLinearArgs {
            attention,
            num_query_blocks: attention.num_queries.div_ceil(queries_per_block::<T>(padded_head)),
            num_heads,
            num_row_blocks: linear.num_row_blocks(1),
            reserved: 0,
            linear,
        };
        let num_blocks =
            args.num_query_blocks * num_heads + args.num_row_blocks * linear.num_column_blocks();
        let grid = Grid { num_blocks: [num_blocks, 1], threads_per_block: THREADS_PER_BLOCK };
        match self {
            Self::Head16(kernel) => kernel.enqueue_dependent(stream, grid, args),
            Self::Head32(kernel) => kernel.enqueue_dependent(stream, grid, args),
            Self::Head64(kernel, _) => kernel.enqueue_dependent(stream, grid, args),
        }
    }
}
