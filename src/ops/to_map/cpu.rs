//! The CPU side of to_map.

use super::AxisOrder;
use crate::ops::rulebook::Sites;

/// Writes every value of `out`, whose shape fits.
pub(super) fn to_map<T: Copy + Default>(
    features: &[f32],
    sites: &Sites,
    axes: AxisOrder,
    out: &mut [T],
    from_f32: impl Fn(f32) -> T,
) {
    out.fill(T::default());
    if sites.is_empty() {
        return;
    }
    let [s0, s1, s2] = sites.grid().shape().map(|size| size as usize);
    let num_channels = features.len() / sites.len();
    // From a channel to the next, and from a scene to the next.
    let (height, plane) = match axes {
        AxisOrder::Zyx => (s0, s1 * s2),
        AxisOrder::Xyz => (s2, s0 * s1),
    };
    let (channel_len, scene_len) = (height * plane, num_channels * height * plane);
    for (&index, features) in sites.indices().iter().zip(features.chunks_exact(num_channels)) {
        let [batch, c0, c1, c2] = sites.grid().cell_of(index).map(|cell| cell as usize);
        let cell = match axes {
            AxisOrder::Zyx => c0 * plane + c1 * s2 + c2,
            AxisOrder::Xyz => c2 * plane + c0 * s1 + c1,
        };
        let scene = &mut out[batch * scene_len..][..scene_len];
        let channels = scene[cell..].iter_mut().step_by(channel_len);
        channels.zip(features).for_each(|(out, &feature)| *out = from_f32(feature));
    }
}
