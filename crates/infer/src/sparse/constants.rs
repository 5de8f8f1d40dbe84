//! Weights of a file: widened to f32 once, however many nodes share them.

use std::collections::HashMap;
use std::sync::Arc;

use super::builder::Weights;
use super::refuse;
use crate::onnx::{Graph, Node};
use det_post_types::{Error, ErrorKind, Result};

/// The constants of a graph that have been asked for.
pub(super) struct Constants<'g, 'a> {
    graph: &'g Graph<'a>,
    values: HashMap<&'g str, Arc<[f32]>>,
}

impl<'g, 'a> Constants<'g, 'a> {
    pub(super) fn of(graph: &'g Graph<'a>) -> Self {
        Self { graph, values: HashMap::new() }
    }

    /// The parameters of a convolution: a constant [out, k0, k1, k2, in] and,
    /// where it is named, a constant `[out]`.
    ///
    /// # Errors
    /// When one is no constant, has another shape, or cannot be read.
    pub(super) fn weights(
        &mut self,
        node: &Node<'_>,
        weight: &str,
        bias: Option<&str>,
        sizes: WeightSizes,
    ) -> Result<Weights> {
        let [k0, k1, k2] = sizes.kernel;
        let [num_outputs, num_inputs] = [sizes.num_outputs, sizes.num_inputs];
        let dims = [num_outputs as u64, k0.into(), k1.into(), k2.into(), num_inputs as u64];
        let weight = self.constant(node, weight, &dims)?;
        let bias = bias.map(|bias| self.constant(node, bias, &dims[..1])).transpose()?;
        Ok(Weights { num_outputs, weight, bias })
    }

    /// A constant `[channels]`.
    ///
    /// # Errors
    /// As [`Self::weights`].
    pub(super) fn per_channel(
        &mut self,
        node: &Node<'_>,
        name: &str,
        channels: usize,
    ) -> Result<Arc<[f32]>> {
        self.constant(node, name, &[channels as u64])
    }

    fn constant(&mut self, node: &Node<'_>, name: &str, dims: &[u64]) -> Result<Arc<[f32]>> {
        let Some(tensor) = self.graph.initializer(name) else {
            return refuse(format!("{node}: input {name} is not a constant"));
        };
        let as_expected = tensor.dims.len() == dims.len()
            && tensor
                .dims
                .iter()
                .zip(dims)
                .all(|(&dim, &expected)| u64::try_from(dim) == Ok(expected));
        if !as_expected {
            return refuse(format!("{node}: {name} is {:?}; {dims:?} is expected", tensor.dims));
        }
        if let Some(values) = self.values.get(tensor.name) {
            return Ok(values.clone());
        }
        let values: Arc<[f32]> = match tensor.floats() {
            Ok(values) => values.into(),
            Err(error) => {
                let message = format!("{node}: {}", error.message());
                return Err(Error::new(ErrorKind::Model, super::STAGE, message));
            }
        };
        self.values.insert(tensor.name, values.clone());
        Ok(values)
    }
}

/// The sizes that a node gives its weights.
#[derive(Clone, Copy, Debug)]
pub(super) struct WeightSizes {
    pub(super) num_outputs: usize,
    pub(super) kernel: [u32; 3],
    pub(super) num_inputs: usize,
}
