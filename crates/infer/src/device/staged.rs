//! Outputs that kernels cannot read where a network writes them: integers, and rows whose number
//! differs between runs. Each run writes them to host memory; they are uploaded as f32.

use super::errors::{failed, model_error};
use det_post_ops::device::cuda::{DeviceTensor, DeviceValues, PinnedBuffer, Stream};
use det_post_types::{Dim, ElementType, Result, TensorSpec, TensorValues};

/// An output that is read through host memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StagedOutput {
    /// Its position.
    pub position: usize,
    /// The dimension of its rows, where their number differs between runs: the tensor on the GPU
    /// has [`StagedOutput::MAX_ROWS`], and minus infinity behind those of a run. Dimensions before
    /// it have the length 1.
    pub rows: Option<usize>,
}

impl StagedOutput {
    /// The maximum number of rows where it differs between runs. More are an error of the run.
    pub const MAX_ROWS: usize = 8192;

    /// The shape on the GPU of an output with a shape in the first run.
    fn shape(&self, spec: &TensorSpec, first: &[usize]) -> Result<Vec<usize>> {
        let mut shape = first.to_vec();
        let Some(rows) = self.rows else { return Ok(shape) };
        match shape.split_at_mut_checked(rows) {
            Some((before, [num, ..])) if before.iter().all(|&n| n == 1) => *num = Self::MAX_ROWS,
            _ => {
                return Err(model_error(format!(
                    "output {spec} is {first:?} in the first run; dimension {rows} cannot be its rows"
                )));
            }
        }
        Ok(shape)
    }
}

/// A staged output of one frame in flight.
pub(super) struct Staged {
    pub(super) output: StagedOutput,
    pinned: PinnedBuffer<f32>,
    /// Values of the last run: what is behind them on the GPU is minus infinity.
    num_values: usize,
    num_uploaded: usize,
    num_rows: Option<usize>,
}

impl Staged {
    /// Memory for an output, and its tensor on the GPU.
    pub(super) fn new(
        stream: &Stream,
        output: StagedOutput,
        spec: &TensorSpec,
        first: &[usize],
    ) -> Result<(Self, DeviceTensor)> {
        let shape = output.shape(spec, first)?;
        let target = DeviceTensor::zeros(stream, ElementType::F32, &shape)?;
        Ok((Self::of(stream, output, &target)?, target))
    }

    /// Memory for an output with a tensor on the GPU.
    pub(super) fn of(stream: &Stream, output: StagedOutput, target: &DeviceTensor) -> Result<Self> {
        let num = target.num_bytes() / size_of::<f32>();
        let pinned = PinnedBuffer::zeros(stream, num)?;
        // The first run writes the whole tensor.
        Ok(Self { output, pinned, num_values: num, num_uploaded: 0, num_rows: None })
    }

    /// Rows of the last run, where their number may differ.
    pub(super) fn num_rows(&self) -> Option<usize> {
        self.num_rows
    }

    /// Bytes that the last run uploaded.
    pub(super) fn num_bytes(&self) -> usize {
        self.num_uploaded * size_of::<f32>()
    }

    /// Queues the upload of what a run gave.
    ///
    /// # Errors
    /// `Inference` for another shape than the tensor's, or more rows; `Device` when the upload
    /// fails.
    pub(super) fn enqueue(
        &mut self,
        shape: &[usize],
        found: TensorValues<'_>,
        target: &mut DeviceTensor,
    ) -> Result<()> {
        self.check(shape, target.shape())?;
        self.num_rows = self.output.rows.and_then(|rows| shape.get(rows).copied());
        let DeviceValues::F32(values) = target.values_mut() else {
            return Err(failed("a staged output is not f32"));
        };
        let num = found.len();
        let end = num.max(self.num_values);
        let pinned = self.pinned.values_mut(end)?;
        let Some((written, behind)) = pinned.split_at_mut_checked(num) else {
            return Err(failed(format!("{num} values exceed {end}")));
        };
        widen(found, written);
        behind.fill(f32::NEG_INFINITY);
        // Kept where the upload fails: the next one writes as much.
        self.num_values = end;
        self.pinned.enqueue_written(end, values)?;
        (self.num_values, self.num_uploaded) = (num, end);
        Ok(())
    }

