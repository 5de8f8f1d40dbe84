//! Sparse convolution. Levels and pairs are in memory of the library of the coordinates; all work
//! on those of a GPU runs on one stream, and a convolution on the stream of its weights.

use std::sync::{Arc, Mutex, PoisonError};

use det_post_ops::arrays::sparse::cuda::Workspace;
use det_post_ops::device::cuda::{CudaDevice, DeviceBuffer, In, Out};
use det_post_ops::sparse::conv::cuda::{Convolution, DeviceFeatures};
use det_post_ops::sparse::conv::{ConvParameters, Precision};
use det_post_ops::sparse::rulebook::cuda::{DeviceSites, DeviceTable};
use det_post_ops::sparse::rulebook::{EntranceCounts, Geometry, Mode, SiteGrid};
use pyo3::prelude::*;

use super::{complete, finished, is_of, narrowed};
use crate::array::{GpuFloats, GpuInput, GpuScope};
use crate::error::raised;
use crate::library::{copy_columns, empty_like};
use crate::sparse::{Axes, check_shape};

type Array<'py> = Bound<'py, PyAny>;

/// The kernels for the levels of each GPU.
static LEVELS: Mutex<Vec<Arc<Workspace>>> = Mutex::new(Vec::new());

fn levels_of(gpu: u32) -> det_post::Result<Arc<Workspace>> {
    let mut all = LEVELS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = all.iter().find(|levels| is_of(levels.stream(), gpu)) {
        return Ok(Arc::clone(found));
    }
    let made = Arc::new(Workspace::new(&CudaDevice::open(gpu)?.stream()?)?);
    all.push(Arc::clone(&made));
    Ok(made)
}

/// The sites of a level on a GPU.
pub struct DeviceLevel {
    levels: Arc<Workspace>,
    sites: DeviceSites,
    has_rows: bool,
    /// What `sites` are in.
    memory: Py<PyAny>,
}

/// Memory for a level, of the library of an array.
struct LevelMemory {
    array: Py<PyAny>,
    bytes: GpuInput,
    num_bytes: usize,
    grid: SiteGrid,
    capacity: usize,
    is_input: bool,
}

impl LevelMemory {
    fn new(
        levels: &Workspace,
        like: &Array<'_>,
        grid: SiteGrid,
        capacity: usize,
        is_input: bool,
    ) -> PyResult<Self> {
        let num_bytes = DeviceSites::num_bytes_for(&grid, capacity, is_input);
        let array = empty_like(like, &[num_bytes], "uint8")?;
        let bytes = GpuInput::new("sites", &array, levels.stream())?;
        Ok(Self { array: array.unbind(), bytes, num_bytes, grid, capacity, is_input })
    }

    /// No sites.
    fn sites<'env>(&'env self, scope: &GpuScope<'_, 'env>) -> PyResult<DeviceSites> {
        let bytes = self.bytes.bytes(self.num_bytes, scope)?;
        DeviceSites::in_memory(bytes, self.grid, self.capacity, self.is_input)
            .map_err(|error| raised(&error))
    }
}

