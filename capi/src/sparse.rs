//! Sparse convolution.

use det_post::ops::rulebook::{
    Geometry, Mode, SiteGrid, Sites, Table, fill_table, output_sites, sites_of_coordinates,
};
use det_post::ops::sparse_conv::{
    ConvParameters, Epilogue, PackedWeights, Precision, Workspace as Threads, sparse_conv,
};

use super::call::{Call, Const, In, Out, run};
use super::status::{Failure, Status};
use super::workspace::{WORKSPACES, Workspace};

/// `sparse_convolution.mode`: the output has the sites of the input; the kernel is odd, the
/// stride 1 and the padding not read.
pub const SPARSE_SUBMANIFOLD: u32 = 0;
/// `sparse_convolution.mode`: the output has every cell with a site under its kernel.
pub const SPARSE_STRIDED: u32 = 1;
/// `sparse_convolution.mode`: the output has every cell that a site reaches.
pub const SPARSE_TRANSPOSED: u32 = 2;

/// `sparse_convolution.precision`: float32, equal on CPU and GPU.
pub const PRECISION_F32: u32 = 0;
/// `sparse_convolution.precision`: products of TensorFloat-32.
pub const PRECISION_TF32: u32 = 1;
/// `sparse_convolution.precision`: products and outputs of float16.
pub const PRECISION_F16: u32 = 2;
/// `sparse_convolution.precision`: products and outputs of bfloat16.
pub const PRECISION_BF16: u32 = 3;

/// A sparse convolution. Axes are in the order of the coordinates.
#[repr(C)]
pub struct SparseConvolution {
    /// One of `DET_POST_SPARSE_…`.
    pub mode: u32,
    /// One of `DET_POST_PRECISION_…`. Sums are float32 always.
    pub precision: u32,
    /// Number of scenes.
    pub batch_size: u32,
    /// Cells of the input along the three axes.
    pub grid_size: [u32; 3],
    /// Taps per axis, 1 to 15.
    pub kernel: [u32; 3],
    /// Cells of the input from one output cell to the next.
    pub stride: [u32; 3],
    /// Cells added in front of and behind the input.
    pub padding: [u32; 3],
    /// Cells of the input from one tap to the next.
    pub dilation: [u32; 3],
    /// Of `…_TRANSPOSED`: cells added behind the output.
    pub output_padding: [u32; 3],
    /// 1 if negative results become 0, else 0.
    pub has_relu: u32,
    /// Channels of the input.
    pub num_input_channels: usize,
    /// Channels of the output.
    pub num_output_channels: usize,
    /// `[output channels, taps, input channels]`, where tap k0, k1, k2 is number
    /// `(k0 * kernel[1] + k1) * kernel[2] + k2`.
    pub weights: In<f32>,
    /// `[output channels]`, or `NULL`.
    pub bias: In<f32>,
    /// The maximum number of sites of the output; 0 is no limit.
    pub max_sites: usize,
    /// For later versions; 0.
    pub reserved: [u64; 4],
}

/// Features at sites of a grid.
#[repr(C)]
pub struct SparseFeatures {
    /// Per site: scene, then the cell along the three axes.
    pub coordinates: In<i32>,
    /// `[sites, channels]`.
    pub features: In<f32>,
    /// Number of sites.
    pub num_sites: usize,
}

/// The result of a sparse convolution: sites in ascending order of scene and cell.
#[repr(C)]
pub struct SparseResult {
    /// Per site: scene, then the cell along the three axes.
    pub coordinates: Const<u32>,
    /// `[sites, output channels]`.
    pub features: Const<f32>,
    /// Number of sites.
    pub num_sites: usize,
    /// Cells of the output along the three axes.
    pub grid_size: [u32; 3],
    /// Sites of the input outside the grid or the batch, which are not read.
    pub num_outside: usize,
    /// Sites of the input at a cell that an earlier one has, which are not read.
    pub num_duplicates: usize,
    /// Sites of the output over `max_sites`.
    pub num_over_capacity: usize,
}

/// The memory of sparse convolutions.
pub(super) struct Memory {
    threads: Threads,
    coordinates: Vec<u32>,
    features: Vec<f32>,
    public: Option<SparseResult>,
}

impl Default for Memory {
    fn default() -> Self {
        let num_threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            threads: Threads::new(num_threads),
            coordinates: Vec::new(),
            features: Vec::new(),
            public: None,
        }
    }
}

impl SparseConvolution {
    fn mode(&self) -> Result<Mode, Failure> {
        if self.reserved != [0; 4] {
            return Err(Failure::argument("convolution.reserved is not 0"));
        }
        match self.mode {
            SPARSE_SUBMANIFOLD => Ok(Mode::Submanifold),
            SPARSE_STRIDED => Ok(Mode::Strided),
            SPARSE_TRANSPOSED => Ok(Mode::Transposed),
            other => Err(Failure::argument(format!("convolution.mode {other} is not known"))),
        }
    }

