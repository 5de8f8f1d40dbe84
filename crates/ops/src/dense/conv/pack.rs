//! Weights in the order in which the f16 kernels read them, and where a step is in the patches.

use half::f16;

use super::job::Job;
use super::tiling::{Kind, Layout, STEP_INPUTS, TILINGS};

/// Weights by group, column of the group, tap and input channel of the group; 0 beyond the
/// columns.
pub(crate) struct Source<'a> {
    pub(crate) weight: &'a dyn Fn(u32, u32, [u32; 2], u32) -> f32,
    /// By group and column.
    pub(crate) bias: &'a dyn Fn(u32, u32) -> f32,
}

/// A step of products: the tap and the channel of each, where there is one.
#[derive(Clone)]
struct Step {
    /// From the row of a matrix operand, in bytes.
    offset: u32,
    inputs: [Option<([u32; 2], u32)>; STEP_INPUTS as usize],
}

/// The steps in the order of sums: chunks of channels, taps, channels by 16.
fn steps_of(job: &Job, layout: &Layout) -> Vec<Step> {
    let pixel = |ky: u32, kx: u32| {
        (ky * job.dilation[0] * layout.patch[1] + kx * job.dilation[1]) * layout.pixel_bytes
    };
    let mut steps = Vec::new();
    // Pixels without padding behind them: a step has several taps of a row.
    if layout.pixel_bytes == layout.chunk_channels * 2 {
        let channels = layout.chunk_channels;
        for ky in 0..job.kernel[0] {
            for first in (0..job.kernel[1]).step_by((STEP_INPUTS / channels) as usize) {
                let inputs = std::array::from_fn(|k| {
                    let (kx, c) = (first + k as u32 / channels, k as u32 % channels);
                    (kx < job.kernel[1] && c < job.inputs).then_some(([ky, kx], c))
                });
                steps.push(Step { offset: pixel(ky, first), inputs });
            }
        }
        return steps;
    }
    for chunk in 0..layout.num_chunks {
        let first = chunk * layout.chunk_channels;
        let end = (first + layout.chunk_channels).min(job.inputs);
        let place = chunk % layout.num_patches * layout.patch_bytes;
        for ky in 0..job.kernel[0] {
            for kx in 0..job.kernel[1] {
                for from in (first..end).step_by(STEP_INPUTS as usize) {
                    let inputs = std::array::from_fn(|k| {
                        let c = from + k as u32;
                        (c < end).then_some(([ky, kx], c))
                    });
                    let offset = place + pixel(ky, kx) + (from - first) * 2;
                    steps.push(Step { offset, inputs });
                }
            }
        }
    }
    steps
}

/// Bytes of a step for 16 columns.
const STEP_BYTES: usize = 512;

/// The column of 16 and the product of a step at a place among their 256 weights: lane by lane.
fn by_lane(place: u32) -> [u32; 2] {
    let (lane, word, half) = (place / 8, place / 2 % 4, place % 2);
    [word / 2 * 8 + lane / 4, lane % 4 * 2 + half + word % 2 * 8]
}

/// As [`by_lane`] for warpgroups: 8 columns, two parts of 8 products, a column after the other.
fn by_block(place: u32) -> [u32; 2] {
    [place / 128 * 8 + place / 8 % 8, place / 64 % 2 * 8 + place % 8]
}

/// Appends the weights of a step for the 16 columns from `first` on.
fn pack_step(
    step: &Step,
    first: u32,
    num_columns: u32,
    order: fn(u32) -> [u32; 2],
    weight: impl Fn(u32, [u32; 2], u32) -> f32,
    weights: &mut Vec<u8>,
) {
    for place in 0..256 {
        let [column, k] = order(place);
        let column = first + column;
        let weight = match step.inputs[k as usize] {
            Some((tap, input)) if column < num_columns => weight(column, tap, input),
            _ => 0.0,
        };
        weights.extend(f16::from_f32(weight).to_le_bytes());
    }
}

/// What a kernel reads beside its maps.
pub(super) struct Packed {
    /// By group, block of columns, stage, 16 columns, step and lane, the two operands of a matrix
    /// instruction: words of two products each. The last stage is padded. For warpgroups by group,
    /// block of columns, step, 8 columns, half of the products, column.
    pub(super) weights: Vec<u8>,
    pub(super) bias: Vec<f32>,
    pub(super) steps: Vec<u32>,
}

pub(super) fn pack(job: &Job, layout: &Layout, source: &Source<'_>) -> Packed {
    let mut steps = steps_of(job, layout);
    if let Some(last) = steps.last() {
        let without = Step { offset: last.offset, inputs: [None; STEP_INPUTS as usize] };
        steps.resize(layout.num_steps as usize, without);
    }
    let columns = layout.column_blocks * TILINGS[layout.index].columns;
    let num_columns = job.columns();
    let mut weights = Vec::with_capacity((job.groups * columns * 32) as usize * steps.len());
    let mut bias = Vec::with_capacity((job.groups * columns) as usize);
    for group in 0..job.groups {
        bias.extend(
            (0..columns).map(
                |column| {
                    if column < num_columns { (source.bias)(group, column) } else { 0.0 }
                },
            ),
        );
        if job.right.is_some() {
            continue;
        }
        let tiling = &TILINGS[layout.index];
        let of_group = |column, tap: [u32; 2], input| (source.weight)(group, column, tap, input);
        for block in (0..columns).step_by(tiling.columns as usize) {
            let of_block = (block..block + tiling.columns).step_by(16);
            if tiling.kind == Kind::Warpgroups {
                for step in &steps {
                    for first in of_block.clone() {
                        pack_step(step, first, num_columns, by_block, of_group, &mut weights);
                    }
                }
                continue;
            }
            for stage in steps.chunks(tiling.stage_steps as usize) {
                for first in of_block.clone() {
                    let absent = tiling.stage_steps as usize - stage.len();
                    for step in stage {
                        pack_step(step, first, num_columns, by_lane, of_group, &mut weights);
                    }
                    weights.resize(weights.len() + absent * STEP_BYTES, 0);
                }
            }
        }
    }
    let steps = steps.iter().map(|step| step.offset).collect();
    Packed { weights, bias, steps }
}

/// Weights in f32 by group, product in the order of the sum, and column.
pub(super) fn pack_exact(job: &Job, groups: u32, columns: u32, source: &Source<'_>) -> Packed {
    let mut packed = Packed { weights: Vec::new(), bias: Vec::new(), steps: Vec::new() };
    // Those of one group where the channels of a depthwise convolution are its columns.
    let num_columns = if groups == job.groups { job.columns() } else { job.groups };
    for group in 0..groups {
        packed.bias.extend(
            (0..columns).map(
                |column| {
                    if column < num_columns { (source.bias)(group, column) } else { 0.0 }
                },
            ),
        );
        if job.right.is_some() {
            continue;
        }
        for tap in 0..job.kernel[0] * job.kernel[1] {
            let tap = [tap / job.kernel[1], tap % job.kernel[1]];
            for input in 0..job.inputs {
                for column in 0..columns {
                    let exists = column < num_columns;
                    let weight =
                        if exists { (source.weight)(group, column, tap, input) } else { 0.0 };
                    packed.weights.extend(weight.to_le_bytes());
                }
            }
        }
    }
    packed
}
