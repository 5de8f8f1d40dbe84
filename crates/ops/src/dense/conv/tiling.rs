//! The tiles of the f16 kernels, and which of them suits a convolution.

use super::job::Job;
use crate::device::cuda::kernel_constant;

/// How a kernel reads its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// f16, channels last, 16 bytes at once.
    Vector,
    /// Any map, value by value.
    Gather,
    /// Any map and any matrix in place of weights, value by value.
    Window,
}

/// What multiplies, and what of a tile's operands is in shared memory at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Warps; weights and patches go through rings.
    Rings,
    /// Warps; all weights and all patches at once.
    Whole,
    /// Warpgroups, of compute capability 9.0; all patches, weights go through a ring.
    Warpgroups,
}

/// The tile of a kernel: `Shape` in kernels/dense/conv_f16.cuh, `WarpgroupShape` beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tiling {
    pub(super) name: &'static str,
    pub(super) method: Method,
    pub(super) pixels: u32,
    pub(super) columns: u32,
    /// Warps along pixels, columns and products.
    pub(super) warps: [u32; 3],
    /// Steps of 16 products of a stage.
    pub(super) stage_steps: u32,
    /// Stages of the ring of weights.
    pub(super) stages: u32,
    pub(super) kind: Kind,
}

const fn tiling(
    name: &'static str,
    method: Method,
    [pixels, columns]: [u32; 2],
    warps: [u32; 3],
    [stage_steps, stages]: [u32; 2],
) -> Tiling {
    Tiling { name, method, pixels, columns, warps, stage_steps, stages, kind: Kind::Rings }
}

const fn whole(name: &'static str, sizes: [u32; 2], warps: [u32; 3], stages: [u32; 2]) -> Tiling {
    Tiling { kind: Kind::Whole, ..tiling(name, Vector, sizes, warps, stages) }
}

const fn warpgroups(name: &'static str, columns: u32, stages: u32) -> Tiling {
    let stages = [STAGE_STEPS, stages];
    Tiling { kind: Kind::Warpgroups, ..tiling(name, Vector, [128, columns], [8, 1, 1], stages) }
}

use Method::{Gather, Vector, Window};

/// The kernels of kernels/dense/conv.cu, in its order.
pub(super) const TILINGS: [Tiling; 27] = [
    tiling("dense_conv_128x128x2_f16", Vector, [128, 128], [2, 4, 2], [4, 3]),
    tiling("dense_conv_128x64x2_f16", Vector, [128, 64], [2, 2, 2], [4, 4]),
    tiling("dense_conv_128x32x2_f16", Vector, [128, 32], [2, 1, 2], [4, 4]),
    tiling("dense_conv_128x16x2_f16", Vector, [128, 16], [2, 1, 2], [4, 4]),
    tiling("dense_conv_64x64x2_f16", Vector, [64, 64], [2, 2, 2], [4, 4]),
    tiling("dense_conv_64x32x2_f16", Vector, [64, 32], [2, 1, 2], [4, 4]),
    tiling("dense_conv_64x64x4_f16", Vector, [64, 64], [2, 2, 4], [8, 3]),
    tiling("dense_conv_64x32x4_f16", Vector, [64, 32], [2, 1, 4], [8, 3]),
    tiling("dense_conv_32x64x4_f16", Vector, [32, 64], [1, 2, 4], [8, 3]),
    tiling("dense_conv_32x32x4_f16", Vector, [32, 32], [1, 1, 4], [8, 3]),
    tiling("dense_conv_32x16x4_f16", Vector, [32, 16], [1, 1, 4], [8, 3]),
    whole("dense_conv_whole_64x64x4_f16", [64, 64], [2, 2, 4], [8, 3]),
    whole("dense_conv_whole_64x32x4_f16", [64, 32], [2, 1, 4], [8, 3]),
    whole("dense_conv_whole_32x64x4_f16", [32, 64], [1, 2, 4], [8, 3]),
    whole("dense_conv_whole_32x32x4_f16", [32, 32], [1, 1, 4], [8, 3]),
    whole("dense_conv_whole_32x16x4_f16", [32, 16], [1, 1, 4], [8, 3]),
    tiling("dense_conv_gather_128x32x2_f16", Gather, [128, 32], [2, 1, 2], [4, 3]),
    tiling("dense_conv_gather_128x16x2_f16", Gather, [128, 16], [2, 1, 2], [4, 3]),
    tiling("dense_conv_gather_32x32x4_f16", Gather, [32, 32], [1, 1, 4], [8, 3]),
    tiling("dense_conv_window_64x64x2_f16", Window, [64, 64], [2, 2, 2], [4, 3]),
    tiling("dense_conv_window_32x32x4_f16", Window, [32, 32], [1, 1, 4], [8, 3]),
    warpgroups("dense_conv_warpgroup_128x32_f16", 32, 8),
    warpgroups("dense_conv_warpgroup_128x64_f16", 64, 8),
    warpgroups("dense_conv_warpgroup_128x96_f16", 96, 5),
    warpgroups("dense_conv_warpgroup_128x128_f16", 128, 5),
    tiling("dense_conv_gather_128x32x1_f16", Gather, [128, 32], [4, 1, 1], [4, 3]),
    tiling("dense_conv_gather_128x16x1_f16", Gather, [128, 16], [4, 1, 1], [4, 3]),
];

