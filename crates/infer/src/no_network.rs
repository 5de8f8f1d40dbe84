//! In place of the network of a detector whose layers compute everything.

use super::{Engine, STAGE};
use det_post_types::{Error, ErrorKind, Result, TensorSpec, TensorView};

/// An engine without inputs and outputs, for a detector whose own layers end in what is decoded.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoNetwork;

impl NoNetwork {
    /// Its name in logs and reports.
    pub const NAME: &str = "sparse layers";
}

impl Engine for NoNetwork {
    fn inputs(&self) -> &[TensorSpec] {
        &[]
    }

    fn outputs(&self) -> &[TensorSpec] {
        &[]
    }

    fn run(&mut self, inputs: &[TensorView<'_>]) -> Result<()> {
        super::check_inputs(&[], inputs)
    }

    fn output(&self, index: usize) -> Result<TensorView<'_>> {
        let message = format!("no output {index}: there is no network");
        Err(Error::new(ErrorKind::Inference, STAGE, message))
    }

    fn name(&self) -> &str {
        Self::NAME
    }
}
