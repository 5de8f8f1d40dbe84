//! The weights of a layer in device memory.

use super::LinearLayer;
use super::job::{JobArgs, PartArgs, WARP_COLUMNS, padded};
use super::kernels::Element;
use super::warpgroup::{FirstPart, FoldedLayer, WarpgroupJob};
use crate::device::cuda::{DeviceBuffer, In, Stream};
use det_post_types::Result;

/// A layer's weights, packed for the kernels, and its bias.
#[derive(Debug)]
pub struct DeviceLayer {
    weights: DeviceBuffer<u8>,
    bias: DeviceBuffer<f32>,
    num_inputs: u32,
    num_outputs: u32,
    /// Packed for the matrix instructions of warpgroups, too.
    folded: Option<FoldedLayer>,
}

impl DeviceLayer {
    /// Packs a layer with weights of `T`.
    ///
    /// # Errors
    /// `Argument` when a weight is infinite as a `T`; `Device` when there is not enough memory or
    /// the copy fails.
    pub fn new<T: Element>(stream: &Stream, layer: &LinearLayer) -> Result<Self> {
        let outputs: Vec<usize> = (0..layer.num_outputs()).collect();
        Self::of_outputs::<T>(stream, layer, &outputs, layer.bias())
    }

    /// As [`Self::new`], and packs the layer for
    /// [`enqueue_folded`](super::cuda::LinearKernels::enqueue_folded), with what happens to the first
    /// part of its input, where those kernels can run it.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn folded<T: Element>(
        stream: &Stream,
        layer: &LinearLayer,
        first: Option<FirstPart<'_>>,
    ) -> Result<Self> {
        let folded = FoldedLayer::new::<T>(stream, layer, first)?;
        Ok(Self { folded, ..Self::new::<T>(stream, layer)? })
    }

    /// A job with this layer for the kernels of folded layers; `None` where it is not for these.
    pub(super) fn folded_job<'a, T: Element>(
        &'a self,
        stream: &Stream,
        job: &JobArgs<'a, T>,
    ) -> Result<Option<WarpgroupJob<'a, T>>> {
        self.folded.as_ref().map_or(Ok(None), |folded| folded.job(stream, job))
    }

    /// Packs some outputs of a layer, in the order given, with a bias for all its outputs.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn of_outputs<T: Element>(
        stream: &Stream,
        layer: &LinearLayer,
        outputs: &[usize],
        bias: &[f32],
    ) -> Result<Self> {
        let [num_inputs, num_outputs] = [layer.num_inputs(), outputs.len()].map(padded);
        let weight = |column: usize, input: usize| match outputs.get(column) {
            Some(&output) if input < layer.num_inputs() => layer.weight(output, input),
            _ => 0.0,
        };
        let weights = outputs.iter().flat_map(|&output| {
            (0..layer.num_inputs()).map(move |input| layer.weight(output, input))
        });
        T::PRECISION.check_weights("linear", weights)?;
        let packed = pack::<T>([num_inputs, num_outputs], weight);
        let mut weights = DeviceBuffer::zeros(stream, packed.len())?;
        weights.write(&packed)?;
        let values: Vec<f32> = outputs.iter().filter_map(|&o| bias.get(o)).copied().collect();
        let mut bias = DeviceBuffer::zeros(stream, num_outputs)?;
        bias.write(&values)?;
        let [num_inputs, num_outputs] = [num_inputs, num_outputs].map(|n| n as u32);
        Ok(Self { weights, bias, num_inputs, num_outputs, folded: None })
    }

    /// Inputs, padded.
    pub fn num_inputs(&self) -> u32 {
        self.num_inputs
    }

    /// Bytes of device memory.
    pub fn num_bytes(&self) -> usize {
        let folded = self.folded.as_ref().map_or(0, FoldedLayer::num_bytes);
        self.weights.len() + size_of::<f32>() * self.bias.len() + folded
    }

    /// The packed weights.
    ///
    /// # Errors
    /// `Device` when they belong to another stream.
    pub fn weights(&self, stream: &Stream) -> Result<In<'_, u8>> {
        self.weights.input(stream)
    }

    /// One value per output, padded.
    ///
    /// # Errors
    /// `Device` when they belong to another stream.
    pub fn bias(&self, stream: &Stream) -> Result<In<'_, f32>> {
        self.bias.input(stream)
    }

    /// The layer over the first `num_rows` rows of an input; the rest is the caller's.
    ///
    /// # Errors
    /// `Device` when something belongs to another stream.
    pub fn job<'a, T: Element>(
        &'a self,
        stream: &Stream,
        input: PartArgs<'a, T>,
        num_rows: usize,
    ) -> Result<JobArgs<'a, T>> {
        Ok(JobArgs {
            parts: [input, PartArgs::empty(), PartArgs::empty()],
            weights: self.weights.input(stream)?,
            bias: self.bias.input(stream)?,
            num_rows: num_rows as u32,
            num_outputs: self.num_outputs,
            ..JobArgs::empty()
        })
    }
}

/// Weights in the order in which the lanes of a warp read them: 16 columns after each other;
/// in f32 the columns of an input, in f16 16 bytes a lane for 16 inputs: two operands of a
/// matrix instruction, whose columns are chosen so that a lane's results are neighbours.
fn pack<T: Element>(
    [num_inputs, num_outputs]: [usize; 2],
    weight: impl Fn(usize, usize) -> f32,
) -> Vec<u8> {
    let columns = WARP_COLUMNS as usize;
    let mut bytes = Vec::with_capacity(num_inputs * num_outputs * size_of::<T>());
    let mut put = |column, input| T::from_f32(weight(column, input)).extend(&mut bytes);
    for first in (0..num_outputs).step_by(columns) {
        if size_of::<T>() == 4 {
            for input in 0..num_inputs {
                (0..columns).for_each(|column| put(first + column, input));
            }
            continue;
        }
        for first_input in (0..num_inputs).step_by(16) {
            for lane in 0..32 {
                let (row, place) = (lane / 4, lane % 4);
                for word in 0..4 {
                    let column = first + 4 * (row / 2) + 2 * (word / 2) + row % 2;
                    let input = first_input + 2 * place + 8 * (word % 2);
                    put(column, input);
                    put(column, input + 1);
                }
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::*;

    #[test]
    fn every_weight_is_packed_once() {
        let weight = |column: usize, input: usize| (column * 32 + input) as f32;
        let mut found: Vec<f32> = pack::<f16>([32, 32], weight)
            .as_chunks()
            .0
            .iter()
            .map(|bytes| f16::from_le_bytes(*bytes).to_f32())
            .collect();
        // Lane 5 of the first 16 inputs: row 1, so column 1; inputs 2, 3, 10 and 11.
        assert_eq!(found[40..48], [34.0, 35.0, 42.0, 43.0, 98.0, 99.0, 106.0, 107.0]);
        found.sort_by(f32::total_cmp);
        assert!(found.iter().zip(0_u16..).all(|(&value, index)| value == f32::from(index)));
        let found = pack::<f32>([16, 32], weight);
        assert_eq!(found[4 * 17..4 * 18], 33.0_f32.to_le_bytes());
    }
}