/// Whether two names are equal.
pub(super) const fn is_equal(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut i = 0;
    while i < a.len() && i < b.len() && a[i] == b[i] {
        i += 1;
    }
    i == a.len() && i == b.len()
}

/// Steps of a stage of warpgroups.
const STAGE_STEPS: u32 = kernel_constant!("dense/conv_warpgroup.cuh", "kStageSteps");

/// Products of a step along the channels.
pub(super) const STEP_INPUTS: u32 = 16;
/// Channels of a patch at most.
const CHUNK_CHANNELS: u32 = 64;

impl Tiling {
    pub(super) fn threads_per_block(&self) -> u32 {
        self.warps.iter().product::<u32>() * 32
    }

    fn stage_bytes(&self) -> u32 {
        self.stage_steps * (self.columns / 16) * 512
    }

    /// Whether all patches of a tile are in shared memory at once.
    pub(super) fn has_all_patches(&self) -> bool {
        self.kind != Kind::Rings
    }

    /// Shared memory of a block: the tables, and the rings or the sums.
    pub(super) fn shared_bytes(&self, num_steps: u32, patch_pixels: u32, patches: u32) -> u32 {
        let tables = num_steps.div_ceil(4) * 16 + self.columns * 4 + patch_pixels.div_ceil(4) * 16;
        let is_whole = self.kind == Kind::Whole;
        let stages = if is_whole { num_steps.div_ceil(self.stage_steps) } else { self.stages };
        let rings = patches + stages * self.stage_bytes();
        let sums = self.warps[2] * self.pixels * (self.columns + 8) * 4;
        tables + rings.max(sums)
    }
}

/// What a tiling makes of a convolution.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) index: usize,
    pub(super) column_blocks: u32,
    pub(super) tiles: [u32; 2],
    pub(super) tile_x_log2: u32,
    pub(super) patch: [u32; 2],
    pub(super) pixel_bytes: u32,
    pub(super) patch_bytes: u32,
    pub(super) num_patches: u32,
    pub(super) chunk_channels: u32,
    pub(super) num_chunks: u32,
    pub(super) chunk_steps: u32,
    pub(super) num_steps: u32,
    pub(super) shared_bytes: u32,
}

/// The limits of a GPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) shared_bytes: u32,
    pub(super) num_multiprocessors: u32,
    /// Whether it has matrix instructions of warpgroups.
    pub(super) has_warpgroups: bool,
}

/// Shared memory of a multiprocessor beside that of its largest block.
const SHARED_BYTES_BESIDE: u32 = 1024;

