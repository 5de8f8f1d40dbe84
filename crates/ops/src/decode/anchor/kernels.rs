//! The parameters of `kernels/decode/anchor.cu`.

use std::marker::PhantomData;

use half::f16;

use crate::decode::select::kernels::{MAX_FOUND, SelectSlices, THREADS_PER_BLOCK};
use crate::decode::thresholds::ThresholdArgs;
use crate::device::cuda::{
    Grid, In, KernelSpec, Mirror, Plain, check_lens, check_threads, kernel_constant, kernel_specs,
    mirrors, refused,
};
use det_post_types::{Box3d, Result};

/// Anchors per block.
pub const ANCHORS_PER_BLOCK: u32 =
    kernel_constant!("decode/anchor.cu", "kItems") * THREADS_PER_BLOCK;

/// The anchor of a class: `Anchor` in the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct AnchorShape {
    /// Length, width, height.
    pub size_m: [f32; 3],
    /// Height of the centre.
    pub center_z_m: f32,
}

// SAFETY: 4 values of 4 bytes each, no gap, any bits are a value.
unsafe impl Plain for AnchorShape {}

/// The parameter: `Args` in the kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct AnchorArgs<'a, T> {
    /// The selection of candidates, at most one per anchor.
    pub selection: SelectSlices<'a, Box3d>,
    /// Class logits.
    pub classes: In<'a, T>,
    /// Residuals of boxes.
    pub boxes: In<'a, T>,
    /// Logits of the two directions; empty for none.
    pub directions: In<'a, T>,
    /// One value; 0: no anchor passes.
    pub num_voxels: In<'a, u32>,
    /// The smallest logit that may pass.
    pub bound: In<'a, f32>,
    /// Score thresholds by class and distance.
    pub thresholds: ThresholdArgs<'a>,
    /// The anchor of each class.
    pub anchors: In<'a, AnchorShape>,
    /// Yaws of each class's anchors.
    pub rotations: In<'a, f32>,
    /// Cells of the map.
    pub num_cells: u32,
    /// Columns of the map.
    pub num_columns: u32,
    /// Anchors per cell: classes times rotations.
    pub num_anchors: u32,
    /// Classes.
    pub num_classes: u32,
    /// Not 0: channels are the innermost dimension, else the outermost.
    pub channels_last: u32,
    /// The angle that separates the two directions.
    pub direction_offset: f32,
    /// The position of the first anchor along x and y.
    pub first: [f32; 2],
    /// The distance of anchors along x and y.
    pub step: [f32; 2],
}

mirrors!(AnchorShape, "decode/anchor.cu", "Anchor");
mirrors!(AnchorArgs<'_, T>, "decode/anchor.cu", "Args", T; where T: Mirror);

fn check<T>(kernel: &str, args: &AnchorArgs<'_, T>, grid: &Grid) -> Result<()> {
    check_threads(kernel, grid.threads_per_block, THREADS_PER_BLOCK)?;
    let [num_cells, num_columns, num_anchors, num_classes] =
        [args.num_cells, args.num_columns, args.num_anchors, args.num_classes].map(|n| n as usize);
    let num_items = num_cells.saturating_mul(num_anchors);
    let num_blocks = num_items.div_ceil(ANCHORS_PER_BLOCK as usize).max(1);
    let num_rotations = args.rotations.len();
    if num_items > MAX_FOUND
        || grid.num_blocks[0] as usize != num_blocks
        || grid.num_blocks[1] != 1
        || num_cells == 0
        || num_columns == 0
        || num_rotations == 0
        || num_anchors != num_classes.saturating_mul(num_rotations)
    {
        let blocks = grid.num_blocks;
        let message = format!(
            "{blocks:?} blocks do not fit {num_cells} cells in rows of {num_columns}, \
             {num_anchors} anchors of {num_classes} classes and {num_rotations} rotations"
        );
        return Err(refused(kernel, &message));
    }
    let num_directions = if args.directions.is_empty() { 0 } else { 2 * num_items };
    let slices = [
        ("classes", args.classes.len(), num_items.saturating_mul(num_classes)),
        ("boxes", args.boxes.len(), 7 * num_items),
        ("directions", args.directions.len(), num_directions),
        ("num_voxels", args.num_voxels.len(), 1),
        ("bound", args.bound.len(), 1),
        ("anchors", args.anchors.len(), num_classes),
    ];
    check_lens(kernel, slices)?;
    check_lens(kernel, args.selection.needed(num_items))
}

/// `decode_anchor_*`.
pub struct DecodeAnchor<T>(PhantomData<T>);

// SAFETY: `AnchorArgs` mirrors `decode_anchor::Args` (compared). Anchors that are read are below
// the number of cells times the anchors of a cell, for which the maps have all channels (checked),
// their class below the number of classes, and rotations below theirs; thresholds are compared with
// the lengths of their slices, and without a filter no bit is read. What a block appends is
// compared with the lengths of `found` and `items`. The block that counts last waits for the writes
// of the others, which have counted: they run and do not wait.
kernel_specs! {
    check;
    unsafe DecodeAnchor<f32>: "decode_anchor_f32", AnchorArgs<f32>;
    unsafe DecodeAnchor<f16>: "decode_anchor_f16", AnchorArgs<f16>;
}
