//! From nodes to steps.

use std::collections::HashMap;
use std::sync::Arc;

use det_post_ops::dense::arg_max::ArgMax;
use det_post_ops::dense::conv::{Conv, ConvParameters, ConvRegions, Geometry, Products};
use det_post_ops::dense::conv_transpose::{
    ConvTranspose, ConvTransposeParameters, TransposeGeometry,
};
use det_post_ops::dense::matmul::{MatMul, MatMulRegions, RightWeights};
use det_post_ops::dense::pointwise::Program;
use det_post_ops::dense::{
    Activation, Epilogue, Region, Residual, Window, gather, grid_sample, pool, reduce, resize,
    softmax, top_k,
};

use super::super::graph::{self, Data, Element, Graph, Id, Node, Operation};
use super::super::program::Instructions;
use super::super::refuse;
use super::place::{Placed, is_channels_last, viewed};
use super::{Buffer, Job, Kind, Precision, Role, Step};
use det_post_types::{ElementType, Result};

/// The most channels of planes that a convolution reads as they are.
const MAX_PLANES: usize = 4;

/// The steps of a graph, and the buffers of their windows.
pub(super) fn emit(
    graph: &Graph,
    placed: Placed,
    precision: Precision,
) -> Result<(Vec<Step>, Vec<Buffer>)> {
    let Placed { regions, buffers, copies, output_copies } = placed;
    let mut emitter = Emitter {
        graph,
        precision,
        producer: super::super::passes::Uses::of(graph).producer,
        regions,
        buffers,
        steps: Vec::new(),
        readable: HashMap::new(),
    };
    for (at, node) in graph.nodes.iter().enumerate() {
        emitter.node(node)?;
        for (position, target) in &copies[at] {
            let source = emitter.region(node, node.inputs[*position])?;
            emitter.copy(node, source, *target)?;
        }
    }
    for (id, target) in output_copies {
        // An input or a constant.
        let copy = Node {
            name: format!("output {}", graph.values[id].name).into(),
            operation: Operation::View(graph::View::Reshape),
            inputs: vec![id],
            outputs: Vec::new(),
        };
        let node = emitter.producer[id].map_or(&copy, |at| &graph.nodes[at]);
        let source = emitter.region(node, id)?;
        emitter.copy(node, source, target)?;
    }
    Ok((emitter.steps, emitter.buffers))
}

struct Emitter<'g> {
    graph: &'g Graph,
    precision: Precision,
    producer: Vec<Option<usize>>,
    regions: Vec<Option<Region>>,
    buffers: Vec<Buffer>,
    steps: Vec<Step>,
    /// Copies that convolutions can read, by value.
    readable: HashMap<Id, Region>,
}

fn failed<T>(node: &Node, reason: &str) -> Result<T> {
    refuse(format!("{}: {reason}", node.name))
}

