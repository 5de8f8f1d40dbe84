//! Convolutions and products: steps with weights.

use std::sync::Arc;

use det_post_ops::dense::conv::{Conv, ConvParameters, ConvRegions, Geometry, Products};
use det_post_ops::dense::conv_transpose::{
    ConvTranspose, ConvTransposeParameters, TransposeGeometry,
};
use det_post_ops::dense::linear_max::LinearMax;
use det_post_ops::dense::matmul::{MatMul, MatMulRegions, RightWeights};
use det_post_ops::dense::{Activation, Epilogue, Region, Residual, Window};

use super::{Emitter, failed};
use crate::dense::function::Function;
use crate::dense::graph::{self, Id, Node};
use crate::dense::plan::{Kind, Role};
use det_post_types::{ElementType, Result};

impl Emitter<'_> {
    pub(super) fn epilogue(&self, node: &Node, epilogue: &graph::Epilogue) -> Result<Epilogue> {
        let activation = match epilogue.activation.map(|function| function.activation()) {
            None => Activation::None,
            Some(Some(activation)) => activation,
            Some(None) => return failed(node, "a function that no epilogue has"),
        };
        let residual = epilogue.residual.map(|residual| match residual.before_activation {
            true => Residual::BeforeActivation,
            false => Residual::AfterActivation,
        });
        Ok(Epilogue { activation, residual })
    }

    pub(super) fn products(&self) -> Products {
        if self.is_exact { Products::F32 } else { Products::F16 }
    }

    pub(super) fn constant(&self, node: &Node, position: usize) -> Result<Arc<[f32]>> {
        match self.graph.values[node.inputs[position]].floats() {
            Some(floats) => Ok(floats),
            None => failed(node, "a weight that depends on the inputs of the network"),
        }
    }

    /// Where a residual is, as wide as the output. The channels of a constant are brought side by side.
    pub(super) fn residual(
        &mut self,
        node: &Node,
        epilogue: &graph::Epilogue,
    ) -> Result<Option<Region>> {
        let (Some(_), Some(&id)) = (epilogue.residual, node.inputs.get(3)) else { return Ok(None) };
        let value = &self.graph.values[id];
        let region = match (value.floats(), &value.shape[..]) {
            (Some(values), &[n, c, h, w]) => {
                let place = |at: usize| (at / c / (h * w) * c + at % c) * h * w + at / c % (h * w);
                let turned: Arc<[f32]> = (0..values.len()).map(|at| values[place(at)]).collect();
                let len = turned.len();
                let buffer = self.buffer(ElementType::F32, len, Role::Floats(turned));
                let window = Window::channels_last([n, c, h, w], c);
                window.map(|window| Region { buffer, window })
            }
            _ => Some(self.region(node, id)?),
        };
        let output = self.output(node, 0)?;
        let wide = region.and_then(|region| {
            let window = region.window.broadcast(output.window.dims())?;
            Some(Region { window, ..region })
        });
        match wide {
            Some(region) => Ok(Some(region)),
            None => failed(node, "a residual of another shape"),
        }
    }

    pub(super) fn convolution(&mut self, node: &Node, conv: &graph::Convolution) -> Result<()> {
        let input = self.maps(node, node.inputs[0])?;
        let (residual, output) = (self.residual(node, &conv.epilogue)?, self.output(node, 0)?);
        let (weights, bias) = (self.constant(node, 1)?, self.constant(node, 2)?);
        let &[_, _, kh, kw] = self.graph.shape(node.inputs[1]) else {
            return failed(node, "a weight");
        };
        let parameters = ConvParameters {
            num_outputs: output.window.dims()[1],
            num_inputs: input.window.dims()[1],
            weights: &weights,
            bias: Some(&bias),
        };
        let geometry = Geometry {
            kernel: [kh, kw],
            stride: conv.stride,
            dilation: conv.dilation,
            pads: conv.pads,
            groups: conv.groups,
            upsample: conv.upsample,
        };
        let epilogue = self.epilogue(node, &conv.epilogue)?;
        let regions = ConvRegions { input, residual, output };
        self.push_conv(node, &parameters, geometry, epilogue, &regions)
    }

    pub(super) fn push_conv(
        &mut self,
        node: &Node,
        parameters: &ConvParameters<'_>,
        geometry: Geometry,
        epilogue: Epilogue,
        regions: &ConvRegions,
    ) -> Result<()> {
        match Conv::new(parameters, geometry, epilogue, self.products()) {
            Ok(conv) => {
                let conv = Box::new(conv.with_fixed_items(self.graph.fixed_items));
                self.push(node, Kind::Conv { conv, regions: *regions });
                Ok(())
            }
            Err(error) => failed(node, error.message()),
        }
    }

    pub(super) fn transposed(&mut self, node: &Node, conv: &graph::Transposed) -> Result<()> {
        let input = self.maps(node, node.inputs[0])?;
        let (residual, output) = (self.residual(node, &conv.epilogue)?, self.output(node, 0)?);
        let (weights, bias) = (self.constant(node, 1)?, self.constant(node, 2)?);
        let &[c, _, kh, kw] = self.graph.shape(node.inputs[1]) else {
            return failed(node, "a weight");
        };
        let num_outputs = output.window.dims()[1];
        let parameters = ConvTransposeParameters {
            num_inputs: c,
            num_outputs,
            weights: &weights,
            bias: Some(&bias),
        };
        let geometry = TransposeGeometry {
            kernel: [kh, kw],
            stride: conv.stride,
            dilation: conv.dilation,
            pads: conv.pads,
            output_padding: conv.output_padding,
            groups: conv.groups,
        };
        let epilogue = self.epilogue(node, &conv.epilogue)?;
        let num_products = input.window.len() / c.max(1) * weights.len();
        match ConvTranspose::new(&parameters, geometry, epilogue, self.products()) {
            Ok(conv) => {
                let regions = ConvRegions { input, residual, output };
                self.push(node, Kind::Transposed { conv: Box::new(conv), regions, num_products });
                Ok(())
            }
            Err(error) => failed(node, error.message()),
        }
    }

    pub(super) fn product(&mut self, node: &Node, epilogue: &graph::Epilogue) -> Result<()> {
        let (residual, output) = (self.residual(node, epilogue)?, self.output(node, 0)?);
        let left = self.features(node, node.inputs[0])?;
        let weight = &self.graph.values[node.inputs[1]];
        let bias = self.constant(node, 2)?;
        let (applied, products) = (self.epilogue(node, epilogue)?, self.products());
        let k = left.window.dims().last().copied().unwrap_or(1);
        let num_products = output.window.len() * k;
        let (&[_, n], Some(weights)) = (&weight.shape[..], weight.floats()) else {
            if bias.iter().any(|&value| value != 0.0) {
                return failed(node, "a bias of a product of two values that depend on inputs");
            }
            let right = self.features(node, node.inputs[1])?;
            let batch = &output.window.dims()[..output.window.rank().saturating_sub(2)];
            let wide = |region: Region| {
                let [.., rows, columns] = region.window.dims() else { return None };
                let dims = [batch, &[*rows, *columns]].concat();
                region.window.broadcast(&dims).map(|window| Region { window, ..region })
            };
            let (Some(left), Some(right)) = (wide(left), wide(right)) else {
                return failed(node, "matrices that cannot be broadcast");
            };
            let product = Box::new(MatMul::of_windows(applied, products));
            let regions = MatMulRegions { left, right: Some(right), residual, output };
            self.push(node, Kind::MatMul { product, regions, num_products, num_weights: 0 });
            return Ok(());
        };
        let rows = left.window.len() / k.max(1);
        let flat = |region: Region, columns: usize| {
            let window = region.window.reshape(&[rows, columns])?;
            Some(Region { window, ..region })
        };
        // Rows of all leading dimensions at once, where strides name them.
        let residual_flat = residual.map(|region| flat(region, n));
        let (left, residual, output) = match (flat(left, k), residual_flat, flat(output, n)) {
            (Some(left), None, Some(output)) => (left, None, output),
            (Some(left), Some(Some(residual)), Some(output)) => (left, Some(residual), output),
            _ => (left, residual, output),
        };
        let right =
            RightWeights { num_inputs: k, num_outputs: n, weights: &weights, bias: Some(&bias) };
        match MatMul::with_weights(&right, applied, products) {
            Ok(product) => {
                let regions = MatMulRegions { left, right: None, residual, output };
                let (product, num_weights) = (Box::new(product), weights.len());
                self.push(node, Kind::MatMul { product, regions, num_products, num_weights });
                Ok(())
            }
            Err(error) => failed(node, error.message()),
        }
    }

    pub(super) fn linear_max(&mut self, node: &Node, activation: Option<Function>) -> Result<()> {
        let (input, output) = (self.region(node, node.inputs[0])?, self.output(node, 0)?);
        let (weights, bias) = (self.constant(node, 1)?, self.constant(node, 2)?);
        let epilogue = graph::Epilogue { activation, residual: None };
        let activation = self.epilogue(node, &epilogue)?.activation;
        let (&[groups, _, inputs], &[_, outputs]) =
            (input.window.dims(), self.graph.shape(node.inputs[1]))
        else {
            return failed(node, "no groups of rows");
        };
        let Some(window) = output.window.reshape(&[groups, outputs]) else {
            return failed(node, &format!("an output of {:?}", output.window.dims()));
        };
        let right = RightWeights {
            num_inputs: inputs,
            num_outputs: outputs,
            weights: &weights,
            bias: Some(&bias),
        };
        match LinearMax::new(&right, activation) {
            Ok(layer) => {
                let (layer, output) = (Box::new(layer), Region { window, ..output });
                let num_products = input.window.len() * outputs;
                self.push(node, Kind::LinearMax { layer, input, output, num_products });
                Ok(())
            }
            Err(error) => failed(node, error.message()),
        }
    }

    /// A value as elements of products.
    pub(super) fn features(&mut self, node: &Node, id: Id) -> Result<Region> {
        let region = self.region(node, id)?;
        let wanted = self.feature();
        if self.is_read(id, self.buffers[region.buffer].element) {
            return Ok(region);
        }
        if let Some(&region) = self.readable.get(&(id, self.is_exact)) {
            return Ok(region);
        }
        let target = self.work(node, wanted, padded_rows(region.window.dims()))?;
        self.copy(node, region, target)?;
        self.readable.insert((id, self.is_exact), target);
        Ok(target)
    }
}

/// Rows in row-major order, each a multiple of 16 bytes long.
fn padded_rows(dims: &[usize]) -> Option<Window> {
    let (&last, outer) = dims.split_last()?;
    let mut strides = vec![1; dims.len()];
    let mut stride = last.checked_next_multiple_of(8)?;
    for at in (0..outer.len()).rev() {
        strides[at] = stride;
        stride = stride.checked_mul(outer[at])?;
    }
    Window::new(0, dims, &strides)
}
