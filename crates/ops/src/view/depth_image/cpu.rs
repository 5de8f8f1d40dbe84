//! The reference: point after point.

use super::{DepthImageParams, MIN_DEPTH_M};
use det_post_types::Points;

pub(super) fn depth_image(points: &Points, params: &DepthImageParams, images: &mut [f32]) {
    let [width, height] = [params.size.width, params.size.height];
    let num_pixels = (width as usize) * (height as usize);
    images.fill(0.0);
    for point in points.values().chunks_exact(points.num_channels()) {
        let xyz = [point[0], point[1], point[2]];
        if !params.range.contains(xyz) {
            continue;
        }
        for (view, image) in params.views.iter().zip(images.chunks_exact_mut(num_pixels)) {
            if !view.is_present {
                continue;
            }
            let Some((place, depth)) = placed(&view.pixels_from_points, xyz, [width, height])
            else {
                continue;
            };
            let pixel = &mut image[place];
            if *pixel == 0.0 || depth < *pixel {
                *pixel = depth;
            }
        }
    }
}

/// The pixel of a point, in row-major order, and its depth.
fn placed(
    rows: &[[f32; 4]; 3],
    [x, y, z]: [f32; 3],
    [width, height]: [u32; 2],
) -> Option<(usize, f32)> {
    let [a, b, depth] = rows.map(|[m0, m1, m2, m3]| ((m0 * x + m1 * y) + m2 * z) + m3);
    // Each comparison is false for NaN.
    if depth.is_nan() || depth <= MIN_DEPTH_M {
        return None;
    }
    let (u, v) = (a / depth, b / depth);
    let is_seen = u >= 0.0 && u < width as f32 && v >= 0.0 && v < height as f32;
    is_seen.then(|| (v as usize * width as usize + u as usize, depth))
}
