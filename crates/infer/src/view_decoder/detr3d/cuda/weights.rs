//! The weights of a DETR3D decoder in device memory.

use super::super::Block;
use crate::view_decoder::STAGE;
use det_post_ops::device::cuda::{DeviceBuffer, Out, Stream};
use det_post_ops::view::linear::LinearLayer;
use det_post_ops::view::linear::cuda::{
    DeviceLayer, DeviceRows, Element, JobArgs, PartArgs, device_norm,
};
use det_post_types::{Detr3d, Error, ErrorKind, PointRange, Result};

/// The outputs of the last regression layer in the order of a box's state: x, y, z, the
/// logarithms of three extents, sine, cosine, velocity.
const STATE_OUTPUTS: [usize; 10] = [0, 1, 4, 2, 3, 5, 6, 7, 8, 9];

/// A block.
pub(super) struct DeviceBlock<T> {
    /// Without a bias, which `offsets` have.
    pub queries_keys: DeviceLayer,
    /// `[Q, 2C]`.
    pub offsets: DeviceRows<T>,
    pub values: DeviceLayer,
    pub output: DeviceLayer,
    /// `[N * L, C]`.
    pub sample_weights: DeviceBuffer<T>,
    /// `[Q, N * L]`.
    pub sample_offsets: DeviceBuffer<f32>,
    pub view_output: DeviceLayer,
    /// Of each channel, the weights of three coordinates and the bias: the position
    /// encoder's first layer.
    pub encoder_input: DeviceBuffer<f32>,
    pub encoder_output: DeviceLayer,
    /// After either.
    pub encoder_norms: [DeviceBuffer<f32>; 2],
    pub feed_forward: [DeviceLayer; 2],
    /// The last in the order of a box's state.
    pub regression: [DeviceLayer; 3],
    /// After the attention, the sampling, the feed-forward layers.
    pub norms: [DeviceBuffer<f32>; 3],
}

impl<T: Element> DeviceBlock<T> {
    pub(super) fn new(stream: &Stream, block: &Block, facts: &Detr3d) -> Result<Self> {
        let channels = facts.num_channels;
        let layer = |layer| DeviceLayer::new::<T>(stream, layer);
        let outputs = |range: std::ops::Range<usize>| -> Vec<usize> { range.collect() };
        let queries_keys = outputs(0..2 * channels);
        let rows = || block.in_offsets.chunks_exact(3 * channels);
        let offsets: Vec<f32> = rows().flat_map(|row| &row[..2 * channels]).copied().collect();
        // The bias of the values is that of every row.
        let value_bias = rows().next().map_or_else(Vec::new, |row| row[2 * channels..].to_vec());
        let weights = &block.weight_logits;
        let weights: Vec<T> = (0..weights.num_outputs())
            .flat_map(|output| (0..channels).map(move |input| weights.weight(output, input)))
            .map(T::from_f32)
            .collect();
        let [encoder, encoder_output] = &block.position_encoder;
        let encoder_input: Vec<f32> = (0..channels)
            .flat_map(|c| {
                let [x, y, z] = std::array::from_fn(|axis| encoder.weight(c, axis));
                [x, y, z, encoder.bias()[c]]
            })
            .collect();
        let [hidden, output] = &block.feed_forward;
        let [first, second, last] = &block.regression;
        Ok(Self {
            queries_keys: DeviceLayer::of_outputs::<T>(
                stream,
                &block.in_projection,
                &queries_keys,
                block.in_projection.bias(),
            )?,
            offsets: DeviceRows::from_host(stream, &offsets, 2 * channels)?,
            values: DeviceLayer::of_outputs::<T>(
                stream,
                &block.in_projection,
                &outputs(2 * channels..3 * channels),
                &[vec![0.0; 2 * channels], value_bias].concat(),
            )?,
            output: layer(&block.attention_output)?,
            sample_weights: filled(stream, &weights)?,
            sample_offsets: filled(stream, &block.weight_offsets)?,
            view_output: layer(&block.view_output)?,
            encoder_input: filled(stream, &encoder_input)?,
            encoder_output: layer(encoder_output)?,
            encoder_norms: [norm_of(stream, encoder)?, norm_of(stream, encoder_output)?],
            feed_forward: [layer(hidden)?, layer(output)?],
            regression: [
                layer(first)?,
                layer(second)?,
                DeviceLayer::of_outputs::<T>(stream, last, &STATE_OUTPUTS, last.bias())?,
            ],
            norms: [
                norm_of(stream, &block.attention_output)?,
                norm_of(stream, &block.view_output)?,
                norm_of(stream, output)?,
            ],
        })
    }

