//! Sums, biases and batch normalization between the convolutions of Autoware's
//! files.

use super::super::{node, refuse};
use super::reader::{Reader, Value};
use crate::onnx::{AttributeValue, Node};
use det_post_types::Result;

impl<'a> Reader<'_, 'a> {
    /// `Add` of two tensors of sites, or of a bias.
    pub(super) fn add(&mut self, node: &Node<'a>) -> Result<Option<Value>> {
        let ([a, b], _) = node::inputs(node, 0)?;
        let (first, second) = (self.values.get(a), self.values.get(b));
        let name = node.name();
        let (tensor, written, bias) = match (first, second) {
            (Some(&Value::Sparse(a)), Some(&Value::Sparse(b))) => {
                return Ok(Some(Value::Sparse(self.builder.add(name, [a, b])?)));
            }
            (Some(&Value::Sparse(tensor)), None) => (tensor, a, b),
            (None, Some(&Value::Sparse(tensor))) => (tensor, b, a),
            _ => return Ok(None),
        };
        let channels = self.builder.channels_of(tensor);
        let bias = self.constants.per_channel(node, bias, channels)?;
        let scale = vec![1.0; channels];
        let shift: Vec<f64> = bias.iter().map(|&bias| bias.into()).collect();
        self.builder.fold(name, tensor, &scale, &shift)?;
        // What was written before the bias exists no more.
        self.values.remove(written);
        Ok(Some(Value::Sparse(tensor)))
    }

    pub(super) fn batch_normalization(&mut self, node: &Node<'a>) -> Result<Option<Value>> {
        let ([input, parameters @ ..], _) = node::inputs::<5>(node, 0)?;
        let Some(&Value::Sparse(tensor)) = self.values.get(input) else { return Ok(None) };
        let channels = self.builder.channels_of(tensor);
        let mut read = |name| self.constants.per_channel(node, name, channels);
        let [gamma, beta, mean, variance] = parameters;
        let (gamma, beta) = (read(gamma)?, read(beta)?);
        let (mean, variance) = (read(mean)?, read(variance)?);
        let epsilon = match node.attribute("epsilon") {
            None => 1e-5,
            Some(&AttributeValue::Float(epsilon)) if epsilon >= 0.0 => f64::from(epsilon),
            Some(_) => return refuse(format!("{node}: attribute epsilon is not a positive float")),
        };
        if let Some(at) = variance.iter().position(|&v| f64::from(v) + epsilon <= 0.0) {
            return refuse(format!("{node}: variance {at} is {}", variance[at]));
        }
        let scale: Vec<f64> = gamma
            .iter()
            .zip(&*variance)
            .map(|(&gamma, &variance)| f64::from(gamma) / (f64::from(variance) + epsilon).sqrt())
            .collect();
        let shift: Vec<f64> =
            (0..channels).map(|c| f64::from(beta[c]) - f64::from(mean[c]) * scale[c]).collect();
        self.builder.fold(node.name(), tensor, &scale, &shift)?;
        self.values.remove(input);
        Ok(Some(Value::Sparse(tensor)))
    }
}
