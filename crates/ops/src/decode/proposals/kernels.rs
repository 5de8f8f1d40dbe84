//! The parameters of `kernels/decode/proposals.cu`.

use std::marker::PhantomData;

use half::f16;

use crate::decode::select::kernels::{MAX_FOUND, SelectSlices, THREADS_PER_BLOCK};
use crate::decode::thresholds::ThresholdArgs;
use crate::device::cuda::{
    Grid, In, KernelSpec, Mirror, Out, check_lens, check_threads, kernel_specs, mirrors, refused,
};
use crate::shared::Motion;
use det_post_types::{Box3d, ProposalLayout, Result};

/// The parameter: `Args` in the kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ProposalArgs<'a, T> {
    /// The selection of candidates, at most one per proposal.
    pub selection: SelectSlices<'a, Box3d>,
    /// By found candidate.
    pub motions: Out<'a, Motion>,
    /// By candidate, its index among the found ones.
    pub places: Out<'a, u32>,
    /// One value; 0: no proposal passes.
    pub num_voxels: In<'a, u32>,
    /// Numbers of the boxes.
    pub boxes: In<'a, T>,
    /// Scores by class or, with labels, one of each proposal.
    pub scores: In<'a, T>,
    /// Sine and cosine; none with labels.
    pub directions: In<'a, T>,
    /// Labels.
    pub labels: In<'a, f32>,
    /// One value, the lowest threshold of any class.
    pub lowest: In<'a, f32>,
    /// Score thresholds by class and distance.
    pub thresholds: ThresholdArgs<'a>,
    /// By class, the threshold of the norm of sine and cosine.
    pub least_yaw_norms: In<'a, f32>,
    /// The corner of the map.
    pub origin: [f32; 2],
    /// The size of a cell.
    pub cell_size: [f32; 2],
    /// Proposals.
    pub num_proposals: u32,
    /// Classes.
    pub num_classes: u32,
    /// Not 0: there are labels, and boxes have directions and velocities.
    pub has_labels: u32,
    /// Padding.
    pub reserved: u32,
}

mirrors!(ProposalArgs<'_, T>, "decode/proposals.cu", "Args", T; where T: Mirror);

fn check<T>(kernel: &str, args: &ProposalArgs<'_, T>, grid: &Grid) -> Result<()> {
    check_threads(kernel, grid.threads_per_block, THREADS_PER_BLOCK)?;
    let [num, num_classes] = [args.num_proposals, args.num_classes].map(|n| n as usize);
    let num_blocks = num.div_ceil(THREADS_PER_BLOCK as usize).max(1);
    if num > MAX_FOUND || grid.num_blocks != [num_blocks as u32, 1] {
        let message = format!("{:?} blocks do not fit {num} proposals", grid.num_blocks);
        return Err(refused(kernel, &message));
    }
    let has_labels = args.has_labels != 0;
    let layout = if has_labels { ProposalLayout::BevFusion } else { ProposalLayout::TransFusion };
    let of_scores = if has_labels { 1 } else { num_classes.max(1) };
    let slices = [
        ("num_voxels", args.num_voxels.len(), 1),
        ("boxes", args.boxes.len(), num.saturating_mul(layout.num_box_channels())),
        ("scores", args.scores.len(), num.saturating_mul(of_scores)),
        ("directions", args.directions.len(), if has_labels { 0 } else { 2 * num }),
        ("labels", args.labels.len(), if has_labels { num } else { 0 }),
        ("lowest", args.lowest.len(), 1),
    ];
    check_lens(kernel, slices)?;
    check_lens(kernel, args.selection.needed(num))
}

/// `decode_proposals_*`.
pub struct DecodeProposals<T>(PhantomData<T>);

// SAFETY: `ProposalArgs` mirrors `decode_proposals::Args` (compared). Proposals that are read are
// below their number, for which boxes, scores, and labels or directions have all channels that are
// read (checked); thresholds, norms, motions and places are compared with the lengths of their
// slices, and without a filter no bit is read. What a block appends is compared with the lengths of
// `found` and `items`. The block that counts last waits for the writes of the others, which have
// counted: they run and do not wait.
kernel_specs! {
    check;
    unsafe DecodeProposals<f32>: "decode_proposals_f32", ProposalArgs<f32>;
    unsafe DecodeProposals<f16>: "decode_proposals_f16", ProposalArgs<f16>;
}
