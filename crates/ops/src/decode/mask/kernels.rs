//! The parameters of `kernels/decode/mask.cu`.

use std::marker::PhantomData;

use half::f16;

use super::{MAX_PROTOTYPES, MaskAxis, MaskExtent};
use crate::device::cuda::{
    Grid, In, KernelSpec, Mirror, Out, Plain, check_lens, check_threads, kernel_constant,
    kernel_specs, mirrors, refused,
};
use det_post_types::{Box2d, Detection2d, MaskWindow, Result};

/// Threads of the only block of `mask_plan`.
pub const PLAN_THREADS: u32 = kernel_constant!("decode/mask.cuh", "kPlanThreads");
/// Threads per block of `mask_bits_*`.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("decode/mask.cuh", "kThreads");

const _: () =
    assert!(MAX_PROTOTYPES == kernel_constant!("decode/mask.cuh", "kMaxPrototypes") as usize);

const _: () = {
    assert!(MaskExtent::Image as u32 == kernel_constant!("decode/mask.cuh", "kExtentImage"));
    assert!(MaskExtent::Touched as u32 == kernel_constant!("decode/mask.cuh", "kExtentTouched"));
};

/// The mapping of the source image, in device memory: `Settings` in the kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct MaskSettings {
    /// Columns.
    pub x: MaskAxis,
    /// Rows.
    pub y: MaskAxis,
    /// Columns of the source image.
    pub width: u32,
    /// Rows of the source image.
    pub height: u32,
    /// Not 0: cells pass through a sigmoid.
    pub sigmoid: u32,
    /// The value above which a pixel is set.
    pub level: f32,
    /// A [`MaskExtent`].
    pub extent: u32,
    /// Padding.
    pub reserved: u32,
}

/// The mask of a detection: `Planned` in the kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Planned {
    /// Its pixels and words.
    pub window: MaskWindow,
    /// The row of its coefficients.
    pub source: u32,
    /// Its first tile.
    pub first_tile: u32,
    /// Its tiles.
    pub num_tiles: u32,
    /// Columns on its map.
    pub x: MaskAxis,
    /// Rows on its map.
    pub y: MaskAxis,
}

/// The result beside the windows: `Totals` in the kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct MaskTotals {
    /// The number of masks.
    pub num_masks: u32,
    /// Detections whose mask was over the capacity.
    pub num_over_capacity: u32,
    /// Words of all masks.
    pub num_words: u32,
    /// Tiles of all masks.
    pub num_tiles: u32,
}

// SAFETY: 14 values of 4 bytes each, no gap, any bits are a value.
unsafe impl Plain for MaskSettings {}
// SAFETY: 16 values of 4 bytes each, no gap, any bits are a value.
unsafe impl Plain for Planned {}
// SAFETY: 4 values of 4 bytes each, no gap, any bits are a value.
unsafe impl Plain for MaskTotals {}
// SAFETY: 5 values of 4 bytes each, no gap, any bits are a value.
unsafe impl Plain for MaskWindow {}

mirrors!(MaskAxis, "decode/mask.cuh", "Axis");
mirrors!(MaskSettings, "decode/mask.cuh", "Settings");
mirrors!(MaskWindow, "decode/mask.cuh", "Window");
mirrors!(Planned, "decode/mask.cuh", "Planned");
mirrors!(MaskTotals, "decode/mask.cuh", "Totals");

/// The parameter of `mask_plan`: `PlanArgs` in the kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PlanArgs<'a> {
    /// The detections, in source pixels.
    pub detections: In<'a, Detection2d<Box2d>>,
    /// By detection, its row of the predictions.
    pub sources: In<'a, u32>,
    /// Their number.
    pub num_detections: In<'a, u32>,
    /// The mapping.
    pub settings: In<'a, MaskSettings>,
    /// The masks, up to the capacity.
    pub planned: Out<'a, Planned>,
    /// Their number, words and tiles.
    pub totals: Out<'a, MaskTotals>,
    /// The windows, in mapped host memory.
    pub published: Out<'a, MaskWindow>,
    /// As `totals`, in mapped host memory.
    pub published_totals: Out<'a, MaskTotals>,
    /// By mask, in mapped host memory: set to 0.
    pub invalid: Out<'a, u32>,
    /// The maximum number of words.
    pub word_capacity: u32,
    /// Padding.
    pub reserved: u32,
}

