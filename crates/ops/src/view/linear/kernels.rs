//! The kernels of `kernels/view/linear.cu`, by elements and rows per block.

use half::f16;

use super::job::{COLUMNS_PER_BLOCK, JobArgs, THREADS_PER_BLOCK, TILE_ROWS};
use crate::device::cuda::{
    DependentKernel, Grid, KernelSpec, Mirror, Plain, check_threads, kernel_constant, mirrors,
    refused,
};
use crate::sparse::conv::Precision;
use det_post_types::Result;

pub(super) const MAX_JOBS: usize = kernel_constant!("view/linear.cuh", "kMaxJobs") as usize;

/// The layers of a launch: `Args` in the kernels.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LinearArgs<'a, T> {
    num_jobs: u32,
    end_blocks: [u32; MAX_JOBS],
    reserved: u32,
    jobs: [JobArgs<'a, T>; MAX_JOBS],
}

mirrors!(LinearArgs<'_, T>, "view/linear.cuh", "Args", T; where T: Mirror);

impl<'a, T: Element> LinearArgs<'a, T> {
    /// No layers.
    pub fn empty() -> Self {
        Self {
            num_jobs: 0,
            end_blocks: [0; MAX_JOBS],
            reserved: 0,
            jobs: [JobArgs::empty(); MAX_JOBS],
        }
    }

    /// Layers that do not depend on each other, at most 4.
    ///
    /// # Errors
    /// `Argument` when there are more.
    pub fn new(jobs: &[JobArgs<'a, T>]) -> Result<Self> {
        let mut args = Self::empty();
        if jobs.len() > MAX_JOBS {
            let message = format!("{} layers exceed the limit of {MAX_JOBS}", jobs.len());
            return Err(refused("linear", &message));
        }
        args.num_jobs = jobs.len() as u32;
        let mut end = 0;
        for ((job, to), end_block) in jobs.iter().zip(&mut args.jobs).zip(&mut args.end_blocks) {
            end += job.num_outputs.div_ceil(COLUMNS_PER_BLOCK);
            (*to, *end_block) = (*job, end);
        }
        Ok(args)
    }

    pub(crate) fn jobs(&self) -> &[JobArgs<'a, T>] {
        &self.jobs[..self.num_jobs as usize]
    }

    /// Column blocks of all layers.
    pub(crate) fn num_column_blocks(&self) -> u32 {
        self.num_jobs.checked_sub(1).map_or(0, |last| self.end_blocks[last as usize])
    }

    /// Blocks of rows of `num_tiles` tiles.
    pub(crate) fn num_row_blocks(&self, num_tiles: u32) -> u32 {
        let num_rows = self.jobs().iter().map(|job| job.num_rows).max().unwrap_or(0);
        num_rows.div_ceil(TILE_ROWS * num_tiles)
    }

    /// Bytes of shared memory of a block of `num_tiles` tiles.
    pub(crate) fn shared_bytes(&self, num_tiles: u32) -> u32 {
        self.jobs().iter().map(|job| job.shared_bytes(num_tiles)).max().unwrap_or(0)
    }

    pub(crate) fn check(&self, kernel: &str, encodes: bool) -> Result<()> {
        self.jobs().iter().try_for_each(|job| job.check(kernel, encodes))
    }
}

/// The elements of activations and weights.
pub trait Element: Plain {
    /// The kernels by tiles of 16 rows per block.
    type Tiles1: for<'a> DependentKernel<Args<'a> = LinearArgs<'a, Self>>;
    /// Two tiles.
    type Tiles2: for<'a> DependentKernel<Args<'a> = LinearArgs<'a, Self>>;
    /// Four tiles.
    type Tiles4: for<'a> DependentKernel<Args<'a> = LinearArgs<'a, Self>>;

    /// The precision of products.
    const PRECISION: Precision;

    /// Rounded once.
    fn from_f32(value: f32) -> Self;
    /// Exact.
    fn to_f32(self) -> f32;
    /// Appends the bytes, little endian.
    fn extend(self, bytes: &mut Vec<u8>);
}

macro_rules! element {
    ($element:ty, $precision:expr, $from:expr, $to:expr; $($spec:ident: $tiles:ident = $num_tiles:literal, $name:literal;)+) => {
        $(
            #[doc = concat!("`", $name, "`.")]
            pub struct $spec;

            // SAFETY: `LinearArgs`, `JobArgs` and `PartArgs` mirror the structs of the kernels.
            // Rows at and beyond `num_rows` are neither read nor written, but for the rows up to
            // the next multiple of 16 of a transposed output; columns are below those of the parts
            // and the padded outputs. The slices are long enough for them (checked; a slice that is
            // empty is not used). A block finds its layer by `end_blocks`, which only
            // `LinearArgs::new` sets; the grid is compared with them. Shared memory is what `shared_bytes`
            // says. No block waits for another.
            unsafe impl KernelSpec for $spec {
                const NAME: &'static str = $name;
                type Args<'a> = LinearArgs<'a, $element>;
                fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
                    check_threads(Self::NAME, grid.threads_per_block, THREADS_PER_BLOCK)?;
                    let expected = [args.num_row_blocks($num_tiles), args.num_column_blocks()];
                    if args.num_jobs == 0 || grid.num_blocks != expected {
                        let message = format!("{:?} blocks, {expected:?} required", grid.num_blocks);
                        return Err(refused(Self::NAME, &message));
                    }
                    args.check(Self::NAME, false)
                }
                fn shared_bytes(args: &Self::Args<'_>) -> u32 {
                    args.shared_bytes($num_tiles)
                }
            }

            // SAFETY: before they wait, the kernels read weights, bias and norms, which no launch
            // writes, and write their own shared memory.
            unsafe impl DependentKernel for $spec {}
        )+

        impl Element for $element {
            $(type $tiles = $spec;)+

            const PRECISION: Precision = $precision;

            fn from_f32(value: f32) -> Self {
                $from(value)
            }
            fn to_f32(self) -> f32 {
                $to(self)
            }
            fn extend(self, bytes: &mut Vec<u8>) {
                bytes.extend(self.to_le_bytes());
            }
        }
    };
}

element! {
    f32, Precision::F32, std::convert::identity, std::convert::identity;
    Tiles1F32: Tiles1 = 1, "linear_16_f32";
    Tiles2F32: Tiles2 = 2, "linear_32_f32";
    Tiles4F32: Tiles4 = 4, "linear_64_f32";
}
element! {
    f16, Precision::F16, f16::from_f32, f16::to_f32;
    Tiles1F16: Tiles1 = 1, "linear_16_f16";
    Tiles2F16: Tiles2 = 2, "linear_32_f16";
    Tiles4F16: Tiles4 = 4, "linear_64_f16";
}
