//! The parameters of `kernels/decode/streampetr.cu`.

use std::marker::PhantomData;

use half::f16;

use super::NUM_BOX_CHANNELS;
use crate::decode::select::kernels::{MAX_FOUND, SelectSlices, THREADS_PER_BLOCK};
use crate::decode::thresholds::ThresholdArgs;
use crate::device::cuda::{
    Grid, In, KernelSpec, Mirror, Out, check_lens, check_threads, kernel_specs, mirrors, refused,
};
use crate::shared::Motion;
use det_post_types::{Box3d, Result};

/// The parameter: `Args` in the kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct StreamPetrArgs<'a, T> {
    /// The selection of candidates, at most one per query.
    pub selection: SelectSlices<'a, Box3d>,
    /// By found candidate.
    pub motions: Out<'a, Motion>,
    /// By candidate, its index among the found ones.
    pub places: Out<'a, u32>,
    /// Logits of the classes.
    pub logits: In<'a, T>,
    /// Ten numbers of each query.
    pub boxes: In<'a, T>,
    /// The smallest logit that may pass.
    pub bound: In<'a, f32>,
    /// Score thresholds by class and distance.
    pub thresholds: ThresholdArgs<'a>,
    /// By class, the threshold of the norm of sine and cosine.
    pub least_yaw_norms: In<'a, f32>,
    /// Smallest x, y, z of centres.
    pub min: [f32; 3],
    /// Largest x, y, z, exclusive.
    pub max: [f32; 3],
    /// Queries.
    pub num_queries: u32,
    /// Classes.
    pub num_classes: u32,
    /// Not 0: centres outside are dropped.
    pub has_range: u32,
    /// Not 0: channels are the innermost dimension, else queries.
    pub channels_last: u32,
    /// Not 0: sizes are width, length, height.
    pub width_comes_first: u32,
    /// Not 0: angles turn clockwise from -y.
    pub yaw_turns_clockwise: u32,
}

mirrors!(StreamPetrArgs<'_, T>, "decode/streampetr.cu", "Args", T; where T: Mirror);

fn check<T>(kernel: &str, args: &StreamPetrArgs<'_, T>, grid: &Grid) -> Result<()> {
    check_threads(kernel, grid.threads_per_block, THREADS_PER_BLOCK)?;
    let [num_queries, num_classes] = [args.num_queries, args.num_classes].map(|n| n as usize);
    let num_blocks = num_queries.div_ceil(THREADS_PER_BLOCK as usize).max(1);
    if num_queries > MAX_FOUND || grid.num_blocks != [num_blocks as u32, 1] {
        let message = format!("{:?} blocks do not fit {num_queries} queries", grid.num_blocks);
        return Err(refused(kernel, &message));
    }
    let slices = [
        ("logits", args.logits.len(), num_queries.saturating_mul(num_classes)),
        ("boxes", args.boxes.len(), num_queries.saturating_mul(NUM_BOX_CHANNELS)),
        ("bound", args.bound.len(), 1),
    ];
    check_lens(kernel, slices)?;
    check_lens(kernel, args.selection.needed(num_queries))
}

/// `decode_streampetr_*`.
pub struct DecodeStreamPetr<T>(PhantomData<T>);

// SAFETY: `StreamPetrArgs` mirrors `decode_streampetr::Args` (compared). Queries that are read are
// below their number, for which logits and boxes have all channels (checked); thresholds, norms,
// motions and places are compared with the lengths of their slices, and without a filter no bit is
// read. What a block appends is compared with the lengths of `found` and `items`. The block that
// counts last waits for the writes of the others, which have counted: they run and do not wait.
kernel_specs! {
    check;
    unsafe DecodeStreamPetr<f32>: "decode_streampetr_f32", StreamPetrArgs<f32>;
    unsafe DecodeStreamPetr<f16>: "decode_streampetr_f16", StreamPetrArgs<f16>;
}
