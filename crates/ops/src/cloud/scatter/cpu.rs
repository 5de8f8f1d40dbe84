//! The reference on the CPU.

use crate::cloud::voxelize::Voxels;
use det_post_types::MapLayout;

/// Pillars inside a map.
pub(super) struct Map<'a> {
    pub(super) voxels: &'a Voxels,
    /// Columns.
    pub(super) nx: usize,
    /// Cells of one channel.
    pub(super) plane: usize,
    pub(super) layout: MapLayout,
}

/// Writes every value of `out`; planes one by one: a plane fits into the cache, the whole
/// map does not.
pub(super) fn scatter<From: Copy, To: Copy + Default>(
    map: &Map<'_>,
    features: &[From],
    out: &mut [To],
    convert: impl Fn(From) -> To,
) {
    let num_channels = out.len() / map.plane;
    if map.layout == MapLayout::ChannelsLast {
        out.fill(To::default());
        let rows = features.chunks_exact(num_channels.max(1));
        for (&[x, y, _], row) in map.voxels.coordinates().iter().zip(rows) {
            let begin = (y as usize * map.nx + x as usize) * num_channels;
            let cell = &mut out[begin..begin + num_channels];
            cell.iter_mut().zip(row).for_each(|(to, &from)| *to = convert(from));
        }
        return;
    }
    for (channel, plane) in out.chunks_exact_mut(map.plane).enumerate() {
        plane.fill(To::default());
        let features = features.iter().skip(channel).step_by(num_channels);
        for (&[x, y, _], &feature) in map.voxels.coordinates().iter().zip(features) {
            plane[y as usize * map.nx + x as usize] = convert(feature);
        }
    }
}
