//! Sparse convolution of arrays in the memory of a GPU.

use det_post::Result;
use det_post_ops::arrays::sparse::cuda::Workspace;
use det_post_ops::device::cuda::{DeviceBuffer, In, Out, Stream};
use det_post_ops::sparse::conv::cuda::{Convolution, DeviceFeatures};
use det_post_ops::sparse::conv::{ConvParameters, Precision};
use det_post_ops::sparse::rulebook::cuda::{DeviceSites, DeviceTable};
use det_post_ops::sparse::rulebook::{EntranceCounts, Geometry, Mode, SiteGrid};

use super::gpu::{Gpu, finish, in_order, rounded_up};

/// A convolution between the levels of two grids.
#[derive(Clone, Copy)]
pub(super) struct Layer<'a> {
    pub(super) mode: Mode,
    pub(super) geometry: Geometry,
    pub(super) input: SiteGrid,
    /// The grid of the output; of the input if the mode is submanifold.
    pub(super) output: SiteGrid,
    pub(super) parameters: ConvParameters<'a>,
    pub(super) precision: Precision,
    /// The most sites of the output.
    pub(super) max_sites: usize,
}

/// Sites and features in the memory of a GPU.
#[derive(Clone, Copy)]
pub(super) struct Arrays<'a> {
    /// Rows of 4, the bits of i32.
    pub(super) coordinates: In<'a, u32>,
    /// Rows of the channels of the input.
    pub(super) features: In<'a, f32>,
}

/// Addresses of the result, and its counts.
pub(super) struct Found {
    pub(super) coordinates: u64,
    pub(super) features: u64,
    pub(super) num_sites: usize,
    pub(super) entered: EntranceCounts,
    pub(super) num_over_capacity: usize,
}

/// The memory of sparse convolutions on a GPU: that of the last one.
#[derive(Default)]
pub(super) struct OnGpu(Option<Session>);

impl OnGpu {
    /// Convolves arrays of up to `num_sites` sites, which `arrays` borrows for a stream.
    pub(super) fn convolve<'a>(
        &mut self,
        gpu: &Gpu,
        layer: &Layer<'_>,
        (num_sites, has_relu): (usize, bool),
        arrays: impl FnOnce(&Stream) -> Result<Arrays<'a>>,
    ) -> Result<Found> {
        let session = match self.0.take() {
            Some(of_before) if of_before.fits(layer, num_sites) => self.0.insert(of_before),
            other => {
                let before = other.as_ref().map(|of_before| of_before.arrays.stream());
                before.map(|stream| finish(stream, gpu.caller)).transpose()?;
                drop(other);
                self.0.insert(Session::new(&gpu.stream()?, layer, rounded_up(num_sites))?)
            }
        };
        let stream = session.arrays.stream().clone();
        let arrays = arrays(&stream)?;
        in_order(&stream, gpu.caller, || session.run(arrays, has_relu))
    }
}

/// Kernels, packed weights and memory of a layer for up to `capacity` sites of the input. What
/// depends on the number of sites of the output grows to the largest call.
struct Session {
    mode: Mode,
    geometry: Geometry,
    precision: Precision,
    max_sites: usize,
    sizes: [usize; 3],
    /// Weights, then the bias, by which a call recognizes them.
    weights: Vec<f32>,
    has_bias: bool,
    capacity: usize,
    arrays: Workspace,
    convolution: Convolution,
    input: DeviceSites,
    output: Option<DeviceSites>,
    output_grid: SiteGrid,
    table: DeviceTable,
    input_features: DeviceFeatures,
    output_features: DeviceFeatures,
    coordinates: DeviceBuffer<u32>,
    features: DeviceBuffer<f32>,
}

fn sizes_of(parameters: &ConvParameters<'_>) -> [usize; 3] {
    [parameters.num_outputs(), parameters.num_taps(), parameters.num_inputs()]
}

/// Weights, then the bias.
fn values_of<'a>(parameters: &ConvParameters<'a>) -> impl Iterator<Item = &'a f32> {
    parameters.weights().iter().chain(parameters.bias().unwrap_or_default())
}

/// Memory for rows of features.
fn rows(
    stream: &Stream,
    precision: Precision,
    [num, channels]: [usize; 2],
) -> Result<DeviceFeatures> {
    DeviceFeatures::new(stream, precision, num.saturating_mul(DeviceFeatures::row_len(channels)))
}

