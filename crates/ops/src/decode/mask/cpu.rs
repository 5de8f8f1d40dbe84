//! The CPU implementation.

use half::f16;

use super::{MaskAxis, MaskExtent, MaskMapping, MaskWindow, Places, argument};
use crate::decode::logit::sigmoid;
use det_post_types::{Result, TensorValues, TensorView};

/// Values of a tensor of floats.
#[derive(Clone, Copy)]
enum Floats<'a> {
    F32(&'a [f32]),
    F16(&'a [f16]),
}

impl<'a> Floats<'a> {
    fn of(tensor: &TensorView<'a>) -> Result<Self> {
        match tensor.values() {
            TensorValues::F32(values) => Ok(Self::F32(values)),
            TensorValues::F16(values) => Ok(Self::F16(values)),
            other => {
                let (shape, found) = (tensor.shape(), other.element());
                Err(argument(format!("tensor {shape:?} of {found}; f32 or f16 expected")))
            }
        }
    }

    fn get(self, index: usize) -> Option<f32> {
        match self {
            Self::F32(values) => values.get(index).copied(),
            Self::F16(values) => values.get(index).map(|value| value.to_f32()),
        }
    }

    /// Adds `factor` times the values from `start` on to `sums`.
    fn add_to(self, sums: &mut [f32], factor: f32, start: usize) {
        let end = start + sums.len();
        match self {
            Self::F32(values) => {
                for (sum, value) in sums.iter_mut().zip(&values[start..end]) {
                    *sum += factor * value;
                }
            }
            Self::F16(values) => {
                for (sum, value) in sums.iter_mut().zip(&values[start..end]) {
                    *sum += factor * value.to_f32();
                }
            }
        }
    }
}

/// The cells beside a position, and the weight of the second.
#[derive(Clone, Copy, Debug)]
struct Tap {
    first: usize,
    second: usize,
    weight: f32,
}

impl MaskAxis {
    fn tap(&self, pixel: u32) -> Tap {
        let last = self.count - 1;
        let position = (pixel as f32 + 0.5) * self.scale + self.shift;
        let position = position.clamp(0.0, last as f32);
        let cell = position as u32;
        Tap {
            first: (self.first + cell) as usize,
            second: (self.first + (cell + 1).min(last)) as usize,
            weight: position - cell as f32,
        }
    }
}

fn mix(a: f32, b: f32, weight: f32) -> f32 {
    a + (b - a) * weight
}

/// Memory for a mask.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// Cells below the window, row by row.
    cells: Vec<f32>,
    /// A row of cells between two.
    row: Vec<f32>,
    /// By column of the window.
    taps: Vec<Tap>,
}

/// The pixels of a mask and their places on its map.
pub(super) struct Pixels<'a> {
    pub(super) mapping: &'a MaskMapping,
    /// Along x and y.
    pub(super) axes: [MaskAxis; 2],
    pub(super) window: &'a MaskWindow,
}

/// The tensors of a frame.
pub(super) struct Reader<'a> {
    predictions: Floats<'a>,
    prototypes: Floats<'a>,
    places: Places,
    /// Rows and columns of the map.
    map: [usize; 2],
}

impl<'a> Reader<'a> {
    pub(super) fn new(
        predictions: &TensorView<'a>,
        prototypes: &TensorView<'a>,
        places: Places,
    ) -> Result<Self> {
        let [_, _, height, width] = prototypes.dims::<4>()?;
        Ok(Self {
            predictions: Floats::of(predictions)?,
            prototypes: Floats::of(prototypes)?,
            places,
            map: [height, width],
        })
    }

    /// The coefficient of a row, 0 if there is no such row.
    fn coefficient(&self, source: usize, index: usize) -> f32 {
        let Places { first, row_distance, distance, num_rows, .. } = self.places;
        let own = (source < num_rows).then(|| first + source * row_distance + index * distance);
        own.and_then(|own| self.predictions.get(own)).unwrap_or(0.0)
    }

    /// Adds the values of a row's mask to `sums`, zeros, which are cells of a line from `first` on.
    /// With a `ring` of 1, the first and the last cell and line are zeros around the map.
    fn add_cells(
        &self,
        mapping: &MaskMapping,
        source: usize,
        [first, line]: [usize; 2],
        sums: &mut [f32],
    ) {
        let ring = usize::from(mapping.extent == MaskExtent::Touched);
        let [height, width] = self.map;
        let Some(line) = line.checked_sub(ring).filter(|&line| line < height) else { return };
        let num_before = ring.saturating_sub(first);
        let (start, end) = (first + num_before - ring, (first + sums.len() - ring).min(width));
        let Some(num) = end.checked_sub(start) else { return };
        let Some(sums) = sums.get_mut(num_before..num_before + num) else { return };
        let mut add = |factor, plane| {
            self.prototypes.add_to(sums, factor, (plane * height + line) * width + start);
        };
        let Places { are_maps, num_rows, num_coefficients, .. } = self.places;
        if are_maps {
            if source < num_rows {
                add(1.0, source);
            }
        } else {
            (0..num_coefficients).for_each(|index| add(self.coefficient(source, index), index));
        }
        if mapping.sigmoid {
            sums.iter_mut().for_each(|cell| *cell = sigmoid(*cell));
        }
    }

    /// Sets the bits of a mask, which are 0. Returns whether a coefficient or the value of a pixel is not
    /// finite.
    pub(super) fn fill(
        &self,
        Pixels { mapping, axes: [x, y], window }: Pixels<'_>,
        source: usize,
        scratch: &mut Scratch,
        words: &mut [u32],
    ) -> bool {
        let MaskWindow { left, top, width, height, .. } = *window;
        if words.is_empty() {
            return false;
        }
        let Places { are_maps, num_coefficients, .. } = self.places;
        let is_finite = |index| self.coefficient(source, index).is_finite();
        let mut is_invalid = !are_maps && !(0..num_coefficients).all(is_finite);
        let Scratch { cells, row, taps } = scratch;
        taps.clear();
        taps.extend((left..left + width).map(|pixel| x.tap(pixel)));
        let columns = taps[0].first..taps[width as usize - 1].second + 1;
        let lines = y.tap(top).first..y.tap(top + height - 1).second + 1;
        let num_columns = columns.len();
        cells.clear();
        cells.resize(num_columns * lines.len(), 0.0);
        for (line, sums) in lines.clone().zip(cells.chunks_exact_mut(num_columns)) {
            self.add_cells(mapping, source, [columns.start, line], sums);
        }
        for (pixel, words) in (top..).zip(words.chunks_exact_mut(window.words_per_row())) {
            let Tap { first, second, weight } = y.tap(pixel);
            let line = |line: usize| &cells[(line - lines.start) * num_columns..][..num_columns];
            row.clear();
            row.extend(line(first).iter().zip(line(second)).map(|(a, b)| mix(*a, *b, weight)));
            for (word, taps) in words.iter_mut().zip(taps.chunks(32)) {
                for (bit, tap) in taps.iter().enumerate() {
                    let (a, b) = (row[tap.first - columns.start], row[tap.second - columns.start]);
                    let value = mix(a, b, tap.weight);
                    is_invalid |= !value.is_finite();
                    *word |= u32::from(value > mapping.level) << bit;
                }
            }
        }
        is_invalid
    }
}
