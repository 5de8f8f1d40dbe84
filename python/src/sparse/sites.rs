//! The sites of a level.

use std::borrow::Cow;

use det_post_ops::arrays::sparse::cells;
use det_post_ops::sparse::rulebook::{
    EntranceCounts, Geometry, Mode, SiteGrid, Sites as SiteSet, output_sites, sites_of_coordinates,
};
use pyo3::prelude::*;

use super::axes::Axes;
use crate::array::{Input, Output, gpu_of};
use crate::error::raised;
use crate::gpu::DeviceLevel;
use crate::library::from_dlpack_of;

type Array<'py> = Bound<'py, PyAny>;

/// The active cells of a level.
///
/// coordinates: int32 [N, 1 + axes], rows of scene and cell (scene, c0, c1, c2 of three axes) in any
/// order; shape: cells along one, two or three axes; batch_size: scenes. Of rows of one cell the
/// first is taken (num_duplicates counts the others); rows outside the grid are left out
/// (num_outside). max_sites: of more sites the ones in the lowest cells stay (num_dropped counts
/// the others). Of coordinates on a GPU the sites are there, too, in memory of the library of the
/// coordinates.
#[pyclass(frozen, module = "det_post._ops")]
pub struct Sites {
    pub(super) level: Level,
    pub(super) axes: Axes,
    counts: Counts,
}

/// What became of rows and cells that are no sites.
#[derive(Clone, Copy, Default)]
struct Counts {
    num_dropped: usize,
    num_duplicates: usize,
    num_outside: usize,
}

impl From<EntranceCounts> for Counts {
    fn from(counts: EntranceCounts) -> Self {
        let EntranceCounts { num_outside, num_duplicates, num_over_capacity, .. } = counts;
        Self { num_dropped: num_over_capacity, num_duplicates, num_outside }
    }
}

/// Where the sites are.
pub(super) enum Level {
    Host(HostLevel),
    Gpu(DeviceLevel),
}

/// Sites on the CPU.
pub(super) struct HostLevel {
    pub(super) sites: SiteSet,
    pub(super) input_rows: Vec<u32>,
    /// Of the library of the coordinates.
    pub(super) from_dlpack: Py<PyAny>,
}

#[pymethods]
impl Sites {
    #[new]
    #[pyo3(signature = (coordinates, shape, *, batch_size=1, max_sites=None))]
    #[expect(clippy::needless_pass_by_value, reason = "lists from Python are made for the call")]
    fn new(
        coordinates: &Array<'_>,
        shape: Vec<u32>,
        batch_size: u32,
        max_sites: Option<usize>,
    ) -> PyResult<Self> {
        let (axes, shape) = Axes::of_shape(&shape)?;
        let grid = SiteGrid::new(batch_size, shape).map_err(|error| raised(&error))?;
        Self::of(coordinates, axes, grid, max_sites)
    }

    /// Cells of the sites, int32 [M, 1 + axes], ascending: the order of the rows of features.
    #[getter]
    fn coordinates<'py>(&self, py: Python<'py>) -> PyResult<Array<'py>> {
        match &self.level {
            Level::Host(level) => {
                // A grid has at most 2^28 cells.
                let row = |[scene, cell @ ..]: [u32; 4]| {
                    let cell = cell.into_iter().skip(self.axes.first());
                    std::iter::once(scene).chain(cell).map(|number| number as i32)
                };
                let cells = cells(&level.sites).flat_map(row).collect();
                let shape = [level.sites.len(), 1 + self.axes.num()];
                Output::by::<i32>(cells, &shape, level.from_dlpack.bind(py))
            }
            Level::Gpu(level) => level.coordinates(py, self.axes),
        }
    }

    /// The row of the coordinates that each site comes from, int64 [M]: features[sites.rows] are
    /// in the order of the sites.
    #[getter]
    fn rows<'py>(&self, py: Python<'py>) -> PyResult<Array<'py>> {
        match &self.level {
            Level::Host(level) => {
                let rows: Vec<i64> = level.input_rows.iter().map(|&row| i64::from(row)).collect();
                Output::by(rows, &[level.input_rows.len()], level.from_dlpack.bind(py))
            }
            Level::Gpu(level) => level.rows(py),
        }
    }

    /// Cells along the axes.
    #[getter]
    fn shape(&self) -> Vec<u32> {
        self.level.grid().shape()[self.axes.first()..].to_vec()
    }

    /// Scenes.
    #[getter]
    fn batch_size(&self) -> u32 {
        self.level.grid().batch_size()
    }

    /// Sites over max_sites, which were dropped.
    #[getter]
    fn num_dropped(&self) -> usize {
        self.counts.num_dropped
    }

    /// Rows of the coordinates at a cell that an earlier row has, which were left out.
    #[getter]
    fn num_duplicates(&self) -> usize {
        self.counts.num_duplicates
    }

    /// Rows of the coordinates outside the grid or the batch, which were left out.
    #[getter]
    fn num_outside(&self) -> usize {
        self.counts.num_outside
    }

    fn __len__(&self) -> usize {
        self.level.len()
    }
}

