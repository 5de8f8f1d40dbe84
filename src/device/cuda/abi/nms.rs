//! What every suppression counts, for the kernels that follow it.

use super::super::{Plain, assert_mirrors};

/// The mirror of `NmsCounts` in `kernels/nms_args.cuh`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct NmsCounts {
    /// Survivors.
    pub num_kept: u32,
    /// One more than the highest class without a threshold, else 0.
    pub class_over: u32,
}

// SAFETY: 2 values of 4 bytes each, no gap, any bits are a value.
unsafe impl Plain for NmsCounts {}

assert_mirrors!(NmsCounts, "nms_args.cuh", "NmsCounts");
