//! The buffer and window of every value, from the last node to the first: a part of a concatenation is written where
//! the concatenation is, and an output of the network where its tensor is.

use det_post_ops::dense::{Region, Window};

use super::super::graph::{Element, Graph, Id, Node, Operation, View};
use super::super::passes::{Uses, inverse};
use super::elements::Elements;
use super::{ALIGNMENT, Buffer, Ends, Role};
use det_post_types::{ElementType, MapLayout};

/// Where values are.
pub(super) struct Placed {
    pub(super) regions: Vec<Option<Region>>,
    pub(super) buffers: Vec<Buffer>,
    /// Parts that are copied into their concatenation, by its node: position and target.
    pub(super) copies: Vec<Vec<(usize, Region)>>,
    /// Outputs of the network that are copied: value and target.
    pub(super) output_copies: Vec<(Id, Region)>,
    /// By input of the network.
    pub(super) input_layouts: Vec<MapLayout>,
}

/// Gives values their places.
pub(super) fn place(graph: &Graph, elements: &Elements, ends: &Ends) -> Placed {
    let num = graph.values.len();
    let placed = Placed {
        regions: vec![None; num],
        buffers: Vec::new(),
        copies: vec![Vec::new(); graph.nodes.len()],
        output_copies: Vec::new(),
        input_layouts: Vec::new(),
    };
    let mut placer = Placer { graph, uses: Uses::of(graph), elements, placed };
    for (position, &id) in graph.inputs.iter().enumerate() {
        let role = Role::Input(position);
        let window = placer.channels_last_input(id).filter(|_| ends.channels_last_inputs);
        let layout = match window {
            Some(_) => {
                placer.own(id, placer.element(id), role, window);
                MapLayout::ChannelsLast
            }
            None => {
                let element = ends.inputs.get(position).copied().unwrap_or(ElementType::F32);
                placer.own(id, element, role, Window::contiguous(graph.shape(id)));
                MapLayout::Planar
            }
        };
        placer.placed.input_layouts.push(layout);
    }
    for (position, &id) in graph.outputs.iter().enumerate() {
        let Some(window) = Window::contiguous(graph.shape(id)) else { continue };
        let element = ends.outputs.get(position).copied().unwrap_or(ElementType::F32);
        let buffer = placer.buffer(element, window.len(), Role::Output(position));
        let region = Region { buffer, window };
        if !placer.assign(id, &region) {
            placer.placed.output_copies.push((id, region));
        }
    }
    for at in (0..graph.nodes.len()).rev() {
        placer.node(at);
    }
    placer.placed
}

struct Placer<'g> {
    graph: &'g Graph,
    uses: Uses,
    elements: &'g Elements,
    placed: Placed,
}

