//! The parameters of `kernels/view/detr3d_block.cu`.

use std::marker::PhantomData;

use half::f16;

use crate::device::cuda::{
    DependentKernel, Grid, In, KernelSpec, Kind, Mirror, Out, check_lens, check_threads,
    kernel_constant, mirrors, refused,
};
use crate::view::sample::cuda::{MAX_LEVELS, MAX_VIEWS, MapsArgs};
use det_post_types::Result;

/// Threads per block.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("view/detr3d_block_product.cuh", "kThreads");
/// Thread blocks per cluster.
pub const CLUSTER_BLOCKS: u32 = kernel_constant!("view/detr3d_block_product.cuh", "kBlocks");
/// Heads.
pub const HEADS: u32 = kernel_constant!("view/detr3d_block.cuh", "kHeads");
/// Channels.
pub const CHANNELS: u32 = kernel_constant!("view/detr3d_block.cuh", "kChannels");
/// Channels between the feed-forward layers.
pub const HIDDEN: u32 = kernel_constant!("view/detr3d_block.cuh", "kHidden");
/// The most classes.
pub const MAX_CLASSES: u32 = kernel_constant!("view/detr3d_block.cuh", "kMaxClasses");
const TILE_KEYS: u32 = kernel_constant!("view/attention.cuh", "kKeys");
const BOX_LEN: u32 = kernel_constant!("view/detr3d_block.cuh", "kBoxLen");
const NUM_LAYERS: usize = kernel_constant!("view/detr3d_block.cuh", "kNumLayers") as usize;
const NUM_NORMS: usize = kernel_constant!("view/detr3d_block.cuh", "kNumNorms") as usize;

/// A packed layer: `Layer` in the kernels.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LayerArgs<'a> {
    /// Packed as those of `linear`.
    pub weights: In<'a, u8>,
    /// One per output, padded.
    pub bias: In<'a, f32>,
}

impl LayerArgs<'_> {
    /// No layer.
    pub fn empty() -> Self {
        Self { weights: In::empty(), bias: In::empty() }
    }
}

