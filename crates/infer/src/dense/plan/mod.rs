//! The steps of a network, each one launch, over windows of buffers.

mod batches;
mod buffers;
mod elements;
mod emit;
mod order;
mod place;
mod steps;

use std::sync::Arc;

use det_post_ops::dense::Region;
use det_post_types::{ElementType, GpuEngineOptions, MapLayout, Result};

pub use steps::{Cost, Job, Kind, Step};

use super::graph::Graph;
use elements::Elements;

/// The elements of features and weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// 32-bit floats, in a stated order of sums.
    F32,
    /// 16-bit floats; sums, and what follows the last convolutions, have 32 bits.
    #[default]
    F16,
}

impl Precision {
    /// The precision that options ask for on a GPU.
    pub fn of(gpu: &GpuEngineOptions) -> Self {
        if gpu.fp16 || gpu.tf32 { Self::F16 } else { Self::F32 }
    }
}

/// How a network is laid out.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlanOptions<'a> {
    /// The precision of all layers but those in `keep_f32`.
    pub precision: Precision,
    /// Names of layers that have 32-bit floats, or prefixes of names that end where a word does, as in
    /// [`GpuEngineOptions::keep_f32`].
    pub keep_f32: &'a [String],
    /// As [`GpuEngineOptions::channels_last_inputs`]; [`Plan::input_layout`] is what was chosen.
    pub channels_last_inputs: bool,
    /// Whether outputs of integers and booleans are written as f32, which is exact up to 2^24.
    pub integers_as_floats: bool,
}

impl From<Precision> for PlanOptions<'_> {
    fn from(precision: Precision) -> Self {
        Self { precision, ..Self::default() }
    }
}

impl<'a> From<&'a GpuEngineOptions> for PlanOptions<'a> {
    fn from(gpu: &'a GpuEngineOptions) -> Self {
        Self {
            precision: Precision::of(gpu),
            keep_f32: &gpu.keep_f32,
            channels_last_inputs: gpu.channels_last_inputs,
            integers_as_floats: false,
        }
    }
}

/// The inputs and outputs of a network.
pub(super) struct Ends {
    /// The element types of the inputs in the file.
    pub(super) inputs: Vec<ElementType>,
    /// The element types of the outputs.
    pub(super) outputs: Vec<ElementType>,
    /// As [`PlanOptions::channels_last_inputs`].
    pub(super) channels_last_inputs: bool,
}

/// What a buffer is for.
#[derive(Clone, Debug, PartialEq)]
pub enum Role {
    /// The input of this position.
    Input(usize),
    /// The output of this position.
    Output(usize),
    /// Floats that do not change.
    Floats(Arc<[f32]>),
    /// Integers that do not change.
    Integers(Arc<[i32]>),
    /// Values between steps; others use the same memory at other times.
    Work,
}

/// A buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct Buffer {
    /// The type of its elements.
    pub element: ElementType,
    /// Number of elements.
    pub len: usize,
    /// What it is for.
    pub role: Role,
}

/// A network, laid out for one run after another without allocation.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(super) buffers: Vec<Buffer>,
    pub(super) steps: Vec<Step>,
    follows: Vec<Vec<usize>>,
    input_layouts: Vec<MapLayout>,
}

impl Plan {
    /// Lays out a network with the element types at its ends.
    ///
    /// # Errors
    /// `Model` for the first node that no operation computes.
    pub(super) fn new(graph: &mut Graph, precision: Precision, ends: &Ends) -> Result<Self> {
        let elements = Elements::of(graph, precision == Precision::F16, ends.channels_last_inputs);
        let mut placed = place::place(graph, &elements, ends);
        let input_layouts = std::mem::take(&mut placed.input_layouts);
        let (steps, mut buffers) = emit::emit(graph, placed, &elements)?;
        let steps = batches::join(steps);
        let order = order::Order::of(&steps, buffers.len());
        let steps = buffers::share(steps, &mut buffers, &order);
        // A second time: buffers that share memory order the steps that use them.
        let follows = order::Order::of(&steps, buffers.len()).into_follows();
        Ok(Self { buffers, steps, follows, input_layouts })
    }

    /// The layout of the input at a position: [`MapLayout::ChannelsLast`] only where the options allow it, and then
    /// of the elements of its buffer, whatever the file says.
    pub fn input_layout(&self, position: usize) -> MapLayout {
        self.input_layouts.get(position).copied().unwrap_or_default()
    }

    /// The buffers.
    pub fn buffers(&self) -> &[Buffer] {
        &self.buffers
    }

    /// The steps in their order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// For each step the earlier ones that it waits for; it also waits for those that they wait for. Steps that do not
    /// wait for each other may run at the same time.
    pub fn follows(&self) -> &[Vec<usize>] {
        &self.follows
    }

    /// Bytes of the buffers between steps, without inputs, outputs and constants.
    pub fn num_work_bytes(&self) -> usize {
        let work = self.buffers.iter().filter(|buffer| buffer.role == Role::Work);
        work.map(|buffer| buffer.len * bytes_of(buffer.element)).sum()
    }
}

/// Bytes of an element.
pub(super) fn bytes_of(element: ElementType) -> usize {
    match element {
        ElementType::F16 => 2,
        ElementType::I64 | ElementType::F64 => 8,
        ElementType::F32 | ElementType::I32 => 4,
        ElementType::I8 => 1,
    }
}

/// Bytes of the elements of a window.
pub(super) fn window_bytes(region: &Region, buffers: &[Buffer]) -> usize {
    region.window.len() * buffers.get(region.buffer).map_or(4, |buffer| bytes_of(buffer.element))
}