impl Placer<'_> {
    fn buffer(&mut self, element: ElementType, len: usize, role: Role) -> usize {
        self.placed.buffers.push(Buffer { element, len, role });
        self.placed.buffers.len() - 1
    }

    fn own(&mut self, id: Id, element: ElementType, role: Role, window: Option<Window>) {
        if let Some(window) = window {
            let buffer = self.buffer(element, window.end().unwrap_or(0), role);
            self.placed.regions[id] = Some(Region { buffer, window });
        }
    }

    /// The window of an input that all readers take with the channels of a pixel side by side, without elements
    /// between pixels.
    fn channels_last_input(&self, id: Id) -> Option<Window> {
        let shape = self.graph.shape(id);
        let is_map = shape.len() == 4 && shape[1].is_multiple_of(ALIGNMENT);
        let window = channels_inside(shape).filter(|_| is_map)?;
        self.accepts(id, &window, self.element(id)).then_some(window)
    }

    fn element(&self, id: Id) -> ElementType {
        match self.graph.values[id].element {
            Element::Float if self.elements.is_half[id] => ElementType::F16,
            Element::Float => ElementType::F32,
            Element::Integer | Element::Boolean => ElementType::I32,
        }
    }

    fn node(&mut self, at: usize) {
        let node = &self.graph.nodes[at];
        if let Operation::View(_) = node.operation {
            return;
        }
        self.place_with_tail(node);
        for &id in &node.outputs {
            if self.placed.regions[id].is_none() {
                let window = self.layout(id);
                // Elements between the pixels of a map count.
                self.own(id, self.element(id), Role::Work, window);
            }
        }
        let Operation::Concat { axis } = node.operation else { return };
        let Some(whole) = self.placed.regions[node.outputs[0]] else { return };
        let mut start = 0;
        for (position, &part) in node.inputs.iter().enumerate() {
            let length = self.graph.shape(part)[axis];
            let Some(window) = whole.window.slice(axis, start, 1, length) else { continue };
            let region = Region { window, ..whole };
            if self.is_tail_at(part, &region) {
                continue;
            }
            if !self.assign(part, &region) {
                self.placed.copies[at].push((position, region));
            }
            start += length;
        }
    }

    /// The convolution of whose first channels a part is, and their number.
    fn tail_of(&self, part: Id) -> Option<(Id, usize)> {
        let (_, node) = self.uses.producer(self.graph, part)?;
        let Operation::View(View::Slice { starts, steps }) = &node.operation else { return None };
        let (shape, whole) = (self.graph.shape(part), self.graph.shape(node.inputs[0]));
        let is_first =
            starts.iter().all(|&start| start == 0) && steps.iter().all(|&step| step == 1);
        let is_of_channels = shape.len() == 4 && (0..4).all(|at| at == 1 || shape[at] == whole[at]);
        let (_, producer) = self.uses.producer(self.graph, node.inputs[0])?;
        let is_convolution = matches!(producer.operation, Operation::Convolution(_));
        (is_first && is_of_channels && is_convolution).then(|| (node.inputs[0], shape[1]))
    }

    /// Places a concatenation whose last part is the begin of a larger convolution: pixels are wide enough for
    /// both, and the convolution is written across the end of the concatenation.
    fn place_with_tail(&mut self, node: &Node) -> Option<()> {
        let Operation::Concat { axis: 1 } = node.operation else { return None };
        let (output, &last) = (node.outputs[0], node.inputs.last()?);
        let (larger, num) = self.tail_of(last)?;
        if self.placed.regions[output].is_some() || self.placed.regions[larger].is_some() {
            return None;
        }
        let element = self.element(output);
        let (&[n, c, h, w], &[_, wide, ..]) = (self.graph.shape(output), self.graph.shape(larger))
        else {
            return None;
        };
        let pixel = (c - num).checked_add(wide)?.checked_next_multiple_of(ALIGNMENT)?;
        let window = Window::channels_last([n, c, h, w], pixel)?;
        let mut beside = Window::channels_last([n, wide, h, w], pixel)?;
        beside.offset = c - num;
        if element != self.element(larger)
            || !self.accepts(output, &window, element)
            || !self.accepts(larger, &beside, element)
        {
            return None;
        }
        let buffer = self.buffer(element, beside.end()?.max(window.end()?), Role::Work);
        self.placed.regions[output] = Some(Region { buffer, window });
        self.placed.regions[larger] = Some(Region { buffer, window: beside });
        Some(())
    }

    /// Whether a part is written to its place by a larger convolution.
    fn is_tail_at(&self, part: Id, target: &Region) -> bool {
        self.tail_of(part).and_then(|(larger, num)| {
            let region = self.placed.regions[larger]?;
            let window = region.window.slice(1, 0, 1, num)?;
            Some(Region { window, ..region } == *target)
        }) == Some(true)
    }

    /// Has a value written to a window; `false` where it is somewhere else already, or its readers cannot read it there.
    fn assign(&mut self, id: Id, target: &Region) -> bool {
        let value = &self.graph.values[id];
        if value.constant.is_some() || self.placed.regions[id].is_some() {
            return false;
        }
        let element = self.placed.buffers[target.buffer].element;
        let is_float = matches!(element, ElementType::F32 | ElementType::F16);
        if is_float != (value.element == Element::Float)
            || !self.accepts(id, &target.window, element)
        {
            return false;
        }
        let Some((_, node)) = self.uses.producer(self.graph, id) else { return false };
        match &node.operation {
            Operation::View(View::Reshape) => {
                let window = target.window.reshape(self.graph.shape(node.inputs[0]));
                window.is_some_and(|window| {
                    self.assign(node.inputs[0], &Region { window, ..*target })
                })
            }
            Operation::View(View::Permute(order)) => {
                let window = target.window.permute(&inverse(order));
                window.is_some_and(|window| {
                    self.assign(node.inputs[0], &Region { window, ..*target })
                })
            }
            Operation::View(_) => false,
            _ => {
                self.placed.regions[id] = Some(*target);
                true
            }
        }
    }

    /// Whether all readers can read a value in a window of elements of a type.
    fn accepts(&self, id: Id, window: &Window, element: ElementType) -> bool {
        let Elements { is_half, is_wide, is_exact } = self.elements;
        if is_wide[id] && element == ElementType::F16 {
            return false;
        }
        let is_half = is_half[id];
        self.uses.readers[id].iter().all(|&reader| {
            // Products of 32-bit floats read 16-bit floats, too.
            let has_element = match element {
                ElementType::F16 => is_half,
                ElementType::F32 => !is_half || is_exact[reader],
                _ => false,
            };
            let node = &self.graph.nodes[reader];
            match &node.operation {
                Operation::View(view) => {
                    let shape = self.graph.shape(node.outputs[0]);
                    viewed(window, view, shape)
                        .is_some_and(|window| self.accepts(node.outputs[0], &window, element))
                }
                Operation::Convolution(_) | Operation::Transposed(_) if node.inputs[0] == id => {
                    has_element && is_channels_last(window)
                }
                Operation::Product(_) => has_element,
                _ => true,
            }
        })
    }

    /// The layout of a value that has a buffer to itself.
    fn layout(&self, id: Id) -> Option<Window> {
        let shape = self.graph.shape(id);
        let row_major = Window::contiguous(shape);
        let element = self.element(id);
        let candidate = match self.is_map(id) {
            true => channels_inside(shape),
            false => None,
        };
        match candidate {
            Some(window) if self.accepts(id, &window, element) => Some(window),
            Some(window) if row_major.is_none_or(|other| !self.accepts(id, &other, element)) => {
                Some(window)
            }
            _ => row_major,
        }
    }

    /// Whether the channels of a value belong side by side: it is a map, or holds the pixels of maps one after another.
    fn is_map(&self, id: Id) -> bool {
        let shape = self.graph.shape(id);
        if shape.len() == 4 {
            return shape[1] > 1;
        }
        let Some((_, node)) = self.uses.producer(self.graph, id) else { return false };
        let is_of_maps = |&part: &Id| {
            let producer = self.uses.producer(self.graph, part);
            producer.is_some_and(|(_, node)| match node.operation {
                Operation::View(View::Reshape) => {
                    let from = self.graph.shape(node.inputs[0]);
                    from.len() == 4 && from[..2] == self.graph.shape(part)[..2]
                }
                _ => false,
            })
        };
        matches!(node.operation, Operation::Concat { .. })
            && shape.len() == 3
            && node.inputs.iter().all(is_of_maps)
    }
}

