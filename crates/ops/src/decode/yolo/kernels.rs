//! The parameters of `kernels/decode/yolo.cu`.

use std::marker::PhantomData;

use half::f16;

use crate::decode::select::kernels::{MAX_FOUND, SelectSlices, THREADS_PER_BLOCK};
use crate::device::cuda::{
    Grid, In, KernelSpec, Mirror, check_len, check_threads, kernel_constant, mirrors, refused,
};
use crate::shared::kernels::Floats;
use det_post_types::{Box2d, Candidate, Result, RotatedBox2d};

/// The maximum number of tensors, and of levels.
pub const MAX_OUTPUTS: usize = kernel_constant!("decode/yolo.cuh", "kMaxOutputs") as usize;
/// Rows per block of layouts where a warp decodes a row that passes.
const ROWS_PER_BLOCK: u32 = kernel_constant!("decode/yolo_rows.cuh", "kRowsPerBlock");
/// Columns per block of heads of planes: a lane each.
const COLUMNS_PER_BLOCK: u32 = kernel_constant!("shared/warp.cuh", "kLanes");
/// Warps per block.
const WARPS_PER_BLOCK: u32 = THREADS_PER_BLOCK / kernel_constant!("shared/warp.cuh", "kLanes");

/// One level of a head: `Level` in the kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct YoloLevel {
    /// The first of its rows.
    pub first_row: u32,
    /// Cells along x.
    pub num_columns: u32,
    /// Cells.
    pub num_cells: u32,
    /// The first of its anchors.
    pub first_anchor: u32,
    /// Network pixels per cell.
    pub stride: f32,
    /// Not 0: channels are the innermost dimension.
    pub channels_last: u32,
}

/// The parameter: `Args` in the kernels.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct YoloArgs<'a, T, B> {
    /// The tensors; then the first again.
    pub outputs: [In<'a, T>; MAX_OUTPUTS],
    /// The selection of candidates.
    pub selection: SelectSlices<'a, B>,
    /// The score threshold as a logit.
    pub bound: In<'a, f32>,
    /// Widths and heights of the anchors of all levels.
    pub anchors: In<'a, [f32; 2]>,
    /// Rows of the head (columns of a head of planes).
    pub num_rows: u32,
    /// Classes of a row.
    pub num_classes: u32,
    /// Levels in use.
    pub num_levels: u32,
    /// Not 0: scores of DETR are logits.
    pub logits: u32,
    /// Not 0: boxes of DETR are fractions of the network's input.
    pub normalized: u32,
    /// Width of the network's input.
    pub network_width: f32,
    /// Height of the network's input.
    pub network_height: f32,
    /// Padding.
    pub reserved: u32,
    /// The levels, in the order of their rows.
    pub levels: [YoloLevel; MAX_OUTPUTS],
    /// Columns of a final row.
    pub row_columns: u32,
    /// The first of the four numbers of its box.
    pub row_box: u32,
    /// The column of its score.
    pub row_score: u32,
    /// The column of its class; `u32::MAX`: labels are the second tensor.
    pub row_class: u32,
}

mirrors!(YoloLevel, "decode/yolo.cuh", "Level");
mirrors!(
    YoloArgs<'_, T, B>,
    "decode/yolo.cuh", "Args", T, Candidate<B>; where T: Mirror, B: Floats
);

/// The memory layout of a head's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rows {
    /// One tensor with so many numbers per row, besides the scores of its classes.
    One { numbers: usize },
    /// One tensor per level, rows by anchor and cell.
    ByLevel,
    /// A final box in a row.
    Final,
    /// Boxes and scores by class, of which one counts.
    Scores,
    /// The same, where every class counts.
    Classes,
    /// Boxes, scores and labels.
    Labels,
}

fn check<T, B>(
    kernel: &str,
    args: &YoloArgs<'_, T, B>,
    grid: &Grid,
    rows: Rows,
    rows_per_block: u32,
) -> Result<()> {
    check_threads(kernel, grid.threads_per_block, THREADS_PER_BLOCK)?;
    let (num_rows, num_classes) = (args.num_rows as usize, args.num_classes as usize);
    let [x, y] = grid.num_blocks;
    let needed_blocks = num_rows.div_ceil(rows_per_block as usize).max(1);
    let max_found = match rows {
        Rows::Classes => num_rows.saturating_mul(num_classes),
        _ => num_rows,
    };
    if max_found > MAX_FOUND || y != 1 || x as usize != needed_blocks {
        return Err(refused(kernel, &format!("{x} x {y} blocks do not fit {num_rows} rows")));
    }
    check_levels(kernel, args, rows)?;
    let columns = args.row_columns as usize;
    if rows == Rows::Final {
        let class = if args.row_class == u32::MAX { args.row_score } else { args.row_class };
        let last = args.row_box.saturating_add(3).max(args.row_score).max(class);
        if last >= args.row_columns {
            return Err(refused(kernel, &format!("column {last} of {columns}")));
        }
    }
    let lengths: &[usize] = match rows {
        Rows::One { numbers } => &[numbers + num_classes],
        Rows::Final if args.row_class == u32::MAX => &[columns, 1],
        Rows::Final => &[columns],
        Rows::ByLevel => &[],
        Rows::Scores | Rows::Classes => &[4, num_classes],
        Rows::Labels => &[4, 1, 1],
    };
    for (output, length) in args.outputs.iter().zip(lengths) {
        check_len(kernel, "output", output.len(), num_rows.saturating_mul(*length))?;
    }
    check_len(kernel, "wanted", args.selection.wanted.len(), num_classes.div_ceil(32))?;
    check_len(kernel, "bound", args.bound.len(), 1)?;
    let mut slices = args.selection.needed(max_found).into_iter();
    slices.try_for_each(|(name, found, needed)| check_len(kernel, name, found, needed))
}