impl DeviceLevel {
    /// The sites of rows of coordinates, and what became of the rows.
    pub fn new(
        gpu: u32,
        (coordinates, axes): (&Array<'_>, Axes),
        grid: SiteGrid,
        max_sites: Option<usize>,
    ) -> PyResult<(Self, EntranceCounts)> {
        let py = coordinates.py();
        let levels = py.detach(|| levels_of(gpu)).map_err(|error| raised(&error))?;
        let mut input = GpuInput::new("coordinates", coordinates, levels.stream())?;
        let num_columns = 1 + axes.num();
        let num_rows = match *input.shape() {
            [num_rows, found] if found == num_columns => num_rows,
            _ => return Err(input.refuse(&format!("[N, {num_columns}] is required"))),
        };
        if num_columns < 4 {
            input.check_type::<i32>()?;
            let rows = empty_like(coordinates, &[num_rows, 4], "int32")?;
            let [first, num_columns] = [axes.first(), num_columns].map(|at| at as isize);
            copy_columns((&rows, 0..1), Some((coordinates, 0..1)))?;
            copy_columns((&rows, 1..1 + first), None)?;
            copy_columns((&rows, 1 + first..4), Some((coordinates, 1..num_columns)))?;
            input = GpuInput::new("coordinates", &rows, levels.stream())?;
        }
        let capacity = max_sites.unwrap_or(num_rows).min(num_rows);
        let memory = LevelMemory::new(&levels, coordinates, grid, capacity, true)?;
        let (sites, counts) = GpuScope::run(levels.stream(), |scope| {
            let mut sites = memory.sites(scope)?;
            let rows = input.slice::<i32, u32>(scope)?;
            py.detach(|| {
                levels.enqueue_input(rows, &mut sites)?;
                let counts = sites.fit_entrance()?;
                Ok((sites, counts))
            })
            .map_err(|error: det_post::Error| raised(&error))
        })?;
        Ok((Self { levels, sites, has_rows: true, memory: memory.array }, counts))
    }

    /// The sites of a strided or transposed output, up to `max_sites`, and how many were dropped.
    pub fn reached(
        &self,
        py: Python<'_>,
        (geometry, mode): (&Geometry, Mode),
        grid: SiteGrid,
        max_sites: usize,
    ) -> PyResult<(Self, usize)> {
        let levels = Arc::clone(&self.levels);
        let memory = LevelMemory::new(&levels, self.memory.bind(py), grid, max_sites, false)?;
        let (sites, num_dropped) = GpuScope::run(levels.stream(), |scope| {
            let mut sites = memory.sites(scope)?;
            py.detach(|| {
                levels.enqueue_output(&self.sites, geometry, mode, &mut sites)?;
                let counts = sites.fit_output()?;
                Ok((sites, counts.num_over_capacity))
            })
            .map_err(|error: det_post::Error| raised(&error))
        })?;
        Ok((Self { levels, sites, has_rows: false, memory: memory.array }, num_dropped))
    }

    /// The kernels for levels, and their stream.
    pub fn workspace(&self) -> &Workspace {
        &self.levels
    }

    /// The sites.
    pub fn sites(&self) -> &DeviceSites {
        &self.sites
    }

    /// Number of sites.
    pub fn len(&self) -> usize {
        self.sites.capacity()
    }

    /// The grid.
    pub fn grid(&self) -> &SiteGrid {
        self.sites.grid()
    }

    /// The number of the GPU.
    pub fn gpu(&self) -> usize {
        self.levels.stream().device().ordinal()
    }

    /// Cells of the sites, int32 [M, 1 + axes].
    pub fn coordinates<'py>(&self, py: Python<'py>, axes: Axes) -> PyResult<Array<'py>> {
        let out = empty_like(self.memory.bind(py), &[self.len(), 4], "int32")?;
        let mut cells = GpuInput::new("coordinates", &out, self.levels.stream())?;
        finished(py, self.levels.stream(), |scope| {
            let cells = cells.output::<i32, u32>(scope)?;
            let queued = self.levels.enqueue_sites(&self.sites, cells, Out::empty());
            queued.map_err(|error| raised(&error))
        })?;
        if axes.num() == 3 {
            return Ok(out);
        }
        let num_columns = 1 + axes.num();
        let cells_of = empty_like(&out, &[self.len(), num_columns], "int32")?;
        let [first, num_columns] = [axes.first(), num_columns].map(|at| at as isize);
        copy_columns((&cells_of, 0..1), Some((&out, 0..1)))?;
        copy_columns((&cells_of, 1..num_columns), Some((&out, 1 + first..4)))?;
        complete(cells_of, self.levels.stream())
    }

    /// By site the row of the coordinates, int64 [M]; empty unless it was made of them.
    pub fn rows<'py>(&self, py: Python<'py>) -> PyResult<Array<'py>> {
        let len = if self.has_rows { self.len() } else { 0 };
        let out = empty_like(self.memory.bind(py), &[len], "int64")?;
        let mut rows = GpuInput::new("rows", &out, self.levels.stream())?;
        finished(py, self.levels.stream(), |scope| {
            let rows = rows.output::<i64, u64>(scope)?;
            let queued = self.levels.enqueue_sites(&self.sites, Out::empty(), rows);
            queued.map_err(|error| raised(&error))
        })?;
        Ok(out)
    }
}

