//! The CUDA implementation of [`linear`](super): several layers in one launch, each with
//! what precedes and follows it. Within the tolerance of docs/numerics.md of the CPU, and the
//! same from run to run.
//!
//! A normalization is computed by the layers that read its rows: a block has whole rows of
//! its input, but not of its output.

pub use super::job::{JobArgs, PartArgs, shared_bytes};
pub use super::kernels::{Element, LinearArgs, LinearKernels};
pub use super::warpgroup::FirstPart;

use super::LinearLayer;
use super::job::WARP_COLUMNS;
use super::warpgroup::FoldedLayer;
use crate::device::cuda::{DeviceBuffer, In, Out, Stream};
use crate::error::Result;
use crate::ops::layer_norm::LayerNorm;

/// Rows in device memory, their columns padded with zeros to a multiple of 16.
#[derive(Debug)]
pub struct DeviceRows<T> {
    values: DeviceBuffer<T>,
    num_columns: u32,
}

impl<T: Element> DeviceRows<T> {
    /// Rows of zeros.
    ///
    /// # Errors
    /// `Device` when there is not enough memory.
    pub fn zeros(stream: &Stream, num_rows: usize, num_columns: usize) -> Result<Self> {
        let num_columns = padded(num_columns);
        let values = DeviceBuffer::zeros(stream, num_rows * num_columns)?;
        Ok(Self { values, num_columns: num_columns as u32 })
    }

    /// Rows of values `[R, num_columns]`.
    ///
    /// # Errors
    /// `Device` when there is not enough memory or the copy fails.
    pub fn from_host(stream: &Stream, values: &[f32], num_columns: usize) -> Result<Self> {
        let mut rows = Self::zeros(stream, values.len() / num_columns.max(1), num_columns)?;
        rows.write(values, num_columns)?;
        Ok(rows)
    }

    /// Replaces the first rows and waits.
    ///
    /// # Errors
    /// `Argument` when there are more than these; `Device` when the copy fails.
    pub fn write(&mut self, values: &[f32], num_columns: usize) -> Result<()> {
        let mut rows = Vec::with_capacity(values.len());
        for row in values.chunks(num_columns.max(1)) {
            rows.extend(row.iter().map(|&value| T::from_f32(value)));
            rows.resize(rows.len().next_multiple_of(self.num_columns as usize), T::default());
        }
        self.values.write(&rows)
    }

    /// Waits, then copies the first `num_columns` of every row to new host memory.
    ///
    /// # Errors
    /// `Device` when earlier work or the copy fails.
    pub fn read(&self, num_columns: usize) -> Result<Vec<f32>> {
        let values = self.values.read()?;
        let rows = values.chunks_exact(self.num_columns as usize);
        Ok(rows.flat_map(|row| row.iter().take(num_columns).map(|v| v.to_f32())).collect())
    }

    /// Values from one row to the next.
    pub fn stride(&self) -> u32 {
        self.num_columns
    }

    /// What a kernel reads.
    ///
    /// # Errors
    /// `Device` when they belong to another stream.
    pub fn input(&self, stream: &Stream) -> Result<In<'_, T>> {
        self.values.input(stream)
    }

    /// What a kernel writes.
    ///
    /// # Errors
    /// `Device` when they belong to another stream.
    pub fn output(&mut self, stream: &Stream) -> Result<Out<'_, T>> {
        self.values.output(stream)
    }

    /// All columns as a part of a layer's input.
    ///
    /// # Errors
    /// `Device` when they belong to another stream.
    pub fn part(&self, stream: &Stream) -> Result<PartArgs<'_, T>> {
        let rows = self.values.input(stream)?;
        Ok(PartArgs { rows, stride: self.num_columns, len: self.num_columns })
    }
}

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

    /// As [`Self::new`], and packs the layer for [`LinearKernels::enqueue_folded`], with what
    /// happens to the first part of its input, where those kernels can run it.
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

    pub(super) fn as_folded(&self) -> Option<&FoldedLayer> {
        self.folded.as_ref()
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

/// A normalization's factors and summands in device memory.
///
/// # Errors
/// `Device` when there is not enough memory or the copy fails.
pub fn device_norm(stream: &Stream, norm: &LayerNorm) -> Result<DeviceBuffer<f32>> {
    let values = [norm.gamma(), norm.beta()].concat();
    let mut buffer = DeviceBuffer::zeros(stream, values.len())?;
    buffer.write(&values)?;
    Ok(buffer)
}

/// Channels as they are stored.
pub fn padded(num_channels: usize) -> usize {
    num_channels.next_multiple_of(WARP_COLUMNS as usize)
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
