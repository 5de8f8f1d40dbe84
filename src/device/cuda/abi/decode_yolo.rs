//! `kernels/decode_yolo.cu`.

use std::marker::PhantomData;

use half::f16;

use super::super::{Grid, In, KernelSpec};
use super::select::{MAX_FOUND, Selection, THREADS_PER_BLOCK};
use super::{check_len, check_threads, refused};
use crate::error::Result;
use crate::types::Box2d;

/// Rows that a block takes where they lie one after another.
pub const ROWS_PER_BLOCK: u32 = 128;
/// Columns that a block takes of planes.
pub const COLUMNS_PER_BLOCK: u32 = 32;
/// The most levels of a grid.
pub const MAX_LEVELS: usize = 8;

/// One level of a grid: the mirror of `Level`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct YoloLevel {
    /// The first of its rows.
    pub first_row: u32,
    /// Cells along x.
    pub num_columns: u32,
    /// Network pixels a cell.
    pub stride: f32,
    /// Fills the struct to 16 bytes.
    pub reserved: u32,
}

/// The mirror of `Args`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct YoloArgs<'a, T> {
    /// The tensor.
    pub values: In<'a, T>,
    /// Where candidates go; a place a row.
    pub selection: Selection<'a, Box2d>,
    /// Rows of the tensor (columns where it is made of planes).
    pub num_rows: u32,
    /// Classes of a row.
    pub num_classes: u32,
    /// Levels in use.
    pub num_levels: u32,
    /// Fills the struct to a multiple of 8 bytes.
    pub reserved: u32,
    /// The levels, in the order of their rows.
    pub levels: [YoloLevel; MAX_LEVELS],
}

const _: () = assert!(size_of::<YoloArgs<'_, f32>>() == 8 * 16 + 16 + MAX_LEVELS * 16);

/// `per_row` are the numbers of a row beside its classes.
fn check<T>(
    kernel: &str,
    args: &YoloArgs<'_, T>,
    grid: &Grid,
    [per_row, rows_per_block]: [usize; 2],
) -> Result<()> {
    check_threads(kernel, grid.threads_per_block, THREADS_PER_BLOCK)?;
    let (num_rows, num_classes) = (args.num_rows as usize, args.num_classes as usize);
    let [x, y] = grid.num_blocks;
    if num_rows > MAX_FOUND || y != 1 || x as usize != num_rows.div_ceil(rows_per_block).max(1) {
        return Err(refused(kernel, &format!("{x} x {y} blocks for {num_rows} rows")));
    }
    let levels = args.levels.iter().take(args.num_levels as usize);
    if args.num_levels as usize > MAX_LEVELS || levels.clone().any(|level| level.num_columns == 0) {
        return Err(refused(kernel, &format!("{} levels {:?}", args.num_levels, args.levels)));
    }
    let slices = [
        ("values", args.values.len(), num_rows.saturating_mul(per_row + num_classes)),
        ("wanted", args.selection.wanted.len(), num_classes.div_ceil(32)),
    ];
    let mut slices = slices.into_iter().chain(args.selection.needed(num_rows));
    slices.try_for_each(|(name, found, needed)| check_len(kernel, name, found, needed))
}

/// `decode_yolo_rows_*`: rows of centres, sizes, objectness and classes.
pub struct Rows<T>(PhantomData<T>);
/// `decode_yolo_cells_*`: the same, boxes told from their cells.
pub struct Cells<T>(PhantomData<T>);
/// `decode_yolo_planes_*`: planes of columns, without objectness.
pub struct Planes<T>(PhantomData<T>);

macro_rules! spec {
    ($spec:ty, $element:ty, $name:literal, $per_row:literal, $rows_per_block:expr) => {
        // SAFETY: `YoloArgs` mirrors `yolo::Args` (size asserted, `#[repr(C)]`
        // in the same order). A thread whose row is not below the number of
        // rows reads nothing; the others read inside their row (of a class
        // below the number of classes, whose bit is inside `wanted`), which
        // the tensor's length covers. A row adds at most one candidate, to a
        // list of the block with a place a row; what it writes to `found` and
        // `items` is compared with their lengths. The block that counts last
        // reads `found` below its length. It waits for the others, which have
        // counted, to write: they run and wait for nobody.
        unsafe impl KernelSpec for $spec {
            const NAME: &'static str = $name;
            type Args<'a> = YoloArgs<'a, $element>;
            fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
                check(Self::NAME, args, grid, [$per_row, $rows_per_block as usize])
            }
        }
    };
}

spec!(Rows<f32>, f32, "decode_yolo_rows_f32", 5, ROWS_PER_BLOCK);
spec!(Rows<f16>, f16, "decode_yolo_rows_f16", 5, ROWS_PER_BLOCK);
spec!(Cells<f32>, f32, "decode_yolo_cells_f32", 5, ROWS_PER_BLOCK);
spec!(Cells<f16>, f16, "decode_yolo_cells_f16", 5, ROWS_PER_BLOCK);
spec!(Planes<f32>, f32, "decode_yolo_planes_f32", 4, COLUMNS_PER_BLOCK);
spec!(Planes<f16>, f16, "decode_yolo_planes_f16", 4, COLUMNS_PER_BLOCK);
