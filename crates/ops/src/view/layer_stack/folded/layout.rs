//! Which warps have which layers of a stack.

use super::super::cuda::MAX_WIDTH;
use super::args::{
    BOX_LEN, FoldedLayerArgs, FoldedStackArgs, MAX_COLUMNS, MAX_LAYERS, STEP_INPUTS, WARPS, WIDTH,
};
use crate::device::cuda::Plain;
use crate::view::layer_norm::LayerNorm;
use crate::view::linear::{Finish, LinearLayer};

/// Layers over rows, or after a first one over columns of f32.
#[derive(Clone, Copy)]
pub(super) struct Stack<'a> {
    /// The first layer, over columns, and the first of these.
    pub first: Option<(&'a LinearLayer, usize)>,
    /// The others.
    pub layers: &'a [LinearLayer],
}

impl<'a> Stack<'a> {
    /// The layers but the first one over columns, each with the normalization of its inputs.
    pub(super) fn folded(
        &self,
    ) -> impl Iterator<Item = (&'a LinearLayer, Option<&'a LayerNorm>)> + use<'a> {
        let before = [self.first.map(|(layer, _)| layer)].into_iter();
        let before = before.chain(self.layers.iter().map(Some));
        before.zip(self.layers).map(|(before, layer)| {
            let norm = before.and_then(|before| before.finish().norm());
            (layer, norm)
        })
    }

    /// The normalization of the output.
    pub(super) fn last_norm(&self) -> Option<&'a LayerNorm> {
        self.layers.last().and_then(|last| last.finish().norm())
    }
}

/// The layers of a stack and their warps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub layers: [FoldedLayerArgs; MAX_LAYERS],
    /// The normalization of the output.
    pub last: FoldedLayerArgs,
    pub num_layers: usize,
    pub first_warp: usize,
    pub num_warps: usize,
    pub num_values: usize,
    /// None over rows.
    pub num_columns: usize,
    pub first_column: usize,
}

impl Layout {
    /// The layout of a stack whose warps are those from `first_warp` on; `None` when the kernel
    /// has no such stacks.
    pub(super) fn new(stack: Stack<'_>, first_warp: usize) -> Option<Self> {
        let (first, last) = (stack.layers.first()?, stack.layers.last()?);
        let num_layers = stack.layers.len();
        let num_values = last.num_outputs();
        let has_last_norm = last.finish().norm().is_some();
        let mut width = stack.first.map_or(first.num_inputs(), |(first, _)| first.num_outputs());
        let fits = match stack.first {
            None => {
                width.is_multiple_of(WIDTH)
                    && (1..=BOX_LEN).contains(&num_values)
                    && !has_last_norm
                    && first_warp == 0
            }
            Some((first, _)) => {
                matches!(first.finish(), Finish::ReluNorm(_))
                    && (2..=MAX_COLUMNS).contains(&first.num_inputs())
                    && num_values.is_multiple_of(8)
            }
        };
        if !fits || num_layers > MAX_LAYERS {
            return None;
        }
        let mut layers = [FoldedLayerArgs::default(); MAX_LAYERS];
        let mut most_warps = width.div_ceil(WIDTH);
        for (to, (layer, norm)) in layers.iter_mut().zip(stack.folded()) {
            let is_possible = layer.num_inputs() == width
                && width.max(layer.num_outputs()) <= MAX_WIDTH
                && !matches!(layer.finish(), Finish::NormRelu(_));
            if !is_possible {
                return None;
            }
            let num_warps = layer.num_outputs().div_ceil(WIDTH);
            *to = FoldedLayerArgs {
                num_steps: num_steps(width),
                num_warps: num_warps as u8,
                has_relu: u8::from(matches!(layer.finish(), Finish::Relu | Finish::ReluNorm(_))),
                reserved: 0,
                inverse_len: inverse_len(norm),
            };
            most_warps = most_warps.max(num_warps);
            width = layer.num_outputs();
        }
        let is_of_rows = stack.first.is_none();
        let num_warps = if is_of_rows { WARPS } else { most_warps };
        if first_warp + num_warps > WARPS {
            return None;
        }
        if is_of_rows {
            // A warp has 32 inputs of the values.
            let values = &mut layers[num_layers - 1];
            values.num_warps = values.num_steps / 2;
        }
        let last = FoldedLayerArgs {
            num_steps: if has_last_norm { num_steps(num_values) } else { 0 },
            inverse_len: inverse_len(stack.last_norm()),
            ..FoldedLayerArgs::default()
        };
        let (num_columns, first_column) =
            stack.first.map_or((0, 0), |(first, column)| (first.num_inputs(), column));
        Some(Self {
            layers,
            last,
            num_layers,
            first_warp,
            num_warps,
            num_values,
            num_columns,
            first_column,
        })
    }

    /// The stack without what it reads and writes.
    pub(super) fn args<'a, T: Plain>(&self) -> FoldedStackArgs<'a, T> {
        FoldedStackArgs {
            layers: self.layers,
            last: self.last,
            num_columns: self.num_columns as u32,
            first_column: self.first_column as u32,
            num_values: self.num_values as u32,
            num_layers: self.num_layers as u32,
            first_warp: self.first_warp as u32,
            num_warps: self.num_warps as u32,
            ..FoldedStackArgs::empty()
        }
    }
}

/// Steps of inputs that the outputs of warps are.
fn num_steps(width: usize) -> u8 {
    (width.next_multiple_of(WIDTH) / STEP_INPUTS) as u8
}

fn inverse_len(norm: Option<&LayerNorm>) -> f32 {
    norm.map_or(0.0, |norm| 1.0 / norm.num_channels() as f32)
}
