//! The parameters of `kernels/arrays/sparse.cu`.

use crate::device::cuda::{
    Grid, In, KernelSpec, Out, check_lens, check_threads, kernel_constant, kernel_specs, mirrors,
    refused,
};
use crate::sparse::conv::ZERO_BYTES;
use crate::sparse::rulebook::args::GridArgs;
use det_post_types::Result;

/// Threads per block: a value, a site or an output row each.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("arrays/sparse.cu", "kThreads");

/// The parameter of `sparse_arrays_features_*`: `FeaturesArgs` in the kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct FeaturesArgs<'a> {
    /// Rows of `num_channels`.
    pub values: In<'a, f32>,
    /// By row of features that of the values; empty: the same.
    pub input_rows: In<'a, u32>,
    /// Zeros, then rows.
    pub features: Out<'a, u8>,
    /// Rows of features.
    pub num_rows: u32,
    /// Channels.
    pub num_channels: u32,
    /// Padded values of a row of features.
    pub row_len: u32,
    /// Padding.
    pub reserved: u32,
}

/// The parameter of `sparse_arrays_values_*`: `ValuesArgs` in the kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ValuesArgs<'a> {
    /// Zeros, then rows.
    pub features: In<'a, u8>,
    /// Rows of `num_channels`.
    pub values: Out<'a, f32>,
    /// Channels.
    pub num_channels: u32,
    /// Padded values of a row of features.
    pub row_len: u32,
}

/// The parameter of `sparse_arrays_sites`: `SitesArgs` in the kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SitesArgs<'a> {
    /// Linear indices.
    pub sites: In<'a, u32>,
    /// By site the row of the input.
    pub input_rows: In<'a, u32>,
    /// Scene, c0, c1, c2 by site; may be empty.
    pub cells: Out<'a, u32>,
    /// By site the row of the input; may be empty.
    pub rows: Out<'a, u64>,
    /// The grid.
    pub grid: GridArgs,
}

/// The parameter of `sparse_arrays_table`: `TableArgs` in the kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct TableArgs<'a> {
    /// Words of the table.
    pub words: In<'a, u32>,
    /// By tap and output row the input row, or -1.
    pub rows: Out<'a, u32>,
    /// Output rows.
    pub num_rows: u32,
    /// Taps per word.
    pub width: u32,
    /// Words from one group to the next.
    pub stride: u32,
    /// Padding.
    pub reserved: u32,
}

