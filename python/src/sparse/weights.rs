//! Weights of sparse convolutions.

use std::borrow::Cow;

use det_post_ops::sparse::conv::{ConvParameters, PackedWeights, Precision};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::axes::Axes;
use crate::argument::one_of;
use crate::array::{Input, gpu_of};
use crate::error::raised;
use crate::gpu::DeviceWeights;

type Array<'py> = Bound<'py, PyAny>;

/// The weights of a sparse convolution, packed for it once.
///
/// weight: [Cout, k0, k1, k2, Cin] as spconv 2 stores it (layout spconv2), or
/// [k0, k1, k2, Cin, Cout] as spconv 1.2 does (layout spconv1); one or two axes have as many taps.
/// bias: [Cout]. Both are float32, float16 or bfloat16. precision: float32, tf32, float16 or
/// bfloat16, of the products and of what is stored; sums are float32. The weights are on the device
/// of the array, which may change afterwards without effect. From a GPU they are copied to the
/// CPU to be packed: do so when a network is loaded, not for every call.
#[pyclass(frozen, module = "det_post._ops")]
pub struct SparseWeights {
    pub(super) sizes: Sizes,
    pub(super) precision: Precision,
    pub(super) packed: Packed,
}

/// The sizes of weights.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    pub(super) axes: Axes,
    pub(super) num_outputs: usize,
    /// Taps along three axes.
    pub(super) kernel: [usize; 3],
    pub(super) num_inputs: usize,
}

/// The order of the axes of weights.
#[derive(Clone, Copy)]
enum Layout {
    /// Output channels, taps, input channels.
    Spconv2,
    /// Taps, input channels, output channels.
    Spconv1,
}

/// Where weights are.
pub(super) enum Packed {
    Host(PackedWeights),
    Gpu(Box<DeviceWeights>),
}

#[pymethods]
impl SparseWeights {
    #[new]
    #[pyo3(signature = (weight, *, bias=None, precision="float32", layout="spconv2"))]
    pub(super) fn new(
        weight: &Array<'_>,
        bias: Option<&Array<'_>>,
        precision: &str,
        layout: &str,
    ) -> PyResult<Self> {
        let precisions = [
            ("float32", Precision::F32),
            ("tf32", Precision::Tf32),
            ("float16", Precision::F16),
            ("bfloat16", Precision::Bf16),
        ];
        let precision = one_of("precision", precision, &precisions)?;
        let layouts = [("spconv2", Layout::Spconv2), ("spconv1", Layout::Spconv1)];
        let layout = one_of("layout", layout, &layouts)?;
        let py = weight.py();
        if let Some(gpu) = gpu_of("weight", weight)? {
            let (shape, values) = DeviceWeights::to_host(gpu, "weight", weight)?;
            let bias = bias.map(|bias| DeviceWeights::to_host(gpu, "bias", bias)).transpose()?;
            let sizes = Sizes::of(&shape, layout).ok_or_else(|| {
                PyValueError::new_err(format!("weight is {shape:?}: {}", layout.needed()))
            })?;
            let packed = py.detach(|| {
                let bias = bias.as_ref().map(|(_, values)| &values[..]);
                let values = layout.outputs_first(&values, &sizes);
                DeviceWeights::new(gpu, &sizes.parameters(&values, bias)?, precision)
            });
            let packed = packed.map_err(|error: det_post::Error| raised(&error))?;
            let packed = Packed::Gpu(Box::new(packed));
            return Ok(Self { sizes, precision, packed });
        }
        let weight = Input::new("weight", weight)?;
        let bias = bias.map(|bias| Input::new("bias", bias)).transpose()?;
        let sizes =
            Sizes::of(weight.shape(), layout).ok_or_else(|| weight.refuse(&layout.needed()))?;
        let (_, values) = weight.floats()?;
        let bias = bias.as_ref().map(Input::floats).transpose()?;
        let packed = py.detach(|| {
            let bias = bias.as_ref().map(|(_, values)| &values[..]);
            let values = layout.outputs_first(&values, &sizes);
            PackedWeights::new(&sizes.parameters(&values, bias)?, precision)
        });
        let packed = Packed::Host(packed.map_err(|error: det_post::Error| raised(&error))?);
        Ok(Self { sizes, precision, packed })
    }
}

impl Layout {
    fn needed(self) -> String {
        let shape = match self {
            Self::Spconv2 => "[Cout, k0, k1, k2, Cin]",
            Self::Spconv1 => "[k0, k1, k2, Cin, Cout]",
        };
        format!("{shape} is required, of one or two axes without k0")
    }

    /// `[Cout, taps, Cin]`.
    fn outputs_first<'a>(self, values: &'a [f32], sizes: &Sizes) -> Cow<'a, [f32]> {
        match self {
            Self::Spconv2 => Cow::Borrowed(values),
            Self::Spconv1 => (0..sizes.num_outputs)
                .flat_map(|output| values.iter().skip(output).step_by(sizes.num_outputs))
                .copied()
                .collect(),
        }
    }
}

impl Sizes {
    fn of(shape: &[usize], layout: Layout) -> Option<Self> {
        let (taps, num_inputs, num_outputs) = match (layout, shape) {
            (Layout::Spconv2, &[num_outputs, ref taps @ .., num_inputs]) => {
                (taps, num_inputs, num_outputs)
            }
            (Layout::Spconv1, &[ref taps @ .., num_inputs, num_outputs]) => {
                (taps, num_inputs, num_outputs)
            }
            _ => return None,
        };
        let axes = Axes::new(taps.len())?;
        Some(Self { axes, num_outputs, kernel: axes.lifted(taps.iter().copied(), 1), num_inputs })
    }

    fn parameters<'a>(
        &self,
        weights: &'a [f32],
        bias: Option<&'a [f32]>,
    ) -> det_post::Result<ConvParameters<'a>> {
        let num_taps = self.kernel.iter().product();
        ConvParameters::new([self.num_outputs, num_taps, self.num_inputs], weights, bias)
    }

    /// The shape in words, in the order of spconv 2.
    pub(super) fn shape(&self) -> Vec<usize> {
        let mut shape = vec![self.num_outputs];
        shape.extend(&self.kernel[self.axes.first()..]);
        shape.push(self.num_inputs);
        shape
    }
}
