//! Convolutions.

use std::fmt::Display;

use det_post_ops::sparse::conv::{
    Epilogue, PackedWeights, Precision, Workspace, sparse_conv as convolve,
};
use det_post_ops::sparse::rulebook::Table;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::rulebook::{Pairs, Rulebook};
use super::sites::Level;
use super::weights::{Packed, SparseWeights};
use crate::array::{Input, Output, gpu_of};
use crate::error::raised;
use crate::gpu::DeviceConvolution;

type Array<'py> = Bound<'py, PyAny>;

/// Sparse convolution.
///
/// features: [N, Cin], float32, float16 or bfloat16, rows in the order of the sites of the input;
/// weight: SparseWeights, or an array of which they are made for this call, with bias, precision
/// and layout as there. residual: [M, Cout], added before relu. With the precisions float16 and
/// bfloat16, features, residual and result are rounded to them. On a GPU the arrays are on the GPU
/// of the sites and the weights, which are SparseWeights.
///
/// Returns [M, Cout] of the type of the features, rows in the order of rulebook.sites.
#[pyfunction]
#[pyo3(signature = (features, rulebook, weight, *, bias=None, residual=None, relu=false, precision=None, layout=None))]
#[expect(clippy::too_many_arguments, reason = "options by name")]
pub fn sparse_conv<'py>(
    features: &Array<'py>,
    rulebook: &Rulebook,
    weight: &Array<'py>,
    bias: Option<&Array<'py>>,
    residual: Option<&Array<'py>>,
    relu: bool,
    precision: Option<&str>,
    layout: Option<&str>,
) -> PyResult<Array<'py>> {
    if let Ok(weights) = weight.cast::<SparseWeights>() {
        if bias.is_some() || precision.is_some() || layout.is_some() {
            let message = "SparseWeights holds bias and precision, and knows its layout: give them \
                           there";
            return Err(PyValueError::new_err(message));
        }
        return convolved(features, rulebook, weights.get(), residual, relu);
    }
    if let Some(gpu) = gpu_of("weight", weight)? {
        let message = format!("weight is an array on cuda:{gpu}; ops.SparseWeights(weight, …)");
        return Err(PyValueError::new_err(message + " packs it, once for all calls"));
    }
    let precision = precision.unwrap_or("float32");
    let weights = SparseWeights::new(weight, bias, precision, layout.unwrap_or("spconv2"))?;
    convolved(features, rulebook, &weights, residual, relu)
}

fn convolved<'py>(
    features: &Array<'py>,
    rulebook: &Rulebook,
    weights: &SparseWeights,
    residual: Option<&Array<'py>>,
    relu: bool,
) -> PyResult<Array<'py>> {
    let sizes = weights.sizes;
    let (num_outputs, num_inputs) = (sizes.num_outputs, sizes.num_inputs);
    if (sizes.axes, sizes.kernel) != (rulebook.axes(), rulebook.kernel()) {
        let (found, needed) = (sizes.shape(), rulebook.weight_shape());
        return Err(PyValueError::new_err(format!("weight is {found:?}: {needed} is required")));
    }
    let input = [rulebook.num_input_rows, num_inputs];
    let output = [rulebook.output_level().len(), num_outputs];
    let (table, packed) = match (&rulebook.pairs, rulebook.output_level(), &weights.packed) {
        (Pairs::Host(table), _, Packed::Host(packed)) => (table, packed),
        (Pairs::Gpu(pairs), Level::Gpu(level), Packed::Gpu(packed)) => {
            let convolution = DeviceConvolution { weights: packed, pairs, level, relu };
            return convolution.run(features, residual, [input, output]);
        }
        (_, level, packed) => {
            let weights = match packed {
                Packed::Host(_) => "the CPU".into(),
                Packed::Gpu(weights) => format!("cuda:{}", weights.gpu()),
            };
            let message = format!("weight is on {weights}, the sites are on {}", level.place());
            return Err(PyValueError::new_err(message));
        }
    };
    let features_in = Input::new("features", features)?;
    let residual_in = residual.map(|residual| Input::new("residual", residual)).transpose()?;
    check_shape(features_in.shape(), input, |reason| features_in.refuse(reason))?;
    if let Some(residual) = &residual_in {
        check_shape(residual.shape(), output, |reason| residual.refuse(reason))?;
    }
    let (element, values) = features_in.floats()?;
    let residual = residual_in.as_ref().map(Input::floats).transpose()?;
    let residual = residual.as_ref().map(|(_, values)| &values[..]);
    let of = (packed, weights.precision);
    let out = features.py().detach(|| on_host(&values, table, of, residual, relu));
    Output::of_floats(out.map_err(|error| raised(&error))?, element, &output, features)
}

fn on_host(
    values: &[f32],
    table: &Table,
    (packed, precision): (&PackedWeights, Precision),
    residual: Option<&[f32]>,
    relu: bool,
) -> det_post::Result<Vec<f32>> {
    let stored: Option<Vec<f32>> = residual
        .filter(|_| matches!(precision, Precision::F16 | Precision::Bf16))
        .map(|values| values.iter().map(|&value| precision.round_stored(value)).collect());
    let epilogue = Epilogue { residual: stored.as_deref().or(residual), relu, stored: precision };
    let num_threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut out = vec![0.0; table.len() * packed.num_outputs()];
    convolve(values, table, packed, epilogue, &mut Workspace::new(num_threads), &mut out)?;
    Ok(out)
}

/// Refuses an array of another shape.
pub fn check_shape(
    found: &[usize],
    needed: [usize; 2],
    refuse: impl Fn(&dyn Display) -> PyErr,
) -> PyResult<()> {
    if *found == needed { Ok(()) } else { Err(refuse(&format!("{needed:?} is required"))) }
}
