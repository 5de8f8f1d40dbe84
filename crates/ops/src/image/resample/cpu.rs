//! The reference on the CPU. Where rows and columns of the image are those of the source, the
//! rows of a filter are summed once for all columns; the sums are the same.

use multiversion::multiversion;

use super::map::{Positions, SampleMap, Taps};
use super::{ResampleParams, Workspace};
use crate::image::planes::{Mapping, Planes};
use crate::image::wire::{self, ByteOrder, RgbRow, Row, Rows};
use det_post_types::{ImageView, Normalization};

/// The most pixels of a filter along an axis.
const MAX_TAPS: usize = 2 * SampleMap::MAX_SCALE as usize + 1;

/// The filter of a column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    first: u32,
    num_weights: u32,
    /// Index of its first weight.
    start: u32,
    /// The sum of its weights.
    sum: f32,
}

pub(super) fn resample(
    image: &ImageView<'_>,
    map: &SampleMap,
    params: &ResampleParams,
    workspace: &mut Workspace,
    out: Planes<'_>,
) {
    let mapping = params.mapping(image.encoding());
    match map.positions() {
        Positions::Separable { columns, rows } => {
            workspace.prepare(columns, map, mapping.num_channels);
            let Workspace { columns, weights, row_sums, converted, unrounded, .. } = workspace;
            let (height, [_, reach]) = (map.source().height, map.reach());
            out.write_rows(columns.len(), unrounded, |y, planes| {
                let planes = by_source_channel(planes, &mapping);
                let Some(down) = Taps::new(rows[y as usize], reach, height) else {
                    return write(planes, |_| mapping.pad);
                };
                sum_rows(image, &down, converted, row_sums);
                let sum_of_rows = down.sum() as f32;
                write(planes, |x| match &columns[x] {
                    Some(column) => {
                        let weights = &weights[column.start as usize..];
                        let weights = &weights[..column.num_weights as usize];
                        let first = column.first as usize;
                        let sums = sum_columns(row_sums, mapping.num_channels, first, weights);
                        normalized(sums, sum_of_rows * column.sum, &mapping.normalization)
                    }
                    None => mapping.pad,
                });
            });
        }
        Positions::PerPixel(positions) => {
            let Workspace { rgb, unrounded, .. } = workspace;
            let rows = wire::rows(image, rgb);
            let (size, [reach_x, reach_y]) = (map.source(), map.reach());
            let width = map.network().width as usize;
            out.write_rows(width, unrounded, |y, planes| {
                let positions = &positions[y as usize * width..][..width];
                write(by_source_channel(planes, &mapping), |x| {
                    let [at_x, at_y] = positions[x];
                    let across = Taps::new(at_x, reach_x, size.width);
                    match across.zip(Taps::new(at_y, reach_y, size.height)) {
                        Some((across, down)) => {
                            let sums = gather(&rows, mapping.num_channels, &across, &down);
                            let sum = down.sum() as f32 * across.sum() as f32;
                            normalized(sums, sum, &mapping.normalization)
                        }
                        None => mapping.pad,
                    }
                });
            });
        }
    }
}

impl Workspace {
    /// Computes the filters of all columns and invalidates the row of the last image.
    fn prepare(&mut self, positions: &[i32], map: &SampleMap, num_channels: usize) {
        let (width, [reach, _]) = (map.source().width, map.reach());
        let Self { columns, weights, row_sums, converted, .. } = self;
        weights.clear();
        columns.clear();
        columns.extend(positions.iter().map(|&position| {
            let taps = Taps::new(position, reach, width)?;
            let start = weights.len() as u32;
            weights.extend(taps.weights().map(|weight| weight as f32));
            let num_weights = weights.len() as u32 - start;
            Some(Column { first: taps.first, num_weights, start, sum: taps.sum() as f32 })
        }));
        row_sums.clear();
        row_sums.resize(width as usize * num_channels, 0.0);
        converted.clear();
    }
}

/// A row of the planes in the order of the source's channels.
fn by_source_channel<'a>(mut planes: [&'a mut [f32]; 3], mapping: &Mapping) -> [&'a mut [f32]; 3] {
    if mapping.swapped {
        planes.swap(0, 2);
    }
    planes
}

