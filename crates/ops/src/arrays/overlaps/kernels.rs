//! The parameters of `kernels/arrays/overlaps.cu`.

use super::Measure;
use crate::device::cuda::{
    Grid, In, KernelSpec, Out, check_lens, check_threads, kernel_constant, kernel_specs, mirrors,
};
use det_post_types::Result;

/// Threads per block: a pair of boxes or a point each.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("arrays/overlaps.cu", "kThreads");
const IOU: u32 = kernel_constant!("arrays/overlaps.cu", "kIou");
const IOF: u32 = kernel_constant!("arrays/overlaps.cu", "kIof");

impl Measure {
    /// Its number in the kernels.
    pub(super) fn number(self) -> u32 {
        match self {
            Self::Intersection => 0,
            Self::Iou => IOU,
            Self::Iof => IOF,
        }
    }
}

/// The parameter of `box_overlaps_{aligned,rotated,in_space}`: `OverlapArgs` in the kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct OverlapArgs<'a> {
    /// Rows of a kind of boxes.
    pub first: In<'a, f32>,
    /// As well.
    pub second: In<'a, f32>,
    /// By first and second box, or by row.
    pub overlaps: Out<'a, f32>,
    /// Boxes that each first one is compared with; 0: the box of its row.
    pub num_second: u32,
    /// [`Measure::number`].
    pub measure: u32,
    /// Of aligned boxes.
    pub offset: f32,
    /// Padding.
    pub reserved: u32,
}

/// The parameter of `box_overlaps_points`: `PointArgs` in the kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PointArgs<'a> {
    /// x, y, z.
    pub points: In<'a, f32>,
    /// Centre, length, width, height, yaw.
    pub boxes: In<'a, f32>,
    /// By point and box; may be empty.
    pub in_boxes: Out<'a, i32>,
    /// By point; may be empty.
    pub first_box: Out<'a, i32>,
}

mirrors!(OverlapArgs<'_>, "arrays/overlaps.cu", "OverlapArgs");
mirrors!(PointArgs<'_>, "arrays/overlaps.cu", "PointArgs");

/// `box_overlaps_aligned`.
pub struct Aligned;
/// `box_overlaps_rotated`.
pub struct Rotated;
/// `box_overlaps_in_space`.
pub struct InSpace;
/// `box_overlaps_points`.
pub struct Points;

fn check_overlaps(
    kernel: &str,
    args: &OverlapArgs<'_>,
    grid: &Grid,
    num_columns: usize,
) -> Result<()> {
    check_threads(kernel, grid.threads_per_block, THREADS_PER_BLOCK)?;
    let num = args.overlaps.len();
    let [first, second] = match args.num_second as usize {
        0 => [num, num],
        num_second => [num.div_ceil(num_second), num_second],
    };
    check_lens(
        kernel,
        [
            ("first", args.first.len(), first.saturating_mul(num_columns)),
            ("second", args.second.len(), second.saturating_mul(num_columns)),
        ],
    )
}

// SAFETY: `OverlapArgs` mirrors the struct of that name (3 slices and 4 values, compared). A thread
// writes an overlap below their number and reads the rows of its boxes, for which both slices are
// long enough (checked). No thread waits.
kernel_specs! {
    check_overlaps;
    unsafe Aligned: "box_overlaps_aligned", OverlapArgs, 4;
    unsafe Rotated: "box_overlaps_rotated", OverlapArgs, 5;
    unsafe InSpace: "box_overlaps_in_space", OverlapArgs, 7;
}

// SAFETY: `PointArgs` mirrors the struct of that name (4 slices, compared). A thread reads a point
// and boxes below their numbers, and writes the values of its point, for which each slice is long
// enough or empty (checked). No thread waits.
unsafe impl KernelSpec for Points {
    const NAME: &'static str = "box_overlaps_points";
    type Args<'a> = PointArgs<'a>;

    fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
        check_threads(Self::NAME, grid.threads_per_block, THREADS_PER_BLOCK)?;
        let (num_points, num_boxes) = (args.points.len() / 3, args.boxes.len() / 7);
        let needed = |found: usize, num: usize| if found == 0 { 0 } else { num };
        let all = needed(args.in_boxes.len(), num_points.saturating_mul(num_boxes));
        let first = needed(args.first_box.len(), num_points);
        check_lens(
            Self::NAME,
            [("in_boxes", args.in_boxes.len(), all), ("first_box", args.first_box.len(), first)],
        )
    }
}
