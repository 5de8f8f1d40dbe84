//! The reference of [`Resize::Antialias`](det_post_types::Resize) and
//! [`Resize::Antialias8Bit`](det_post_types::Resize) on the CPU: every source row is resized once
//! and kept while output rows use it.

use super::LetterboxParams;
use crate::image::planes::{Mapping, Planes};
use crate::image::wire::{self, Row};
use det_post_types::{ImageView, Letterbox, Size, Tensor};

/// Bits of the fraction of a whole weight; in CUDA: `kWeightBits`.
const WEIGHT_BITS: u32 = 22;

/// The pixels of an axis that a pixel of the content is made of: those whose weight is not 0.
///
/// With sides of up to 32768 every number is below 2^32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    /// The first pixel.
    pub(super) first: u32,
    /// Pixels, at least one.
    pub(super) num: u32,
    /// Sum of their weights.
    pub(super) sum: u32,
    /// The centre, `(2 i + 1) * source`; source pixel `k` has its centre at `(2 k + 1) * content`.
    center: u32,
    /// The distance from the centre at which a weight is 0.
    reach: u32,
    content: u32,
}

impl Window {
    /// The window of pixel `i` of the content.
    pub(super) fn new(i: u32, content: u32, source: u32) -> Self {
        let (center, reach) = ((2 * i + 1) * source, 2 * source.max(content));
        let first = match center.checked_sub(reach + content) {
            Some(distance) => distance / (2 * content) + 1,
            None => 0,
        };
        let end = ((center + reach + content - 1) / (2 * content)).min(source);
        let mut window = Self { first, num: end - first, sum: 0, center, reach, content };
        window.sum = (first..end).map(|pixel| window.weight(pixel)).sum();
        window
    }

    /// The weight of a pixel, as a part of the sum.
    pub(super) fn weight(&self, pixel: u32) -> u32 {
        self.reach.saturating_sub(((2 * pixel + 1) * self.content).abs_diff(self.center))
    }
}

/// How weighted samples are added: the columns of a row, then the rows.
pub(super) trait Rule {
    /// A weight.
    type Weight: Copy;
    /// A sum of samples.
    type Sum: Copy;
    /// The sum of no samples.
    const ZERO: Self::Sum;
    /// The weight of a pixel of a window.
    fn weight(window: &Window, pixel: u32) -> Self::Weight;
    /// A sample of the image.
    fn sample(value: f32) -> f32;
    /// The sum with one more sample.
    fn add(sum: Self::Sum, weight: Self::Weight, sample: f32) -> Self::Sum;
    /// The sample that a sum is.
    fn value(sum: Self::Sum) -> f32;
}

/// Sums in f32.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Unrounded;

impl Rule for Unrounded {
    type Weight = f32;
    type Sum = f32;
    const ZERO: f32 = 0.0;

    fn weight(window: &Window, pixel: u32) -> f32 {
        window.weight(pixel) as f32 * (1.0 / window.sum as f32)
    }

    #[inline(always)]
    fn sample(value: f32) -> f32 {
        value
    }

    #[inline(always)]
    fn add(sum: f32, weight: f32, sample: f32) -> f32 {
        sum + weight * sample
    }

    #[inline(always)]
    fn value(sum: f32) -> f32 {
        sum
    }
}

/// Sums in whole numbers, rounded to 8 bits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rounded;

impl Rule for Rounded {
    type Weight = i32;
    type Sum = i32;
    const ZERO: i32 = 1 << (WEIGHT_BITS - 1);

    fn weight(window: &Window, pixel: u32) -> i32 {
        let (weight, sum) = (u64::from(window.weight(pixel)), u64::from(window.sum));
        // At most 2^22: no weight exceeds the sum.
        (((weight << (WEIGHT_BITS + 1)) + sum) / (2 * sum)) as i32
    }

    #[inline(always)]
    fn sample(value: f32) -> f32 {
        value.round_ties_even()
    }

