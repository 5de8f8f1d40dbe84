//! The reference on the CPU: row by row, so that a source row is converted once for
//! all output rows that use it and the planes are written in order.

use multiversion::multiversion;

use super::{LetterboxParams, Workspace};
use crate::image::planes::{Mapping, Planes};
use crate::image::wire::{self, ByteOrder, Row};
use det_post_types::{ImageView, Letterbox, Normalization, Tensor};

/// A position between two neighbouring pixels: `first` and its successor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tap {
    /// The pixel at or before the position.
    pub(super) first: u32,
    /// Weight of the pixel after it, in [0, 1); 0 if there is none.
    pub(super) weight: f32,
}

/// The source position of pixel `i` of the content: see the module for the formula.
/// With sides of up to 32768 every term is below 2^31.
pub(super) fn tap(i: u32, content: u32, source: u32) -> Tap {
    let Some(numerator) = ((2 * i + 1) * source).checked_sub(content) else {
        return Tap { first: 0, weight: 0.0 };
    };
    let (first, rest) = (numerator / (2 * content), numerator % (2 * content));
    if first + 1 >= source {
        return Tap { first: source - 1, weight: 0.0 };
    }
    Tap { first, weight: rest as f32 / (2 * content) as f32 }
}

pub(super) fn letterbox(
    image: &ImageView<'_>,
    params: &LetterboxParams,
    placed: &Letterbox,
    workspace: &mut Workspace,
    out: &mut Tensor,
) {
    let mapping = params.mapping(image.encoding());
    workspace.prepare(placed, mapping.num_channels);
    let mut unrounded = std::mem::take(&mut workspace.unrounded);
    let out = match out {
        Tensor::F32 { values, .. } => Planes::F32(values),
        Tensor::F16 { values, .. } => Planes::F16(values),
    };
    out.write_rows(placed.network.width as usize, &mut unrounded, |y, planes| {
        write_row(image, placed, &mapping, workspace, y, planes);
    });
    workspace.unrounded = unrounded;
}

/// Writes row `y` of the network's input.
fn write_row(
    image: &ImageView<'_>,
    placed: &Letterbox,
    mapping: &Mapping,
    workspace: &mut Workspace,
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
    workspace.blend(image, tap(line, placed.content.height, placed.source.height));
    let (left, right) = (columns.start as usize, columns.end as usize);
    for (plane, pad) in planes.iter_mut().zip(mapping.pad) {
        plane[..left].fill(pad);
        plane[right..].fill(pad);
    }
    let content = planes.map(|plane| &mut plane[left..right]);
    let (row, columns) = (&workspace.blended, &workspace.columns);
    sample_row(row, columns, mapping.num_channels, &mapping.normalization, content);
}

impl Workspace {
    /// Resizes every buffer for the placement and invalidates the rows of the last image.
    fn prepare(&mut self, placed: &Letterbox, num_channels: usize) {
        let (content, source) = (placed.content.width, placed.source.width);
        self.columns.clear();
        let [visible, _] = placed.visible();
        let column_of = |x: u32| x.wrapping_add_signed(-placed.content_origin[0]);
        self.columns.extend(visible.map(|x| {
            let Tap { first, weight } = tap(column_of(x), content, source);
            Tap { first: first * num_channels as u32, weight }
        }));
        self.blended.clear();
        self.blended.resize((source as usize + 1) * num_channels + PADDING, 0.0);
        for row in &mut self.converted {
            row.clear();
        }
    }

    /// Blends the two source rows of a tap into `blended`.
    fn blend(&mut self, image: &ImageView<'_>, tap: Tap) {
        let upper = tap.first;
        let lower = (upper + 1).min(image.size().height - 1);
        let [kept, fresh] = &mut self.converted;
        if fresh.is(upper) {
            std::mem::swap(kept, fresh);
        }
        let upper = wire::row(image, upper, kept);
        let lower = wire::row(image, lower, fresh);
        match (upper, lower) {
            (Row::Bytes(upper), Row::Bytes(lower)) => {
                blend_bytes(upper, lower, tap.weight, &mut self.blended);
            }
            (Row::Words(upper, order), Row::Words(lower, _)) => {
                blend_words(upper, lower, order, tap.weight, &mut self.blended);
            }
            _ => {}
        }
    }
}

#[inline(always)]
fn mix(a: f32, b: f32, weight: f32) -> f32 {
    a + (b - a) * weight
}

#[multiversion(targets("x86_64+avx2"))]
fn blend_bytes(upper: &[u8], lower: &[u8], weight: f32, out: &mut [f32]) {
    for ((out, &a), &b) in out.iter_mut().zip(upper).zip(lower) {
        *out = mix(f32::from(a), f32::from(b), weight);
    }
}

#[multiversion(targets("x86_64+avx2"))]
fn blend_words(upper: &[u8], lower: &[u8], order: ByteOrder, weight: f32, out: &mut [f32]) {
    let rows = upper.as_chunks().0.iter().zip(lower.as_chunks().0);
    for (out, (&a, &b)) in out.iter_mut().zip(rows) {
        *out = mix(order.value(a), order.value(b), weight);
    }
}

/// Samples past the last pixel that a window may contain; their weight is 0.
const PADDING: usize = 3;

/// Interpolates along a blended row and normalises into three rows, given in
/// the order of the source channels.
#[multiversion(targets("x86_64+avx2"))]
fn sample_row(
    row: &[f32],
    columns: &[Tap],
    num_channels: usize,
    normalization: &Normalization,
    planes: [&mut [f32]; 3],
) {
    match num_channels {
        1 => sample_channels::<1>(row, columns, normalization, planes),
        3 => sample_channels::<3>(row, columns, normalization, planes),
        _ => sample_channels::<4>(row, columns, normalization, planes),
    }
}

#[inline(always)]
fn sample_channels<const N: usize>(
    row: &[f32],
    columns: &[Tap],
    normalization: &Normalization,
    [first, second, third]: [&mut [f32]; 3],
) {
    let Normalization { alpha, beta } = normalization;
    let pixels = first.iter_mut().zip(second).zip(third).zip(columns);
    for (((first, second), third), column) in pixels {
        let start = column.first as usize;
        let window = &row[start..start + N + PADDING];
        let value = |plane: usize| {
            let channel = if N == 1 { 0 } else { plane };
            let value = mix(window[channel], window[channel + N], column.weight);
            value * alpha[plane] + beta[plane]
        };
        (*first, *second, *third) = (value(0), value(1), value(2));
    }
}
