//! The parameters of the kernels `nms_bev_fast_*` and of `nms_bev_fast_ranked`.

use super::check;
use crate::device::cuda::{
    Grid, In, KernelSpec, check_len, check_threads, kernel_constant, mirrors, refused,
};
use crate::nms::cuda::NmsCounts;
use crate::nms::cuda::kernels::{Family, Geometry, NmsArgs, names};
use crate::nms::cuda::parameters::Parameters;
use crate::nms::cuda::scratch::Sizes;
use crate::nms::kernels::NmsSettings;
use det_post_types::{Box3d, Candidate, Kept, NmsBevFast, Result};

// SAFETY: kernels/nms/bev_fast.cu has these kernels, for `Candidate3d`, with a footprint of 2 vectors.
unsafe impl Family for NmsBevFast {
    type Bbox = Box3d;
    const OP: &'static str = "nms_bev_fast";
    const NAMES: [&'static str; 8] = names!("nms_bev_fast");
    const GEOMETRY: Geometry = Geometry::Footprint;

    fn parameters(&self) -> Result<Parameters<'_>> {
        check(self)?;
        let parameters = Parameters::new(&self.class_mode, NmsSettings::default())
            .with_search_distance(self.search_distance_m)
            .with_thresholds(Self::OP, &self.iou_thresholds)?;
        let NmsBevFast { forbidden_pairs, unlimited_pairs, .. } = self;
        Ok(Parameters { forbidden: forbidden_pairs, unlimited: unlimited_pairs, ..parameters })
    }
}

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