impl Level {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Host(level) => level.sites.len(),
            Self::Gpu(level) => level.len(),
        }
    }

    pub(super) fn grid(&self) -> &SiteGrid {
        match self {
            Self::Host(level) => level.sites.grid(),
            Self::Gpu(level) => level.grid(),
        }
    }

    /// Where it is, in words.
    pub(super) fn place(&self) -> String {
        match self {
            Self::Host(_) => "the CPU".into(),
            Self::Gpu(level) => format!("cuda:{}", level.gpu()),
        }
    }
}

impl Sites {
    /// The sites of rows of coordinates.
    pub(super) fn of(
        coordinates: &Array<'_>,
        axes: Axes,
        grid: SiteGrid,
        max_sites: Option<usize>,
    ) -> PyResult<Self> {
        if let Some(gpu) = gpu_of("coordinates", coordinates)? {
            let (level, counts) = DeviceLevel::new(gpu, (coordinates, axes), grid, max_sites)?;
            return Ok(Self { level: Level::Gpu(level), axes, counts: counts.into() });
        }
        let input = Input::new("coordinates", coordinates)?;
        let rows = match axes.num() {
            3 => Cow::Borrowed(input.rows::<i32, 4>()?),
            2 => input.rows::<i32, 3>()?.iter().map(|&[scene, y, x]| [scene, 0, y, x]).collect(),
            _ => input.rows::<i32, 2>()?.iter().map(|&[scene, x]| [scene, 0, 0, x]).collect(),
        };
        if u32::try_from(rows.len()).is_err() {
            return Err(input.refuse(&"at most 2^32 - 1 rows are allowed"));
        }
        let (sites, input_rows, counts) = coordinates.py().detach(|| {
            let mut sites = SiteSet::new(grid, max_sites.unwrap_or(rows.len()));
            let mut input_rows = Vec::new();
            let counts = sites_of_coordinates(&rows, &mut sites, &mut input_rows);
            (sites, input_rows, counts)
        });
        let from_dlpack = from_dlpack_of(coordinates)?.unbind();
        let level = Level::Host(HostLevel { sites, input_rows, from_dlpack });
        Ok(Self { level, axes, counts: counts.into() })
    }

    /// The sites of the output of a strided or transposed convolution.
    pub(super) fn reached(
        &self,
        py: Python<'_>,
        geometry: &Geometry,
        mode: Mode,
        output_padding: [u32; 3],
        max_sites: Option<usize>,
    ) -> PyResult<Self> {
        let of = self.level.grid();
        let grid = match mode {
            Mode::Transposed => geometry.transposed_shape(of.shape(), output_padding),
            _ => geometry.strided_shape(of.shape()),
        }
        .and_then(|shape| SiteGrid::new(of.batch_size(), shape))
        .map_err(|error| raised(&error))?;
        // A site reaches at most as many cells as the kernel has taps.
        let most = self.level.len().saturating_mul(geometry.num_taps());
        let most = max_sites.unwrap_or(most).min(most);
        let level = match &self.level {
            Level::Host(level) => level,
            Level::Gpu(level) => {
                let (level, num_dropped) = level.reached(py, (geometry, mode), grid, most)?;
                let counts = Counts { num_dropped, ..Counts::default() };
                return Ok(Self { level: Level::Gpu(level), axes: self.axes, counts });
            }
        };
        let (sites, num_dropped) = py
            .detach(|| {
                let mut sites = SiteSet::new(grid, most);
                let counts = output_sites(&level.sites, geometry, mode, &mut sites)?;
                Ok((sites, counts.num_over_capacity))
            })
            .map_err(|error: det_post::Error| raised(&error))?;
        let from_dlpack = level.from_dlpack.clone_ref(py);
        let level = Level::Host(HostLevel { sites, input_rows: Vec::new(), from_dlpack });
        let counts = Counts { num_dropped, ..Counts::default() };
        Ok(Self { level, axes: self.axes, counts })
    }
}
