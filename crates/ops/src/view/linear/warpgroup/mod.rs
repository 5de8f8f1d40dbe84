//! Layers for the matrix instructions of warpgroups, in f16 on GPUs of compute capability 9.0: the
//! kernels of `kernels/view/linear_f16.cuh`, which are faster for few rows.
//!
//! A layer normalization before a layer is taken through it:
//! `norm(x) W + b = (x V - mean(x) s) / deviation(x) + c` with `V = gamma W`, rounded to f16, `s` the
//! sums of the columns of `V`, and `c = b + beta W`. Variances are differences of the mean square and
//! the squared mean: rows whose mean is more than some hundred times their deviation lose
//! digits.

mod job;
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
mod kernels;

pub use job::WarpgroupJob;
pub(super) use kernels::WarpgroupKernels;

use super::LinearLayer;
use super::fold::FoldedWeights;
use super::job::{JobArgs, PartArgs, padded};
use super::kernels::Element;
use crate::device::cuda::{DeviceBuffer, In, Stream};
use crate::sparse::conv::Precision;
use crate::view::layer_norm::LayerNorm;
use det_post_types::Result;

/// What happens to the first part of a layer's input.
#[derive(Clone, Copy, Debug)]
pub struct FirstPart<'a> {
    /// Its normalization.
    pub norm: &'a LayerNorm,
    /// Whether rows are added to it after that.
    pub has_addend: bool,
}

/// A layer packed for these kernels.
#[derive(Debug)]
pub(super) struct FoldedLayer {
    weights: DeviceBuffer<u8>,
    bias: DeviceBuffer<f32>,
    /// Sums of the weights of the normalized part.
    sums: Option<DeviceBuffer<f32>>,
    num_inputs: u32,
    num_outputs: u32,
    /// Of the normalized part; 0 without one.
    norm_len: u32,
    has_addend: bool,
}

/// The weights in the order of the parts: those of the first one, of the rows that are added to it, and of
/// the others.
struct Columns<'a> {
    layer: &'a LinearLayer,
    folded: FoldedWeights,
    norm_len: usize,
    num_added: usize,
    num_inputs: usize,
}

/// Inputs that the kernels read together.
const CHUNK_INPUTS: usize = 64;

impl FoldedLayer {
    /// Packs a layer; `None` where no kernel can run it: elements other than f16, a normalized
    /// part whose length is no multiple of 64, weights that are infinite in f16, another GPU.
    ///
    /// # Errors
    /// `Device` when there is not enough memory or the copy fails.
    pub(super) fn new<T: Element>(
        stream: &Stream,
        layer: &LinearLayer,
        first: Option<FirstPart<'_>>,
    ) -> Result<Option<Self>> {
        let norm_len = first.map_or(0, |first| first.norm.num_channels());
        let fits = T::PRECISION == Precision::F16
            && norm_len.is_multiple_of(CHUNK_INPUTS)
            && norm_len <= layer.num_inputs();
        if !fits || !WarpgroupKernels::<T>::are_present(stream.device())? {
            return Ok(None);
        }
        let Some(columns) = Columns::new(layer, first) else { return Ok(None) };
        let num_outputs = padded(layer.num_outputs());
        let packed = columns.pack::<T>(num_outputs);
        let constants = |index: usize| -> Vec<f32> {
            (0..num_outputs).map(|output| columns.folded.constants(output)[index]).collect()
        };
        let mut weights = DeviceBuffer::zeros(stream, packed.len())?;
        weights.write(&packed)?;
        let mut bias = DeviceBuffer::zeros(stream, num_outputs)?;
        bias.write(&constants(0))?;
        let sums = match norm_len {
            0 => None,
            _ => {
                let mut sums = DeviceBuffer::zeros(stream, num_outputs)?;
                sums.write(&constants(1))?;
                Some(sums)
            }
        };
        Ok(Some(Self {
            weights,
            bias,
            sums,
            num_inputs: columns.num_inputs as u32,
            num_outputs: num_outputs as u32,
            norm_len: norm_len as u32,
            has_addend: first.is_some_and(|first| first.has_addend),
        }))
    }

    /// Bytes of device memory.
    pub(super) fn num_bytes(&self) -> usize {
        let sums = self.sums.as_ref().map_or(0, DeviceBuffer::len);
        self.weights.len() + size_of::<f32>() * (self.bias.len() + sums)
    }

    /// A job of the other kernels as one of these; `None` where it has what these do not do.
    ///
    /// # Errors
    /// `Device` when something belongs to another stream.
    pub(super) fn job<'a, T: Element>(
        &'a self,
        stream: &Stream,
        job: &JobArgs<'a, T>,
    ) -> Result<Option<WarpgroupJob<'a, T>>> {
        let [first, second, third] = job.parts;
        let parts = match job.addend_part() {
            Some(addend) => [first, addend, second, third],
            None => [first, second, third, PartArgs::empty()],
        };
        let fits = job.norm.len() == 2 * self.norm_len as usize
            && (self.norm_len == 0 || self.norm_len == first.len)
            && self.has_addend != job.addend.is_empty()
            && (job.normalized.is_empty() || self.norm_len != 0)
            && parts.iter().map(|part| part.len).sum::<u32>() == self.num_inputs
            && job.is_plain_linear();
        if !fits {
            return Ok(None);
        }
        Ok(Some(WarpgroupJob {
            parts,
            weights: self.weights.input(stream)?,
            bias: self.bias.input(stream)?,
            sums: self.sums.as_ref().map_or(Ok(In::empty()), |sums| sums.input(stream))?,
            norm: if job.normalized.is_empty() { In::empty() } else { job.norm },
            normalized: job.normalized,
            output: job.output,
            values: job.values,
            normalized_stride: job.normalized_stride,
            output_stride: job.output_stride,
            values_stride: job.values_stride,
            num_values: job.num_values,
            num_rows: job.num_rows,
            num_outputs: self.num_outputs,
            has_relu: job.has_relu,
            is_transposed: job.is_transposed,
            epsilon: job.epsilon,
            second: 0,
        }))
    }
}

