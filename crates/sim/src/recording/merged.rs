//! The points of a LiDAR in the frame of the vehicle.

use nalgebra::Isometry3;

/// Appends points of `step` bytes that begin with x, y, z as f32, moved by a matrix of f32 as a node
/// that merges clouds does it: `((r0 * x + r1 * y) + r2 * z) + t`.
pub(super) fn append_moved(
    points: &[u8],
    step: usize,
    vehicle_from_lidar: &Isometry3<f64>,
    data: &mut Vec<u8>,
) {
    let matrix = vehicle_from_lidar.to_homogeneous().map(|value| value as f32);
    for point in points.chunks_exact(step) {
        let start = data.len();
        data.extend_from_slice(point);
        let [x, y, z] = [0, 4, 8].map(|at| {
            let mut bytes = [0; 4];
            bytes.copy_from_slice(&point[at..at + 4]);
            f32::from_le_bytes(bytes)
        });
        for row in 0..3 {
            let [a, b, c, t] = [0, 1, 2, 3].map(|column| matrix[(row, column)]);
            let moved = a * x + b * y + c * z + t;
            data[start + 4 * row..][..4].copy_from_slice(&moved.to_le_bytes());
        }
    }
}
