//! Bilinear samples of feature maps.

use half::f16;
use multiversion::multiversion;

use super::{LevelValues, MapsView};

/// Adds the bilinear sample of a view and a level, at a place in fractions of the
/// image, to `out`, `[C]`: each group of channels with its own of the weights.
///
/// # Panics
/// When there is no such view or level.
pub fn add_sample(
    maps: &MapsView<'_>,
    [view, level]: [usize; 2],
    at: [f32; 2],
    weights: &[f32],
    out: &mut [f32],
) {
    let level = &maps.levels()[level];
    for (row, column, factor) in corners(level.size(), at) {
        for (first, range) in maps.runs(level, [view, row, column]) {
            let corner = Corner { factor, weights, first };
            match level.values() {
                LevelValues::F32(values) => add_f32(&values[range], &corner, 1.0, out),
                LevelValues::F16(values) => add_f16(&values[range], &corner, 1.0, out),
                LevelValues::I8 { values, scale } => add_i8(&values[range], &corner, scale, out),
            }
        }
    }
}

/// Rows and columns of the texels of a map around a place, row-major, and their bilinear factors;
/// those outside the map are left out.
fn corners(size: [usize; 2], at: [f32; 2]) -> impl Iterator<Item = (usize, usize, f32)> {
    let [x, y] = [0, 1].map(|axis| at[axis] * size[axis] as f32 - 0.5);
    let (x0, y0) = (x.floor(), y.floor());
    let [right, bottom] = [x - x0, y - y0];
    let [width, height] = size.map(|size| size as i64);
    // Conversions saturate, so that a place far away stays outside; NaN becomes 0,
    // but a point at NaN is not seen.
    let (column, row) = (x0 as i64, y0 as i64);
    let corner = move |(dy, dx): (i64, i64)| {
        let (row, column) = (row.saturating_add(dy), column.saturating_add(dx));
        let is_inside = (0..height).contains(&row) && (0..width).contains(&column);
        let factor_y = if dy == 0 { 1.0 - bottom } else { bottom };
        let factor_x = if dx == 0 { 1.0 - right } else { right };
        is_inside.then_some((row as usize, column as usize, factor_y * factor_x))
    };
    [(0, 0), (0, 1), (1, 0), (1, 1)].into_iter().filter_map(corner)
}

/// What channels of a texel are multiplied by.
struct Corner<'a> {
    /// The bilinear factor.
    factor: f32,
    /// By group of channels.
    weights: &'a [f32],
    /// The first of the channels.
    first: usize,
}

#[multiversion(targets("x86_64+avx2+fma"))]
fn add_f32(texel: &[f32], corner: &Corner<'_>, scale: f32, out: &mut [f32]) {
    add(texel, corner, scale, out, |value| value);
}

#[multiversion(targets("x86_64+avx2+fma+f16c"))]
fn add_f16(texel: &[f16], corner: &Corner<'_>, scale: f32, out: &mut [f32]) {
    add(texel, corner, scale, out, f16::to_f32);
}

#[multiversion(targets("x86_64+avx2+fma"))]
fn add_i8(texel: &[i8], corner: &Corner<'_>, scale: f32, out: &mut [f32]) {
    add(texel, corner, scale, out, f32::from);
}

/// Adds side-by-side channels of a texel to theirs of `out`, which has all channels.
#[inline(always)]
fn add<T: Copy>(
    texel: &[T],
    &Corner { factor, weights, first }: &Corner<'_>,
    scale: f32,
    out: &mut [f32],
    to_f32: impl Fn(T) -> f32,
) {
    let group_len = out.len() / weights.len();
    let end = first + texel.len();
    let mut begin = first;
    while begin < end {
        let group = begin / group_len;
        let until = end.min((group + 1) * group_len);
        let corner = factor * (weights[group] * scale);
        let values = &texel[begin - first..until - first];
        for (sum, &value) in out[begin..until].iter_mut().zip(values) {
            *sum = to_f32(value).mul_add(corner, *sum);
        }
        begin = until;
    }
}
