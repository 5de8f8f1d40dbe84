//! Steps without weights: poolings, resizes, programs, reductions.

use det_post_ops::dense::{Region, pool, reduce, resize, softmax};

use super::{Emitter, failed};
use crate::dense::graph::{self, Element, Node};
use crate::dense::plan::Kind;
use crate::dense::program::Instructions;
use det_post_types::Result;

impl Emitter<'_> {
    pub(super) fn pool(&mut self, node: &Node, of: &graph::Pool) -> Result<()> {
        let (input, output) = (self.region(node, node.inputs[0])?, self.output(node, 0)?);
        let kind = match of.is_max {
            true => pool::Kind::Max,
            false => pool::Kind::Average { counts_padding: of.counts_pads },
        };
        let (kernel, steps, dilations, pads) = (of.kernel, of.stride, of.dilation, of.pads);
        let pool = pool::Pool { kind, kernel, steps, dilations, pads, ceil_mode: of.rounds_up };
        self.push(node, Kind::Pool { pool, input, output });
        Ok(())
    }

    pub(super) fn resize(&mut self, node: &Node, of: &graph::Resize) -> Result<()> {
        let (mut input, mut output) = (self.region(node, node.inputs[0])?, self.output(node, 0)?);
        if input.window.rank() != 4 {
            let as_maps = |region: Region| {
                let [outer @ .., h, w] = region.window.dims() else { return None };
                let window = region.window.reshape(&[1, outer.iter().product(), *h, *w])?;
                Some(Region { window, ..region })
            };
            match (as_maps(input), as_maps(output)) {
                (Some(from), Some(to)) => (input, output) = (from, to),
                _ => return failed(node, "a resize of other than maps"),
            }
        }
        let coordinates = match of.coordinates {
            graph::Coordinates::HalfPixel => resize::Coordinates::HalfPixel,
            graph::Coordinates::PytorchHalfPixel => resize::Coordinates::PytorchHalfPixel,
            graph::Coordinates::AlignCorners => resize::Coordinates::AlignCorners,
            graph::Coordinates::Asymmetric => resize::Coordinates::Asymmetric,
        };
        let method = match (of.is_linear, of.rounding) {
            (true, _) => resize::Method::Linear,
            (_, graph::Rounding::PreferFloor) => {
                resize::Method::Nearest(resize::Nearest::RoundPreferFloor)
            }
            (_, graph::Rounding::PreferCeil) => {
                resize::Method::Nearest(resize::Nearest::RoundPreferCeil)
            }
            (_, graph::Rounding::Floor) => resize::Method::Nearest(resize::Nearest::Floor),
            (_, graph::Rounding::Ceil) => resize::Method::Nearest(resize::Nearest::Ceil),
        };
        let resize = resize::Resize { coordinates, method, scales: Some(of.scales) };
        self.push(node, Kind::Resize { resize, input, output });
        Ok(())
    }

    pub(super) fn program(&mut self, node: &Node, instructions: &Instructions) -> Result<()> {
        let targets: Vec<Region> =
            (0..node.outputs.len()).map(|at| self.output(node, at)).collect::<Result<_>>()?;
        let shape = self.graph.shape(node.outputs[0]);
        let mut sources = Vec::with_capacity(node.inputs.len());
        for &id in &node.inputs {
            let region = self.region(node, id)?;
            match region.window.broadcast(shape) {
                Some(window) => sources.push(Region { window, ..region }),
                None => return failed(node, &format!("{:?} as {shape:?}", region.window.dims())),
            }
        }
        let is_integer: Vec<bool> =
            node.inputs.iter().map(|&id| self.graph.values[id].element != Element::Float).collect();
        match instructions.build(&is_integer) {
            Ok(program) => {
                let program = Box::new(program);
                self.push_job(node, program, sources, targets);
                Ok(())
            }
            Err(error) => failed(node, error.message()),
        }
    }

    pub(super) fn reduce(
        &mut self,
        node: &Node,
        kind: graph::Reduction,
        axes: &[usize],
    ) -> Result<()> {
        let (input, output) = (self.region(node, node.inputs[0])?, self.output(node, 0)?);
        let reduction = match kind {
            graph::Reduction::Sum => reduce::Reduction::Sum,
            graph::Reduction::Mean => reduce::Reduction::Mean,
            graph::Reduction::Max => reduce::Reduction::Max,
            graph::Reduction::Min => reduce::Reduction::Min,
        };
        self.push_reduce(node, reduction, axes, input, output)
    }

    pub(super) fn push_reduce(
        &mut self,
        node: &Node,
        reduction: reduce::Reduction,
        axes: &[usize],
        input: Region,
        output: Region,
    ) -> Result<()> {
        let dims = input.window.dims().iter().enumerate();
        let kept: Vec<usize> =
            dims.map(|(at, &of)| if axes.contains(&at) { 1 } else { of }).collect();
        let Some(window) = output.window.reshape(&kept) else {
            return failed(node, &format!("an output of {:?} as {kept:?}", output.window.dims()));
        };
        let (axes, output) = (axes.to_vec(), Region { window, ..output });
        self.push(node, Kind::Reduce { reduction, axes, input, output });
        Ok(())
    }

    pub(super) fn expectation(&mut self, node: &Node, axis: usize) -> Result<()> {
        let (input, output) = (self.region(node, node.inputs[0])?, self.output(node, 0)?);
        let weights = self.region(node, node.inputs[1])?;
        let dims = input.window.dims().to_vec();
        let (mut along, mut kept) = (vec![1; dims.len()], dims.clone());
        (along[axis], kept[axis]) = (dims[axis], 1);
        let wide = weights.window.reshape(&along).and_then(|window| window.broadcast(&dims));
        let (Some(wide), Some(window)) = (wide, output.window.reshape(&kept)) else {
            return failed(node, "weights of another length");
        };
        let weights = Some(Region { window: wide, ..weights });
        let (softmax, output) =
            (softmax::Softmax { axis, is_log: false, weights }, Region { window, ..output });
        self.push(node, Kind::Softmax { softmax, input, output });
        Ok(())
    }

    pub(super) fn layer_norm(&mut self, node: &Node, epsilon: f32) -> Result<()> {
        let (input, output) = (self.region(node, node.inputs[0])?, self.output(node, 0)?);
        let mut wide = |position: usize| {
            let region = self.region(node, node.inputs[position])?;
            match region.window.broadcast(input.window.dims()) {
                Some(window) => Ok(Region { window, ..region }),
                None => failed(node, "scales of another length"),
            }
        };
        let (scales, shifts) = (wide(1)?, wide(2)?);
        let axes = [input.window.rank().saturating_sub(1)];
        self.push(node, Kind::LayerNorm { axes, epsilon, scales, shifts, input, output });
        Ok(())
    }
}