impl Emitter<'_> {
    fn buffer(&mut self, element: ElementType, len: usize, role: Role) -> usize {
        self.buffers.push(Buffer { element, len, role });
        self.buffers.len() - 1
    }

    fn push(&mut self, node: &Node, kind: Kind) {
        let mut is_empty = false;
        kind.regions(|region| is_empty |= region.window.is_empty());
        if !is_empty {
            self.steps.push(Step { name: node.name.clone(), kind });
        }
    }

    fn copy(&mut self, node: &Node, source: Region, target: Region) -> Result<()> {
        let is_integer = self.buffers[source.buffer].element == ElementType::I32;
        let program = Box::new(Program::copy(is_integer)?);
        let dims = target.window.dims();
        let Some(window) = source.window.broadcast(dims) else {
            return failed(node, &format!("a copy from {:?} to {dims:?}", source.window.dims()));
        };
        let sources = vec![Region { window, ..source }];
        self.push(node, Kind::Pointwise(vec![Job { program, sources, targets: vec![target] }]));
        Ok(())
    }

    /// A buffer of a window.
    fn work(
        &mut self,
        node: &Node,
        element: ElementType,
        window: Option<Window>,
    ) -> Result<Region> {
        let Some(window) = window else {
            return failed(node, "more than 6 dimensions, or too large");
        };
        let buffer = self.buffer(element, window.end().unwrap_or(0), Role::Work);
        Ok(Region { buffer, window })
    }

    /// Where a value is. A view that no strides name is copied, before `node`.
    fn region(&mut self, node: &Node, id: Id) -> Result<Region> {
        if let Some(region) = self.regions[id] {
            return Ok(region);
        }
        let value = &self.graph.values[id];
        let Some(window) = Window::contiguous(&value.shape) else {
            return failed(
                node,
                &format!("shape {:?}: up to 6 dimensions are covered", value.shape),
            );
        };
        let region = if let Some(data) = &value.constant {
            let (element, role) = match data {
                Data::Floats(values) => (ElementType::F32, Role::Floats(values.clone())),
                Data::Integers(values) => {
                    let narrow = values.iter().map(|&value| i32::try_from(value).ok());
                    let Some(narrow) = narrow.collect::<Option<Arc<[i32]>>>() else {
                        return failed(node, &format!("integers of {} exceed 32 bits", value.name));
                    };
                    (ElementType::I32, Role::Integers(narrow))
                }
            };
            Region { buffer: self.buffer(element, value.len(), role), window }
        } else {
            self.view(node, id)?
        };
        self.regions[id] = Some(region);
        Ok(region)
    }

    fn view(&mut self, node: &Node, id: Id) -> Result<Region> {
        let found = self.producer[id].map(|at| &self.graph.nodes[at]);
        let Some((Operation::View(view), from)) = found.map(|of| (&of.operation, of)) else {
            return failed(node, &format!("{} is not computed", self.graph.values[id].name));
        };
        let source = self.region(node, from.inputs[0])?;
        let shape = self.graph.shape(id);
        if let Some(window) = viewed(&source.window, view, shape) {
            return Ok(Region { window, ..source });
        }
        // The elements in row-major order have every shape.
        let element = self.buffers[source.buffer].element;
        let target = self.work(node, element, Window::contiguous(source.window.dims()))?;
        self.copy(from, source, target)?;
        match viewed(&target.window, view, shape) {
            Some(window) => Ok(Region { window, ..target }),
            None => failed(node, &format!("a view of {:?} as {shape:?}", source.window.dims())),
        }
    }

    /// Where a convolution can read maps.
    fn maps(&mut self, node: &Node, id: Id) -> Result<Region> {
        let region = self.region(node, id)?;
        let element = self.buffers[region.buffer].element;
        let wanted = self.feature();
        let is_planes = region.window.rank() == 4
            && region.window.dims()[1] <= MAX_PLANES
            && region.window.strides()[3] == 1
            && matches!(self.buffers[region.buffer].role, Role::Input(_));
        if is_planes || (element == wanted && is_channels_last(&region.window)) {
            return Ok(region);
        }
        if let Some(&region) = self.readable.get(&id) {
            return Ok(region);
        }
        let &[n, c, h, w] = region.window.dims() else {
            return failed(node, "an input that is no map");
        };
        let pixel = c.next_multiple_of(8);
        let target = self.work(node, wanted, Window::channels_last([n, c, h, w], pixel))?;
        self.copy(node, region, target)?;
        self.readable.insert(id, target);
        Ok(target)
    }

    fn feature(&self) -> ElementType {
        match self.precision {
            Precision::F32 => ElementType::F32,
            Precision::F16 => ElementType::F16,
        }
    }

    fn output(&mut self, node: &Node, position: usize) -> Result<Region> {
        match self.regions[node.outputs[position]] {
            Some(region) => Ok(region),
            None => {
                let shape = self.graph.shape(node.outputs[position]);
                failed(node, &format!("shape {shape:?}: up to 6 dimensions are covered"))
            }
        }
    }

    fn node(&mut self, node: &Node) -> Result<()> {
        match &node.operation {
            Operation::View(_) | Operation::Concat { .. } => Ok(()),
            Operation::Convolution(conv) => self.convolution(node, conv),
            Operation::Transposed(conv) => self.transposed(node, conv),
            Operation::Product(epilogue) => self.product(node, epilogue),
            Operation::Pool(pool) => self.pool(node, pool),
            Operation::Resize(resize) => self.resize(node, resize),
            Operation::Program(instructions) => self.program(node, instructions),
            Operation::Reduce { kind, axes, .. } => self.reduce(node, *kind, axes),
            Operation::Softmax { axis } => {
                let (input, output) = (self.region(node, node.inputs[0])?, self.output(node, 0)?);
                let softmax = softmax::Softmax { axis: *axis, is_log: false, weights: None };
                self.push(node, Kind::Softmax { softmax, input, output });
                Ok(())
            }
            Operation::Expectation { axis } => self.expectation(node, *axis),
            Operation::LayerNorm { epsilon } => self.layer_norm(node, *epsilon),
            &Operation::ArgMax { axis, is_smallest, is_last } => {
                let (input, output) = (self.region(node, node.inputs[0])?, self.output(node, 0)?);
                let search = ArgMax { axis, is_smallest, is_last };
                self.push(node, Kind::ArgMax { search, input, output });
                Ok(())
            }
            &Operation::Gather { axis, of_elements } => {
                let (input, output) = (self.region(node, node.inputs[0])?, self.output(node, 0)?);
                let indices = self.region(node, node.inputs[1])?;
                let mode = if of_elements { gather::Mode::Elements } else { gather::Mode::Slices };
                let gather = gather::Gather { axis, mode };
                self.push(node, Kind::Gather { gather, input, indices, output });
                Ok(())
            }
            &Operation::GridSample { is_linear, has_border, aligns_corners } => {
                let (input, output) = (self.region(node, node.inputs[0])?, self.output(node, 0)?);
                let grid = self.region(node, node.inputs[1])?;
                let method = if is_linear {
                    grid_sample::Method::Linear
                } else {
                    grid_sample::Method::Nearest
                };
                let padding = if has_border {
                    grid_sample::Padding::Border
                } else {
                    grid_sample::Padding::Zeros
                };
                let sample = grid_sample::GridSample { method, padding, aligns_corners };
                self.push(node, Kind::GridSample { sample, input, grid, output });
                Ok(())
            }
            &Operation::TopK { axis, largest } => {
                let input = self.region(node, node.inputs[0])?;
                let chosen = top_k::Chosen {
                    values: Some(self.output(node, 0)?),
                    positions: Some(self.output(node, 1)?),
                };
                let top_k = top_k::TopK { axis, is_smallest: !largest };
                self.push(node, Kind::TopK { top_k, input, chosen });
                Ok(())
            }
            _ => failed(node, "the operator is not covered"),
        }
    }

    fn epilogue(&self, node: &Node, epilogue: &graph::Epilogue) -> Result<Epilogue> {
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

    fn products(&self) -> Products {
        match self.precision {
            Precision::F32 => Products::F32,
            Precision::F16 => Products::F16,
        }
    }

    fn constant(&self, node: &Node, position: usize) -> Result<Arc<[f32]>> {
        match self.graph.values[node.inputs[position]].floats() {
            Some(floats) => Ok(floats),
            None => failed(node, "a weight that depends on the inputs of the network"),
        }
    }

    /// Where a residual is, as wide as the output. The channels of a constant are brought side by side.
    fn residual(&mut self, node: &Node, epilogue: &graph::Epilogue) -> Result<Option<Region>> {
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

    fn convolution(&mut self, node: &Node, conv: &graph::Convolution) -> Result<()> {
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
        self.push_conv(node, &parameters, geometry, epilogue, regions)
    }

    fn push_conv(
        &mut self,
        node: &Node,
        parameters: &ConvParameters<'_>,
        geometry: Geometry,
        epilogue: Epilogue,
        regions: ConvRegions,
    ) -> Result<()> {
        match Conv::new(parameters, geometry, epilogue, self.products()) {
            Ok(conv) => {
                self.push(node, Kind::Conv { conv: Box::new(conv), regions });
                Ok(())
            }
            Err(error) => failed(node, error.message()),
        }
    }

    fn transposed(&mut self, node: &Node, conv: &graph::Transposed) -> Result<()> {
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

    fn product(&mut self, node: &Node, epilogue: &graph::Epilogue) -> Result<()> {
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

    /// A value as elements of products.
    fn features(&mut self, node: &Node, id: Id) -> Result<Region> {
        let region = self.region(node, id)?;
        let wanted = self.feature();
        if self.buffers[region.buffer].element == wanted {
            return Ok(region);
        }
        if let Some(&region) = self.readable.get(&id) {
            return Ok(region);
        }
        let target = self.work(node, wanted, padded_rows(region.window.dims()))?;
        self.copy(node, region, target)?;
        self.readable.insert(id, target);
        Ok(target)
    }

    fn pool(&mut self, node: &Node, of: &graph::Pool) -> Result<()> {
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

    fn resize(&mut self, node: &Node, of: &graph::Resize) -> Result<()> {
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

    fn program(&mut self, node: &Node, instructions: &Instructions) -> Result<()> {
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
                self.push(node, Kind::Pointwise(vec![Job { program, sources, targets }]));
                Ok(())
            }
            Err(error) => failed(node, error.message()),
        }
    }

    fn reduce(&mut self, node: &Node, kind: graph::Reduction, axes: &[usize]) -> Result<()> {
        let (input, output) = (self.region(node, node.inputs[0])?, self.output(node, 0)?);
        let reduction = match kind {
            graph::Reduction::Sum => reduce::Reduction::Sum,
            graph::Reduction::Mean => reduce::Reduction::Mean,
            graph::Reduction::Max => reduce::Reduction::Max,
            graph::Reduction::Min => reduce::Reduction::Min,
        };
        self.push_reduce(node, reduction, axes, input, output)
    }

    fn push_reduce(
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

    fn expectation(&mut self, node: &Node, axis: usize) -> Result<()> {
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

    fn layer_norm(&mut self, node: &Node, epsilon: f32) -> Result<()> {
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
