//! The parameters of `kernels/nms/survivors.cu`.

use crate::device::cuda::{
    Grid, In, KernelSpec, Out, check_lens, check_threads, kernel_constant, mirrors,
};
use crate::nms::cuda::NmsCounts;
use crate::nms::cuda::kernels::Geometry;
use det_post_types::{Box3d, Candidate, Kept, Result};

/// Threads per block: a survivor each.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("nms/survivors.cu", "kThreads");

/// Vectors of a footprint.
const FOOTPRINT_VECTORS: usize = Geometry::Footprint.num_vectors();

/// The parameter of `survivors_3d`: `Args` in the kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SurvivorsArgs<'a> {
    /// The candidates.
    pub candidates: In<'a, Candidate<Box3d>>,
    /// The index of each candidate in other lists.
    pub places: In<'a, u32>,
    /// The survivors, best first.
    pub kept: In<'a, Kept>,
    /// Their number.
    pub nms_counts: In<'a, NmsCounts>,
    /// The candidates of the survivors.
    pub survivors: Out<'a, Candidate<Box3d>>,
    /// Their places.
    pub survivor_places: Out<'a, u32>,
    /// Their number.
    pub num: Out<'a, u32>,
    /// Their footprints, vector by vector; empty: none are written.
    pub footprints: Out<'a, [f32; 4]>,
}

mirrors!(SurvivorsArgs<'_>, "nms/survivors.cu", "Args");

/// `survivors_3d`.
pub struct Survivors;

// SAFETY: `SurvivorsArgs` mirrors `survivors::Args` (8 slices, compared). A thread reads a survivor
// below the lengths of `kept`, `survivors` and `survivor_places`, and the candidate and the place
// at its index, which is compared with their lengths. The check covers the other slices. No thread
// waits.
unsafe impl KernelSpec for Survivors {
    const NAME: &'static str = "survivors_3d";
    type Args<'a> = SurvivorsArgs<'a>;
    fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
        check_threads(Self::NAME, grid.threads_per_block, THREADS_PER_BLOCK)?;
        let no_footprints = args.footprints.is_empty();
        let footprints = if no_footprints { 0 } else { FOOTPRINT_VECTORS * args.survivors.len() };
        check_lens(
            Self::NAME,
            [
                ("nms_counts", args.nms_counts.len(), 1),
                ("num", args.num.len(), 1),
                ("footprints", args.footprints.len(), footprints),
            ],
        )
    }
}
