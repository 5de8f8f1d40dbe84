//! Reading weights by their names, and folding them.

use std::collections::BTreeSet;

use nalgebra::{DMatrix, DVector};

use super::refuse;
use crate::safetensors::SafeTensors;
use det_post_ops::view::layer_norm::LayerNorm;
use det_post_ops::view::linear::{Finish, LinearLayer};
use det_post_types::Result;

/// The most names in a message.
const MAX_SHOWN_NAMES: usize = 8;

/// Takes tensors by name; what nothing takes is refused in the end.
pub(super) struct Reader<'a> {
    tensors: &'a SafeTensors<'a>,
    left: BTreeSet<&'a str>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(tensors: &'a SafeTensors<'a>) -> Self {
        Self { tensors, left: tensors.names().collect() }
    }

    /// Whether there is a tensor of a name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.tensors.get(name).is_some()
    }

    /// The shape of a tensor of two dimensions.
    pub(super) fn shape(&self, name: &str) -> Result<[usize; 2]> {
        let shape = self.tensors.get(name).map(|tensor| tensor.shape());
        match shape {
            None => refuse(format!("tensor {name} is missing")),
            Some(&[rows, columns]) => Ok([rows, columns]),
            Some(shape) => refuse(format!("tensor {name} is {shape:?}; 2 dimensions expected")),
        }
    }

    /// The values of a tensor of a shape.
    pub(super) fn values(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let Some(tensor) = self.tensors.get(name) else {
            return refuse(format!("tensor {name} is missing"));
        };
        let found = (tensor.element(), tensor.shape());
        let Some(values) = tensor.to_f32().filter(|_| tensor.shape() == shape) else {
            let (element, found) = found;
            return refuse(format!(
                "tensor {name} is {element} {found:?}; floats {shape:?} expected"
            ));
        };
        let num_not_finite = values.iter().filter(|value| !value.is_finite()).count();
        if num_not_finite > 0 {
            return refuse(format!("{num_not_finite} values of tensor {name} are NaN or infinite"));
        }
        self.left.remove(name);
        Ok(values)
    }

    pub(super) fn matrix(
        &mut self,
        name: &str,
        [rows, columns]: [usize; 2],
    ) -> Result<DMatrix<f64>> {
        let values = self.values(name, &[rows, columns])?;
        Ok(DMatrix::from_row_iterator(rows, columns, values.into_iter().map(f64::from)))
    }

    pub(super) fn vector(&mut self, name: &str, len: usize) -> Result<DVector<f64>> {
        let values = self.values(name, &[len])?;
        Ok(DVector::from_iterator(len, values.into_iter().map(f64::from)))
    }

    /// `{name}.weight` and `{name}.bias`, outputs and inputs.
    pub(super) fn affine(&mut self, name: &str, shape: [usize; 2]) -> Result<Affine> {
        let weights = self.matrix(&format!("{name}.weight"), shape)?;
        let bias = self.vector(&format!("{name}.bias"), shape[0])?;
        Ok(Affine { weights, bias })
    }

    pub(super) fn norm(&mut self, name: &str, num_channels: usize) -> Result<LayerNorm> {
        let gamma = self.values(&format!("{name}.weight"), &[num_channels])?;
        let beta = self.values(&format!("{name}.bias"), &[num_channels])?;
        LayerNorm::new(gamma, beta)
    }

    /// A layer as it is in the file.
    pub(super) fn layer(
        &mut self,
        name: &str,
        shape: [usize; 2],
        finish: Finish,
    ) -> Result<LinearLayer> {
        self.affine(name, shape)?.layer(finish)
    }

    /// A layer and the normalization after it: ReLU and then the normalization where
    /// `relu_first`, else the other way.
    pub(super) fn layer_and_norm(
        &mut self,
        [layer, norm]: [&str; 2],
        shape: [usize; 2],
        finish: fn(LayerNorm) -> Finish,
    ) -> Result<LinearLayer> {
        let norm = self.norm(norm, shape[0])?;
        self.layer(layer, shape, finish(norm))
    }

    /// The four projections of `{name}.attn`, of `num_channels` channels.
    pub(super) fn attention(&mut self, name: &str, num_channels: usize) -> Result<Projections> {
        let shape = [3 * num_channels, num_channels];
        let weights = self.matrix(&format!("{name}.attn.in_proj_weight"), shape)?;
        let bias = self.vector(&format!("{name}.attn.in_proj_bias"), shape[0])?;
        let rows = |index: usize| Affine {
            weights: weights.rows(index * num_channels, num_channels).into_owned(),
            bias: bias.rows(index * num_channels, num_channels).into_owned(),
        };
        let output = self.affine(&format!("{name}.attn.out_proj"), [num_channels; 2])?;
        Ok(Projections { queries: rows(0), keys: rows(1), values: rows(2), output })
    }

    /// Refuses a file with tensors that nothing has taken.
    pub(super) fn finish(self) -> Result<()> {
        if self.left.is_empty() {
            return Ok(());
        }
        let shown: Vec<&str> = self.left.iter().copied().take(MAX_SHOWN_NAMES).collect();
        let more = match self.left.len() - shown.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        refuse(format!("unexpected tensors: {}{more}", shown.join(", ")))
    }
}

