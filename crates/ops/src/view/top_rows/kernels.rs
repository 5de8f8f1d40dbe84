//! The parameters of `kernels/view/top_rows.cu`.

use half::f16;

use crate::device::cuda::{
    DependentKernel, Grid, In, KernelSpec, Mirror, Out, Plain, check_lens, check_threads,
    kernel_constant, mirrors, refused,
};
use det_post_types::Result;

/// Threads per block.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("view/top_rows.cu", "kThreads");
/// Rows per block.
pub const ROWS_PER_BLOCK: u32 = kernel_constant!("view/top_rows.cu", "kRowsPerBlock");
/// The most rows.
pub const MAX_ROWS: usize = kernel_constant!("view/top_rows.cu", "kMaxRows") as usize;
const BOX_LEN: usize = kernel_constant!("view/top_rows.cu", "kBoxLen") as usize;

/// The parameter of `top_rows_*`: `Args` in the kernels.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct TopRowsArgs<'a, T> {
    /// `[rows, classes]`; the value of a row is its largest.
    pub logits: In<'a, f32>,
    /// `[rows, channels]`.
    pub features: In<'a, T>,
    /// `[rows, 11]`.
    pub boxes: In<'a, f32>,
    /// Of the first rows, before this frame; empty: none.
    pub confidence: In<'a, f32>,
    /// Rows of the memory, then the chosen ones.
    pub to_features: Out<'a, T>,
    /// Likewise.
    pub to_boxes: Out<'a, f32>,
    /// Confidences of the chosen rows; empty: they are chosen by logit.
    pub to_confidence: Out<'a, f32>,
    /// The chosen rows, in order.
    pub rows: Out<'a, u32>,
    /// Rows that come before the chosen ones; empty: none.
    pub memory_features: In<'a, T>,
    /// Their boxes, which are moved.
    pub memory_boxes: In<'a, f32>,
    /// 12 values of the rigid transform, and the interval.
    pub motion: In<'a, f32>,
    /// Rows.
    pub num_rows: u32,
    /// Logits of a row.
    pub num_classes: u32,
    /// Rows that are chosen.
    pub num_chosen: u32,
    /// Rows before them.
    pub num_memory: u32,
    /// Channels of a row, a multiple of 8.
    pub num_channels: u32,
    /// Whether sine and cosine of the moved boxes change places.
    pub swaps_yaw: u32,
    /// Of the confidence before.
    pub decay: f32,
    /// Padding.
    pub reserved: u32,
}

mirrors!(TopRowsArgs<'_, T>, "view/top_rows.cu", "Args", T; where T: Mirror);

fn check<T: Plain>(kernel: &str, args: &TopRowsArgs<'_, T>, grid: &Grid) -> Result<()> {
    check_threads(kernel, grid.threads_per_block, THREADS_PER_BLOCK)?;
    let [rows, classes, chosen, memory, channels] =
        [args.num_rows, args.num_classes, args.num_chosen, args.num_memory, args.num_channels]
            .map(|n| n as usize);
    let has_memory = !args.memory_features.is_empty();
    let fits = grid.num_blocks == [args.num_rows.div_ceil(ROWS_PER_BLOCK), 1]
        && (1..=MAX_ROWS).contains(&rows)
        && classes > 0
        && chosen <= rows
        && memory <= rows
        && (memory == 0 || has_memory)
        && channels > 0
        && channels.is_multiple_of(8)
        && args.confidence.len() <= rows;
    if !fits {
        let message = format!(
            "{:?} blocks, {chosen} of {rows} rows with {classes} logits and {channels} channels, \
             {memory} rows before them; at most {MAX_ROWS} rows are allowed",
            grid.num_blocks
        );
        return Err(refused(kernel, &message));
    }
    let confidence = if args.to_confidence.is_empty() { 0 } else { chosen };
    let moved = if memory == 0 { 0 } else { 13 };
    check_lens(
        kernel,
        [
            ("logits", args.logits.len(), rows * classes),
            ("features", args.features.len(), rows * channels),
            ("boxes", args.boxes.len(), rows * BOX_LEN),
            ("written features", args.to_features.len(), (memory + chosen) * channels),
            ("written boxes", args.to_boxes.len(), (memory + chosen) * BOX_LEN),
            ("written confidences", args.to_confidence.len(), confidence),
            ("chosen rows", args.rows.len(), chosen),
            ("features of the memory", args.memory_features.len(), memory * channels),
            ("boxes of the memory", args.memory_boxes.len(), memory * BOX_LEN),
            ("motion", args.motion.len(), moved),
        ],
    )
}

/// Elements of features that the rows are compiled for.
pub trait RowElement: Plain {
    /// The kernel.
    type TopRows: for<'a> DependentKernel<Args<'a> = TopRowsArgs<'a, Self>>;
}

macro_rules! top_rows {
    ($element:ty, $spec:ident: $name:literal) => {
        #[doc = concat!("`", $name, "`.")]
        pub struct $spec;

        // SAFETY: `TopRowsArgs` mirrors the struct of the kernels (compared). Warps have a row, of
        // which they use it only below their number; one writes to a place below that of the
        // chosen rows, or of the memory's, for which the slices are long enough (checked). Shared
        // memory has two words a row. No block waits for another.
        unsafe impl KernelSpec for $spec {
            const NAME: &'static str = $name;
            type Args<'a> = TopRowsArgs<'a, $element>;
            fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
                check(Self::NAME, args, grid)
            }
            fn shared_bytes(args: &Self::Args<'_>) -> u32 {
                shared_bytes(args.num_rows)
            }
        }

        // SAFETY: the kernels wait before they read or write anything but their parameters.
        unsafe impl DependentKernel for $spec {}

        impl RowElement for $element {
            type TopRows = $spec;
        }
    };
}

top_rows!(f32, TopRowsF32: "top_rows_f32");
top_rows!(f16, TopRowsF16: "top_rows_f16");

/// Bytes of shared memory of a block.
pub fn shared_bytes(num_rows: u32) -> u32 {
    num_rows.saturating_mul(2 * size_of::<u32>() as u32)
}
