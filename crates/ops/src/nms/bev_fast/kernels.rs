//! The parameter of the kernel `nms_bev_fast_ranked` of `kernels/nms/bev_fast.cu`.

use crate::device::cuda::{
    Grid, In, KernelSpec, check_len, check_threads, kernel_constant, mirrors, refused,
};
use crate::nms::cuda::NmsCounts;
use crate::nms::cuda::kernels::NmsArgs;
use crate::nms::cuda::scratch::Sizes;
use det_post_types::{Box3d, Candidate, Kept, Result};

/// Threads per block.
pub const RANKED_THREADS: u32 = kernel_constant!("nms/bev_fast.cu", "kRankedThreads");
/// The maximum number of rows of a block.
pub const RANKED_ROWS: u32 = kernel_constant!("nms/bev_fast.cu", "kRankedRows");

/// The parameter of `nms_bev_fast_ranked`: `RankedArgs` in the kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RankedArgs<'a> {
    /// As of the other kernels; the number of candidates is not read.
    pub nms: NmsArgs<'a, Candidate<Box3d>>,
    /// The ranked candidates, best first.
    pub ranked: In<'a, Kept>,
    /// Their number.
    pub ranked_counts: In<'a, NmsCounts>,
}

mirrors!(RankedArgs<'_>, "nms/bev_fast.cu", "RankedArgs");

/// `nms_bev_fast_ranked`.
pub struct NmsBevFastRanked;

// SAFETY: `RankedArgs` mirrors the struct of that name. The kernel limits the number of
// ranked candidates to the length of `ranked` and to the capacity, compares their indices
// with the capacity, reads groups, thresholds and pairs of classes within their lengths,
// and writes states and survivors by rank. A block has as many rows as the check allows at
// most. The check covers all other slices. No thread waits.
unsafe impl KernelSpec for NmsBevFastRanked {
    const NAME: &'static str = "nms_bev_fast_ranked";
    type Args<'a> = RankedArgs<'a>;
    fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
        let capacity = args.nms.candidates.len();
        check_threads(Self::NAME, grid.threads_per_block, RANKED_THREADS)?;
        let [num_blocks, y] = grid.num_blocks;
        if capacity > num_blocks as usize * RANKED_ROWS as usize || y != 1 {
            let message =
                format!("{capacity} candidates do not fit a grid of {:?}", grid.num_blocks);
            return Err(refused(Self::NAME, &message));
        }
        check_len(Self::NAME, "ranked_counts", args.ranked_counts.len(), 1)?;
        args.nms.check(Self::NAME, &Sizes::of_ranked(capacity))
    }
}