    /// The output of the attention, added to the content and, in some networks, to the
    /// positions.
    pub(super) fn output_job<'a>(
        &'a self,
        stream: &Stream,
        attended: PartArgs<'a, T>,
        content: &'a DeviceRows<T>,
        positions: Option<&'a DeviceRows<T>>,
        output: Out<'a, T>,
    ) -> Result<JobArgs<'a, T>> {
        let num_rows = attended.rows.len() / attended.stride as usize;
        let mut job = self.output.job(stream, attended, num_rows)?;
        job.residual = content.input(stream)?;
        job.residual_stride = content.stride();
        if let Some(positions) = positions {
            job.position = positions.input(stream)?;
            job.position_stride = positions.stride();
        }
        job.output = output;
        job.output_stride = content.stride();
        Ok(job)
    }

    /// The second regression layer, from the first of two buffers to the other.
    pub(super) fn second_regression<'a>(
        &'a self,
        stream: &Stream,
        [hidden, more]: &'a mut [DeviceRows<T>; 2],
        num_rows: usize,
    ) -> Result<JobArgs<'a, T>> {
        let stride = more.stride();
        Ok(JobArgs {
            has_relu: 1,
            output: more.output(stream)?,
            output_stride: stride,
            ..self.regression[1].job(stream, hidden.part(stream)?, num_rows)?
        })
    }

    /// The last regression layer, which moves references; where to is the caller's.
    pub(super) fn move_job<'a>(
        &'a self,
        stream: &Stream,
        hidden: PartArgs<'a, T>,
        references: &'a DeviceBuffer<f32>,
        range: &PointRange,
    ) -> Result<JobArgs<'a, T>> {
        let num_rows = references.len() / 3;
        Ok(JobArgs {
            points: references.input(stream)?,
            low: range.min,
            extent: std::array::from_fn(|axis| range.max[axis] - range.min[axis]),
            num_values: STATE_OUTPUTS.len() as u32,
            ..self.regression[2].job(stream, hidden, num_rows)?
        })
    }

    /// Bytes of device memory.
    pub(super) fn num_bytes(&self) -> usize {
        let layers = [&self.queries_keys, &self.values, &self.output, &self.view_output];
        let layers = layers.into_iter().chain([&self.encoder_output]);
        let layers = layers.chain(&self.feed_forward).chain(&self.regression);
        layers.map(DeviceLayer::num_bytes).sum::<usize>()
            + size_of::<T>() * self.sample_weights.len()
            + size_of::<f32>() * (self.sample_offsets.len() + self.encoder_input.len())
    }
}

/// The head of the classes.
pub(super) struct DeviceClasses {
    pub layers: [DeviceLayer; 3],
    pub norms: [DeviceBuffer<f32>; 2],
}

impl DeviceClasses {
    pub(super) fn new<T: Element>(
        stream: &Stream,
        [first, second, last]: &[LinearLayer; 3],
    ) -> Result<Self> {
        let layer = |layer| DeviceLayer::new::<T>(stream, layer);
        Ok(Self {
            layers: [layer(first)?, layer(second)?, layer(last)?],
            norms: [norm_of(stream, first)?, norm_of(stream, second)?],
        })
    }

    /// Bytes of device memory.
    pub(super) fn num_bytes(&self) -> usize {
        self.layers.iter().map(DeviceLayer::num_bytes).sum()
    }
}

/// The normalization that follows a layer.
fn norm_of(stream: &Stream, layer: &LinearLayer) -> Result<DeviceBuffer<f32>> {
    match layer.finish().norm() {
        Some(norm) => device_norm(stream, norm),
        None => Err(Error::new(ErrorKind::Model, STAGE, "a layer has no normalization")),
    }
}

fn filled<T: det_post_ops::device::cuda::Plain>(
    stream: &Stream,
    values: &[T],
) -> Result<DeviceBuffer<T>> {
    let mut buffer = DeviceBuffer::zeros(stream, values.len())?;
    buffer.write(values)?;
    Ok(buffer)
}