    fn precision(&self) -> Result<Precision, Failure> {
        match self.precision {
            PRECISION_F32 => Ok(Precision::F32),
            PRECISION_TF32 => Ok(Precision::Tf32),
            PRECISION_F16 => Ok(Precision::F16),
            PRECISION_BF16 => Ok(Precision::Bf16),
            other => Err(Failure::argument(format!("convolution.precision {other} is not known"))),
        }
    }

    fn geometry(&self, mode: Mode) -> Result<Geometry, Failure> {
        let Self { kernel, stride, padding, dilation, .. } = *self;
        let geometry = Geometry { kernel, stride, padding, dilation };
        geometry.check(mode)?;
        Ok(geometry)
    }

    fn weights(&self, call: &Call, geometry: &Geometry) -> Result<PackedWeights, Failure> {
        let sizes = [self.num_output_channels, geometry.num_taps(), self.num_input_channels];
        let num = sizes.iter().fold(1_usize, |num, &size| num.saturating_mul(size));
        let weights = call.slice(self.weights, num, "convolution.weights")?;
        let bias = call.slice_or_null(self.bias, sizes[0], "convolution.bias")?;
        Ok(PackedWeights::new(&ConvParameters::new(sizes, weights, bias)?, self.precision()?))
    }

    /// The sites of the output, and how many are over the limit.
    fn output(
        &self,
        input: &Sites,
        geometry: &Geometry,
        mode: Mode,
    ) -> Result<(Sites, usize), Failure> {
        let shape = match mode {
            Mode::Submanifold | Mode::Inverse => return Ok((input.clone(), 0)),
            Mode::Strided => geometry.strided_shape(self.grid_size)?,
            Mode::Transposed => geometry.transposed_shape(self.grid_size, self.output_padding)?,
        };
        let grid = SiteGrid::new(self.batch_size, shape)?;
        let all = input.len().saturating_mul(geometry.num_taps()).min(grid.num_cells());
        let most = if self.max_sites == 0 { all } else { self.max_sites.min(all) };
        let mut output = Sites::new(grid, most);
        let counts = output_sites(input, geometry, mode, &mut output)?;
        Ok((output, counts.num_over_capacity))
    }
}

impl Memory {
    fn convolve(
        &mut self,
        call: &Call,
        convolution: &SparseConvolution,
        input: &SparseFeatures,
    ) -> Result<Const<SparseResult>, Failure> {
        let mode = convolution.mode()?;
        let geometry = convolution.geometry(mode)?;
        let weights = convolution.weights(call, &geometry)?;
        let (num_sites, num_channels) = (input.num_sites, convolution.num_input_channels);
        let cells = call.slice(input.coordinates, num_sites.saturating_mul(4), "coordinates")?;
        let features =
            call.slice(input.features, num_sites.saturating_mul(num_channels), "features")?;
        let mut sites =
            Sites::new(SiteGrid::new(convolution.batch_size, convolution.grid_size)?, num_sites);
        let mut rows = Vec::with_capacity(num_sites);
        let entered = sites_of_coordinates(cells.as_chunks().0, &mut sites, &mut rows);
        let sorted: Vec<f32> = rows
            .iter()
            .flat_map(|&row| &features[row as usize * num_channels..][..num_channels])
            .copied()
            .collect();
        let (output, num_over_capacity) = convolution.output(&sites, &geometry, mode)?;
        let mut table = Table::new(&geometry, mode, output.len());
        fill_table(&sites, &output, &mut table)?;
        let Self { threads, coordinates, features, public } = self;
        features.clear();
        features.resize(output.len() * weights.num_outputs(), 0.0);
        let epilogue = Epilogue {
            residual: None,
            relu: convolution.has_relu != 0,
            stored: convolution.precision()?,
        };
        sparse_conv(&sorted, &table, &weights, epilogue, threads, features)?;
        coordinates.clear();
        let cells = output.indices().iter().flat_map(|&index| output.grid().cell_of(index));
        coordinates.extend(cells);
        Ok(Const::one(public.insert(SparseResult {
            coordinates: Const::of(coordinates),
            features: Const::of(features),
            num_sites: output.len(),
            grid_size: output.grid().shape(),
            num_outside: entered.num_outside,
            num_duplicates: entered.num_duplicates,
            num_over_capacity,
        })))
    }
}

/// Convolves features at the sites of a grid.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_workspace_sparse_convolve(
    workspace: Workspace,
    convolution: In<SparseConvolution>,
    input: In<SparseFeatures>,
    result: Out<Const<SparseResult>>,
) -> Status {
    run(workspace.id, |call| {
        call.check_out(result, "result")?;
        let (convolution, input) =
            (call.one(convolution, "convolution")?, call.one(input, "input")?);
        let found = WORKSPACES.with(workspace.id, |opened| {
            opened.check_host("sparse_conv")?;
            opened.sparse.convolve(call, convolution, input)
        })?;
        call.write(result, found, "result")
    })
}