impl Session {
    fn new(stream: &Stream, layer: &Layer<'_>, capacity: usize) -> Result<Self> {
        let Layer { mode, geometry, precision, max_sites, parameters, .. } = *layer;
        let sizes @ [num_outputs, num_taps, num_inputs] = sizes_of(&parameters);
        let most = max_sites.min(capacity.saturating_mul(num_taps));
        let output = match mode {
            Mode::Submanifold | Mode::Inverse => None,
            Mode::Strided | Mode::Transposed => {
                Some(DeviceSites::output(stream, layer.output, most)?)
            }
        };
        let num_rows = rounded_up(0);
        Ok(Self {
            mode,
            geometry,
            precision,
            max_sites,
            sizes,
            weights: values_of(&parameters).copied().collect(),
            has_bias: parameters.bias().is_some(),
            capacity,
            arrays: Workspace::new(stream)?,
            convolution: Convolution::new(stream, &parameters, precision)?,
            input: DeviceSites::input(stream, layer.input, capacity)?,
            output,
            output_grid: layer.output,
            table: DeviceTable::new(stream, &geometry, mode, [capacity, num_rows])?,
            input_features: rows(stream, precision, [capacity, num_inputs])?,
            output_features: rows(stream, precision, [num_rows, num_outputs])?,
            coordinates: DeviceBuffer::zeros(stream, 4 * num_rows)?,
            features: DeviceBuffer::zeros(stream, num_rows.saturating_mul(num_outputs))?,
        })
    }

    fn fits(&self, layer: &Layer<'_>, num_sites: usize) -> bool {
        let Layer { mode, geometry, precision, max_sites, ref parameters, .. } = *layer;
        let values = values_of(parameters);
        (self.mode, self.geometry, self.precision) == (mode, geometry, precision)
            && (*self.input.grid(), self.output_grid) == (layer.input, layer.output)
            && self.max_sites == max_sites
            && (self.sizes, self.has_bias) == (sizes_of(parameters), parameters.bias().is_some())
            && self.capacity >= num_sites
            && self.weights.iter().zip(values).all(|(a, b)| a.to_bits() == b.to_bits())
    }

    /// Makes the levels, waits for their numbers of sites, and queues the rest.
    fn run(&mut self, arrays: Arrays<'_>, has_relu: bool) -> Result<Found> {
        let [num_outputs, _, num_inputs] = self.sizes;
        self.arrays.enqueue_input(arrays.coordinates, &mut self.input)?;
        if let Some(output) = &mut self.output {
            self.arrays.enqueue_output(&self.input, &self.geometry, self.mode, output)?;
        }
        let entered = self.input.fit_entrance()?;
        let (mut num_sites, mut num_over_capacity) = (entered.num_sites, 0);
        if let Some(output) = &mut self.output {
            let reached = output.fit_output()?;
            (num_sites, num_over_capacity) = (reached.num_sites, reached.num_over_capacity);
        }
        if num_sites > 0 {
            self.grow([entered.num_sites, num_sites])?;
            let stream = self.arrays.stream();
            let output = self.output.as_ref().unwrap_or(&self.input);
            self.arrays.enqueue_table(&self.input, output, &mut self.table)?;
            self.arrays.enqueue_features(
                (arrays.features, num_inputs),
                Some(&self.input),
                entered.num_sites,
                &mut self.input_features,
            )?;
            let (levels, out) = ((&self.table, output), &mut self.output_features);
            self.convolution.enqueue(&self.input_features, levels, None, has_relu, out)?;
            let [features, _] = self.features.output(stream)?.split_at(num_sites * num_outputs);
            self.arrays.enqueue_values(&self.output_features, num_outputs, features)?;
            let [coordinates, _] = self.coordinates.output(stream)?.split_at(4 * num_sites);
            self.arrays.enqueue_sites(output, coordinates, Out::empty())?;
        }
        let (coordinates, features) = (self.coordinates.address(), self.features.address());
        Ok(Found { coordinates, features, num_sites, entered, num_over_capacity })
    }

    /// Memory for so many sites of the input and of the output, twice that of before where there
    /// is less: what it replaces is freed with the session.
    fn grow(&mut self, [num_inputs, num_outputs]: [usize; 2]) -> Result<()> {
        let stream = self.arrays.stream();
        let [channels, ..] = self.sizes;
        let capacity = rounded_up(num_outputs);
        if self.coordinates.len() < 4 * num_outputs {
            let sizes = [self.capacity, capacity];
            self.table = DeviceTable::new(stream, &self.geometry, self.mode, sizes)?;
            self.output_features = rows(stream, self.precision, [capacity, channels])?;
            self.features = DeviceBuffer::zeros(stream, capacity.saturating_mul(channels))?;
            self.coordinates = DeviceBuffer::zeros(stream, 4 * capacity)?;
        }
        // There is memory, as for the coordinates.
        self.table.resize([num_inputs, num_outputs]).map(drop)
    }
}
