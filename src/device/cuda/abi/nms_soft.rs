//! `kernels/nms_soft.cu`.

use super::super::{Grid, In, KernelSpec, Out, Plain};
use super::nms::NmsCounts;
use super::{check_len, check_threads, refused};
use crate::error::Result;
use crate::types::{Box2d, Candidate, Kept};

/// Threads of the one block.
pub const THREADS_PER_BLOCK: u32 = 1024;

/// The mirror of `Settings`, in device memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct SoftSettings {
    /// Of the Gaussian decay; 0 for the linear one.
    pub sigma: f32,
    /// Of the linear decay: none below this IoU.
    pub iou_threshold: f32,
    /// What is below it goes, but for the first.
    pub min_score: f32,
    /// Added to widths and heights.
    pub offset: f32,
    /// 0 aware, 1 agnostic, 2 groups.
    pub class_mode: u32,
    /// Classes that have a group.
    pub num_groups: u32,
}

// SAFETY: 6 values of 4 bytes each, no gap, any bits are a value.
unsafe impl Plain for SoftSettings {}

/// The mirror of `Args`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SoftArgs<'a> {
    /// Candidates in any order; their number of places is the capacity.
    pub candidates: In<'a, Candidate<Box2d>>,
    /// How many there are; at most the capacity are read.
    pub num_candidates: In<'a, u32>,
    /// The settings.
    pub settings: In<'a, SoftSettings>,
    /// Group of a class.
    pub groups: In<'a, u32>,
    /// The falling scores.
    pub scores: Out<'a, f32>,
    /// The taken, in order.
    pub kept: Out<'a, Kept>,
    /// How many.
    pub counts: Out<'a, NmsCounts>,
    /// The taken in memory of the host.
    pub published: Out<'a, Kept>,
    /// How many, in memory of the host.
    pub published_counts: Out<'a, NmsCounts>,
}

const _: () = assert!(size_of::<SoftArgs<'_>>() == 9 * 16);

/// `nms_soft`.
pub struct NmsSoftKernel;

// SAFETY: `SoftArgs` mirrors `soft::Args` (9 slices of 16 bytes). Candidates,
// scores and what is kept are used below the number of candidates, which the
// kernel cuts to the capacity: each candidate is taken once at most. Groups are
// read within their length. No thread waits for another block: there is one.
unsafe impl KernelSpec for NmsSoftKernel {
    const NAME: &'static str = "nms_soft";
    type Args<'a> = SoftArgs<'a>;
    fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
        check_threads(Self::NAME, grid.threads_per_block, THREADS_PER_BLOCK)?;
        if grid.num_blocks != [1, 1] {
            return Err(refused(Self::NAME, &format!("{:?} blocks, not one", grid.num_blocks)));
        }
        let capacity = args.candidates.len();
        let slices = [
            ("num_candidates", args.num_candidates.len(), 1),
            ("settings", args.settings.len(), 1),
            ("scores", args.scores.len(), capacity),
            ("kept", args.kept.len(), capacity),
            ("counts", args.counts.len(), 1),
            ("published", args.published.len(), capacity),
            ("published_counts", args.published_counts.len(), 1),
        ];
        slices
            .into_iter()
            .try_for_each(|(name, found, needed)| check_len(Self::NAME, name, found, needed))
    }
}