    #[inline(always)]
    fn add(sum: i32, weight: i32, sample: f32) -> i32 {
        sum + weight * sample as i32
    }

    #[inline(always)]
    fn value(sum: i32) -> f32 {
        (sum >> WEIGHT_BITS).min(255) as f32
    }
}

/// Weights and resized rows, which grow at the first image of a size.
#[derive(Debug, Default)]
pub(super) struct Memory<R: Rule> {
    /// Of the visible columns.
    columns: Vec<Window>,
    /// Their weights, one after the other.
    weights: Vec<R::Weight>,
    converted: wire::RgbRow,
    /// A row of the image.
    samples: Vec<f32>,
    /// Resized rows, a plane a colour: row `y` is at `y % held.len()`.
    lines: Vec<f32>,
    held: Vec<Option<u32>>,
    /// A plane a colour.
    sums: Vec<R::Sum>,
}

/// As [`letterbox`](super::letterbox).
pub(super) fn letterbox<R: Rule>(
    image: &ImageView<'_>,
    params: &LetterboxParams,
    placed: &Letterbox,
    (memory, unrounded): (&mut Memory<R>, &mut Vec<f32>),
    out: &mut Tensor,
) {
    let mapping = params.mapping(image.encoding());
    memory.prepare(placed, colors(&mapping));
    let out = match out {
        Tensor::F32 { values, .. } => Planes::F32(values),
        Tensor::F16 { values, .. } => Planes::F16(values),
    };
    out.write_rows(placed.network.width as usize, unrounded, |y, planes| {
        write_row(image, placed, &mapping, memory, y, planes);
    });
}

/// Planes that differ.
fn colors(mapping: &Mapping) -> usize {
    mapping.num_channels.min(3)
}

/// Writes row `y` of the network's input.
fn write_row<R: Rule>(
    image: &ImageView<'_>,
    placed: &Letterbox,
    mapping: &Mapping,
    memory: &mut Memory<R>,
    y: u32,
    mut planes: [&mut [f32]; 3],
) {
    if mapping.swapped {
        planes.swap(0, 2);
    }
    let [columns, rows] = placed.visible();
    if !rows.contains(&y) {
        for (plane, pad) in planes.into_iter().zip(mapping.pad) {
            plane.fill(pad);
        }
        return;
    }
    let line = y.wrapping_add_signed(-placed.content_origin[1]);
    memory.add_rows(
        image,
        mapping,
        &Window::new(line, placed.content.height, placed.source.height),
    );
    let (left, right) = (columns.start as usize, columns.end as usize);
    let num_colors = colors(mapping);
    for (channel, plane) in planes.into_iter().enumerate() {
        let (alpha, beta) = (mapping.normalization.alpha, mapping.normalization.beta);
        plane[..left].fill(mapping.pad[channel]);
        plane[right..].fill(mapping.pad[channel]);
        let first = channel.min(num_colors - 1) * (right - left);
        for (value, &sum) in plane[left..right].iter_mut().zip(&memory.sums[first..]) {
            *value = R::value(sum) * alpha[channel] + beta[channel];
        }
    }
}

impl<R: Rule> Memory<R> {
    /// Weights of the placement; rows of the last image are no longer held.
    fn prepare(&mut self, placed: &Letterbox, num_colors: usize) {
        let Size { width, height } = placed.content;
        let [left, top] = placed.content_origin;
        let [columns, rows] = placed.visible();
        self.columns.clear();
        self.columns.extend(
            columns.map(|x| Window::new(x.wrapping_add_signed(-left), width, placed.source.width)),
        );
        self.weights.clear();
        for window in &self.columns {
            let pixels = window.first..window.first + window.num;
            self.weights.extend(pixels.map(|pixel| R::weight(window, pixel)));
        }
        let of_row = |y: u32| {
            Window::new(y.wrapping_add_signed(-top), height, placed.source.height).num as usize
        };
        let num_lines = rows.map(of_row).max().unwrap_or(0);
        self.held.clear();
        self.held.resize(num_lines, None);
        self.lines.resize(num_lines * num_colors * self.columns.len(), 0.0);
        self.converted.clear();
    }