/// Writes a row of the planes; `pixel` gives the values of a column.
fn write([first, second, third]: [&mut [f32]; 3], pixel: impl Fn(usize) -> [f32; 3]) {
    for (x, ((first, second), third)) in first.iter_mut().zip(second).zip(third).enumerate() {
        [*first, *second, *third] = pixel(x);
    }
}

/// Steps 4 and 5 of the module's list.
fn normalized(sums: [f32; 3], sum_of_weights: f32, normalization: &Normalization) -> [f32; 3] {
    let scale = 1.0 / sum_of_weights;
    let Normalization { alpha, beta } = normalization;
    std::array::from_fn(|c| sums[c] * scale * alpha[c] + beta[c])
}

/// Sums the source rows of a filter, for all columns.
fn sum_rows(image: &ImageView<'_>, down: &Taps, converted: &mut RgbRow, sums: &mut [f32]) {
    sums.fill(0.0);
    for (y, weight) in (down.first..).zip(down.weights()) {
        match wire::row(image, y, converted) {
            Row::Bytes(row) => add_bytes(row, weight as f32, sums),
            Row::Words(row, order) => add_words(row, order, weight as f32, sums),
        }
    }
}

#[multiversion(targets("x86_64+avx2"))]
fn add_bytes(row: &[u8], weight: f32, sums: &mut [f32]) {
    for (sum, &sample) in sums.iter_mut().zip(row) {
        *sum += weight * f32::from(sample);
    }
}

#[multiversion(targets("x86_64+avx2"))]
fn add_words(row: &[u8], order: ByteOrder, weight: f32, sums: &mut [f32]) {
    for (sum, &sample) in sums.iter_mut().zip(row.as_chunks().0) {
        *sum += weight * order.value(sample);
    }
}

/// Sums the columns of a filter from pixel `first` on, from sums of rows.
fn sum_columns(row_sums: &[f32], num_channels: usize, first: usize, weights: &[f32]) -> [f32; 3] {
    let columns = &row_sums[first * num_channels..];
    match num_channels {
        1 => sum_channels::<1>(columns, weights),
        3 => sum_channels::<3>(columns, weights),
        _ => sum_channels::<4>(columns, weights),
    }
}

#[inline(always)]
fn sum_channels<const N: usize>(columns: &[f32], weights: &[f32]) -> [f32; 3] {
    let mut sums = [0.0; 3];
    for (column, weight) in columns.as_chunks::<N>().0.iter().zip(weights) {
        for (channel, sum) in sums.iter_mut().enumerate() {
            *sum += weight * column[channel.min(N - 1)];
        }
    }
    sums
}

/// Sums rows, then columns of a filter.
fn gather(rows: &Rows<'_>, num_channels: usize, across: &Taps, down: &Taps) -> [f32; 3] {
    let step = rows.step;
    match (&rows.samples, num_channels) {
        (Row::Bytes(bytes), 1) => gather_from(across, down, |x, y| {
            let sample = f32::from(bytes[y * step + x]);
            [sample; 3]
        }),
        (Row::Bytes(bytes), _) => gather_from(across, down, |x, y| {
            let start = y * step + x * num_channels;
            let pixel = &bytes[start..start + 3];
            [f32::from(pixel[0]), f32::from(pixel[1]), f32::from(pixel[2])]
        }),
        (Row::Words(bytes, order), _) => gather_from(across, down, |x, y| {
            let start = y * step + 2 * x;
            [order.value([bytes[start], bytes[start + 1]]); 3]
        }),
    }
}

#[inline(always)]
fn gather_from(across: &Taps, down: &Taps, pixel: impl Fn(usize, usize) -> [f32; 3]) -> [f32; 3] {
    let mut weights = [0.0; MAX_TAPS];
    for (slot, weight) in weights.iter_mut().zip(down.weights()) {
        *slot = weight as f32;
    }
    let weights = &weights[..(down.last - down.first + 1) as usize];
    let mut sums = [0.0; 3];
    for (x, weight) in (across.first as usize..).zip(across.weights()) {
        let mut column = [0.0; 3];
        for (y, weight) in (down.first as usize..).zip(weights) {
            let pixel = pixel(x, y);
            for (sum, sample) in column.iter_mut().zip(pixel) {
                *sum += weight * sample;
            }
        }
        let weight = weight as f32;
        for (sum, column) in sums.iter_mut().zip(column) {
            *sum += weight * column;
        }
    }
    sums
}
