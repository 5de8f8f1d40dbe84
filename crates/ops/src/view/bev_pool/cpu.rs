//! The reference on the CPU.

use super::PART_POINTS;
use super::shape::{FrustumShape, MapShape};
use super::table::PoolTable;

/// Partial sums of a part.
const NUM_SUMS: usize = 4;
/// Channels that are summed together.
const LANES: usize = 16;

/// The pooling of a frame.
pub(super) struct Pool<'a> {
    pub(super) table: &'a PoolTable,
    /// A bit per camera.
    pub(super) present: u32,
    pub(super) num_channels: usize,
}

impl Pool<'_> {
    /// Writes every value of `out`, `[levels, C, rows, columns]`, from depth and features.
    pub(super) fn write<From: Copy, To: Copy>(
        &self,
        inputs: [&[From]; 2],
        out: &mut [To],
        widened: impl Fn(From) -> f32 + Copy,
        narrowed: impl Fn(f32) -> To,
    ) {
        let MapShape { levels, .. } = *self.table.map();
        let plane = self.table.map().plane();
        for cell in 0..levels * plane {
            let (level, inside) = (cell / plane, cell % plane);
            for first in (0..self.num_channels).step_by(LANES) {
                let totals = self.total(cell, first, inputs, widened);
                let last = LANES.min(self.num_channels - first);
                for (lane, &total) in totals[..last].iter().enumerate() {
                    out[(level * self.num_channels + first + lane) * plane + inside] =
                        narrowed(total);
                }
            }
        }
    }

    /// The sums of a cell, of the channels from `first` on.
    fn total<From: Copy>(
        &self,
        cell: usize,
        first: usize,
        inputs: [&[From]; 2],
        widened: impl Fn(From) -> f32 + Copy,
    ) -> [f32; LANES] {
        let mut parts = self.table.interval(cell).chunks(PART_POINTS);
        let sum = |part: &[u32]| self.sum(part, first, inputs, widened);
        let mut total = parts.next().map_or([0.0; LANES], sum);
        for part in parts {
            add(&mut total, &sum(part));
        }
        total
    }

    /// The sum of a part.
    fn sum<From: Copy>(
        &self,
        part: &[u32],
        first: usize,
        [depth, features]: [&[From]; 2],
        widened: impl Fn(From) -> f32 + Copy,
    ) -> [f32; LANES] {
        let FrustumShape { num_depths, .. } = *self.table.frustum();
        let num_pixels = self.table.frustum().num_pixels();
        let num_lanes = LANES.min(self.num_channels - first);
        let mut sums = [[0.0_f32; LANES]; NUM_SUMS];
        for (position, &word) in part.iter().enumerate() {
            let point = self.table.packing().point(word);
            if self.present >> point.camera & 1 == 0 {
                continue;
            }
            let plane = point.camera * num_depths + point.depth;
            let weight = widened(depth[plane * num_pixels + point.pixel]);
            let row = (point.camera * num_pixels + point.pixel) * self.num_channels + first;
            let features = &features[row..row + num_lanes];
            for (sum, &feature) in sums[position % NUM_SUMS].iter_mut().zip(features) {
                *sum += weight * widened(feature);
            }
        }
        let [mut total, one, mut two, three] = sums;
        add(&mut total, &one);
        add(&mut two, &three);
        add(&mut total, &two);
        total
    }
}

fn add(to: &mut [f32; LANES], other: &[f32; LANES]) {
    for (to, other) in to.iter_mut().zip(other) {
        *to += other;
    }
}