    /// Sums the resized rows of a window into `sums`.
    fn add_rows(&mut self, image: &ImageView<'_>, mapping: &Mapping, window: &Window) {
        let length = colors(mapping) * self.columns.len();
        self.sums.clear();
        self.sums.resize(length, R::ZERO);
        for y in window.first..window.first + window.num {
            let place = y as usize % self.held.len();
            if self.held[place] != Some(y) {
                self.resize_row(image, mapping, y, place * length);
                self.held[place] = Some(y);
            }
            let weight = R::weight(window, y);
            let line = &self.lines[place * length..][..length];
            for (sum, &sample) in self.sums.iter_mut().zip(line) {
                *sum = R::add(*sum, weight, sample);
            }
        }
    }

    /// Resizes row `y` of the image into `lines`, from `start` on.
    fn resize_row(&mut self, image: &ImageView<'_>, mapping: &Mapping, y: u32, start: usize) {
        self.samples.clear();
        match wire::row(image, y, &mut self.converted) {
            Row::Bytes(bytes) => self.samples.extend(bytes.iter().map(|&byte| f32::from(byte))),
            Row::Words(bytes, order) => {
                let words = bytes.as_chunks().0.iter();
                self.samples.extend(words.map(|&word| R::sample(order.value(word))));
            }
        }
        let (num_channels, num_columns) = (mapping.num_channels, self.columns.len());
        let line = &mut self.lines[start..][..colors(mapping) * num_columns];
        for (channel, line) in line.chunks_exact_mut(num_columns.max(1)).enumerate() {
            let mut weights = &self.weights[..];
            for (value, window) in line.iter_mut().zip(&self.columns) {
                let (own, rest) = weights.split_at(window.num as usize);
                weights = rest;
                let first = window.first as usize * num_channels + channel;
                let samples = self.samples[first..].iter().step_by(num_channels);
                let sum = own
                    .iter()
                    .zip(samples)
                    .fold(R::ZERO, |sum, (&weight, &sample)| R::add(sum, weight, sample));
                *value = R::value(sum);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_have_the_pixels_whose_weight_is_not_zero() {
        for source in 1..24 {
            for content in 1..24 {
                for i in 0..content {
                    let window = Window::new(i, content, source);
                    let scale = f64::from(source) / f64::from(content);
                    let center = (f64::from(i) + 0.5) * scale;
                    let weight = |pixel: u32| {
                        1.0 - ((f64::from(pixel) + 0.5) - center).abs() / scale.max(1.0)
                    };
                    let all: Vec<u32> = (0..source).filter(|&k| weight(k) > 1e-9).collect();
                    assert_eq!((window.first, window.num), (all[0], all.len() as u32));
                    let sum: f64 = all.iter().map(|&k| weight(k)).sum();
                    for k in all {
                        let found = f64::from(window.weight(k)) / f64::from(window.sum);
                        assert!((found - weight(k) / sum).abs() < 1e-12, "{source} {content} {i}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_largest_sides_do_not_overflow() {
        let most = ImageView::<'_>::MAX_SIDE;
        for (content, source) in [(1, most), (most, 1), (most, most), (2, most), (most, 2)] {
            for i in [0, content - 1] {
                let window = Window::new(i, content, source);
                assert!(window.num >= 1 && window.first + window.num <= source);
                let pixels = window.first..window.first + window.num;
                let sum: i64 = pixels.map(|k| i64::from(Rounded::weight(&window, k))).sum();
                assert!((sum - (1 << WEIGHT_BITS)).abs() <= i64::from(window.num));
            }
        }
    }
}
