//! The streams that the warps of a block read: the constants of their layers, then the weights in
//! the order of use.

use super::args::{
    CONSTANT_BYTES, MAX_CONSTANTS, MAX_ROW_STACKS, STEP_BYTES, STEP_INPUTS, StreamArgs, WARPS,
    WIDTH,
};
use super::layout::{Layout, Stack};
use crate::view::linear::LinearLayer;
use crate::view::linear::fold::FoldedWeights;

/// Outputs that a matrix instruction has.
const GROUP: usize = 16;

/// The streams of all warps.
pub(super) struct Packed {
    pub streams: Vec<u8>,
    pub warps: [[StreamArgs; WARPS]; MAX_ROW_STACKS],
}

/// What a warp reads.
#[derive(Clone, Default)]
struct Warp {
    /// Of each layer, for outputs 8 apart: `c` of both, `s` of both.
    constants: Vec<f32>,
    /// Three weights and a bias of each channel of a first layer over columns.
    first: Vec<f32>,
    weights: Vec<u8>,
    plan: u64,
    num_planned: u32,
}

/// Packs stacks with their layouts by the blocks that run them; `None` when a warp has more layers than
/// the kernel has places for their constants, or a weight is infinite in f16.
pub(super) fn pack<'a>(
    sets: impl IntoIterator<Item = &'a [(Stack<'a>, Layout)]>,
) -> Option<Packed> {
    let mut packed =
        Packed { streams: Vec::new(), warps: [[StreamArgs::default(); WARPS]; MAX_ROW_STACKS] };
    for (stacks, to) in sets.into_iter().zip(&mut packed.warps) {
        for (to, warp) in to.iter_mut().zip(warps(stacks)?) {
            *to = StreamArgs { begin: packed.streams.len() as u64, plan: warp.plan };
            let constants = warp.constants.iter().chain(&warp.first);
            packed.streams.extend(constants.flat_map(|value| value.to_le_bytes()));
            packed.streams.extend(warp.weights);
        }
    }
    Some(packed)
}

/// What the warps of a block read.
fn warps(stacks: &[(Stack<'_>, Layout)]) -> Option<Vec<Warp>> {
    let mut warps = vec![Warp::default(); WARPS];
    for (stack, layout) in stacks {
        let of_stack = &mut warps[layout.first_warp..][..layout.num_warps];
        for (index, ((layer, norm), args)) in stack.folded().zip(&layout.layers).enumerate() {
            let folded = FoldedWeights::new(layer, norm)?;
            let are_values = stack.first.is_none() && index + 1 == layout.num_layers;
            for (own, warp) in of_stack.iter_mut().enumerate() {
                let has_weights = own < usize::from(args.num_warps);
                if are_values {
                    warp.push_constants(0, |output| folded.constants(output));
                } else if has_weights {
                    warp.push_constants(own * WIDTH, |output| folded.constants(output));
                }
                match (has_weights, are_values) {
                    (true, true) => warp.push_values(&folded, own * WIDTH),
                    (true, false) => warp.push_weights(&folded, own * WIDTH, args.num_steps),
                    (false, _) => {}
                }
            }
        }
        if let Some(norm) = stack.last_norm() {
            let constants = |channel: usize| {
                let value = |of: &[f32]| of.get(channel).copied().unwrap_or(0.0);
                [value(norm.beta()), value(norm.gamma())]
            };
            let has_outputs = layout.num_values.div_ceil(WIDTH);
            for (own, warp) in of_stack.iter_mut().take(has_outputs).enumerate() {
                warp.push_constants(own * WIDTH, constants);
            }
        }
        if let Some((first, _)) = stack.first {
            for (own, warp) in of_stack.iter_mut().enumerate() {
                let channels = own * WIDTH..(own + 1) * WIDTH;
                warp.first = channels.flat_map(|channel| first_weights(first, channel)).collect();
            }
        }
    }
    let most = MAX_CONSTANTS * 2 * WIDTH;
    if warps.iter().any(|warp| warp.constants.len() > most) {
        return None;
    }
    for warp in &mut warps {
        warp.constants.resize(most, 0.0);
        warp.first.resize(CONSTANT_BYTES / size_of::<f32>() - most, 0.0);
    }
    Some(warps)
}

/// Three weights and the bias of a channel; zeros beyond the layer.
fn first_weights(first: &LinearLayer, channel: usize) -> [f32; 4] {
    let Some(&bias) = first.bias().get(channel) else { return [0.0; 4] };
    let weight =
        |input| if input < first.num_inputs() { first.weight(channel, input) } else { 0.0 };
    [weight(0), weight(1), weight(2), bias]
}

impl Warp {
    fn push_constants(&mut self, first_output: usize, of: impl Fn(usize) -> [f32; 2]) {
        for group in (0..WIDTH).step_by(GROUP) {
            for output in first_output + group..first_output + group + 8 {
                let [low, high] = [of(output), of(output + 8)];
                self.constants.extend([low[0], high[0], low[1], high[1]]);
            }
        }
    }

    /// The weights of the warp's outputs.
    fn push_weights(&mut self, layer: &FoldedWeights, first_output: usize, num_steps: u8) {
        for step in 0..usize::from(num_steps) {
            for group in (0..WIDTH).step_by(GROUP) {
                self.push_tile(layer, first_output + group, step * STEP_INPUTS);
            }
        }
        self.push_pairs(num_steps / 2);
    }

    /// The weights of all outputs for 32 inputs: one step, and one of zeros to make a pair.
    fn push_values(&mut self, layer: &FoldedWeights, first_input: usize) {
        for input in (first_input..first_input + WIDTH).step_by(STEP_INPUTS) {
            self.push_tile(layer, 0, input);
        }
        self.weights.resize(self.weights.len() + STEP_BYTES, 0);
        self.push_pairs(1);
    }

    /// 16 bytes a lane for 16 outputs and 16 inputs: an operand of a matrix instruction.
    fn push_tile(&mut self, layer: &FoldedWeights, first_output: usize, first_input: usize) {
        for lane in 0..32 {
            for word in 0..4 {
                let output = first_output + lane / 4 + word % 2 * 8;
                let input = first_input + lane % 4 * 2 + word / 2 * 8;
                let pair = [layer.weight(output, input), layer.weight(output, input + 1)];
                self.weights.extend(pair.iter().flat_map(|value| value.to_le_bytes()));
            }
        }
    }

    fn push_pairs(&mut self, num: u8) {
        self.plan |= u64::from(num) << (4 * self.num_planned);
        self.num_planned += 1;
    }
}
