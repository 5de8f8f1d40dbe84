//! The reference on the CPU.

use crate::cloud::voxelize::Voxels;

/// Pillars inside a map.
pub(super) struct Map<'a> {
    pub(super) voxels: &'a Voxels,
    /// Columns.
    pub(super) nx: usize,
    /// Cells of one channel.
    pub(super) plane: usize,
}

/// Writes every value of `out`, plane by plane: a plane fits into the cache, the whole
/// map does not.
pub(super) fn scatter<From: Copy, To: Copy + Default>(
    map: &Map<'_>,
    features: &[From],
    out: &mut [To],
    convert: impl Fn(From) -> To,
) {
    let num_channels = out.len() / map.plane;
    for (channel, plane) in out.chunks_exact_mut(map.plane).enumerate() {
        plane.fill(To::default());
        let features = features.iter().skip(channel).step_by(num_channels);
        for (&[x, y, _], &feature) in map.voxels.coordinates().iter().zip(features) {
            plane[y as usize * map.nx + x as usize] = convert(feature);
        }
    }
}
