//! Bilinear samples of feature maps.

use half::f16;
use multiversion::multiversion;

use super::{FeatureMaps, Texels};

/// Adds the bilinear sample of a view and a level, at a place in fractions of the
/// image, to `out`, `[C]`: each group of channels with its own of the weights.
///
/// # Panics
/// When there is no such view or level.
pub fn add_sample(
    maps: &FeatureMaps,
    [view, level]: [usize; 2],
    at: [f32; 2],
    weights: &[f32],
    out: &mut [f32],
) {
    let level = &maps.levels()[level];
    let [width, height] = level.size();
    let num_channels = maps.num_channels();
    for (texel, factor) in corners([width, height], at) {
        let first = (view * height * width + texel) * num_channels;
        let range = first..first + num_channels;
        match level.texels() {
            Texels::F32(values) => add_f32(&values[range], (factor, 1.0, weights), out),
            Texels::F16(values) => add_f16(&values[range], (factor, 1.0, weights), out),
            Texels::I8 { values, scale } => {
                add_i8(&values[range], (factor, *scale, weights), out);
            }
        }
    }
}

/// The texels of a map around a place, row-major, and their bilinear factors; those
/// outside the map are left out.
fn corners(size: [usize; 2], at: [f32; 2]) -> impl Iterator<Item = (usize, f32)> {
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
        is_inside.then(|| ((row * width + column) as usize, factor_y * factor_x))
    };
    [(0, 0), (0, 1), (1, 0), (1, 1)].into_iter().filter_map(corner)
}

/// Bilinear factor, scale and weights of the groups.
type Corner<'a> = (f32, f32, &'a [f32]);

#[multiversion(targets("x86_64+avx2+fma"))]
fn add_f32(texel: &[f32], corner: Corner<'_>, out: &mut [f32]) {
    add(texel, corner, out, |value| value);
}

#[multiversion(targets("x86_64+avx2+fma+f16c"))]
fn add_f16(texel: &[f16], corner: Corner<'_>, out: &mut [f32]) {
    add(texel, corner, out, f16::to_f32);
}

#[multiversion(targets("x86_64+avx2+fma"))]
fn add_i8(texel: &[i8], corner: Corner<'_>, out: &mut [f32]) {
    add(texel, corner, out, f32::from);
}

#[inline(always)]
fn add<T: Copy>(
    texel: &[T],
    (factor, scale, weights): Corner<'_>,
    out: &mut [f32],
    to_f32: impl Fn(T) -> f32,
) {
    let group_len = out.len() / weights.len();
    let groups = texel.chunks_exact(group_len).zip(out.chunks_exact_mut(group_len));
    for ((texel, out), weight) in groups.zip(weights) {
        let corner = factor * (weight * scale);
        for (sum, &value) in out.iter_mut().zip(texel) {
            *sum = to_f32(value).mul_add(corner, *sum);
        }
    }
}