/// Checks that levels are consecutive and cover the rows, and for raw heads that they
/// have their tensor and their anchors.
fn check_levels<T, B>(kernel: &str, args: &YoloArgs<'_, T, B>, rows: Rows) -> Result<()> {
    let (num_rows, num_levels) = (args.num_rows as usize, args.num_levels as usize);
    let levels = args.levels.get(..num_levels).unwrap_or_default();
    let ends = levels.iter().skip(1).map(|level| level.first_row as usize).chain([num_rows]);
    for ((level, end), output) in levels.iter().zip(ends).zip(&args.outputs) {
        let num = end.checked_sub(level.first_row as usize);
        let (Some(num), true) = (num, level.num_columns > 0 && level.num_cells > 0) else {
            return Err(refused(kernel, &format!("{level:?} of {num_rows} rows")));
        };
        if rows == Rows::ByLevel {
            let num_anchors = num.div_ceil(level.num_cells as usize);
            let length = 5 + args.num_classes as usize;
            let needed = (num_anchors * level.num_cells as usize).saturating_mul(length);
            check_len(kernel, "output", output.len(), needed)?;
            let anchors = level.first_anchor as usize + num_anchors;
            check_len(kernel, "anchors", args.anchors.len(), anchors)?;
        }
    }
    let begins = levels.first().is_none_or(|level| level.first_row == 0);
    if num_levels > MAX_OUTPUTS || !begins || (rows == Rows::ByLevel && num_levels == 0) {
        return Err(refused(kernel, &format!("{num_levels} levels {:?}", args.levels)));
    }
    Ok(())
}

/// A kernel of the op: of one layout and one element type.
pub struct Yolo<L, T>(PhantomData<(L, T)>);

/// A layout and its launch shape.
pub trait YoloRows {
    /// The boxes of its candidates.
    type Bbox: Floats;
    /// Rows per block.
    const ROWS_PER_BLOCK: u32;
}

macro_rules! layout {
    ($layout:ident, $bbox:ty, $name:literal, $rows_per_block:expr, $rows:expr, $text:literal) => {
        #[doc = concat!("`decode_yolo_", $name, "_*`: ", $text)]
        pub struct $layout;

        impl YoloRows for $layout {
            type Bbox = $bbox;
            const ROWS_PER_BLOCK: u32 = $rows_per_block;
        }

        layout!($layout, f32, "f32", $name, $rows);
        layout!($layout, f16, "f16", $name, $rows);
    };
    ($layout:ident, $element:ty, $suffix:literal, $name:literal, $rows:expr) => {
        // SAFETY: `YoloArgs` mirrors `yolo::Args` (compared). A thread or warp whose row is not
        // below the number of rows reads nothing; the others read inside their row (of a class
        // below the number of classes, whose bit is inside `wanted`), which the tensors' lengths
        // cover. A row adds at most one candidate, to a list of the block with one entry per row,
        // or (`detr_classes`) one of each class, without a list;
        // what it writes to `found` and `items` is compared with their lengths. The last block
        // reads `found` below its length. It waits for the writes of blocks that have counted: they
        // run and do not wait.
        unsafe impl KernelSpec for Yolo<$layout, $element> {
            const NAME: &'static str = concat!("decode_yolo_", $name, "_", $suffix);
            type Args<'a> = YoloArgs<'a, $element, <$layout as YoloRows>::Bbox>;
            fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
                check(Self::NAME, args, grid, $rows, $layout::ROWS_PER_BLOCK)
            }
        }
    };
}

layout!(
    PixelRows,
    Box2d,
    "rows",
    ROWS_PER_BLOCK,
    Rows::One { numbers: 5 },
    "centres, sizes, objectness and classes."
);
layout!(
    CellRows,
    Box2d,
    "cells",
    ROWS_PER_BLOCK,
    Rows::One { numbers: 5 },
    "the same, with boxes relative to their cells."
);
layout!(RawRows, Box2d, "raw", ROWS_PER_BLOCK, Rows::ByLevel, "a tensor of logits per level.");
layout!(
    Planes,
    Box2d,
    "planes",
    COLUMNS_PER_BLOCK,
    Rows::One { numbers: 4 },
    "planes of columns, without objectness."
);
layout!(
    RotatedPlanes,
    RotatedBox2d,
    "obb",
    COLUMNS_PER_BLOCK,
    Rows::One { numbers: 5 },
    "the same, with a plane of angles behind the classes."
);
layout!(EndToEnd, Box2d, "end_to_end", THREADS_PER_BLOCK, Rows::Final, "final rows with corners.");
layout!(
    RotatedEndToEnd,
    RotatedBox2d,
    "obb_end_to_end",
    THREADS_PER_BLOCK,
    Rows::Final,
    "final rows with centre and size, the angle last."
);
layout!(Detr, Box2d, "detr", WARPS_PER_BLOCK, Rows::Scores, "boxes, and scores by class.");
layout!(
    DetrClassRows,
    Box2d,
    "detr_classes",
    WARPS_PER_BLOCK,
    Rows::Classes,
    "boxes, and scores by class that are a candidate each."
);
layout!(
    DetrLabels,
    Box2d,
    "detr_labels",
    THREADS_PER_BLOCK,
    Rows::Labels,
    "boxes, scores and labels."
);
