//! Layers in device memory, packed for chains.

use super::args::{CHANNELS, CLUSTER_BLOCKS, COLUMNS, ENCODER_PARTS, STAGE_INPUTS, TILE_OUTPUTS};
use super::pack;
use crate::device::cuda::{DeviceBuffer, Stream};
use crate::error::{Error, ErrorKind, Result};
use crate::ops::layer_norm::LayerNorm;
use crate::ops::linear::{Finish, LinearLayer};
use crate::ops::sparse_conv::Precision;

/// A layer in device memory, packed for chains.
#[derive(Debug)]
pub struct ChainLayer {
    pub(super) weights: DeviceBuffer<u8>,
    pub(super) bias: DeviceBuffer<f32>,
    pub(super) norm: Option<DeviceBuffer<f32>>,
    pub(super) num_inputs: u32,
    pub(super) num_tiles: u32,
    pub(super) has_relu: bool,
}

impl ChainLayer {
    /// Whether a layer of these sizes can be part of a chain.
    pub fn fits([num_inputs, num_outputs]: [usize; 2]) -> bool {
        let columns = COLUMNS as usize;
        num_inputs > 0
            && num_inputs <= columns
            && num_inputs.is_multiple_of(STAGE_INPUTS as usize)
            && padded(num_outputs) <= columns
    }

    /// Packs a layer.
    ///
    /// # Errors
    /// `Argument` when the sizes are others than [`Self::fits`] tells or a weight is beyond f16;
    /// `Device` when there is not enough memory.
    pub fn new(stream: &Stream, layer: &LinearLayer) -> Result<Self> {
        Self::rotated(stream, layer, 0)
    }

    /// Packs a layer whose inputs begin with `first_input` in the columns of the rows; those before
    /// it follow at the end.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn rotated(stream: &Stream, layer: &LinearLayer, first_input: usize) -> Result<Self> {
        let num_inputs = layer.num_inputs();
        let input = |input: usize| (input + first_input) % num_inputs.max(1);
        let sizes = [num_inputs, layer.num_outputs()];
        let weight = |output, of| layer.weight(output, input(of));
        let norm = layer.finish().norm().map(pack::layer_norm);
        let has_relu = match layer.finish() {
            Finish::None | Finish::Norm(_) => false,
            Finish::Relu | Finish::ReluNorm(_) => true,
            Finish::NormRelu(_) => return argument("a ReLU after a normalization".into()),
        };
        Self::pack(stream, sizes, weight, layer.bias(), norm, has_relu)
    }

    /// Packs a layer of at most 64 outputs, which every thread block computes.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn repeated(stream: &Stream, layer: &LinearLayer) -> Result<Self> {
        let (num_outputs, each) = (layer.num_outputs(), (CHANNELS / CLUSTER_BLOCKS) as usize);
        if num_outputs > each {
            return argument(format!("{num_outputs} outputs; at most {each} are possible"));
        }
        let sizes = [layer.num_inputs(), CHANNELS as usize];
        let weight = |output: usize, input| match output % each {
            output if output < num_outputs => layer.weight(output, input),
            _ => 0.0,
        };
        Self::pack(stream, sizes, weight, layer.bias(), None, false)
    }

    /// Packs layers side by side, each over as many inputs as it has outputs, with a ReLU and a
    /// normalization of its own.
    ///
    /// # Errors
    /// As [`Self::new`], and when a layer has no normalization.
    pub fn diagonal(stream: &Stream, layers: &[&LinearLayer]) -> Result<Self> {
        // The layer of a channel, and its first channel.
        let mut of = Vec::new();
        for (index, layer) in layers.iter().enumerate() {
            of.extend(std::iter::repeat_n((index, of.len()), layer.num_outputs()));
        }
        let weight = |output: usize, input: usize| {
            let (layer, first) = of[output];
            if of[input].0 == layer {
                layers[layer].weight(output - first, input - first)
            } else {
                0.0
            }
        };
        let bias: Vec<f32> = layers.iter().flat_map(|layer| layer.bias().iter().copied()).collect();
        let norm = Some(norm_of(layers)?);
        Self::pack(stream, [of.len(); 2], weight, &bias, norm, true)
    }

    fn pack(
        stream: &Stream,
        [num_inputs, num_outputs]: [usize; 2],
        weight: impl Fn(usize, usize) -> f32,
        bias: &[f32],
        norm: Option<Vec<f32>>,
        has_relu: bool,
    ) -> Result<Self> {
        if !Self::fits([num_inputs, num_outputs]) {
            return argument(format!("a layer of {num_inputs} inputs and {num_outputs} outputs"));
        }
        let weights = (0..num_outputs * num_inputs)
            .map(|index| weight(index / num_inputs, index % num_inputs));
        Precision::F16.check_weights("layer_chain", weights)?;
        let padded = padded(num_outputs);
        let weight = |output, input| if output < num_outputs { weight(output, input) } else { 0.0 };
        let packed = pack::weights([num_inputs, padded], weight);
        let mut weights = DeviceBuffer::zeros(stream, packed.len())?;
        weights.write(&packed)?;
        let mut padded_bias = DeviceBuffer::zeros(stream, padded)?;
        padded_bias.write(bias)?;
        Ok(Self {
            weights,
            bias: padded_bias,
            norm: norm.map(|norm| uploaded(stream, &norm)).transpose()?,
            num_inputs: num_inputs as u32,
            num_tiles: (padded / CLUSTER_OUTPUTS) as u32,
            has_relu,
        })
    }

    /// Bytes of device memory.
    pub fn num_bytes(&self) -> usize {
        let norm = self.norm.as_ref().map_or(0, DeviceBuffer::len);
        self.weights.len() + size_of::<f32>() * (self.bias.len() + norm)
    }
}

