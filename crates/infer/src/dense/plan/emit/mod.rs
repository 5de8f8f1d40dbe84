//! From nodes to steps.

mod rows;
mod weights;

use std::collections::HashMap;
use std::sync::Arc;

use det_post_ops::dense::arg_max::ArgMax;
use det_post_ops::dense::pointwise::{Instruction, Op, Operand, Program};
use det_post_ops::dense::{Region, Window, gather, grid_sample, softmax, top_k};

use super::super::graph::{self, Data, Graph, Id, Node, Operation};
use super::super::refuse;
use super::elements::Elements;
use super::place::{Placed, is_channels_last, viewed};
use super::{Buffer, Job, Kind, Role, Step};
use det_post_types::{ElementType, Result};

/// The most channels of planes that a convolution reads as they are.
const MAX_PLANES: usize = 4;

/// The steps of a graph, and the buffers of their windows.
pub(super) fn emit(
    graph: &Graph,
    placed: Placed,
    elements: &Elements,
) -> Result<(Vec<Step>, Vec<Buffer>)> {
    let Placed { regions, buffers, copies, output_copies, .. } = placed;
    let mut emitter = Emitter {
        graph,
        elements,
        is_exact: false,
        producer: super::super::passes::Uses::of(graph).producer,
        regions,
        buffers,
        steps: Vec::new(),
        readable: HashMap::new(),
    };
    for (at, node) in graph.nodes.iter().enumerate() {
        emitter.is_exact = elements.is_exact[at];
        emitter.node(node)?;
        for (position, target) in &copies[at] {
            let source = emitter.region(node, node.inputs[*position])?;
            emitter.copy(node, source, *target)?;
        }
    }
    for (id, target) in output_copies {
        // An input or a constant.
        let copy = Node {
            layer: graph::Layer::of_copy(format!("output {}", graph.values[id].name)),
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
    elements: &'g Elements,
    /// Whether products of the node in progress are of 32-bit floats.
    is_exact: bool,
    producer: Vec<Option<usize>>,
    regions: Vec<Option<Region>>,
    buffers: Vec<Buffer>,
    steps: Vec<Step>,
    /// Copies that products can read, by value and whether they are of 32-bit floats.
    readable: HashMap<(Id, bool), Region>,
}

fn failed<T>(node: &Node, reason: &str) -> Result<T> {
    refuse(format!("{}: {reason}", node.layer))
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
            let (name, layers) = (node.layer.shown.clone(), node.layer.names.clone());
            self.steps.push(Step { name, layers, kind });
        }
    }

    fn copy(&mut self, node: &Node, source: Region, target: Region) -> Result<()> {
        let is_integer = |region: Region| self.buffers[region.buffer].element == ElementType::I32;
        let program = Box::new(match (is_integer(source), is_integer(target)) {
            (true, false) => {
                let widened = Instruction { op: Op::ToF32, operands: vec![Operand::Source(0)] };
                Program::new(&[true], &[widened], &[Operand::Result(0)])?
            }
            (is_integer, _) => Program::copy(is_integer)?,
        });
        let dims = target.window.dims();
        let Some(window) = source.window.broadcast(dims) else {
            return failed(node, &format!("a copy from {:?} to {dims:?}", source.window.dims()));
        };
        let sources = vec![Region { window, ..source }];
        self.push_job(node, program, sources, vec![target]);
        Ok(())
    }

    fn push_job(
        &mut self,
        node: &Node,
        program: Box<Program>,
        sources: Vec<Region>,
        targets: Vec<Region>,
    ) {
        let (name, layers) = (node.layer.shown.clone(), node.layer.names.clone());
        self.push(node, Kind::Pointwise(vec![Job { name, layers, program, sources, targets }]));
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
        if is_planes || (self.is_read(id, element) && is_channels_last(&region.window)) {
            return Ok(region);
        }
        if let Some(&region) = self.readable.get(&(id, self.is_exact)) {
            return Ok(region);
        }
        let &[n, c, h, w] = region.window.dims() else {
            return failed(node, "an input that is no map");
        };
        let pixel = c.next_multiple_of(8);
        let target = self.work(node, wanted, Window::channels_last([n, c, h, w], pixel))?;
        self.copy(node, region, target)?;
        self.readable.insert((id, self.is_exact), target);
        Ok(target)
    }

    /// What products of the node in progress are of.
    fn feature(&self) -> ElementType {
        if self.is_exact { ElementType::F32 } else { ElementType::F16 }
    }

    /// Whether products of the node in progress read a value where it has elements of a type. Products of 32-bit floats
    /// also read what others need as 16-bit floats.
    fn is_read(&self, id: Id, element: ElementType) -> bool {
        let is_half = self.is_exact && self.elements.is_half[id] && element == ElementType::F16;
        element == self.feature() || is_half
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
            Operation::LinearMax { activation } => self.linear_max(node, *activation),
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
}
