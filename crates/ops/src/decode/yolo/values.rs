//! Values of a tensor of floats, and the best class of a row.

use half::f16;
use half::slice::HalfFloatSliceExt as _;

use super::argument;
use det_post_types::{Result, TensorValues, TensorView};

/// Values of a tensor of floats.
#[derive(Clone, Copy)]
pub(super) enum Floats<'a> {
    F32(&'a [f32]),
    F16(&'a [f16]),
}

impl<'a> Floats<'a> {
    /// The values of an output, if they are floats.
    pub(super) fn of(output: &TensorView<'a>) -> Result<Self> {
        match output.values() {
            TensorValues::F32(values) => Ok(Self::F32(values)),
            TensorValues::F16(values) => Ok(Self::F16(values)),
            other => Err(argument(format!(
                "output {:?} of {}; f32 or f16 expected",
                output.shape(),
                other.element()
            ))),
        }
    }

    /// One value, widened.
    #[inline(always)]
    pub(super) fn at(self, index: usize) -> f32 {
        match self {
            Self::F32(values) => values[index],
            Self::F16(values) => values[index].to_f32(),
        }
    }

    /// Four consecutive values: the numbers of a box.
    pub(super) fn four(self, start: usize) -> [f32; 4] {
        std::array::from_fn(|i| self.at(start + i))
    }
}

/// Evenly spaced values, such as the class values of a row.
#[derive(Clone, Copy)]
pub(super) struct Spaced {
    /// Index of the first.
    pub(super) start: usize,
    /// Distance of neighbours.
    pub(super) distance: usize,
}

/// Whether the only score of a row, or its objectness, is at least `bound`; a NaN is
/// counted.
pub(super) fn passes(value: f32, bound: f32, num_nan: &mut usize) -> bool {
    *num_nan += usize::from(value.is_nan());
    value >= bound
}

/// The class with the largest value, the lowest on ties, and the value. `None`
/// when no value is above minus infinity; NaN is not. A row with a NaN is counted.
pub(super) fn best_class(
    values: Floats<'_>,
    place: Spaced,
    num_classes: usize,
    num_nan: &mut usize,
) -> Option<(usize, f32)> {
    let mut best = (0, f32::NEG_INFINITY);
    let mut has_nan = false;
    for class in 0..num_classes {
        let value = values.at(place.start + class * place.distance);
        has_nan |= value.is_nan();
        if value > best.1 {
            best = (class, value);
        }
    }
    *num_nan += usize::from(has_nan);
    (best.1 > f32::NEG_INFINITY).then_some(best)
}

/// A class given as a float, truncated to an integer.
pub(super) fn class_of_float(class: f32, num_classes: usize) -> Option<usize> {
    (class >= 0.0 && class < num_classes as f32).then_some(class as usize)
}

/// The class of a row of a tensor of labels.
pub(super) fn class_of_label(
    labels: TensorValues<'_>,
    row: usize,
    num_classes: usize,
) -> Option<usize> {
    let of_integer = |class: i64| usize::try_from(class).ok().filter(|&class| class < num_classes);
    match labels {
        TensorValues::I64(labels) => of_integer(labels[row]),
        TensorValues::I32(labels) => of_integer(i64::from(labels[row])),
        TensorValues::F32(labels) => class_of_float(labels[row], num_classes),
        TensorValues::F16(labels) => class_of_float(labels[row].to_f32(), num_classes),
        TensorValues::F64(labels) => class_of_float(labels[row] as f32, num_classes),
        TensorValues::I8(labels) => of_integer(i64::from(labels[row])),
    }
}

/// Whether the label of a row is below 0.
pub(super) fn is_negative(labels: TensorValues<'_>, row: usize) -> bool {
    match labels {
        TensorValues::I64(labels) => labels[row] < 0,
        TensorValues::I32(labels) => labels[row] < 0,
        TensorValues::F32(labels) => labels[row] < 0.0,
        TensorValues::F16(labels) => labels[row].to_f32() < 0.0,
        TensorValues::F64(labels) => labels[row] < 0.0,
        TensorValues::I8(labels) => labels[row] < 0,
    }
}

/// Columns whose class maxima are computed together.
pub(super) const BLOCK: usize = 1024;

/// Replaces each of at most [`BLOCK`] values by the tensor's value at the same
/// position from `start` on, if that is larger. Returns whether any of these is NaN.
pub(super) fn raise(best: &mut [f32], values: Floats<'_>, start: usize) -> bool {
    let end = start + best.len();
    let mut widened = [0.0; BLOCK];
    let row = match values {
        Floats::F32(values) => &values[start..end],
        Floats::F16(values) => {
            let widened = &mut widened[..end - start];
            values[start..end].convert_to_f32_slice(widened);
            widened
        }
    };
    // A word, unlike a flag, keeps the loop in vector registers.
    let mut has_nan = 0_u32;
    for (best, &value) in best.iter_mut().zip(row) {
        *best = if value > *best { value } else { *best };
        has_nan |= u32::from(value.is_nan());
    }
    has_nan != 0
}
