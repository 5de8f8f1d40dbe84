//! The CPU side of to_map.

use crate::sparse::rulebook::Sites;

/// Writes every value of `out`, whose shape fits.
pub(super) fn to_map<T: Copy + Default>(
    features: &[f32],
    sites: &Sites,
    axes: [usize; 3],
    out: &mut [T],
    from_f32: impl Fn(f32) -> T,
) {
    out.fill(T::default());
    if sites.is_empty() {
        return;
    }
    let [depth, num_rows, num_columns] = axes.map(|axis| sites.grid().shape()[axis] as usize);
    let num_channels = features.len() / sites.len();
    let channel_len = depth * num_rows * num_columns;
    let scene_len = num_channels * channel_len;
    for (&index, features) in sites.indices().iter().zip(features.chunks_exact(num_channels)) {
        let [batch, cell @ ..] = sites.grid().cell_of(index).map(|cell| cell as usize);
        let [plane, row, column] = axes.map(|axis| cell[axis]);
        let cell = (plane * num_rows + row) * num_columns + column;
        let scene = &mut out[batch * scene_len..][..scene_len];
        let channels = scene[cell..].iter_mut().step_by(channel_len);
        channels.zip(features).for_each(|(out, &feature)| *out = from_f32(feature));
    }
}
