//! Sparse convolution on arrays.

use det_post::ops::rulebook::{
    Geometry, Mode, SiteGrid, Sites as SiteSet, Table, fill_table, output_sites,
    sites_of_coordinates,
};
use det_post::ops::sparse_conv::{
    ConvParameters, Epilogue, PackedWeights, Precision, Workspace, sparse_conv as convolve,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::argument::one_of;
use crate::array::{Input, Output};
use crate::error::raised;
use crate::library::from_dlpack_of;

type Array<'py> = Bound<'py, PyAny>;

/// A number for all axes, or one per axis.
#[derive(FromPyObject)]
pub enum PerAxis {
    /// For all axes.
    One(u32),
    /// Per axis.
    Each([u32; 3]),
}

impl From<PerAxis> for [u32; 3] {
    fn from(value: PerAxis) -> Self {
        match value {
            PerAxis::One(value) => [value; 3],
            PerAxis::Each(values) => values,
        }
    }
}

/// The active cells of a level.
///
/// coordinates: int32 [N, 4], rows of scene, c0, c1, c2 in any order; shape: cells along the three
/// axes; batch_size: scenes. Of rows of one cell the first is taken; rows outside the grid are
/// left out. max_sites: of more sites those of the lowest cells stay.
#[pyclass(frozen, module = "det_post._ops")]
pub struct Sites {
    sites: SiteSet,
    input_rows: Vec<u32>,
    num_dropped: usize,
    /// Of the library of the coordinates.
    from_dlpack: Py<PyAny>,
}

#[pymethods]
impl Sites {
    #[new]
    #[pyo3(signature = (coordinates, shape, *, batch_size=1, max_sites=None))]
    fn new(
        coordinates: &Array<'_>,
        shape: [u32; 3],
        batch_size: u32,
        max_sites: Option<usize>,
    ) -> PyResult<Self> {
        let grid = SiteGrid::new(batch_size, shape).map_err(|error| raised(&error))?;
        let input = Input::new("coordinates", coordinates)?;
        let rows: &[[i32; 4]] = input.rows()?;
        if u32::try_from(rows.len()).is_err() {
            return Err(input.refuse(&"below 2^32 rows are possible"));
        }
        let (sites, input_rows, counts) = coordinates.py().detach(|| {
            let mut sites = SiteSet::new(grid, max_sites.unwrap_or(rows.len()));
            let mut input_rows = Vec::new();
            let counts = sites_of_coordinates(rows, &mut sites, &mut input_rows);
            (sites, input_rows, counts)
        });
        let from_dlpack = from_dlpack_of(coordinates)?.unbind();
        Ok(Self { sites, input_rows, num_dropped: counts.num_over_capacity, from_dlpack })
    }

    /// Cells of the sites, int32 [M, 4], ascending: the order of the rows of features.
    #[getter]
    fn coordinates<'py>(&self, py: Python<'py>) -> PyResult<Array<'py>> {
        let grid = self.sites.grid();
        let cells = self.sites.indices().iter().flat_map(|&index| grid.cell_of(index));
        // A grid has at most 2^28 cells.
        let cells = cells.map(|cell| cell as i32).collect();
        Output::by::<i32>(cells, &[self.sites.len(), 4], self.from_dlpack.bind(py))
    }

    /// The row of the coordinates that each site comes from, int64 [M]: features[sites.rows] are
    /// in the order of the sites.
    #[getter]
    fn rows<'py>(&self, py: Python<'py>) -> PyResult<Array<'py>> {
        let rows: Vec<i64> = self.input_rows.iter().map(|&row| i64::from(row)).collect();
        Output::by(rows, &[self.input_rows.len()], self.from_dlpack.bind(py))
    }

    /// Cells along the axes.
    #[getter]
    fn shape(&self) -> [u32; 3] {
        self.sites.grid().shape()
    }

    /// Scenes.
    #[getter]
    fn batch_size(&self) -> u32 {
        self.sites.grid().batch_size()
    }

    /// Sites over max_sites, which were dropped.
    #[getter]
    fn num_dropped(&self) -> usize {
        self.num_dropped
    }

    fn __len__(&self) -> usize {
        self.sites.len()
    }
}