/// The layers of a block, in the order of the kernels.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LayersArgs<'a> {
    /// The second layer of the position encoder.
    pub encoder: LayerArgs<'a>,
    /// The output of the attention.
    pub attention_output: LayerArgs<'a>,
    /// The output of the sampling.
    pub view_output: LayerArgs<'a>,
    /// The feed-forward layers.
    pub feed_forward: [LayerArgs<'a>; 2],
    /// Queries and keys of the next block; empty in the last.
    pub queries_keys: LayerArgs<'a>,
    /// Its values.
    pub values: LayerArgs<'a>,
    /// The regression, its last layer in the order of a box's state.
    pub regression: [LayerArgs<'a>; 3],
    /// The classes; empty but in the last block.
    pub classes: [LayerArgs<'a>; 3],
}

/// Factors and summands of normalizations, in the order of the kernels.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NormsArgs<'a> {
    /// After the layers of the position encoder.
    pub encoder: [In<'a, f32>; 2],
    /// After the attention, the sampling and the feed-forward layers.
    pub rows: [In<'a, f32>; 3],
    /// After the first two layers of the classes; empty but in the last block.
    pub classes: [In<'a, f32>; 2],
}

/// A block: `Args` in the kernels.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct BlockArgs<'a> {
    /// The layers.
    pub layers: LayersArgs<'a>,
    /// The normalizations.
    pub norms: NormsArgs<'a>,
    /// Of each channel, three weights and a bias: the position encoder's first layer.
    pub encoder: In<'a, f32>,
    /// Rows after the attention, before their normalization, of the first block; empty in
    /// the others, which compute them.
    pub attended: In<'a, f16>,
    /// Normalized rows of the block before.
    pub content: In<'a, f16>,
    /// Added to the attention; empty: nothing.
    pub positions: In<'a, f16>,
    /// A row per query.
    pub queries: In<'a, f16>,
    /// Keys and values, as the block before stores them: [`keys_values_len`].
    pub keys_values: In<'a, f16>,
    /// Added to the next queries and keys.
    pub offsets: In<'a, f16>,
    /// Normalized rows.
    pub next_content: Out<'a, f16>,
    /// Queries of the next block.
    pub next_queries: Out<'a, f16>,
    /// Its keys and values.
    pub next_keys_values: Out<'a, f16>,
    /// Rows before the last normalization; empty: nowhere.
    pub output: Out<'a, f16>,
    /// Reference points, 3 per query, in 0 to 1 of the range.
    pub points: In<'a, f32>,
    /// The points moved; empty in the last block.
    pub moved: Out<'a, f32>,
    /// Weights of the logits of sampling: a row of channels per view and level.
    pub sample_weights: In<'a, f16>,
    /// What is added to them: a row of views times levels per query.
    pub sample_offsets: In<'a, f32>,
    /// Boxes of the last block; empty in the others.
    pub boxes: Out<'a, f32>,
    /// Logits of the classes, of the last block.
    pub logits: Out<'a, f32>,
    /// Maps and views.
    pub maps: MapsArgs<'a>,
    /// The least coordinates of the range, in metres.
    pub low: [f32; 3],
    /// The lengths of the range, in metres.
    pub extent: [f32; 3],
    /// Queries.
    pub num_queries: u32,
    /// Classes.
    pub num_classes: u32,
    /// The factor of the scores, to the base 2.
    pub score_scale: f32,
    /// Added to variances.
    pub epsilon: f32,
}

/// Values of the keys and values of so many queries: whole tiles of 32 keys, which begin as zeros.
pub fn keys_values_len(num_queries: usize) -> usize {
    num_queries.next_multiple_of(TILE_KEYS as usize) * 2 * CHANNELS as usize
}

mirrors!(LayerArgs<'_>, "view/detr3d_block.cuh", "Layer");
mirrors!(BlockArgs<'_>, "view/detr3d_block.cuh", "Args");

/// Implements [`Mirror`] for a struct with names for the values of an array, whose positions the
/// kernels name in an enumeration.
macro_rules! named_values {
    ($named:ty, [$value:ty; $num:expr], { $($field:ident: $position:literal),+ }) => {
        impl Mirror for $named {
            const KIND: Kind = Kind::Array(&<$value as Mirror>::KIND, $num);
        }
        const _: () = {
            $(assert!(
                std::mem::offset_of!($named, $field)
                    == kernel_constant!("view/detr3d_block.cuh", $position) as usize
                        * size_of::<$value>(),
                concat!(stringify!($field), " is not at ", $position)
            );)+
            assert!(size_of::<$named>() == $num * size_of::<$value>());
        };
    };
}

named_values!(LayersArgs<'_>, [LayerArgs<'_>; NUM_LAYERS], {
    encoder: "kEncoderLayer",
    attention_output: "kOutputLayer",
    view_output: "kViewLayer",
    feed_forward: "kHiddenLayer",
    queries_keys: "kQueriesKeysLayer",
    values: "kValuesLayer",
    regression: "kRegressionLayer",
    classes: "kClassLayer"
});
named_values!(NormsArgs<'_>, [In<'_, f32>; NUM_NORMS], {
    encoder: "kEncoderInputNorm",
    rows: "kAttentionNorm",
    classes: "kClassNorm"
});

fn check(
    kernel: &str,
    args: &BlockArgs<'_>,
    grid: &Grid,
    cluster_queries: u32,
    texel_bytes: usize,
) -> Result<()> {
    check_threads(kernel, grid.threads_per_block, THREADS_PER_BLOCK)?;
    let maps = &args.maps;
    let [views, levels, channels] =
        [maps.num_views, maps.num_levels, maps.num_channels].map(|n| n as usize);
    let num_blocks = args.num_queries.div_ceil(cluster_queries) * CLUSTER_BLOCKS;
    let is_last = !args.boxes.is_empty();
    let fits = grid.num_blocks == [num_blocks, 1]
        && args.num_queries > 0
        && (1..=MAX_VIEWS).contains(&views)
        && (1..=MAX_LEVELS).contains(&levels)
        && maps.num_channels == CHANNELS
        && (!is_last || (1..=MAX_CLASSES).contains(&args.num_classes));
    if !fits {
        let message = format!(
            "{:?} blocks do not fit {} queries, {views} views, {levels} levels, {channels} \
             channels, {} classes",
            grid.num_blocks, args.num_queries, args.num_classes
        );
        return Err(refused(kernel, &message));
    }
    maps.check(kernel, texel_bytes)?;
    check_layers(kernel, args, is_last)?;
    let num_queries = args.num_queries as usize;
    let rows = num_queries * channels;
    let keys_values = keys_values_len(num_queries);
    let is_first = !args.attended.is_empty();
    // What a block does not use may be empty.
    let unless = |skips: bool, needed: usize| if skips { 0 } else { needed };
    let used = |len: usize, needed: usize| unless(len == 0, needed);
    check_lens(
        kernel,
        [
            ("encoder", args.encoder.len(), 4 * channels),
            ("attended", args.attended.len(), used(args.attended.len(), rows)),
            ("content", args.content.len(), unless(is_first, rows)),
            ("positions", args.positions.len(), used(args.positions.len(), rows)),
            ("queries", args.queries.len(), unless(is_first, rows)),
            ("keys and values", args.keys_values.len(), unless(is_first, keys_values)),
            ("offsets", args.offsets.len(), unless(is_last, 2 * rows)),
            ("next content", args.next_content.len(), used(args.next_content.len(), rows)),
            ("next queries", args.next_queries.len(), unless(is_last, rows)),
            ("next keys and values", args.next_keys_values.len(), unless(is_last, keys_values)),
            ("output", args.output.len(), used(args.output.len(), rows)),
            ("points", args.points.len(), 3 * num_queries),
            ("moved points", args.moved.len(), unless(is_last, 3 * num_queries)),
            ("sample weights", args.sample_weights.len(), views * levels * channels),
            ("sample offsets", args.sample_offsets.len(), num_queries * views * levels),
            ("boxes", args.boxes.len(), unless(!is_last, num_queries * BOX_LEN as usize)),
            (
                "logits",
                args.logits.len(),
                unless(!is_last, num_queries * args.num_classes as usize),
            ),
            ("projections", maps.projections.len(), 12 * views),
        ],
    )
}

fn check_layers(kernel: &str, args: &BlockArgs<'_>, is_last: bool) -> Result<()> {
    let layers = &args.layers;
    let check = |name, layer: &LayerArgs<'_>, num_inputs: u32, num_outputs: u32| {
        let num_outputs = num_outputs.next_multiple_of(16) as usize;
        let bytes = num_inputs as usize * num_outputs * size_of::<f16>();
        check_lens(
            kernel,
            [(name, layer.weights.len(), bytes), (name, layer.bias.len(), num_outputs)],
        )
    };
    check("encoder layer", &layers.encoder, CHANNELS, CHANNELS)?;
    check("attention output", &layers.attention_output, CHANNELS, CHANNELS)?;
    check("view output", &layers.view_output, CHANNELS, CHANNELS)?;
    check("first feed-forward layer", &layers.feed_forward[0], CHANNELS, HIDDEN)?;
    check("second feed-forward layer", &layers.feed_forward[1], HIDDEN, CHANNELS)?;
    check("first regression layer", &layers.regression[0], CHANNELS, CHANNELS)?;
    check("second regression layer", &layers.regression[1], CHANNELS, CHANNELS)?;
    check("third regression layer", &layers.regression[2], CHANNELS, BOX_LEN - 1)?;
    if is_last {
        check("first class layer", &layers.classes[0], CHANNELS, CHANNELS)?;
        check("second class layer", &layers.classes[1], CHANNELS, CHANNELS)?;
        check("third class layer", &layers.classes[2], CHANNELS, args.num_classes)?;
    } else {
        check("queries and keys layer", &layers.queries_keys, CHANNELS, 2 * CHANNELS)?;
        check("values layer", &layers.values, CHANNELS, CHANNELS)?;
    }
    let norms = args.norms.encoder.iter().chain(&args.norms.rows);
    let of_classes = args.norms.classes.iter().filter(|_| is_last);
    let norm = |norm: &In<'_, f32>| {
        check_lens(kernel, [("normalization", norm.len(), 2 * CHANNELS as usize)])
    };
    norms.chain(of_classes).try_for_each(norm)
}

/// Blocks with texels of `M` and clusters of so many queries.
pub struct Block<M, const QUERIES: u32>(PhantomData<M>);

/// What the launcher knows of a kernel.
pub trait BlockSpec: for<'a> DependentKernel<Args<'a> = BlockArgs<'a>> {
    /// Queries per cluster.
    const CLUSTER_QUERIES: u32;
    /// Bytes of shared memory per thread block.
    const SHARED_BYTES: u32;
}