/// The pairs of a convolution on a GPU.
pub struct DeviceRulebook {
    table: DeviceTable,
    /// What `table` is in.
    _memory: Py<PyAny>,
}

impl DeviceRulebook {
    /// The pairs between two levels of one GPU.
    pub fn new(
        py: Python<'_>,
        input: &DeviceLevel,
        output: &DeviceLevel,
        geometry: &Geometry,
        mode: Mode,
    ) -> PyResult<Self> {
        let levels = &input.levels;
        let num_words = DeviceTable::num_words_for(geometry, mode, output.len());
        let memory = empty_like(input.memory.bind(py), &[num_words], "int32")?;
        let mut words = GpuInput::new("rulebook", &memory, levels.stream())?;
        let table = finished(py, levels.stream(), |scope| {
            let words = words.buffer::<i32, u32>(scope)?;
            let lens = [input.len(), output.len()];
            DeviceTable::in_memory(words, geometry, mode, lens)
                .and_then(|mut table| {
                    levels.enqueue_table(&input.sites, &output.sites, &mut table)?;
                    Ok(table)
                })
                .map_err(|error| raised(&error))
        })?;
        Ok(Self { table, _memory: memory.unbind() })
    }

    /// The pairs.
    pub fn table(&self) -> &DeviceTable {
        &self.table
    }

    /// Rows of the input.
    pub fn num_input_rows(&self) -> usize {
        self.table.input_capacity()
    }

    /// By tap and row of the output the row of the input, int32 [taps, M].
    pub fn table_rows<'py>(&self, py: Python<'py>, output: &DeviceLevel) -> PyResult<Array<'py>> {
        let shape = [self.table.num_taps(), output.len()];
        let out = empty_like(output.memory.bind(py), &shape, "int32")?;
        let mut rows = GpuInput::new("table", &out, output.levels.stream())?;
        finished(py, output.levels.stream(), |scope| {
            let rows = rows.output::<i32, u32>(scope)?;
            let queued = output.levels.enqueue_table_rows(&self.table, rows);
            queued.map_err(|error| raised(&error))
        })?;
        Ok(out)
    }
}

/// Packed weights in the memory of a GPU, with the stream of their convolutions.
pub struct DeviceWeights {
    arrays: Workspace,
    convolution: Convolution,
    precision: Precision,
}

impl DeviceWeights {
    /// A copy of an array on the CPU, and its shape.
    pub fn to_host(
        gpu: u32,
        name: &'static str,
        array: &Array<'_>,
    ) -> PyResult<(Vec<usize>, Vec<f32>)> {
        let stream = CudaDevice::open(gpu).and_then(|device| device.stream());
        let stream = stream.map_err(|error| raised(&error))?;
        let GpuFloats { array: input, .. } = GpuFloats::new(name, array, &stream)?;
        let values = GpuScope::run(&stream, |scope| input.to_host::<f32, f32>(scope))?;
        Ok((input.shape().to_vec(), values))
    }

    /// Packs weights for a GPU.
    ///
    /// # Errors
    /// Returns the errors of [`Convolution::new`].
    pub fn new(
        gpu: u32,
        parameters: &ConvParameters<'_>,
        precision: Precision,
    ) -> det_post::Result<Self> {
        let stream = CudaDevice::open(gpu)?.stream()?;
        Ok(Self {
            arrays: Workspace::new(&stream)?,
            convolution: Convolution::new(&stream, parameters, precision)?,
            precision,
        })
    }

    /// The number of the GPU.
    pub fn gpu(&self) -> usize {
        self.arrays.stream().device().ordinal()
    }
}