mirrors!(FeaturesArgs<'_>, "arrays/sparse.cu", "FeaturesArgs");
mirrors!(ValuesArgs<'_>, "arrays/sparse.cu", "ValuesArgs");
mirrors!(SitesArgs<'_>, "arrays/sparse.cu", "SitesArgs");
mirrors!(TableArgs<'_>, "arrays/sparse.cu", "TableArgs");

/// Bytes of rows of features, zeros in front counted.
fn num_feature_bytes(num_rows: usize, row_len: u32, element_bytes: usize) -> usize {
    ZERO_BYTES.saturating_add(num_rows.saturating_mul(row_len as usize * element_bytes))
}

fn check_features(
    kernel: &str,
    args: &FeaturesArgs<'_>,
    grid: &Grid,
    element_bytes: usize,
) -> Result<()> {
    check_threads(kernel, grid.threads_per_block, THREADS_PER_BLOCK)?;
    if args.num_channels == 0 || args.num_channels > args.row_len {
        let message = format!("{} channels do not fit rows of {}", args.num_channels, args.row_len);
        return Err(refused(kernel, &message));
    }
    let num_rows = args.num_rows as usize;
    let has_order = !args.input_rows.is_empty();
    let num_values = num_rows.saturating_mul(args.num_channels as usize);
    check_lens(
        kernel,
        [
            ("values", args.values.len(), if has_order { 0 } else { num_values }),
            ("input_rows", args.input_rows.len(), if has_order { num_rows } else { 0 }),
            (
                "features",
                args.features.len(),
                num_feature_bytes(num_rows, args.row_len, element_bytes),
            ),
        ],
    )
}

/// `sparse_arrays_features_f32`.
pub struct FeaturesF32;
/// `sparse_arrays_features_f16`.
pub struct FeaturesF16;
/// `sparse_arrays_features_bf16`.
pub struct FeaturesBf16;

// SAFETY: `FeaturesArgs` mirrors the struct of that name (3 slices and 4 values, compared). A
// thread writes a value of the zeros, and one of a row below `num_rows`, for which the features are
// long enough (checked). A row of the order is read below `num_rows`, for which it is long enough
// where it is not empty (checked); a value is read below the length of the values. No thread waits.
kernel_specs! {
    check_features;
    unsafe FeaturesF32: "sparse_arrays_features_f32", FeaturesArgs, 4;
    unsafe FeaturesF16: "sparse_arrays_features_f16", FeaturesArgs, 2;
    unsafe FeaturesBf16: "sparse_arrays_features_bf16", FeaturesArgs, 2;
}

fn check_values(
    kernel: &str,
    args: &ValuesArgs<'_>,
    grid: &Grid,
    element_bytes: usize,
) -> Result<()> {
    check_threads(kernel, grid.threads_per_block, THREADS_PER_BLOCK)?;
    if args.num_channels == 0 || args.num_channels > args.row_len {
        let message = format!("{} channels do not fit rows of {}", args.num_channels, args.row_len);
        return Err(refused(kernel, &message));
    }
    let num_rows = args.values.len().div_ceil(args.num_channels as usize);
    let needed = num_feature_bytes(num_rows, args.row_len, element_bytes);
    check_lens(kernel, [("features", args.features.len(), needed)])
}

/// `sparse_arrays_values_f32`.
pub struct ValuesF32;
/// `sparse_arrays_values_f16`.
pub struct ValuesF16;
/// `sparse_arrays_values_bf16`.
pub struct ValuesBf16;

// SAFETY: `ValuesArgs` mirrors the struct of that name (2 slices and 2 values, compared). A thread
// writes a value below the length of the values, from a row for which the features are long enough
// (checked). No thread waits.
kernel_specs! {
    check_values;
    unsafe ValuesF32: "sparse_arrays_values_f32", ValuesArgs, 4;
    unsafe ValuesF16: "sparse_arrays_values_f16", ValuesArgs, 2;
    unsafe ValuesBf16: "sparse_arrays_values_bf16", ValuesArgs, 2;
}

/// `sparse_arrays_sites`.
pub struct SiteArrays;

// SAFETY: `SitesArgs` mirrors the struct of that name (4 slices and a grid, compared). A thread
// below a quarter of the length of the cells writes four of them, from a site for which the sites
// are long enough; one below the length of the rows writes one, for which the rows of the input are
// (checked). Divisors are the sizes of the grid, none of them 0 (checked). No thread waits.
unsafe impl KernelSpec for SiteArrays {
    const NAME: &'static str = "sparse_arrays_sites";
    type Args<'a> = SitesArgs<'a>;

    fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
        check_threads(Self::NAME, grid.threads_per_block, THREADS_PER_BLOCK)?;
        if args.grid.num_cells() == 0 {
            return Err(refused(Self::NAME, &format!("{:?}", args.grid)));
        }
        check_lens(
            Self::NAME,
            [
                ("sites", args.sites.len(), args.cells.len() / 4),
                ("input_rows", args.input_rows.len(), args.rows.len()),
            ],
        )
    }
}

/// `sparse_arrays_table`.
pub struct TableArrays;

// SAFETY: `TableArgs` mirrors the struct of that name (2 slices and 4 values, compared). A thread
// has a row below `num_rows`, which is not above the stride, and the tap of its block's y: words
// and rows are long enough for all taps of the grid (checked). No thread waits.
unsafe impl KernelSpec for TableArrays {
    const NAME: &'static str = "sparse_arrays_table";
    type Args<'a> = TableArgs<'a>;

    fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
        check_threads(Self::NAME, grid.threads_per_block, THREADS_PER_BLOCK)?;
        if !matches!(args.width, 1 | 3) {
            return Err(refused(
                Self::NAME,
                &format!("{} taps per word must be 1 or 3", args.width),
            ));
        }
        let num_taps = grid.num_blocks[1] as usize;
        let num_groups = num_taps.div_ceil(args.width as usize);
        check_lens(
            Self::NAME,
            [
                ("words", args.words.len(), num_groups.saturating_mul(args.stride as usize)),
                ("rows", args.rows.len(), num_taps.saturating_mul(args.num_rows as usize)),
                ("stride", args.stride as usize, args.num_rows as usize),
            ],
        )
    }
}
