//! Which sites a convolution joins.

use det_post_ops::arrays::sparse::input_rows;
use det_post_ops::sparse::rulebook::{Geometry, Mode, Table, fill_table};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::axes::{Axes, PerAxis};
use super::sites::{Level, Sites};
use crate::argument::one_of;
use crate::array::Output;
use crate::error::raised;
use crate::gpu::DeviceRulebook;

type Array<'py> = Bound<'py, PyAny>;

/// Which sites a convolution joins.
///
/// mode: submanifold (output at the sites of the input), strided (at every cell that has a site
/// under the kernel), transposed (at every cell that a site reaches) or inverse (back to the sites
/// `output`, from which a strided convolution of this geometry started). kernel_size, stride,
/// padding, dilation: for all axes or per axis of the sites. output_padding: of transposed. Convolutions are
/// cross-correlations, as in torch.
#[pyclass(frozen, module = "det_post._ops")]
pub struct Rulebook {
    pub(super) pairs: Pairs,
    pub(super) geometry: Geometry,
    pub(super) num_input_rows: usize,
    output: Py<Sites>,
}

/// Where the pairs are.
pub(super) enum Pairs {
    Host(Table),
    Gpu(DeviceRulebook),
}

#[pymethods]
impl Rulebook {
    #[new]
    #[pyo3(signature = (sites, kernel_size, *, mode="submanifold", stride=PerAxis::One(1), padding=PerAxis::One(0), dilation=PerAxis::One(1), output_padding=PerAxis::One(0), output=None, max_sites=None))]
    #[expect(clippy::too_many_arguments, reason = "options by name")]
    fn new(
        sites: &Bound<'_, Sites>,
        kernel_size: PerAxis,
        mode: &str,
        stride: PerAxis,
        padding: PerAxis,
        dilation: PerAxis,
        output_padding: PerAxis,
        output: Option<&Bound<'_, Sites>>,
        max_sites: Option<usize>,
    ) -> PyResult<Self> {
        let py = sites.py();
        let modes = [
            ("submanifold", Mode::Submanifold),
            ("strided", Mode::Strided),
            ("transposed", Mode::Transposed),
            ("inverse", Mode::Inverse),
        ];
        let mode = one_of("mode", mode, &modes)?;
        let input = sites.get();
        let axes = input.axes;
        let geometry = Geometry {
            kernel: axes.per_axis("kernel_size", kernel_size, 1)?,
            stride: axes.per_axis("stride", stride, 1)?,
            padding: axes.per_axis("padding", padding, 0)?,
            dilation: axes.per_axis("dilation", dilation, 1)?,
        };
        geometry.check(mode).map_err(|error| raised(&error))?;
        let output_padding = axes.per_axis("output_padding", output_padding, 0)?;
        let output = match (mode, output) {
            (Mode::Submanifold, None) => sites.clone().unbind(),
            (Mode::Inverse, Some(output)) if output.get().axes == axes => output.clone().unbind(),
            (Mode::Inverse, Some(output)) => {
                let (from, to) = (axes.num(), output.get().axes.num());
                let message = format!("sites have {from} axes, output has {to}");
                return Err(PyValueError::new_err(message));
            }
            (Mode::Strided | Mode::Transposed, None) => {
                let found = input.reached(py, &geometry, mode, output_padding, max_sites)?;
                Py::new(py, found)?
            }
            (Mode::Inverse, None) => {
                let message = "output is None; inverse needs the sites that it returns to";
                return Err(PyValueError::new_err(message));
            }
            (_, Some(_)) => {
                let message = format!("output is for inverse; {mode:?} makes its own");
                return Err(PyValueError::new_err(message));
            }
        };
        let pairs = match (&input.level, &output.get().level) {
            (Level::Host(from), Level::Host(to)) => py
                .detach(|| {
                    let mut table = Table::new(&geometry, mode, to.sites.len());
                    fill_table(&from.sites, &to.sites, &mut table)?;
                    Ok(Pairs::Host(table))
                })
                .map_err(|error: det_post::Error| raised(&error))?,
            (Level::Gpu(from), Level::Gpu(to)) if from.gpu() == to.gpu() => {
                Pairs::Gpu(DeviceRulebook::new(py, from, to, &geometry, mode)?)
            }
            (from, to) => {
                let (from, to) = (from.place(), to.place());
                let message = format!("sites are on {from}, output is on {to}");
                return Err(PyValueError::new_err(message));
            }
        };
        Ok(Self { pairs, geometry, num_input_rows: input.level.len(), output })
    }

    /// The sites of the output.
    #[getter]
    fn sites(&self, py: Python<'_>) -> Py<Sites> {
        self.output.clone_ref(py)
    }

    /// By tap and row of the output the row of the input, int32 [taps, M]; -1 where there is no
    /// site.
    #[getter]
    fn table<'py>(&self, py: Python<'py>) -> PyResult<Array<'py>> {
        match (&self.pairs, self.output_level()) {
            (Pairs::Host(table), Level::Host(level)) => {
                // Rows are below 2^29.
                let rows = input_rows(table).map(|row| row.map_or(-1, |row| row as i32));
                let shape = [table.num_taps(), table.len()];
                Output::by::<i32>(rows.collect(), &shape, level.from_dlpack.bind(py))
            }
            (Pairs::Gpu(rulebook), Level::Gpu(level)) => rulebook.table_rows(py, level),
            _ => Err(PyValueError::new_err("sites and pairs are on different devices")),
        }
    }
}

impl Rulebook {
    pub(super) fn output_level(&self) -> &Level {
        &self.output.get().level
    }

    /// Taps along three axes.
    pub(super) fn kernel(&self) -> [usize; 3] {
        self.geometry.kernel.map(|taps| taps as usize)
    }

    /// Axes of the sites.
    pub(super) fn axes(&self) -> Axes {
        self.output.get().axes
    }

    /// The shape of weights, in words.
    pub(super) fn weight_shape(&self) -> String {
        let taps = &self.geometry.kernel[self.axes().first()..];
        let taps: Vec<_> = taps.iter().map(u32::to_string).collect();
        format!("[Cout, {}, Cin]", taps.join(", "))
    }
}