mirrors!(PlanArgs<'_>, "decode/mask.cuh", "PlanArgs");

/// `mask_plan`.
pub struct Plan;

// SAFETY: `PlanArgs` mirrors `mask::PlanArgs` (9 slices and 2 words, compared). Detections, sources,
// masks, windows and `invalid` are accessed below the shortest of their lengths; the check covers the other
// slices. No thread waits for another block: there is one.
unsafe impl KernelSpec for Plan {
    const NAME: &'static str = "mask_plan";
    type Args<'a> = PlanArgs<'a>;
    fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
        check_threads(Self::NAME, grid.threads_per_block, PLAN_THREADS)?;
        if grid.num_blocks != [1, 1] {
            let message = format!("found {:?} blocks, expected one", grid.num_blocks);
            return Err(refused(Self::NAME, &message));
        }
        let slices = [
            ("num_detections", args.num_detections.len(), 1),
            ("settings", args.settings.len(), 1),
            ("totals", args.totals.len(), 1),
            ("published_totals", args.published_totals.len(), 1),
        ];
        check_lens(Self::NAME, slices)
    }
}

/// The parameter of `mask_bits_*`: `BitsArgs` in the kernels.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct BitsArgs<'a, T> {
    /// The tensor with the coefficients.
    pub predictions: In<'a, T>,
    /// A map per prototype.
    pub prototypes: In<'a, T>,
    /// The mapping.
    pub settings: In<'a, MaskSettings>,
    /// The masks.
    pub planned: In<'a, Planned>,
    /// Their number and tiles.
    pub totals: In<'a, MaskTotals>,
    /// The bits, in mapped host memory or in device memory.
    pub words: Out<'a, u32>,
    /// By mask, in mapped host memory: set to 1 where a coefficient or the value of a pixel is not
    /// finite.
    pub invalid: Out<'a, u32>,
    /// Columns of the map.
    pub map_width: u32,
    /// Rows of the map.
    pub map_height: u32,
    /// Prototypes, and coefficients of a row.
    pub num_prototypes: u32,
    /// Rows of the predictions.
    pub num_rows: u32,
    /// The first coefficient of the first row.
    pub first: u32,
    /// From a row to the next one.
    pub row_distance: u32,
    /// From a coefficient to the next one.
    pub distance: u32,
    /// Not 0: `prototypes` has a map for each row, and `num_prototypes` is 1.
    pub are_maps: u32,
}

mirrors!(BitsArgs<'_, T>, "decode/mask.cuh", "BitsArgs", T; where T: Mirror);

fn check<T>(kernel: &str, args: &BitsArgs<'_, T>, grid: &Grid) -> Result<()> {
    check_threads(kernel, grid.threads_per_block, THREADS_PER_BLOCK)?;
    let [width, height, num] =
        [args.map_width, args.map_height, args.num_prototypes].map(|n| n as usize);
    let num_in_range = (1..=MAX_PROTOTYPES).contains(&num);
    if width == 0 || height == 0 || !num_in_range || grid.num_blocks[0] == 0 {
        let message = format!("{num} prototypes of {width}x{height}, {:?} blocks", grid.num_blocks);
        return Err(refused(kernel, &message));
    }
    let are_maps = args.are_maps != 0;
    if are_maps && num != 1 {
        return Err(refused(kernel, &format!("{num} prototypes of maps, expected one")));
    }
    let num_maps = if are_maps { args.num_rows as usize } else { num };
    let num_values = width.saturating_mul(height).saturating_mul(num_maps);
    let slices = [
        ("prototypes", args.prototypes.len(), num_values),
        ("settings", args.settings.len(), 1),
        ("totals", args.totals.len(), 1),
    ];
    check_lens(kernel, slices)
}

/// `mask_bits_*`, by element type.
pub struct Bits<T>(PhantomData<T>);

// SAFETY: `BitsArgs` mirrors `mask::BitsArgs` (7 slices and 8 words, compared). Masks are read below
// the length of `planned`, predictions at places, and words and `invalid` written at indices that are
// compared with their lengths; threads that write one place of `invalid` write the same value; cells are clamped to the map, whose size and number of prototypes, at most the length
// of the coefficients in shared memory, or of rows with a map each, the check compares with `prototypes`;
// the map of a row that is not there is not read. The number of tiles of
// `totals`, which `mask_plan` wrote, bounds the loop. No thread waits for another block.
kernel_specs! {
    check;
    unsafe Bits<f32>: "mask_bits_f32", BitsArgs<f32>;
    unsafe Bits<f16>: "mask_bits_f16", BitsArgs<f16>;
}
