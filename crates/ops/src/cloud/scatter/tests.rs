use super::*;
use crate::cloud::voxelize::{VoxelizeParams, Workspace, voxelize};
use det_post_types::{ElementType, PointRange, Points};

const NUM_CHANNELS: usize = 3;

fn grid(nx: usize, ny: usize, nz: usize) -> Grid {
    let max = [nx, ny, nz].map(|n| n as f32);
    Grid::new(PointRange { min: [0.0; 3], max }, [1.0; 3]).unwrap()
}

/// Pillars at three cells of a 5 x 4 grid, in this order.
const CELLS: [[usize; 2]; 3] = [[4, 1], [0, 3], [2, 0]];

fn voxels(grid: &Grid) -> Voxels {
    let params = VoxelizeParams { grid: *grid, max_points_per_voxel: 1, voxel_capacity: 4 };
    let mut points = Points::with_capacity(3, 3);
    CELLS.iter().for_each(|&[x, y]| {
        points.push(&[x as f32 + 0.5, y as f32 + 0.5, 0.5]);
    });
    let mut voxels = Voxels::new(&params);
    voxelize(&points, &params, &mut Workspace::new(grid, 3), &mut voxels).unwrap();
    voxels
}

/// Feature `channel` of row `row`; exact in f16.
fn feature(row: usize, channel: usize) -> f32 {
    (10 * row + channel) as f32 + 0.25
}

#[test]
fn every_shape_and_element_lands_where_it_should() {
    let grid = grid(5, 4, 1);
    let voxels = voxels(&grid);
    // One row more than there are voxels: not read.
    let values: Vec<f32> =
        (0..4 * NUM_CHANNELS).map(|i| feature(i / NUM_CHANNELS, i % NUM_CHANNELS)).collect();
    let halves: Vec<f16> = values.iter().map(|&value| f16::from_f32(value)).collect();
    let expected = |layout| {
        let mut expected = vec![0.0; NUM_CHANNELS * 20];
        for (row, [x, y]) in CELLS.into_iter().enumerate() {
            for channel in 0..NUM_CHANNELS {
                let at = match layout {
                    MapLayout::ChannelsLast => (y * 5 + x) * NUM_CHANNELS + channel,
                    _ => channel * 20 + y * 5 + x,
                };
                expected[at] = feature(row, channel);
            }
        }
        expected
    };
    let maps = [
        (MapLayout::Planar, ElementType::F32),
        (MapLayout::Planar, ElementType::F16),
        (MapLayout::ChannelsLast, ElementType::F32),
        (MapLayout::ChannelsLast, ElementType::F16),
    ];
    for shape in [vec![4, NUM_CHANNELS], vec![4, 1, NUM_CHANNELS], vec![4, NUM_CHANNELS, 1]] {
        for from in [TensorValues::F32(&values), TensorValues::F16(&halves)] {
            for (layout, to) in maps {
                let map_shape = map_shape(&grid, layout, NUM_CHANNELS).unwrap();
                let mut out = Tensor::zeros(to, &map_shape).unwrap();
                match &mut out {
                    Tensor::F32 { values, .. } => values.fill(7.0),
                    Tensor::F16 { values, .. } => values.fill(f16::from_f32(7.0)),
                }
                let features = TensorView::new(&shape, from).unwrap();
                scatter(&features, &voxels, &grid, layout, &mut out).unwrap();
                let found: Vec<f32> = match out {
                    Tensor::F32 { values, .. } => values,
                    Tensor::F16 { values, .. } => values.iter().map(|v| v.to_f32()).collect(),
                };
                assert_eq!(found, expected(layout), "{shape:?} {layout:?}");
            }
        }
    }
}

#[test]
fn no_voxels_clear_the_map() {
    let grid = grid(5, 4, 1);
    let params = VoxelizeParams { grid, max_points_per_voxel: 1, voxel_capacity: 4 };
    let mut out = Tensor::F32 { shape: vec![1, 2, 4, 5], values: vec![7.0; 40] };
    let features = TensorView::new(&[0, 2], TensorValues::F32(&[])).unwrap();
    scatter(&features, &Voxels::new(&params), &grid, MapLayout::Planar, &mut out).unwrap();
    assert_eq!(out, Tensor::zeros(ElementType::F32, &[1, 2, 4, 5]).unwrap());
}

#[test]
fn what_does_not_fit_is_refused() {
    let (fine, flat, tall) = (grid(5, 4, 1), grid(4, 4, 1), grid(5, 4, 2));
    let voxels = voxels(&fine);
    let cases: [(&Grid, &[usize], &[usize], &str); 7] = [
        (&fine, &[2, 3], &[1, 3, 4, 5], "V of 3 or more"),
        (&fine, &[3, 3, 3], &[1, 3, 4, 5], "features of [3, 3, 3]"),
        (&fine, &[9], &[1, 3, 4, 5], "features of [9]"),
        (&fine, &[3, 3], &[1, 3, 5, 4], "map of [1, 3, 5, 4]"),
        (&fine, &[3, 3], &[3, 4, 5], "map of [3, 4, 5]"),
        (&tall, &[3, 3], &[1, 3, 4, 5], "5x4x2"),
        (&flat, &[3, 3], &[1, 3, 4, 4], "voxel [4, 1, 0] is outside"),
    ];
    for (grid, shape, map, message) in cases {
        let values = vec![0.0; shape.iter().product()];
        let features = TensorView::new(shape, TensorValues::F32(&values)).unwrap();
        let mut out = Tensor::zeros(ElementType::F32, map).unwrap();
        let error = scatter(&features, &voxels, grid, MapLayout::Planar, &mut out).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument);
        assert!(error.message().contains(message), "{error}");
    }
    let features = TensorView::new(&[3, 3], TensorValues::I32(&[0; 9])).unwrap();
    let mut out = Tensor::zeros(ElementType::F32, &[1, 3, 4, 5]).unwrap();
    assert!(scatter(&features, &voxels, &fine, MapLayout::Planar, &mut out).is_err());
    let features = TensorView::new(&[3, 3], TensorValues::F32(&[0.0; 9])).unwrap();
    for layout in [MapLayout::ChannelsLast, MapLayout::Blocks32] {
        assert!(scatter(&features, &voxels, &fine, layout, &mut out).is_err(), "{layout:?}");
    }
}
