//! The reference on the CPU.

use crate::cloud::voxelize::Voxels;
use det_post_types::{Grid, Points};

/// Arguments that fit together.
pub(super) struct Input<'a> {
    pub(super) points: &'a Points,
    pub(super) voxels: &'a Voxels,
    pub(super) grid: &'a Grid,
    pub(super) num_features: usize,
}

/// Writes every value of `out`, which has at least as many rows as there are voxels.
pub(super) fn pillar_features<T: Copy>(
    input: &Input<'_>,
    out: &mut [T],
    zero: T,
    from_f32: impl Fn(f32) -> T,
) {
    let row_len = input.voxels.max_points_per_voxel() * input.num_features;
    let (rows, beyond) = out.split_at_mut(input.voxels.len() * row_len);
    beyond.fill(zero);
    for (voxel, row) in rows.chunks_exact_mut(row_len).enumerate() {
        let indices = input.voxels.points_of(voxel);
        let (slots, empty) = row.split_at_mut(indices.len() * input.num_features);
        empty.fill(zero);

        let mean = mean_of(input.points, indices);
        let center = input.grid.center_of(input.voxels.coordinates()[voxel]);
        for (slot, &index) in slots.chunks_exact_mut(input.num_features).zip(indices) {
            let point = point_of(input.points, index);
            let from_mean = (0..3).map(|axis| point[axis] - mean[axis]);
            let from_center = (0..3).map(|axis| point[axis] - center[axis]);
            // Truncated by `zip`: a slot may lack the offset from the centre in z.
            let features = point.iter().copied().chain(from_mean).chain(from_center);
            slot.iter_mut().zip(features).for_each(|(out, feature)| *out = from_f32(feature));
        }
    }
}

/// Sum in the order of the indices, divided by their number.
fn mean_of(points: &Points, indices: &[u32]) -> [f32; 3] {
    let mut sum = [0.0; 3];
    for &index in indices {
        let point = point_of(points, index);
        sum = std::array::from_fn(|axis| sum[axis] + point[axis]);
    }
    sum.map(|sum| sum / indices.len() as f32)
}

fn point_of(points: &Points, index: u32) -> &[f32] {
    let start = index as usize * points.num_channels();
    &points.values()[start..start + points.num_channels()]
}