/// Which sites a convolution joins.
///
/// mode: submanifold (output at the sites of the input), strided (at every cell that has a site
/// under the kernel), transposed (at every cell that a site reaches) or inverse (back to the sites
/// `output`, from which a strided convolution of this geometry started). kernel_size, stride,
/// padding, dilation: for all axes or per axis. output_padding: of transposed. Convolutions are
/// cross-correlations, as in torch.
#[pyclass(frozen, module = "det_post._ops")]
pub struct Rulebook {
    table: Table,
    output: Py<Sites>,
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
        let geometry = Geometry {
            kernel: kernel_size.into(),
            stride: stride.into(),
            padding: padding.into(),
            dilation: dilation.into(),
        };
        let input = sites.get();
        let output = match (mode, output) {
            (Mode::Submanifold, None) => sites.clone().unbind(),
            (Mode::Inverse, Some(output)) => output.clone().unbind(),
            (Mode::Strided | Mode::Transposed, None) => {
                let found = input.reached(py, &geometry, mode, output_padding.into(), max_sites)?;
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
        let to = output.get();
        let table = py
            .detach(|| {
                let mut table = Table::new(&geometry, mode, to.sites.len());
                fill_table(&input.sites, &to.sites, &mut table)?;
                Ok(table)
            })
            .map_err(|error: det_post::Error| raised(&error))?;
        Ok(Self { table, output })
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
        let (taps, len) = (self.table.num_taps(), self.table.len());
        // Rows are below 2^29.
        let row_of = |tap, row| self.table.input_row(row, tap).map_or(-1, |row| row as i32);
        let rows = (0..taps).flat_map(|tap| (0..len).map(move |row| row_of(tap, row)));
        let from_dlpack = self.output.get().from_dlpack.bind(py);
        Output::by::<i32>(rows.collect(), &[taps, len], from_dlpack)
    }
}

impl Sites {
    /// The sites of the output of a strided or transposed convolution.
    fn reached(
        &self,
        py: Python<'_>,
        geometry: &Geometry,
        mode: Mode,
        output_padding: [u32; 3],
        max_sites: Option<usize>,
    ) -> PyResult<Self> {
        let of = self.sites.grid();
        let (sites, num_dropped) = py
            .detach(|| {
                let shape = match mode {
                    Mode::Transposed => geometry.transposed_shape(of.shape(), output_padding)?,
                    _ => geometry.strided_shape(of.shape())?,
                };
                let grid = SiteGrid::new(of.batch_size(), shape)?;
                // A site reaches at most as many cells as the kernel has taps.
                let most = self.sites.len().saturating_mul(geometry.num_taps());
                let mut sites = SiteSet::new(grid, max_sites.unwrap_or(most));
                let counts = output_sites(&self.sites, geometry, mode, &mut sites)?;
                Ok((sites, counts.num_over_capacity))
            })
            .map_err(|error: det_post::Error| raised(&error))?;
        let from_dlpack = self.from_dlpack.clone_ref(py);
        Ok(Self { sites, input_rows: Vec::new(), num_dropped, from_dlpack })
    }
}

/// Sparse convolution.
///
/// features: float32 [N, Cin], rows in the order of the sites of the input; weight: float32
/// [Cout, k0, k1, k2, Cin] as spconv stores it; bias: [Cout]; residual: [M, Cout], added before
/// relu. precision: float32, tf32, float16 or bfloat16, of the products; sums are float32.
///
/// Returns float32 [M, Cout], rows in the order of rulebook.sites.
#[pyfunction]
#[pyo3(signature = (features, rulebook, weight, *, bias=None, residual=None, relu=false, precision="float32"))]
pub fn sparse_conv<'py>(
    features: &Array<'py>,
    rulebook: &Rulebook,
    weight: &Array<'py>,
    bias: Option<&Array<'py>>,
    residual: Option<&Array<'py>>,
    relu: bool,
    precision: &str,
) -> PyResult<Array<'py>> {
    let precisions = [
        ("float32", Precision::F32),
        ("tf32", Precision::Tf32),
        ("float16", Precision::F16),
        ("bfloat16", Precision::Bf16),
    ];
    let precision = one_of("precision", precision, &precisions)?;
    let features_in = Input::new("features", features)?;
    let weight_in = Input::new("weight", weight)?;
    let bias_in = bias.map(|bias| Input::new("bias", bias)).transpose()?;
    let residual_in = residual.map(|residual| Input::new("residual", residual)).transpose()?;
    let table = &rulebook.table;
    let kernel = table.geometry().kernel.map(|taps| taps as usize);
    let (num_outputs, num_inputs) = match *weight_in.shape() {
        [outputs, k0, k1, k2, inputs] if [k0, k1, k2] == kernel => (outputs, inputs),
        _ => {
            let [k0, k1, k2] = kernel;
            let needed = format!("[Cout, {k0}, {k1}, {k2}, Cin] is needed");
            return Err(weight_in.refuse(&needed));
        }
    };
    if *features_in.shape() != [table.num_input_rows(), num_inputs] {
        let (rows, columns) = (table.num_input_rows(), num_inputs);
        return Err(features_in.refuse(&format!("[{rows}, {columns}] is needed")));
    }
    let shape = [table.len(), num_outputs];
    if let Some(residual) = residual_in.as_ref().filter(|residual| *residual.shape() != shape) {
        return Err(residual.refuse(&format!("{shape:?} is needed")));
    }
    let values = features_in.values::<f32>()?;
    let weights = weight_in.values::<f32>()?;
    let bias = bias_in.as_ref().map(Input::values::<f32>).transpose()?;
    let residual = residual_in.as_ref().map(Input::values::<f32>).transpose()?;
    let out = features
        .py()
        .detach(|| {
            let parameters =
                ConvParameters::new([num_outputs, table.num_taps(), num_inputs], weights, bias)?;
            let packed = PackedWeights::new(&parameters, precision);
            let epilogue = Epilogue { residual, relu, stored: Precision::F32 };
            let num_threads = std::thread::available_parallelism().map_or(1, usize::from);
            let mut out = vec![0.0; shape[0] * shape[1]];
            let mut workspace = Workspace::new(num_threads);
            convolve(values, table, &packed, epilogue, &mut workspace, &mut out)?;
            Ok(out)
        })
        .map_err(|error: det_post::Error| raised(&error))?;
    Output::of(out, &shape, features)
}