    fn check(&self, found: &[usize], shape: &[usize]) -> Result<()> {
        let StagedOutput { position, rows } = self.output;
        let fits = |(dim, (&found, &own)): (usize, (&usize, &usize))| {
            found == own || (rows == Some(dim) && found < own)
        };
        if found.len() == shape.len() && found.iter().zip(shape).enumerate().all(fits) {
            return Ok(());
        }
        let expected = match rows {
            Some(_) => format!("a GPU reads up to {shape:?}"),
            None => format!("it was {shape:?} in the first run"),
        };
        Err(failed(format!("output {position} is {found:?}; {expected}")))
    }
}

/// Whether the number of rows of an output may differ between runs.
pub fn may_vary(spec: &TensorSpec, rows: usize) -> bool {
    let dim = spec.shape.as_ref().and_then(|dims| dims.get(rows));
    !matches!(dim, Some(Dim::Fixed(_)))
}

/// Labels beyond 2^24 are rounded: far beyond the classes of any head.
fn widen(from: TensorValues<'_>, to: &mut [f32]) {
    fn each<T: Copy>(from: &[T], to: &mut [f32], widened: impl Fn(T) -> f32) {
        to.iter_mut().zip(from).for_each(|(to, &value)| *to = widened(value));
    }
    match from {
        TensorValues::F32(from) => to.copy_from_slice(from),
        TensorValues::F16(from) => each(from, to, |value| value.to_f32()),
        TensorValues::I32(from) => each(from, to, |value| value as f32),
        TensorValues::I64(from) => each(from, to, |value| value as f32),
        TensorValues::F64(from) => each(from, to, |value| value as f32),
        TensorValues::I8(from) => each(from, to, f32::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(shape: Option<Vec<Dim>>) -> TensorSpec {
        TensorSpec { name: "dets".into(), element: Some(ElementType::F32), shape }
    }

    #[test]
    fn rows_have_room_behind_dimensions_of_1() {
        let of =
            |rows, first: &[usize]| StagedOutput { position: 0, rows }.shape(&spec(None), first);
        let max = StagedOutput::MAX_ROWS;
        assert_eq!(of(Some(1), &[1, 0, 5]).unwrap(), [1, max, 5]);
        assert_eq!(of(Some(0), &[3, 7]).unwrap(), [max, 7]);
        assert_eq!(of(None, &[1, 100, 5]).unwrap(), [1, 100, 5]);
        for (rows, first) in [(1, &[2, 9, 5][..]), (1, &[9]), (3, &[1, 1, 5])] {
            let error = of(Some(rows), first).unwrap_err();
            assert!(error.message().contains("cannot be its rows"), "{error}");
        }
    }

    #[test]
    fn only_a_stated_length_is_the_same_in_every_run() {
        assert!(may_vary(&spec(None), 1));
        let dims = Some(vec![Dim::Fixed(1), Dim::Dynamic, Dim::Fixed(5)]);
        assert!(may_vary(&spec(dims.clone()), 1) && may_vary(&spec(dims.clone()), 3));
        assert!(!may_vary(&spec(dims), 2));
    }

    #[test]
    fn integers_are_widened() {
        let mut to = [0.0; 3];
        widen(TensorValues::I64(&[-1, 7, i64::MAX]), &mut to);
        assert_eq!(to, [-1.0, 7.0, i64::MAX as f32]);
        widen(TensorValues::I32(&[-1, 7, 80]), &mut to);
        assert_eq!(to, [-1.0, 7.0, 80.0]);
        widen(TensorValues::F64(&[0.5, f64::NAN, 2.0]), &mut to);
        assert!(to[0] == 0.5 && to[1].is_nan());
    }
}