/// Shared memory of a block up to which it may have all weights and patches at once: a
/// multiprocessor has room for one more block, of the next launch, which copies its weights ahead.
/// 0 where a multiprocessor has many blocks, which work while others wait for their loads.
fn whole_bytes(blocks: u32, limits: Limits) -> u32 {
    let per_multiprocessor = blocks.div_ceil(limits.num_multiprocessors);
    if per_multiprocessor > 2 {
        return 0;
    }
    let bytes = (limits.shared_bytes + SHARED_BYTES_BESIDE) / (per_multiprocessor + 1);
    bytes - SHARED_BYTES_BESIDE
}

/// Channels of a pixel in the patch where several taps share a step: 4 or 8.
fn packed_channels(job: &Job, method: Method) -> Option<u32> {
    let fits = job.groups == 1 && job.kernel[1] > 1 && job.dilation[1] == 1;
    match job.inputs {
        1..=4 if fits && method == Gather && job.stride[1].is_multiple_of(2) => Some(4),
        1..=8 if fits => Some(8),
        _ => None,
    }
}

/// Tiles of an item along rows and columns.
pub(super) fn num_tiles(job: &Job, pixels: u32, log2: u32) -> [u32; 2] {
    [job.size[0].div_ceil(pixels >> log2), job.size[1].div_ceil(1 << log2)]
}

/// The tile along x with the fewest pixels to compute, and the least of what a tile of some rows
/// and columns costs beside.
pub(super) fn tile_x_log2(job: &Job, pixels: u32, beside: impl Fn([u32; 2]) -> u64) -> u32 {
    let cost = |log2: &u32| {
        let tiles: u64 = num_tiles(job, pixels, *log2).iter().map(|&num| u64::from(num)).product();
        tiles * (u64::from(pixels) * 4 + beside([pixels >> log2, 1 << log2]))
    };
    (0..=pixels.ilog2()).rev().min_by_key(cost).unwrap_or_default()
}

/// What a tile costs beside its products: the pixels that it loads, and rows of a matrix operand
/// in fewer than 8 neighbours, which take turns at the banks.
fn patch_cost(job: &Job, tile: [u32; 2]) -> u64 {
    let patch: u64 = (0..2).map(|axis| u64::from(job.patch(axis, tile[axis]))).product();
    let banks = if tile[1] < 8 { tile[0] * tile[1] } else { 0 };
    2 * patch + u64::from(banks)
}