/// A convolution of arrays on a GPU.
pub struct DeviceConvolution<'a> {
    /// The weights.
    pub weights: &'a DeviceWeights,
    /// The pairs.
    pub pairs: &'a DeviceRulebook,
    /// The level of the output.
    pub level: &'a DeviceLevel,
    /// Whether negative values become 0.
    pub relu: bool,
}

impl DeviceConvolution<'_> {
    /// The output of features, of these numbers of rows and channels.
    pub fn run<'py>(
        &self,
        features: &Array<'py>,
        residual: Option<&Array<'py>>,
        [input, output]: [[usize; 2]; 2],
    ) -> PyResult<Array<'py>> {
        let DeviceWeights { arrays, precision, .. } = self.weights;
        let (py, stream) = (features.py(), arrays.stream());
        let GpuFloats { array: of, of: element } = GpuFloats::new("features", features, stream)?;
        check_shape(of.shape(), input, |reason| of.refuse(reason))?;
        let added =
            residual.map(|residual| GpuFloats::new("residual", residual, stream)).transpose()?;
        let added = added.map(|added| added.array);
        if let Some(added) = &added {
            check_shape(added.shape(), output, |reason| added.refuse(reason))?;
        }
        let out = empty_like(features, &output, "float32")?;
        let mut result = GpuInput::new("result", &out, stream)?;
        let shapes = [Some(input), Some(output), added.as_ref().map(|_| output)];
        let num_bytes = shapes.into_iter().flatten().map(|[num_rows, num_channels]| {
            let num_bytes = DeviceFeatures::num_bytes_for(num_rows, num_channels, *precision);
            Out::<u8>::num_carved_bytes(num_bytes)
        });
        let num_bytes = num_bytes.fold(0, usize::saturating_add);
        let memory = empty_like(features, &[num_bytes], "uint8")?;
        let mut memory = GpuInput::new("memory", &memory, stream)?;
        finished(py, stream, |scope| {
            let arrays = Arrays {
                features: of.slice::<f32, f32>(scope)?,
                residual: added.as_ref().map(|added| added.slice::<f32, f32>(scope)).transpose()?,
                memory: memory.buffer::<u8, u8>(scope)?,
                result: result.output::<f32, f32>(scope)?,
            };
            self.enqueue(arrays, [input, output]).map_err(|error| raised(&error))
        })?;
        narrowed(out, element, stream)
    }

    fn enqueue(
        &self,
        arrays: Arrays<'_>,
        [input, output]: [[usize; 2]; 2],
    ) -> det_post::Result<()> {
        let DeviceWeights { arrays: kernels, convolution, precision } = self.weights;
        let Arrays { features, residual, mut memory, result } = arrays;
        if output[0] == 0 {
            return Ok(());
        }
        let mut rows = |[num_rows, num_channels]: [usize; 2]| {
            let num_bytes = DeviceFeatures::num_bytes_for(num_rows, num_channels, *precision);
            DeviceFeatures::in_memory(memory.carve(num_bytes)?, *precision)
        };
        let (mut from, mut to) = (rows(input)?, rows(output)?);
        kernels.enqueue_features((features, input[1]), None, input[0], &mut from)?;
        let added = match residual {
            Some(residual) => {
                let mut added = rows(output)?;
                kernels.enqueue_features((residual, output[1]), None, output[0], &mut added)?;
                Some(added)
            }
            None => None,
        };
        let table = self.pairs.table.on(kernels.stream())?;
        let sites = self.level.sites.on(kernels.stream())?;
        convolution.enqueue(&from, (&table, &sites), added.as_ref(), self.relu, &mut to)?;
        kernels.enqueue_values(&to, output[1], result)
    }
}

/// Arrays of a convolution on a GPU.
struct Arrays<'a> {
    features: In<'a, f32>,
    residual: Option<In<'a, f32>>,
    /// For rows as the kernels read and write them.
    memory: DeviceBuffer<u8>,
    result: Out<'a, f32>,
}