impl<'a> Columns<'a> {
    /// `None` when a weight is infinite in f16.
    fn new(layer: &'a LinearLayer, first: Option<FirstPart<'_>>) -> Option<Self> {
        let folded = FoldedWeights::new(layer, first.map(|first| first.norm))?;
        let norm_len = first.map_or(0, |first| first.norm.num_channels());
        let num_added = if first.is_some_and(|first| first.has_addend) { norm_len } else { 0 };
        let num_inputs = padded(layer.num_inputs() + num_added);
        Some(Self { layer, folded, norm_len, num_added, num_inputs })
    }

    /// 0 beyond the layer's inputs and outputs.
    fn weight(&self, output: usize, input: usize) -> f32 {
        match input.checked_sub(self.norm_len) {
            // Added rows are not normalized.
            Some(added) if added < self.num_added && output < self.layer.num_outputs() => {
                self.layer.weight(output, added)
            }
            Some(added) if added < self.num_added => 0.0,
            Some(_) => self.folded.weight(output, input - self.num_added).to_f32(),
            None => self.folded.weight(output, input).to_f32(),
        }
    }

    /// In squares of 8 outputs and 8 inputs: those of 8 outputs after each other, of a square an output
    /// after the other.
    fn pack<T: Element>(&self, num_outputs: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(num_outputs * self.num_inputs * size_of::<T>());
        for first_output in (0..num_outputs).step_by(8) {
            for first_input in (0..self.num_inputs).step_by(8) {
                for output in first_output..first_output + 8 {
                    for input in first_input..first_input + 8 {
                        T::from_f32(self.weight(output, input)).extend(&mut bytes);
                    }
                }
            }
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::*;

    fn layer(num_outputs: usize, num_inputs: usize) -> LinearLayer {
        let weights: Vec<f32> =
            (0..num_outputs * num_inputs).map(|i| ((i * 7) % 23) as f32 * 0.125 - 1.0).collect();
        let bias: Vec<f32> = (0..num_outputs).map(|i| i as f32 * 0.5).collect();
        LinearLayer::new([num_outputs, num_inputs], &weights, Some(&bias)).unwrap()
    }

    fn norm(len: usize) -> LayerNorm {
        let gamma = (0..len).map(|i| 0.5 + (i % 5) as f32 * 0.25).collect();
        let beta = (0..len).map(|i| (i % 3) as f32 - 1.0).collect();
        LayerNorm::new(gamma, beta).unwrap()
    }

    #[test]
    fn a_normalization_with_an_addend_goes_through_the_layer() {
        let (layer, norm) = (layer(3, 80), norm(64));
        let first = FirstPart { norm: &norm, has_addend: true };
        let columns = Columns::new(&layer, Some(first)).unwrap();
        assert_eq!(columns.num_inputs, 144);
        let value = |i: usize| f64::from((i * 5 % 17) as f32 * 0.25 - 1.5);
        let row: Vec<f64> = (0..64).map(value).collect();
        let addend: Vec<f64> = (64..128).map(value).collect();
        let more: Vec<f64> = (128..144).map(value).collect();
        let mean = row.iter().sum::<f64>() / 64.0;
        let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 64.0;
        let scale = 1.0 / (variance + 1e-5).sqrt();
        for output in 0..3 {
            let weight = |i: usize| f64::from(columns.weight(output, i));
            let [bias, sum] = columns.folded.constants(output);
            let of_row: f64 = row.iter().enumerate().map(|(i, x)| x * weight(i)).sum();
            let rest = addend.iter().chain(&more).enumerate();
            let rest: f64 = rest.map(|(i, x)| x * weight(64 + i)).sum();
            let found = scale * of_row - mean * scale * f64::from(sum) + rest + f64::from(bias);
            let input = |i: usize| match i {
                0..64 => {
                    let normalized = (row[i] - mean) * scale * f64::from(norm.gamma()[i]);
                    normalized + f64::from(norm.beta()[i]) + addend[i]
                }
                _ => more[i - 64],
            };
            let expected: f64 =
                (0..80).map(|i| input(i) * f64::from(layer.weight(output, i))).sum();
            let expected = expected + f64::from(layer.bias()[output]);
            assert!((found - expected).abs() < 1e-4, "{output}: {found} {expected}");
        }
    }

    #[test]
    fn weights_are_packed_in_squares() {
        let layer = layer(10, 24);
        let columns = Columns::new(&layer, None).unwrap();
        assert_eq!(columns.num_inputs, 32);
        let packed = columns.pack::<f16>(16);
        let packed: Vec<f16> =
            packed.as_chunks().0.iter().map(|bytes| f16::from_le_bytes(*bytes)).collect();
        assert_eq!(packed.len(), 16 * 32);
        // Output 9, input 18: the second eight outputs, the third square, its second row.
        let at = 8 * 32 + 2 * 64 + 8 + 2;
        assert_eq!(packed[at].to_f32(), layer.weight(9, 18));
        // Padded outputs and inputs.
        assert_eq!(packed[8 * 32 + 2 * 64 + 16].to_f32(), 0.0);
        assert_eq!(packed[3 * 64].to_f32(), 0.0);
    }
}
