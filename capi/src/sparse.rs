//! Sparse convolution.

use det_post_ops::arrays::sparse::{cells as cells_of, rows_of_sites};
use det_post_ops::device::cuda::Stream;
use det_post_ops::sparse::conv::{
    ConvParameters, Epilogue, PackedWeights, Precision, Workspace as Threads, sparse_conv,
};
use det_post_ops::sparse::rulebook::{
    Geometry, Mode, SiteGrid, Sites, Table, fill_table, output_sites, sites_of_coordinates,
};

use super::call::{Call, Const, In, Out, run};
use super::gpu::{Gpu, values_of};
use super::sparse_gpu::{Arrays, Layer, OnGpu};
use super::status::{Failure, Status};
use super::workspace::{Opened, WORKSPACES, Workspace};

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
    /// `(k0 * kernel[1] + k1) * kernel[2] + k2`. In host memory, whatever the device.
    pub weights: In<f32>,
    /// `[output channels]`, or `NULL`. In host memory, whatever the device.
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
    sorted: Vec<f32>,
    coordinates: Vec<u32>,
    features: Vec<f32>,
    on_gpu: OnGpu,
    public: Option<SparseResult>,
}

impl Default for Memory {
    fn default() -> Self {
        let num_threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            threads: Threads::new(num_threads),
            sorted: Vec::new(),
            coordinates: Vec::new(),
            features: Vec::new(),
            on_gpu: OnGpu::default(),
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

    fn parameters<'call>(
        &self,
        call: &'call Call,
        geometry: &Geometry,
    ) -> Result<ConvParameters<'call>, Failure> {
        let sizes = [self.num_output_channels, geometry.num_taps(), self.num_input_channels];
        let num = sizes.iter().fold(1_usize, |num, &size| num.saturating_mul(size));
        let weights = call.slice(self.weights, num, "convolution.weights")?;
        let bias = call.slice_or_null(self.bias, sizes[0], "convolution.bias")?;
        Ok(ConvParameters::new(sizes, weights, bias)?)
    }

    fn input_grid(&self) -> Result<SiteGrid, Failure> {
        Ok(SiteGrid::new(self.batch_size, self.grid_size)?)
    }

    fn output_grid(&self, geometry: &Geometry, mode: Mode) -> Result<SiteGrid, Failure> {
        let shape = match mode {
            Mode::Submanifold | Mode::Inverse => self.grid_size,
            Mode::Strided => geometry.strided_shape(self.grid_size)?,
            Mode::Transposed => geometry.transposed_shape(self.grid_size, self.output_padding)?,
        };
        Ok(SiteGrid::new(self.batch_size, shape)?)
    }

    /// The most sites of the output.
    fn max_sites(&self) -> usize {
        if self.max_sites == 0 { usize::MAX } else { self.max_sites }
    }

    /// The sites of the output, and how many are over the limit.
    fn output(
        &self,
        input: &Sites,
        geometry: &Geometry,
        mode: Mode,
    ) -> Result<(Sites, usize), Failure> {
        if matches!(mode, Mode::Submanifold | Mode::Inverse) {
            return Ok((input.clone(), 0));
        }
        let all = input.len().saturating_mul(geometry.num_taps());
        let mut output = Sites::new(self.output_grid(geometry, mode)?, self.max_sites().min(all));
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
        let precision = convolution.precision()?;
        let weights = PackedWeights::new(&convolution.parameters(call, &geometry)?, precision)?;
        let (num_sites, num_channels) = (input.num_sites, convolution.num_input_channels);
        let cells = call.slice(input.coordinates, num_sites.saturating_mul(4), "coordinates")?;
        let features =
            call.slice(input.features, num_sites.saturating_mul(num_channels), "features")?;
        let mut sites = Sites::new(convolution.input_grid()?, num_sites);
        let mut rows = Vec::with_capacity(num_sites);
        let entered = sites_of_coordinates(cells.as_chunks().0, &mut sites, &mut rows);
        rows_of_sites(features, num_channels, &rows, &mut self.sorted);
        let (output, num_over_capacity) = convolution.output(&sites, &geometry, mode)?;
        let mut table = Table::new(&geometry, mode, output.len());
        fill_table(&sites, &output, &mut table)?;
        let Self { threads, sorted, coordinates, features, public, .. } = self;
        features.clear();
        features.resize(output.len() * weights.num_outputs(), 0.0);
        let epilogue =
            Epilogue { residual: None, relu: convolution.has_relu != 0, stored: precision };
        sparse_conv(sorted, &table, &weights, epilogue, threads, features)?;
        coordinates.clear();
        coordinates.extend(cells_of(&output).flatten());
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

impl Memory {
    fn convolve_on(
        &mut self,
        gpu: &Gpu,
        call: &Call,
        convolution: &SparseConvolution,
        input: &SparseFeatures,
    ) -> Result<Const<SparseResult>, Failure> {
        let mode = convolution.mode()?;
        let geometry = convolution.geometry(mode)?;
        let layer = Layer {
            mode,
            geometry,
            input: convolution.input_grid()?,
            output: convolution.output_grid(&geometry, mode)?,
            parameters: convolution.parameters(call, &geometry)?,
            precision: convolution.precision()?,
            max_sites: convolution.max_sites(),
        };
        let SparseFeatures { coordinates, features, num_sites } = *input;
        let num_channels = convolution.num_input_channels;
        let arrays = |stream: &Stream| {
            Ok(Arrays {
                coordinates: values_of(
                    call,
                    stream,
                    coordinates.bits(),
                    num_sites.saturating_mul(4),
                )?,
                features: values_of(
                    call,
                    stream,
                    features,
                    num_sites.saturating_mul(num_channels),
                )?,
            })
        };
        let of = (num_sites, convolution.has_relu != 0);
        let found = self.on_gpu.convolve(gpu, &layer, of, arrays)?;
        Ok(Const::one(self.public.insert(SparseResult {
            coordinates: Const::on_device(found.coordinates),
            features: Const::on_device(found.features),
            num_sites: found.num_sites,
            grid_size: layer.output.shape(),
            num_outside: found.entered.num_outside,
            num_duplicates: found.entered.num_duplicates,
            num_over_capacity: found.num_over_capacity,
        })))
    }
}

/// Convolves features at the sites of a grid. On a GPU a workspace keeps the packed weights and
/// the memory of the last convolution, and uses them again if weights and settings are the same:
/// open a workspace per layer. Without `max_sites` there is memory for as many sites as the taps of
/// all sites of the input can reach.
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
            let Opened { gpu, sparse: memory, .. } = opened;
            match gpu {
                None => memory.convolve(call, convolution, input),
                Some(gpu) => memory.convolve_on(gpu, call, convolution, input),
            }
        })?;
        call.write(result, found, "result")
    })
}