macro_rules! blocks {
    ($($texel:ty, $queries:literal, $bytes:literal: $name:literal;)+) => {$(
        impl BlockSpec for Block<$texel, $queries> {
            const CLUSTER_QUERIES: u32 = $queries;
            const SHARED_BYTES: u32 = kernel_constant!("view/detr3d_block.cuh", $bytes);
        }

        // SAFETY: `BlockArgs` and what it consists of mirror the structs of the kernels. The
        // grid is whole clusters, as many as the queries need (checked). Rows at and beyond
        // `num_queries` are not read and not written, but for keys and values up to the end of
        // their last tile; a texel is read if it lies within its level, of a view
        // below the number of views; the slices are long enough (checked; what is empty is
        // not used). Shared memory is what the kernel's layout takes (asserted there). Thread
        // blocks wait only for those of their cluster, which run at the same time.
        unsafe impl KernelSpec for Block<$texel, $queries> {
            const NAME: &'static str = $name;
            type Args<'a> = BlockArgs<'a>;
            fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
                check(Self::NAME, args, grid, $queries, size_of::<$texel>())
            }
            fn shared_bytes(_args: &Self::Args<'_>) -> u32 {
                Self::SHARED_BYTES
            }
        }

        // SAFETY: before its `griddepcontrol.wait` the kernel reads weights, biases and
        // normalizations, which no launch writes, and writes its own shared memory.
        unsafe impl DependentKernel for Block<$texel, $queries> {}
    )+};
}

blocks! {
    f16, 8, "kBytes8": "detr3d_block_8_f16";
    i8, 8, "kBytes8": "detr3d_block_8_f16_i8";
    f16, 16, "kBytes16": "detr3d_block_16_f16";
    i8, 16, "kBytes16": "detr3d_block_16_f16_i8";
}
