//! The three planes of an image in a network's input.

use half::f16;
use half::slice::HalfFloatSliceExt as _;

use super::wire;
use det_post_types::{ChannelOrder, Encoding, Normalization};

/// The mapping of samples to values of the planes, by source channel.
pub(crate) struct Mapping {
    /// Samples per pixel of a row.
    pub(crate) num_channels: usize,
    /// Whether the first and the third source channel are swapped.
    pub(crate) swapped: bool,
    /// By source channel.
    pub(crate) normalization: Normalization,
    /// By source channel.
    pub(crate) pad: [f32; 3],
}

impl Mapping {
    pub(crate) fn new(
        encoding: Encoding,
        order: ChannelOrder,
        normalization: Normalization,
        pad_value: f32,
    ) -> Self {
        let swapped = wire::channel_order(encoding) != order;
        let Normalization { mut alpha, mut beta } = normalization;
        if swapped {
            alpha.swap(0, 2);
            beta.swap(0, 2);
        }
        let pad = std::array::from_fn(|c| pad_value * alpha[c] + beta[c]);
        let normalization = Normalization { alpha, beta };
        Self { num_channels: wire::num_channels(encoding), swapped, normalization, pad }
    }
}

/// The values of three consecutive planes.
pub(crate) enum Planes<'a> {
    F32(&'a mut [f32]),
    F16(&'a mut [f16]),
}

impl Planes<'_> {
    /// Calls `write` with the number of each row and its part of the planes. Values of f16 are
    /// rounded once, to nearest even, from `unrounded`, which grows to a row of each plane.
    pub(crate) fn write_rows(
        self,
        width: usize,
        unrounded: &mut Vec<f32>,
        mut write: impl FnMut(u32, [&mut [f32]; 3]),
    ) {
        match self {
            Self::F32(values) => for_each_row(values, width, write),
            Self::F16(values) => {
                unrounded.resize(3 * width, 0.0);
                for_each_row(values, width, |y, planes: [&mut [f16]; 3]| {
                    for_each_row(unrounded, width, |_, row| write(y, row));
                    for (plane, row) in planes.into_iter().zip(unrounded.chunks_exact(width)) {
                        plane.convert_from_f32_slice(row);
                    }
                });
            }
        }
    }
}

/// Calls `write` with each row of three consecutive planes.
fn for_each_row<T>(values: &mut [T], width: usize, mut write: impl FnMut(u32, [&mut [T]; 3])) {
    let (first, rest) = values.split_at_mut(values.len() / 3);
    let (second, third) = rest.split_at_mut(rest.len() / 2);
    let rows = first
        .chunks_exact_mut(width)
        .zip(second.chunks_exact_mut(width))
        .zip(third.chunks_exact_mut(width));
    for (y, ((a, b), c)) in rows.enumerate() {
        write(y as u32, [a, b, c]);
    }
}
