//! The interface of all engines.

use det_post_types::{Result, TensorSpec, TensorView};

/// A loaded network.
///
/// Inputs and outputs are bound by position, in the order of [`Engine::inputs`] and
/// [`Engine::outputs`]; heads match names to positions once, when they are created.
pub trait Engine: Send {
    /// The inputs of the network.
    fn inputs(&self) -> &[TensorSpec];

    /// The outputs of the network.
    fn outputs(&self) -> &[TensorSpec];

    /// Limits the outputs that runs compute to those at `positions` of [`Engine::outputs`];
    /// the others are then errors, whatever their types are.
    ///
    /// An engine may compute them nevertheless.
    ///
    /// # Errors
    /// `Inference` when the engine fails.
    fn use_outputs(&mut self, positions: &[usize]) -> Result<()> {
        let _ = positions;
        Ok(())
    }

    /// Runs the network on one tensor per input and stores its outputs.
    ///
    /// # Errors
    /// `Inference` when a tensor does not fit its input or the engine fails. The outputs
    /// of the previous run are discarded in any case.
    fn run(&mut self, inputs: &[TensorView<'_>]) -> Result<()>;

    /// The output at a position of [`Engine::outputs`], from the last run.
    ///
    /// # Errors
    /// `Inference` when the last run failed or there was none, there is no such output, or
    /// its element type is not one of [`ElementType`](det_post_types::ElementType).
    fn output(&self, index: usize) -> Result<TensorView<'_>>;

    /// Name and version for logs and reports, such as `rten 0.27`.
    fn name(&self) -> &str;
}

/// The place of an output among those that are used.
pub(super) fn place_of(is_used: &[bool], index: usize) -> Option<usize> {
    let is_there = *is_used.get(index)?;
    is_there.then(|| is_used[..index].iter().filter(|is_used| **is_used).count())
}