impl Layout {
    /// `None` where the tile does not fit the GPU.
    pub(super) fn new(job: &Job, index: usize, limits: Limits) -> Option<Self> {
        let tiling = &TILINGS[index];
        let log2 = tile_x_log2(job, tiling.pixels, |tile| patch_cost(job, tile));
        let tile = [tiling.pixels >> log2, 1 << log2];
        let mut patch = [job.patch(0, tile[0]), job.patch(1, tile[1])];
        let packed = packed_channels(job, tiling.method);
        let padded_inputs = job.inputs.next_multiple_of(STEP_INPUTS);
        let taps = job.kernel[0] * job.kernel[1];
        let (chunk_channels, pixel_bytes, num_steps);
        if let Some(channels) = packed {
            let per_step = STEP_INPUTS / channels;
            let steps_x = job.kernel[1].div_ceil(per_step);
            patch[1] = (tile[1] - 1) * job.stride[1] + steps_x * per_step;
            // Rows of pixels of 8 bytes begin at multiples of 16.
            patch[1] = patch[1].next_multiple_of(2);
            (chunk_channels, pixel_bytes) = (channels, channels * 2);
            num_steps = job.kernel[0] * steps_x;
        } else {
            chunk_channels = padded_inputs.min(CHUNK_CHANNELS);
            // An odd number of 16 bytes, so that neighbouring pixels are in different banks.
            pixel_bytes = chunk_channels * 2 + 16;
            num_steps = taps.checked_mul(padded_inputs / STEP_INPUTS)?;
        }
        let num_chunks = if packed.is_some() { 1 } else { padded_inputs.div_ceil(chunk_channels) };
        let chunk_steps =
            if packed.is_some() { num_steps } else { taps * chunk_channels / STEP_INPUTS };
        let pixels = patch[0].checked_mul(patch[1])?;
        let patch_bytes = pixels.checked_mul(pixel_bytes)?.next_multiple_of(16);
        let chunks = Chunks { num: num_chunks, steps: chunk_steps, num_steps };
        if num_steps > 1 << 14 {
            return None;
        }
        // Warpgroups multiply whole stages: the last step, without weights, fills up.
        let whole = if tiling.kind == Kind::Warpgroups { tiling.stage_steps } else { 1 };
        let num_steps = num_steps.next_multiple_of(whole);
        let num_patches =
            if tiling.has_all_patches() { num_chunks } else { chunks.num_patches(tiling) };
        let all_patches = num_patches.checked_mul(patch_bytes)?;
        if all_patches > limits.shared_bytes {
            return None;
        }
        let shared_bytes = tiling.shared_bytes(num_steps, pixels, all_patches);
        let layout = Self {
            index,
            column_blocks: job.columns().div_ceil(tiling.columns),
            tiles: num_tiles(job, tiling.pixels, log2),
            tile_x_log2: log2,
            patch,
            pixel_bytes,
            patch_bytes,
            num_patches,
            chunk_channels,
            num_chunks,
            chunk_steps,
            num_steps,
            shared_bytes,
        };
        let allowed = match tiling.kind {
            Kind::Whole => whole_bytes(layout.num_blocks(job).into_iter().product(), limits),
            // The barriers of its ring are beside.
            Kind::Warpgroups => limits.shared_bytes - 16 * tiling.stages,
            Kind::Rings => limits.shared_bytes,
        };
        (shared_bytes <= allowed).then_some(layout)
    }

    /// Blocks of the launch: tiles of all items, blocks of columns of all groups.
    pub(super) fn num_blocks(&self, job: &Job) -> [u32; 2] {
        [job.items * self.tiles[0] * self.tiles[1], self.column_blocks * job.groups]
    }

    /// The cycles that a launch takes: what a multiprocessor has to do (products or loads from the
    /// second-level cache, then sums), or how long its blocks take one after the other, whichever
    /// is longer. The numbers are fitted to times of 140 convolutions on an H200.
    pub(super) fn num_cycles(&self, job: &Job, limits: Limits) -> f64 {
        let tiling = &TILINGS[self.index];
        let threads = tiling.threads_per_block();
        let blocks: u32 = self.num_blocks(job).iter().product();
        let per_multiprocessor = f64::from(blocks.div_ceil(limits.num_multiprocessors));
        let by_shared =
            (limits.shared_bytes + SHARED_BYTES_BESIDE) / (self.shared_bytes + SHARED_BYTES_BESIDE);
        let steps = f64::from(self.num_steps);
        let columns = f64::from(tiling.columns);
        let inputs = job.inputs.next_multiple_of(STEP_INPUTS);
        let patch = f64::from(self.patch[0] * self.patch[1] * inputs * 2);
        let weights = steps * columns * 32.0;
        let busy = f64::from(limits.num_multiprocessors.min(blocks));
        let loads = (patch + weights) / (2800.0 / busy).min(75.0);
        let products = steps * columns * f64::from(tiling.pixels * 16);
        let (resident, block, work) = if tiling.kind == Kind::Warpgroups {
            let by_registers = if tiling.columns <= 32 { 3 } else { 2 };
            let block = 4900.0 + 147.0 * steps + 18.0 * columns + patch / 150.0;
            let work = (products / 2048.0).max(1.6 * loads) + 10.0 * columns;
            (by_shared.clamp(1, by_registers), block, work)
        } else {
            let sums = f64::from(tiling.pixels * tiling.warps[2]) * columns;
            let stages = (steps / f64::from(tiling.stage_steps)).ceil();
            let barrier = if tiling.kind == Kind::Whole { 0.0 } else { 1.0 };
            let per_stage = barrier + 11.0 * f64::from(tiling.stage_steps / tiling.warps[2]);
            let block = 2270.0
                + stages * per_stage
                + sums / 150.0
                + patch / 21.0
                + 1.2 * f64::from(threads);
            let work = (products / 500.0).max(loads) + sums / 21.0;
            (by_shared.min(1024 / threads).clamp(1, 8), block, work)
        };
        let work = per_multiprocessor * work;
        let wait = (per_multiprocessor / f64::from(resident)).ceil() * block;
        work.max(wait) + 0.3 * work.min(wait)
    }
}

