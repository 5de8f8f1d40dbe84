//! Weights and convolutions.

use std::fmt::Display;

use det_post_ops::sparse::conv::{
    ConvParameters, Epilogue, PackedWeights, Precision, Workspace, sparse_conv as convolve,
};
use det_post_ops::sparse::rulebook::Table;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::rulebook::{Pairs, Rulebook};
use super::sites::Level;
use crate::argument::one_of;
use crate::array::{Input, Output, gpu_of};
use crate::error::raised;
use crate::gpu::{DeviceConvolution, DeviceWeights};

type Array<'py> = Bound<'py, PyAny>;

/// The weights of a sparse convolution, packed for it once.
///
/// weight: float32 [Cout, k0, k1, k2, Cin] as spconv stores it; bias: [Cout]. precision: float32,
/// tf32, float16 or bfloat16, of the products and of what is stored; sums are float32. The weights
/// are on the device of the array, which may change afterwards without effect. From a GPU they are
/// copied to the CPU to be packed: do so when a network is loaded, not for every call.
#[pyclass(frozen, module = "det_post._ops")]
pub struct SparseWeights {
    sizes: Sizes,
    precision: Precision,
    packed: Packed,
}

/// The sizes of weights.
#[derive(Clone, Copy)]
struct Sizes {
    num_outputs: usize,
    kernel: [usize; 3],
    num_inputs: usize,
}

/// Where weights are.
enum Packed {
    Host(PackedWeights),
    Gpu(Box<DeviceWeights>),
}

#[pymethods]
impl SparseWeights {
    #[new]
    #[pyo3(signature = (weight, *, bias=None, precision="float32"))]
    fn new(weight: &Array<'_>, bias: Option<&Array<'_>>, precision: &str) -> PyResult<Self> {
        let precisions = [
            ("float32", Precision::F32),
            ("tf32", Precision::Tf32),
            ("float16", Precision::F16),
            ("bfloat16", Precision::Bf16),
        ];
        let precision = one_of("precision", precision, &precisions)?;
        let py = weight.py();
        if let Some(gpu) = gpu_of("weight", weight)? {
            let (shape, values) = DeviceWeights::to_host(gpu, "weight", weight)?;
            let bias = bias.map(|bias| DeviceWeights::to_host(gpu, "bias", bias)).transpose()?;
            let sizes = Sizes::of(&shape)
                .ok_or_else(|| PyValueError::new_err(format!("weight is {shape:?}: {SHAPE}")))?;
            let packed = py.detach(|| {
                let bias = bias.as_ref().map(|(_, values)| &values[..]);
                DeviceWeights::new(gpu, &sizes.parameters(&values, bias)?, precision)
            });
            let packed = packed.map_err(|error: det_post::Error| raised(&error))?;
            let packed = Packed::Gpu(Box::new(packed));
            return Ok(Self { sizes, precision, packed });
        }
        let weight = Input::new("weight", weight)?;
        let bias = bias.map(|bias| Input::new("bias", bias)).transpose()?;
        let sizes = Sizes::of(weight.shape()).ok_or_else(|| weight.refuse(&SHAPE))?;
        let values = weight.values::<f32>()?;
        let bias = bias.as_ref().map(Input::values::<f32>).transpose()?;
        let packed = py.detach(|| {
            sizes.parameters(values, bias).and_then(|of| PackedWeights::new(&of, precision))
        });
        let packed = Packed::Host(packed.map_err(|error| raised(&error))?);
        Ok(Self { sizes, precision, packed })
    }
}

const SHAPE: &str = "[Cout, k0, k1, k2, Cin] is required";

impl Sizes {
    fn of(shape: &[usize]) -> Option<Self> {
        match *shape {
            [num_outputs, k0, k1, k2, num_inputs] => {
                Some(Self { num_outputs, kernel: [k0, k1, k2], num_inputs })
            }
            _ => None,
        }
    }

    fn parameters<'a>(
        &self,
        weights: &'a [f32],
        bias: Option<&'a [f32]>,
    ) -> det_post::Result<ConvParameters<'a>> {
        let num_taps = self.kernel.iter().product();
        ConvParameters::new([self.num_outputs, num_taps, self.num_inputs], weights, bias)
    }
}

/// Sparse convolution.
///
/// features: float32 [N, Cin], rows in the order of the sites of the input; weight: SparseWeights,
/// or an array of which they are made for this call, with bias and precision as there. residual:
/// [M, Cout], added before relu. With float16 and bfloat16 features, residual and result are
/// rounded to them. On a GPU the arrays are on the GPU of the sites and the weights, which are
/// SparseWeights.
///
/// Returns float32 [M, Cout], rows in the order of rulebook.sites.
#[pyfunction]
#[pyo3(signature = (features, rulebook, weight, *, bias=None, residual=None, relu=false, precision=None))]
pub fn sparse_conv<'py>(
    features: &Array<'py>,
    rulebook: &Rulebook,
    weight: &Array<'py>,
    bias: Option<&Array<'py>>,
    residual: Option<&Array<'py>>,
    relu: bool,
    precision: Option<&str>,
) -> PyResult<Array<'py>> {
    if let Ok(weights) = weight.cast::<SparseWeights>() {
        if bias.is_some() || precision.is_some() {
            let message = "SparseWeights holds bias and precision: give them there";
            return Err(PyValueError::new_err(message));
        }
        return convolved(features, rulebook, weights.get(), residual, relu);
    }
    if let Some(gpu) = gpu_of("weight", weight)? {
        let message = format!("weight is an array on cuda:{gpu}; ops.SparseWeights(weight, …)");
        return Err(PyValueError::new_err(message + " packs it, once for all calls"));
    }
    let weights = SparseWeights::new(weight, bias, precision.unwrap_or("float32"))?;
    convolved(features, rulebook, &weights, residual, relu)
}

fn convolved<'py>(
    features: &Array<'py>,
    rulebook: &Rulebook,
    weights: &SparseWeights,
    residual: Option<&Array<'py>>,
    relu: bool,
) -> PyResult<Array<'py>> {
    let Sizes { num_outputs, kernel, num_inputs } = weights.sizes;
    if kernel != rulebook.kernel() {
        let ([a, b, c], [k0, k1, k2]) = (kernel, rulebook.kernel());
        let message = format!("weight is [{num_outputs}, {a}, {b}, {c}, {num_inputs}]");
        let needed = format!("[Cout, {k0}, {k1}, {k2}, Cin] is required");
        return Err(PyValueError::new_err(format!("{message}: {needed}")));
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
    let values = features_in.values::<f32>()?;
    let residual = residual_in.as_ref().map(Input::values::<f32>).transpose()?;
    let of = (packed, weights.precision);
    let out = features.py().detach(|| on_host(values, table, of, residual, relu));
    Output::of(out.map_err(|error| raised(&error))?, &output, features)
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
