//! Values in scratch memory that only kernels read.

use crate::device::cuda::{Plain, mirrors};

/// The mirror of `BitmaskRow`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(16))]
pub struct BitmaskRow {
    rank_and_num: u32,
    first_entries: [u32; 3],
}

/// The mirror of `Bounds`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(16))]
pub struct Bounds {
    min_x: u32,
    min_y: u32,
    max_x: u32,
    max_y: u32,
}

// SAFETY: 4 values of 4 bytes each, no gap, any bits are a value.
unsafe impl Plain for BitmaskRow {}
// SAFETY: 4 values of 4 bytes each, no gap, any bits are a value.
unsafe impl Plain for Bounds {}
mirrors!(BitmaskRow, "nms/args.cuh", "BitmaskRow");
mirrors!(Bounds, "nms/args.cuh", "Bounds");
