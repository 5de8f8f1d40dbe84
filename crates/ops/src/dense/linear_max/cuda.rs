//! The CUDA implementation of [`linear_max`](super::linear_max()): one launch.

use super::LinearMax;
use super::kernels::{Groups, LinearMaxArgs, grid};
use crate::dense::Region;
use crate::dense::arena::{Arena, InPlace, check_disjoint};
use crate::dense::launch::{Source, Target, check_count, check_floats, padded};
use crate::device::cuda::{DeviceBuffer, Kernel};
use det_post_types::{ElementType, Result};

/// A layer with its weights in device memory.
pub struct DeviceLinearMax {
    layer: LinearMax,
    weights: DeviceBuffer<f32>,
    bias: DeviceBuffer<f32>,
    kernel: Kernel<Groups>,
}

impl DeviceLinearMax {
    /// Uploads the weights.
    ///
    /// # Errors
    /// `Device` when this build has no such kernel or there is not enough memory.
    pub fn new(arena: &Arena, layer: &LinearMax) -> Result<Self> {
        let (stream, device) = (arena.stream(), arena.stream().device());
        let mut weights = DeviceBuffer::zeros(stream, layer.weights.len())?;
        weights.write(&layer.weights)?;
        let mut bias = DeviceBuffer::zeros(stream, layer.bias.len())?;
        bias.write(&layer.bias)?;
        Ok(Self { layer: layer.clone(), weights, bias, kernel: device.kernel()? })
    }

    /// Queues the layer from a tensor of f16 or f32 to one of either.
    ///
    /// # Errors
    /// `Argument` when windows do not fit the layer, are not within their buffers, overlap, are of
    /// i32 or have 2^32 elements; `Device` when the launch fails.
    pub fn enqueue(&self, arena: &Arena, input: &Region, output: &Region) -> Result<()> {
        let [groups, rows] = self.layer.check(input, output)?;
        let (input, output) = (arena.input(input)?, arena.output(output)?);
        check_disjoint("linear_max", &[&output], &[&input], InPlace::Refused)?;
        check_floats("linear_max", &[input.element(), output.element()])?;
        let (source, target) = (&input.region().window, &output.region().window);
        check_count(source.len())?;
        check_count(target.len())?;
        if target.is_empty() {
            return Ok(());
        }
        let stream = arena.stream();
        let args = LinearMaxArgs {
            source: Source::new(&input, padded(source.strides())),
            target: Target::new(&output, padded(target.strides())),
            weights: self.weights.input(stream)?,
            bias: self.bias.input(stream)?,
            num_groups: groups as u32,
            num_rows: rows as u32,
            num_inputs: self.layer.num_inputs as u32,
            num_outputs: self.layer.num_outputs as u32,
            activation: self.layer.activation.into(),
            is_fast: u32::from(output.element() == ElementType::F16),
        };
        let grid = grid(args.num_groups, args.num_outputs);
        self.kernel.enqueue_dependent(stream, grid, args)
    }
}
