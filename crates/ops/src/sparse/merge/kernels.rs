//! The parameters of `kernels/sparse/merge.cu`.

use super::MAX_SOURCES;
use crate::device::cuda::{
    Grid, In, KernelSpec, Out, check_lens, check_threads, kernel_constant, kernel_specs, mirrors,
    refused,
};
use crate::sparse::conv::ZERO_BYTES;
use crate::sparse::rulebook::args::{GridArgs, SiteIndexArgs};
use det_post_types::Result;

/// Threads per block: a warp for a site.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("sparse/merge.cu", "kThreads");
/// Sites per block.
pub const SITES_PER_BLOCK: u32 = THREADS_PER_BLOCK / 32;

const _: () = assert!(MAX_SOURCES == kernel_constant!("sparse/merge.cu", "kMaxSources") as usize);

/// A level that is merged: `Source` in the kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SourceArgs<'a> {
    /// Zeros, then rows.
    pub features: In<'a, u8>,
    /// The level.
    pub sites: SiteIndexArgs<'a>,
    /// Its grid.
    pub grid: GridArgs,
    /// Cells of the plane that a cell is wide.
    pub scale: u32,
    /// The most sites.
    pub capacity: u32,
}

/// The parameter of `sparse_merge_*`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct MergeArgs<'a> {
    /// The first `num_sources` of them are summed, in this order.
    pub sources: [SourceArgs<'a>; MAX_SOURCES],
    /// Sites of the plane.
    pub sites: In<'a, u32>,
    /// Their counts.
    pub counts: In<'a, u32>,
    /// Zeros, then rows.
    pub output: Out<'a, u8>,
    /// The grid of the plane.
    pub grid: GridArgs,
    /// Number of levels.
    pub num_sources: u32,
    /// Channels, padded.
    pub row_len: u32,
    /// The most sites of the plane.
    pub capacity: u32,
    /// Padding.
    pub reserved: u32,
}

mirrors!(SourceArgs<'_>, "sparse/merge.cu", "Source");
mirrors!(MergeArgs<'_>, "sparse/merge.cu", "Args");

fn check(kernel: &str, args: &MergeArgs<'_>, grid: &Grid, element_bytes: usize) -> Result<()> {
    check_threads(kernel, grid.threads_per_block, THREADS_PER_BLOCK)?;
    let num_sources = args.num_sources as usize;
    let sources = args.sources.iter().take(num_sources);
    let has_cells = |source: &SourceArgs<'_>| {
        source.scale > 0 && source.sites.has_cells(source.grid.num_cells())
    };
    if num_sources > MAX_SOURCES || args.row_len == 0 || !sources.clone().all(has_cells) {
        let message = format!("{num_sources} levels of {} channels", args.row_len);
        return Err(refused(kernel, &message));
    }
    let row_bytes = args.row_len as usize * element_bytes;
    let rows = |num: u32| ZERO_BYTES.saturating_add((num as usize).saturating_mul(row_bytes));
    check_lens(
        kernel,
        sources.map(|source| ("features", source.features.len(), rows(source.capacity))),
    )?;
    check_lens(
        kernel,
        [
            ("sites", args.sites.len(), args.capacity as usize),
            ("counts", args.counts.len(), 1),
            ("output", args.output.len(), rows(args.capacity)),
        ],
    )
}

/// `sparse_merge_f32`.
pub struct MergeF32;
/// `sparse_merge_f16`.
pub struct MergeF16;
/// `sparse_merge_bf16`.
pub struct MergeBf16;

// SAFETY: `MergeArgs` mirrors `sparse_merge::Args`. A warp writes a row of the plane below the
// number of sites and the capacity, for which the output is long enough (checked). A cell of a
// level is compared with its grid, whose bitmap holds it (checked); its row is below the number of
// the level's sites, and so below the capacity, for which the features are long enough (checked).
// All lanes of a warp have the same site. No thread waits.
kernel_specs! {
    check;
    unsafe MergeF32: "sparse_merge_f32", MergeArgs, 4;
    unsafe MergeF16: "sparse_merge_f16", MergeArgs, 2;
    unsafe MergeBf16: "sparse_merge_bf16", MergeArgs, 2;
}
