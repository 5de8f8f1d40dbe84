//! The parameter of `kernels/decode/query.cu`.

use crate::device::cuda::{
    DependentKernel, Grid, In, KernelSpec, Out, Plain, check_lens, check_threads, kernel_constant,
    mirrors, refused,
};
use det_post_types::{QueryBox, QueryDecode, Result};

/// Threads of the one block.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("decode/query.cuh", "kThreads");
/// The most distance bins.
pub const MAX_BINS: usize = kernel_constant!("decode/query.cuh", "kMaxBins") as usize;
const _: () = assert!(MAX_BINS == QueryDecode::MAX_DISTANCE_BINS);
/// Keys that are collected between two checks whether more fit.
pub const KEYS_AT_ONCE: u32 = THREADS_PER_BLOCK * kernel_constant!("decode/query.cu", "kAtOnce");
/// The most queries.
pub const MAX_QUERIES: u32 = kernel_constant!("decode/query.cuh", "kMaxQueries");
/// Values of a box.
pub const BOX_LEN: usize = kernel_constant!("decode/query.cuh", "kBoxLen") as usize;

const _: () = assert!(size_of::<QueryBox>() == BOX_LEN * size_of::<f32>());

/// What passes and how much is kept, in device memory: `Settings` in the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct QuerySettings {
    /// The least coordinates of a centre.
    pub low: [f32; 3],
    /// Coordinates below which a centre is.
    pub high: [f32; 3],
    /// Not 0: centres have to be in the range.
    pub has_range: u32,
    /// Distance bins; 0: one without a limit.
    pub num_bins: u32,
    /// Not 0: the norm of (sine, cosine) has to be at least that of the class.
    pub has_norms: u32,
    /// Pairs that are kept.
    pub max_pairs: u32,
    /// Upper limits of the bins.
    pub limits: [f32; MAX_BINS],
}

// SAFETY: 26 values of 4 bytes each, no gap, any bits are a value.
unsafe impl Plain for QuerySettings {}

/// A pair of a query and a class that is kept: `Pair` in the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C, align(16))]
pub struct Pair {
    /// The query.
    pub query: u32,
    /// The class.
    pub class_index: u32,
    /// The logit of the class.
    pub logit: f32,
    /// The logit of the centreness, where there is one.
    pub centerness: f32,
    /// The query's box.
    pub bbox: QueryBox,
    /// Padding.
    pub reserved: u32,
}

// SAFETY: 16 values of 4 bytes each, no gap, any bits are a value.
unsafe impl Plain for Pair {}

/// The parameter of `decode_query_pairs`: `Args` in the kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DecodeArgs<'a> {
    /// `[queries, 11]`.
    pub boxes: In<'a, f32>,
    /// `[queries, classes]`.
    pub logits: In<'a, f32>,
    /// `[queries, 2]`; empty: none.
    pub quality: In<'a, f32>,
    /// The settings.
    pub settings: In<'a, QuerySettings>,
    /// The least logits, `[classes, MAX_BINS]`.
    pub bounds: In<'a, f32>,
    /// The least norms of (sine, cosine), by class.
    pub norms: In<'a, f32>,
    /// The pairs that are kept, best first.
    pub pairs: Out<'a, Pair>,
    /// Pairs that are kept, that passed; queries with a NaN.
    pub counts: Out<'a, u32>,
    /// Queries.
    pub num_queries: u32,
    /// Classes.
    pub num_classes: u32,
    /// Keys that shared memory holds, a power of two.
    pub num_keys: u32,
    /// Padding.
    pub reserved: u32,
}

mirrors!(QuerySettings, "decode/query.cuh", "Settings");
mirrors!(Pair, "decode/query.cuh", "Pair");
mirrors!(DecodeArgs<'_>, "decode/query.cuh", "Args");

/// `decode_query_pairs`.
pub struct DecodePairs;

// SAFETY: `DecodeArgs`, `QuerySettings` and `Pair` mirror the structs of the kernel (compared).
// Queries and classes are below their numbers, for which boxes, logits, quality, bounds and norms
// are long enough (checked); bins are below `num_bins`, which `QuerySettings` of this module keeps
// below the limits' number. The keys in shared memory hold the pairs that are kept, at most those
// of the slice, and those that are collected after them (checked); boxes are in their place only
// where they fit (the kernel asks). Pairs are written 16 bytes at a time: mapped memory begins at a
// page. One block: its barriers are met by all threads.
unsafe impl KernelSpec for DecodePairs {
    const NAME: &'static str = "decode_query_pairs";
    type Args<'a> = DecodeArgs<'a>;

    fn check(args: &DecodeArgs<'_>, grid: &Grid) -> Result<()> {
        check_threads(Self::NAME, grid.threads_per_block, THREADS_PER_BLOCK)?;
        let [queries, classes] = [args.num_queries, args.num_classes].map(|n| n as usize);
        let max_pairs = args.pairs.len() as u64;
        let fits = grid.num_blocks == [1, 1]
            && args.num_keys.is_power_of_two()
            && max_pairs + u64::from(KEYS_AT_ONCE) <= u64::from(args.num_keys)
            && args.num_queries <= MAX_QUERIES
            && u64::from(args.num_queries) * u64::from(args.num_classes) < 1 << 31;
        if !fits {
            let message = format!(
                "{:?} blocks, {max_pairs} pairs and {} keys for {queries} queries of {classes} \
                 classes; at most {MAX_QUERIES} queries are allowed",
                grid.num_blocks, args.num_keys
            );
            return Err(refused(Self::NAME, &message));
        }
        let quality = if args.quality.is_empty() { 0 } else { 2 * queries };
        check_lens(
            Self::NAME,
            [
                ("boxes", args.boxes.len(), BOX_LEN * queries),
                ("logits", args.logits.len(), queries * classes),
                ("quality", args.quality.len(), quality),
                ("settings", args.settings.len(), 1),
                ("bounds", args.bounds.len(), classes * MAX_BINS),
                ("norms", args.norms.len(), classes),
                ("counts", args.counts.len(), 3),
            ],
        )
    }

    fn shared_bytes(args: &DecodeArgs<'_>) -> u32 {
        args.num_keys.saturating_mul(size_of::<u64>() as u32)
    }
}

// SAFETY: before it waits, the kernel reads settings, bounds and norms, which no launch writes, and
// writes its own shared memory.
unsafe impl DependentKernel for DecodePairs {}