/// A window of a shape whose second dimension is innermost.
fn channels_inside(shape: &[usize]) -> Option<Window> {
    let [first, channels, ref rest @ ..] = *shape else { return None };
    let pixel = channels.checked_next_multiple_of(ALIGNMENT)?;
    let mut strides = vec![0; shape.len()];
    strides[1] = 1;
    let mut stride = pixel;
    for at in (2..shape.len()).rev() {
        strides[at] = stride;
        stride = stride.checked_mul(rest[at - 2])?;
    }
    strides[0] = stride;
    let _ = first;
    Window::new(0, shape, &strides)
}

/// Whether a convolution reads a window: the channels of a pixel are neighbours.
pub(super) fn is_channels_last(window: &Window) -> bool {
    window.rank() == 4 && (window.strides()[1] == 1 || window.dims()[1] == 1)
}

/// The window of a view; `None` where no strides name it.
pub(super) fn viewed(window: &Window, view: &View, shape: &[usize]) -> Option<Window> {
    match view {
        View::Reshape => window.reshape(shape),
        View::Permute(order) => window.permute(order),
        View::Expand => window.broadcast(shape),
        View::Slice { starts, steps } => {
            let mut sliced = *window;
            for (axis, &length) in shape.iter().enumerate() {
                sliced = sliced.slice(axis, starts[axis], steps[axis], length)?;
            }
            Some(sliced)
        }
    }
}
