//! The sites of a level.

use det_post_ops::arrays::sparse::cells;
use det_post_ops::sparse::rulebook::{
    Geometry, Mode, SiteGrid, Sites as SiteSet, output_sites, sites_of_coordinates,
};
use pyo3::prelude::*;

use crate::array::{Input, Output, gpu_of};
use crate::error::raised;
use crate::gpu::DeviceLevel;
use crate::library::from_dlpack_of;

type Array<'py> = Bound<'py, PyAny>;

/// The active cells of a level.
///
/// coordinates: int32 [N, 4], rows of scene, c0, c1, c2 in any order; shape: cells along the three
/// axes; batch_size: scenes. Of rows of one cell the first is taken; rows outside the grid are
/// left out. max_sites: of more sites the ones in the lowest cells stay. Of coordinates on a
/// GPU the sites are there, too, in memory of the library of the coordinates.
#[pyclass(frozen, module = "det_post._ops")]
pub struct Sites {
    pub(super) level: Level,
    num_dropped: usize,
}

/// Where the sites are.
pub(super) enum Level {
    Host(HostLevel),
    Gpu(DeviceLevel),
}

/// Sites on the CPU.
pub(super) struct HostLevel {
    pub(super) sites: SiteSet,
    input_rows: Vec<u32>,
    /// Of the library of the coordinates.
    pub(super) from_dlpack: Py<PyAny>,
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
        if let Some(gpu) = gpu_of("coordinates", coordinates)? {
            let (level, num_dropped) = DeviceLevel::new(gpu, coordinates, grid, max_sites)?;
            return Ok(Self { level: Level::Gpu(level), num_dropped });
        }
        let input = Input::new("coordinates", coordinates)?;
        let rows: &[[i32; 4]] = input.rows()?;
        if u32::try_from(rows.len()).is_err() {
            return Err(input.refuse(&"at most 2^32 - 1 rows are allowed"));
        }
        let (sites, input_rows, counts) = coordinates.py().detach(|| {
            let mut sites = SiteSet::new(grid, max_sites.unwrap_or(rows.len()));
            let mut input_rows = Vec::new();
            let counts = sites_of_coordinates(rows, &mut sites, &mut input_rows);
            (sites, input_rows, counts)
        });
        let from_dlpack = from_dlpack_of(coordinates)?.unbind();
        let level = Level::Host(HostLevel { sites, input_rows, from_dlpack });
        Ok(Self { level, num_dropped: counts.num_over_capacity })
    }

    /// Cells of the sites, int32 [M, 4], ascending: the order of the rows of features.
    #[getter]
    fn coordinates<'py>(&self, py: Python<'py>) -> PyResult<Array<'py>> {
        match &self.level {
            Level::Host(level) => {
                // A grid has at most 2^28 cells.
                let cells = cells(&level.sites).flatten().map(|cell| cell as i32).collect();
                let shape = [level.sites.len(), 4];
                Output::by::<i32>(cells, &shape, level.from_dlpack.bind(py))
            }
            Level::Gpu(level) => level.coordinates(py),
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
    fn shape(&self) -> [u32; 3] {
        self.level.grid().shape()
    }

    /// Scenes.
    #[getter]
    fn batch_size(&self) -> u32 {
        self.level.grid().batch_size()
    }

    /// Sites over max_sites, which were dropped.
    #[getter]
    fn num_dropped(&self) -> usize {
        self.num_dropped
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

    fn grid(&self) -> &SiteGrid {
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
                return Ok(Self { level: Level::Gpu(level), num_dropped });
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
        Ok(Self { level, num_dropped })
    }
}