/// The projections of an attention.
pub(super) struct Projections {
    pub(super) queries: Affine,
    pub(super) keys: Affine,
    pub(super) values: Affine,
    pub(super) output: Affine,
}

/// Weights `[outputs, inputs]` and a bias, in f64.
#[derive(Clone, Debug)]
pub(super) struct Affine {
    pub(super) weights: DMatrix<f64>,
    pub(super) bias: DVector<f64>,
}

impl Affine {
    /// The layer in f32, rounded once.
    pub(super) fn layer(&self, finish: Finish) -> Result<LinearLayer> {
        let (num_outputs, num_inputs) = self.weights.shape();
        let weights = rounded(&self.weights);
        let bias: Vec<f32> = self.bias.iter().map(|&x| x as f32).collect();
        LinearLayer::new([num_outputs, num_inputs], &weights, Some(&bias))?.with(finish)
    }

    /// The first outputs; those that are missing are 0.
    pub(super) fn with_outputs(self, num_outputs: usize) -> Self {
        Self {
            weights: self.weights.resize_vertically(num_outputs, 0.0),
            bias: self.bias.resize_vertically(num_outputs, 0.0),
        }
    }

    /// The layer without its bias.
    pub(super) fn unbiased_layer(&self) -> Result<LinearLayer> {
        let (num_outputs, num_inputs) = self.weights.shape();
        LinearLayer::new([num_outputs, num_inputs], &rounded(&self.weights), None)
    }

    /// This layer on the output of `first`, which has no bias.
    pub(super) fn after(&self, first: &DMatrix<f64>) -> Self {
        Self { weights: &self.weights * first, bias: self.bias.clone() }
    }

    /// The outputs of several layers on the same input.
    pub(super) fn stacked(parts: &[&Self]) -> Self {
        let num_outputs = parts.iter().map(|part| part.weights.nrows()).sum();
        let num_inputs = parts.first().map_or(0, |part| part.weights.ncols());
        let mut weights = DMatrix::zeros(num_outputs, num_inputs);
        let mut bias = DVector::zeros(num_outputs);
        let mut first = 0;
        for part in parts {
            let len = part.weights.nrows();
            weights.rows_mut(first, len).copy_from(&part.weights);
            bias.rows_mut(first, len).copy_from(&part.bias);
            first += len;
        }
        Self { weights, bias }
    }

    /// The outputs for constant inputs, rows of `inputs`, row by row and rounded once.
    pub(super) fn of_constants(&self, inputs: &DMatrix<f64>) -> Vec<f32> {
        let mut outputs = inputs * self.weights.transpose();
        outputs.row_iter_mut().for_each(|mut row| row += self.bias.transpose());
        rounded(&outputs)
    }
}

/// Weights side by side: a layer on concatenated inputs.
pub(super) fn side_by_side(parts: [&DMatrix<f64>; 2]) -> DMatrix<f64> {
    let [a, b] = parts;
    let mut joined = DMatrix::zeros(a.nrows(), a.ncols() + b.ncols());
    joined.columns_mut(0, a.ncols()).copy_from(a);
    joined.columns_mut(a.ncols(), b.ncols()).copy_from(b);
    joined
}

/// Row by row.
pub(super) fn rounded(matrix: &DMatrix<f64>) -> Vec<f32> {
    matrix.transpose().iter().map(|&x| x as f32).collect()
}
