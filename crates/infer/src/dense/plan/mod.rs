//! The steps of a network, each one launch, over windows of buffers.

mod batches;
mod buffers;
mod emit;
mod halves;
mod place;
mod steps;

use std::sync::Arc;

use det_post_ops::dense::Region;
use det_post_types::{ElementType, Result};

pub use steps::{Cost, Job, Kind, Step};

use super::graph::Graph;

/// The elements of features and weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// 32-bit floats, in a stated order of sums.
    F32,
    /// 16-bit floats; sums, and what follows the last convolutions, have 32 bits.
    #[default]
    F16,
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
        let is_half = halves::of(graph, precision);
        let placed = place::place(graph, &is_half, inputs, outputs);
        let (steps, mut buffers) = emit::emit(graph, placed, precision)?;
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
    }
}

/// Bytes of the elements of a window.
pub(super) fn window_bytes(region: &Region, buffers: &[Buffer]) -> usize {
    region.window.len() * buffers.get(region.buffer).map_or(4, |buffer| bytes_of(buffer.element))
}