/// The chunks of channels of a convolution and their steps.
struct Chunks {
    num: u32,
    /// Of a whole chunk; the last may have fewer.
    steps: u32,
    num_steps: u32,
}

impl Chunks {
    /// The fewest patches of a ring in which a chunk, loaded as many stages ahead as weights
    /// are, takes the place of one that is not read any more.
    fn num_patches(&self, tiling: &Tiling) -> u32 {
        let first = |chunk: u32| chunk * self.steps / tiling.stage_steps;
        let last = |chunk: u32| {
            let end = ((chunk + 1) * self.steps).min(self.num_steps);
            (end - 1) / tiling.stage_steps
        };
        let is_free = |chunk: u32, num| last(chunk - num) + tiling.stages <= first(chunk);
        let fits = |num: &u32| (*num..self.num).all(|chunk| is_free(chunk, *num));
        (1..=self.num).find(fits).unwrap_or(self.num)
    }
}

/// Warps that share the products of an item: what decides the order of sums, and therefore may
/// not depend on the number of items.
fn warps_along_products(job: &Job, limits: Limits) -> u32 {
    let tiles = job.item_pixels.div_ceil(64) * job.columns().div_ceil(64) * job.groups;
    if tiles < limits.num_multiprocessors { 4 } else { 2 }
}

/// Values of an item of the output from which warpgroups compute it: with fewer, warps along the
/// products take less time.
const WARPGROUP_VALUES: u64 = 500_000;

/// Whether warpgroups compute a convolution, which may not depend on the number of items either.
fn is_for_warpgroups(job: &Job, method: Method, limits: Limits) -> bool {
    let values = [job.item_pixels, job.columns(), job.groups].into_iter().map(u64::from);
    limits.has_warpgroups && method == Vector && values.product::<u64>() >= WARPGROUP_VALUES
}

/// Whether sums have too few steps, as an image's do, to be divided among warps.
fn is_of_planes(job: &Job, method: Method) -> bool {
    packed_channels(job, method) == Some(4) && job.kernel.iter().all(|&taps| taps <= 4)
}

/// The layouts that give the same sums, with the expected cycles, best first.
pub(super) fn layouts(job: &Job, limits: Limits) -> Vec<(Layout, f64)> {
    let method = match job.right {
        Some(_) => Window,
        None if job.is_vector() => Vector,
        None => Gather,
    };
    let of_class = |warps: u32| {
        let fits = move |(_, tiling): &(usize, &Tiling)| {
            tiling.method == method && tiling.warps[2] == warps
        };
        let layouts = TILINGS.iter().enumerate().filter(fits);
        let mut layouts: Vec<_> = layouts
            .filter_map(|(index, _)| Layout::new(job, index, limits))
            .map(|layout| (layout, layout.num_cycles(job, limits)))
            .collect();
        layouts.sort_by(|a, b| a.1.total_cmp(&b.1));
        layouts
    };
    // What fits does not depend on the number of items either.
    let warps = warps_along_products(job, limits);
    let is_undivided = is_for_warpgroups(job, method, limits) || is_of_planes(job, method);
    let classes = [is_undivided.then_some(1), Some(warps), Some(6 - warps)];
    let mut layouts = classes.into_iter().flatten().map(of_class);
    layouts.find(|layouts| !layouts.is_empty()).unwrap_or_default()
}