/// A normalization in device memory, packed for chains.
///
/// # Errors
/// `Device` when there is not enough memory.
pub fn chain_norm(stream: &Stream, norm: &LayerNorm) -> Result<DeviceBuffer<f32>> {
    uploaded(stream, &pack::layer_norm(norm))
}

/// An encoder of anchors in device memory: four stacks of four layers, whose outputs are 256
/// channels.
#[derive(Debug)]
pub struct ChainEncoder {
    pub(super) first: DeviceBuffer<f32>,
    pub(super) norm: DeviceBuffer<f32>,
    pub(super) ends: [u32; ENCODER_PARTS],
    pub(super) layers: [ChainLayer; 3],
}

impl ChainEncoder {
    /// Whether chains have an encoder of such parts: each as wide as a power of two from 8 on,
    /// none after a narrower one whose width does not divide its first channel.
    pub fn fits(parts: &[[LinearLayer; 4]; ENCODER_PARTS]) -> bool {
        let mut first = 0;
        let mut is_possible = |[layer, ..]: &[LinearLayer; 4]| {
            let width = layer.num_outputs();
            first += width;
            width >= 8 && width.is_power_of_two() && (first - width).is_multiple_of(width)
        };
        parts.iter().all(&mut is_possible) && first == CHANNELS as usize
    }

    /// Packs an encoder.
    ///
    /// # Errors
    /// As [`ChainLayer::new`].
    pub fn new(stream: &Stream, parts: &[[LinearLayer; 4]; ENCODER_PARTS]) -> Result<Self> {
        let layers = |index: usize| parts.each_ref().map(|part| &part[index]);
        let first = layers(0);
        let mut end = 0;
        let ends = first.map(|layer| {
            end += layer.num_outputs() as u32 / 8;
            end
        });
        let diagonal = |index| ChainLayer::diagonal(stream, &layers(index));
        Ok(Self {
            first: uploaded(stream, &pack::encoder(&first))?,
            norm: uploaded(stream, &norm_of(&first)?)?,
            ends,
            layers: [diagonal(1)?, diagonal(2)?, diagonal(3)?],
        })
    }

    /// Bytes of device memory.
    pub fn num_bytes(&self) -> usize {
        let values = self.first.len() + self.norm.len();
        size_of::<f32>() * values + self.layers.iter().map(ChainLayer::num_bytes).sum::<usize>()
    }
}

/// Outputs of a tile of each thread block of a cluster.
const CLUSTER_OUTPUTS: usize = (CLUSTER_BLOCKS * TILE_OUTPUTS) as usize;

fn padded(num_outputs: usize) -> usize {
    num_outputs.max(1).next_multiple_of(CLUSTER_OUTPUTS)
}

/// The normalizations of layers side by side, packed.
fn norm_of(layers: &[&LinearLayer]) -> Result<Vec<f32>> {
    let (mut gamma, mut beta) = (Vec::new(), Vec::new());
    for layer in layers {
        let Some(norm) = layer.finish().norm() else {
            return argument("a layer of the encoder has no normalization".into());
        };
        gamma.extend_from_slice(norm.gamma());
        beta.extend_from_slice(norm.beta());
    }
    Ok(pack::norm(&gamma, &beta))
}

fn uploaded(stream: &Stream, values: &[f32]) -> Result<DeviceBuffer<f32>> {
    let mut buffer = DeviceBuffer::zeros(stream, values.len())?;
    buffer.write(values)?;
    Ok(buffer)
}

pub(super) fn argument<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Argument, "layer_chain", message))
}
