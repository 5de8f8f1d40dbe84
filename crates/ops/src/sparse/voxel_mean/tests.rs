use super::*;
use crate::cloud::voxelize::{VoxelizeParams, Workspace, voxelize};
use det_post_types::{ChannelTransform, ElementType, Grid, PointRange};

#[test]
fn tanh_is_within_one_unit_of_the_last_place() {
    let mut largest = 0;
    for bits in (0..0x4180_0000_u32).step_by(997) {
        let value = f32::from_bits(bits);
        let exact = f64::from(value).tanh() as f32;
        largest = largest.max(tanh(value).to_bits().abs_diff(exact.to_bits()));
        assert_eq!(tanh(-value).to_bits(), (-tanh(value)).to_bits(), "{value}");
    }
    assert!(largest <= 1, "{largest} units");
    assert_eq!([tanh(f32::INFINITY), tanh(f32::NEG_INFINITY), tanh(255.0)], [1.0, -1.0, 1.0]);
    assert!(tanh(f32::NAN).is_nan());
}

/// Three voxels: of three points, of one, and of four of which three are kept.
fn cloud(max_points_per_voxel: usize) -> (Points, Voxels) {
    let grid = Grid::new(PointRange { min: [0.0; 3], max: [4.0; 3] }, [1.0; 3]).unwrap();
    let params = VoxelizeParams { grid, max_points_per_voxel, voxel_capacity: 4 };
    let mut points = Points::with_capacity(4, 8);
    for (x, intensity) in [
        (0.1, 0.0),
        (2.5, 3.0),
        (0.2, 1.0),
        (1.25, 0.5),
        (2.5, 200.0),
        (0.6, -2.0),
        (2.25, 1e-3),
        (2.75, 9.0),
    ] {
        assert!(points.push(&[x, 0.5, 1.5, intensity]));
    }
    let mut voxels = Voxels::new(&params);
    voxelize(&points, &params, &mut Workspace::new(&grid, 8), &mut voxels).unwrap();
    (points, voxels)
}

#[test]
fn means_are_those_of_the_kept_points_in_order() {
    let (points, voxels) = cloud(3);
    let third = |values: [f32; 3]| (values[0] + values[1] + values[2]) / 3.0;
    let means = [
        [third([0.1, 0.2, 0.6]), 0.5, 1.5, third([0.0, 1.0, -2.0])],
        [third([2.5, 2.5, 2.25]), 0.5, 1.5, third([3.0, 200.0, 1e-3])],
        [1.25, 0.5, 1.5, 0.5],
        [0.0; 4],
    ];
    let mut out = Tensor::F32 { shape: vec![4, 4], values: vec![7.0; 16] };
    voxel_mean(&points, &voxels, &[], &mut out).unwrap();
    assert_eq!(out, Tensor::F32 { shape: vec![4, 4], values: means.as_flattened().to_vec() });

    let mut out = Tensor::zeros(ElementType::F16, &[3, 4]).unwrap();
    voxel_mean(&points, &voxels, &[], &mut out).unwrap();
    let Tensor::F16 { values, .. } = out else { panic!() };
    let halves = means[..3].as_flattened().iter().map(|&mean| f16::from_f32(mean));
    assert!(values.into_iter().eq(halves));
}

#[test]
fn without_a_limit_all_points_count() {
    let (points, voxels) = cloud(VoxelizeParams::ALL_POINTS);
    let mut out = Tensor::zeros(ElementType::F32, &[3, 4]).unwrap();
    voxel_mean(&points, &voxels, &[], &mut out).unwrap();
    let Tensor::F32 { values, .. } = out else { panic!() };
    assert_eq!(values[4..8], [10.0 / 4.0, 0.5, 1.5, (203.0 + 1e-3 + 9.0) / 4.0]);
}

#[test]
fn points_are_transformed_before_their_mean() {
    use ChannelTransform::{Identity, Tanh};

    let (points, voxels) = cloud(3);
    let transforms = [Identity, Identity, Identity, Tanh];
    let mut out = Tensor::zeros(ElementType::F32, &[3, 4]).unwrap();
    voxel_mean(&points, &voxels, &transforms, &mut out).unwrap();
    let Tensor::F32 { values, .. } = out else { panic!() };
    let expected =
        [(0.0 + tanh(1.0) + tanh(-2.0)) / 3.0, (tanh(3.0) + 1.0 + tanh(1e-3)) / 3.0, tanh(0.5)];
    assert_eq!([values[3], values[7], values[11]], expected);
    assert_eq!(values[8], 1.25);
}

#[test]
fn what_does_not_fit_is_refused() {
    let (points, voxels) = cloud(3);
    let other = Points::with_capacity(4, 1);
    let five = [ChannelTransform::Tanh; 5];
    for (points, shape, transforms, message) in [
        (&points, vec![2, 4], &[][..], "3 voxels of 4 channels"),
        (&points, vec![3, 5], &[], "[3, 5]"),
        (&points, vec![12], &[], "[12]"),
        (&points, vec![3, 4], &five, "5 transforms"),
        (&other, vec![3, 4], &[], "there are 0"),
    ] {
        let mut out = Tensor::zeros(ElementType::F32, &shape).unwrap();
        let error = voxel_mean(points, &voxels, transforms, &mut out).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument);
        assert!(error.message().contains(message), "{error}");
    }
}
