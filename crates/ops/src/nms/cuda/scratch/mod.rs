//! The scratch memory of the kernels of `kernels/nms/*.cu`: one allocation in slices.

#[expect(unsafe_code, reason = "each block argues that its values are plain")]
mod kernels;

use kernels::{BitmaskRow, Bounds};

use crate::device::cuda::{Out, check_len, kernel_constant, mirrors};
use det_post_types::{Kept, Result};

/// Up to as many candidates have a dense bitmask.
pub(super) const DENSE_CAPACITY: usize =
    kernel_constant!("nms/bitmask_dense.cuh", "kDenseCapacity") as usize;
const WORD_BITS: usize = kernel_constant!("nms/bitmask_sparse.cuh", "kWordBits") as usize;
const LANES: usize = 32;

/// For how many candidates a kernel needs the slices of scratch memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sizes {
    pub(super) geometry: usize,
    pub(super) bitmask: usize,
    pub(super) search: usize,
    pub(super) ranked: usize,
    pub(super) soft: usize,
}

impl Sizes {
    /// The sizes that a one-pass suppression of up to `capacity` ranked candidates needs.
    pub fn of_ranked(capacity: usize) -> Self {
        Self { ranked: capacity, ..Self::default() }
    }
}

macro_rules! scratch {
    ($($name:ident: $type:ty = |$sizes:ident| $len:expr;)*) => {
        /// The mirror of `NmsScratch`: slices of one allocation.
        #[derive(Clone, Copy, Debug)]
        #[repr(C)]
        pub struct Scratch<'a> { $($name: Out<'a, $type>,)* }

        impl<'a> Scratch<'a> {
            /// Bytes of the allocation.
            pub fn num_bytes(sizes: &Sizes) -> usize {
                let mut num_bytes = 0;
                $({ let $sizes = sizes; num_bytes += Out::<$type>::num_carved_bytes($len); })*
                num_bytes
            }

            /// Divides the allocation.
            ///
            /// # Errors
            /// `Argument` when it is too small.
            pub fn carve(mut memory: Out<'a, u8>, sizes: &Sizes) -> Result<Self> {
                Ok(Self { $($name: { let $sizes = sizes; memory.carve($len)? },)* })
            }

            /// The geometry of all candidates.
            pub fn geometry(self) -> Out<'a, [f32; 4]> {
                self.geometry
            }

            pub(super) fn check(&self, kernel: &str, sizes: &Sizes) -> Result<()> {
                $({
                    let $sizes = sizes;
                    check_len(kernel, stringify!($name), self.$name.len(), $len)?;
                })*
                Ok(())
            }
        }
    };
}

scratch! {
    geometry: [f32; 4] = |s| s.geometry;
    order: Kept = |s| s.bitmask + s.search;
    ticket: u32 = |s| 2 * (s.bitmask + s.search + s.ranked).min(1);
    rows: BitmaskRow = |s| s.bitmask;
    row_entries: u32 = |s| s.bitmask.div_ceil(WORD_BITS) * s.bitmask;
    dense: u64 = |s| s.bitmask.min(1) * DENSE_CAPACITY * DENSE_CAPACITY / 32;
    keys: u64 = |s| 2 * s.search;
    ranks: u32 = |s| s.search;
    spatial_positions: u64 = |s| s.search;
    spatial_candidates: u32 = |s| s.search;
    proxies: [f32; 4] = |s| s.search;
    group_of_rank: u64 = |s| s.search;
    spatial_proxies: [f32; 4] = |s| s.search;
    spatial_ranks: u32 = |s| s.search;
    spatial_groups: u64 = |s| s.search;
    leaves: Bounds = |s| s.search.div_ceil(LANES);
    states: u32 = |s| s.search + s.ranked;
    scores: f32 = |s| s.soft;
}

mirrors!(Scratch<'_>, "nms/args.cuh", "NmsScratch");
