//! The steps of a network, each one launch, over windows of buffers.

mod batches;
mod buffers;
mod elements;
mod emit;
mod place;
mod steps;

use std::sync::Arc;

use det_post_ops::dense::Region;
use det_post_types::{ElementType, GpuEngineOptions, Result};

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

/// The precision of a network and of some of its layers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Precisions<'a> {
    /// Of all others.
    pub others: Precision,
    /// Names of layers that have 32-bit floats, or prefixes of names that end where a word does, as in
    /// [`GpuEngineOptions::keep_f32`].
    pub keep_f32: &'a [String],
}

impl From<Precision> for Precisions<'_> {
    fn from(others: Precision) -> Self {
        Self { others, keep_f32: &[] }
    }
}

impl<'a> From<&'a GpuEngineOptions> for Precisions<'a> {
    fn from(gpu: &'a GpuEngineOptions) -> Self {
        Self { others: Precision::of(gpu), keep_f32: &gpu.keep_f32 }
    }
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
}

impl Plan {
    /// Lays out a network. `inputs` and `outputs` are the element types at its ends.
    ///
    /// # Errors
    /// `Model` for the first node that no operation computes.
    pub(super) fn new(
        graph: &mut Graph,
        precision: Precision,
        inputs: &[ElementType],
        outputs: &[ElementType],
    ) -> Result<Self> {
        let elements = Elements::of(graph, precision == Precision::F16);
        let placed = place::place(graph, &elements, inputs, outputs);
        let (steps, mut buffers) = emit::emit(graph, placed, &elements)?;
        let steps = batches::join(steps);
        let steps = buffers::share(steps, &mut buffers);
        Ok(Self { buffers, steps })
    }

    /// The buffers.
    pub fn buffers(&self) -> &[Buffer] {
        &self.buffers
    }

    /// The steps in their order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
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
