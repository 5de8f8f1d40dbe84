//! The one interface of every engine.

use crate::error::Result;
use crate::types::{TensorSpec, TensorView};

/// A loaded network.
///
/// Inputs and outputs are bound by position, in the order of
/// [`Engine::inputs`] and [`Engine::outputs`]; heads match names to positions
/// once, at start.
pub trait Engine: Send {
    /// What the network takes.
    fn inputs(&self) -> &[TensorSpec];

    /// What the network gives.
    fn outputs(&self) -> &[TensorSpec];

    /// Runs the network on one tensor per input and keeps its answers.
    ///
    /// # Errors
    /// `Inference` when a tensor does not fit its input or the engine fails.
    /// The answers of the run before are gone either way.
    fn run(&mut self, inputs: &[TensorView<'_>]) -> Result<()>;

    /// The answer at a position of [`Engine::outputs`], from the last
    /// successful run.
    ///
    /// # Errors
    /// `Inference` when there was no such run, no such output, or its element
    /// type is not one of [`ElementType`](crate::types::ElementType).
    fn output(&self, index: usize) -> Result<TensorView<'_>>;

    /// Name and version for logs and reports, such as `rten 0.27`.
    fn name(&self) -> &str;
}
