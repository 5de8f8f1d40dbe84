use super::*;
use crate::cloud::voxelize::{VoxelizeParams, Workspace, voxelize};
use det_post_types::{ElementType, PointRange, TensorValues};

const NUM_SLOTS: usize = 3;

fn grid() -> Grid {
    let range = PointRange { min: [-3.0, 0.0, -2.0], max: [3.0, 5.0, 2.5] };
    Grid::new(range, [0.7, 0.6, 4.5]).unwrap()
}

/// Twelve points in five pillars, with different values in each channel; one
/// pillar has more points than slots.
fn points(num_channels: usize) -> Points {
    let positions = [
        [0.13, 1.31, 0.4],
        [-2.61, 4.25, -1.7],
        [0.21, 1.42, 0.9],
        [2.95, 0.05, 2.1],
        [0.3, 1.23, -0.3],
        [0.17, 1.55, 0.2],
        [-2.55, 4.3, 1.1],
        [1.25, 3.3, 0.05],
        [9.0, 0.0, 0.0],
        [-1.45, 2.65, 2.4],
        [0.11, 1.27, -1.9],
        [1.31, 3.1, 0.45],
    ];
    let mut points = Points::with_capacity(num_channels, positions.len());
    for (index, position) in positions.iter().enumerate() {
        let mut point = position.to_vec();
        point.extend((3..num_channels).map(|channel| (100 * channel + index) as f32 * 0.125));
        points.push(&point);
    }
    points
}

fn voxels_of(points: &Points) -> Voxels {
    let params =
        VoxelizeParams { grid: grid(), max_points_per_voxel: NUM_SLOTS, voxel_capacity: 8 };
    let mut voxels = Voxels::new(&params);
    let mut workspace = Workspace::new(&grid(), points.len());
    let counts = voxelize(points, &params, &mut workspace, &mut voxels).unwrap();
    assert_eq!((counts.num_voxels, counts.num_points_over_voxel), (5, 2));
    voxels
}

/// Written out again, value by value and in f64: (row, slot, feature).
fn expected(points: &Points, voxels: &Voxels, num_features: usize, at: [usize; 3]) -> f64 {
    let [row, slot, feature] = at;
    if row >= voxels.len() || slot >= voxels.points_of(row).len() {
        return 0.0;
    }
    let kept: Vec<&[f32]> = voxels
        .points_of(row)
        .iter()
        .map(|&index| points.iter().nth(index as usize).unwrap())
        .collect();
    let value = |channel: usize| f64::from(kept[slot][channel]);
    let num_channels = points.num_channels();
    assert!(feature < num_features);
    match feature.checked_sub(num_channels) {
        None => value(feature),
        Some(axis @ 0..3) => {
            let sum: f64 = kept.iter().map(|point| f64::from(point[axis])).sum();
            value(axis) - sum / kept.len() as f64
        }
        Some(axis) => {
            let axis = axis - 3;
            let min = f64::from(grid().range().min[axis]);
            let size = f64::from(grid().voxel_size_m()[axis]);
            value(axis) - (min + (f64::from(voxels.coordinates()[row][axis]) + 0.5) * size)
        }
    }
}

#[test]
fn all_layouts_in_f32_and_f16() {
    // (channels, offset from the centre in z, features)
    for (num_channels, with_z, features) in [
        (4, false, 9),  // x y z time_lag
        (4, true, 10),  // x y z time_lag, or KITTI's intensity
        (5, true, 11),  // x y z intensity time_lag
        (5, false, 10), // nuScenes: x y z intensity time_lag; Waymo: … elongation
        (3, false, 8),
    ] {
        assert_eq!(num_features(num_channels, with_z), features);
        let points = points(num_channels);
        let voxels = voxels_of(&points);
        let shape = [7, NUM_SLOTS, features];
        for (element, tolerance) in [(ElementType::F32, 1e-6), (ElementType::F16, 1e-3)] {
            let mut out = Tensor::zeros(element, &shape).unwrap();
            // What an earlier frame left makes no difference.
            match &mut out {
                Tensor::F32 { values, .. } => values.fill(7.0),
                Tensor::F16 { values, .. } => values.fill(f16::from_f32(7.0)),
            }
            pillar_features(&points, &voxels, &grid(), with_z, &mut out).unwrap();
            let found: Vec<f64> = match out.view().values() {
                TensorValues::F32(values) => values.iter().map(|&v| f64::from(v)).collect(),
                TensorValues::F16(values) => values.iter().map(|&v| f64::from(v)).collect(),
                _ => unreachable!(),
            };
            for (i, &value) in found.iter().enumerate() {
                let at = [i / features / NUM_SLOTS, i / features % NUM_SLOTS, i % features];
                let expected = expected(&points, &voxels, features, at);
                let difference = (value - expected).abs();
                assert!(
                    difference <= tolerance * expected.abs().max(1.0),
                    "{at:?}: {value}, {expected}"
                );
            }
        }
    }
}

#[test]
fn no_voxels_give_zeros_and_exactly_enough_rows_suffice() {
    let points = points(4);
    let mut out =
        Tensor::F32 { shape: vec![5, NUM_SLOTS, 9], values: vec![7.0; 5 * NUM_SLOTS * 9] };
    pillar_features(&points, &voxels_of(&points), &grid(), false, &mut out).unwrap();

    let params =
        VoxelizeParams { grid: grid(), max_points_per_voxel: NUM_SLOTS, voxel_capacity: 8 };
    pillar_features(&points, &Voxels::new(&params), &grid(), false, &mut out).unwrap();
    assert_eq!(out, Tensor::zeros(ElementType::F32, &[5, NUM_SLOTS, 9]).unwrap());
}

#[test]
fn what_does_not_fit_is_refused() {
    let points = points(4);
    let voxels = voxels_of(&points);
    for shape in [vec![4, 3, 9], vec![5, 2, 9], vec![5, 3, 10], vec![5, 27], vec![5, 3, 9, 1]] {
        let mut out = Tensor::zeros(ElementType::F32, &shape).unwrap();
        let error = pillar_features(&points, &voxels, &grid(), false, &mut out).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument);
    }
    let mut fewer = Points::with_capacity(4, 1);
    fewer.push(&[0.0; 4]);
    let mut out = Tensor::zeros(ElementType::F32, &[5, 3, 9]).unwrap();
    let error = pillar_features(&fewer, &voxels, &grid(), false, &mut out).unwrap_err();
    assert!(error.message().contains("point 11, there are 1"), "{error}");
}
