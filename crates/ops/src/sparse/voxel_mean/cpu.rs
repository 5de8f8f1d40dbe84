//! The CPU side of voxel_mean.

use super::transformed;
use crate::cloud::voxelize::Voxels;
use det_post_types::{ChannelTransform, Points};

/// Writes every value of `out`, which has the rows of the voxels and maybe more.
pub(super) fn voxel_mean<T: Copy + Default>(
    points: &Points,
    voxels: &Voxels,
    transforms: &[ChannelTransform],
    out: &mut [T],
    from_f32: impl Fn(f32) -> T,
) {
    let num_channels = points.num_channels();
    let (rows, beyond) = out.split_at_mut(voxels.len() * num_channels);
    beyond.fill(T::default());
    for (voxel, row) in rows.chunks_exact_mut(num_channels).enumerate() {
        let indices = voxels.points_of(voxel);
        for (channel, out) in row.iter_mut().enumerate() {
            let transform = transforms.get(channel).copied().unwrap_or_default();
            let mut sum = 0.0;
            for &index in indices {
                let value = points.values()[index as usize * num_channels + channel];
                sum += transformed(value, transform);
            }
            *out = from_f32(sum / indices.len() as f32);
        }
    }
}
