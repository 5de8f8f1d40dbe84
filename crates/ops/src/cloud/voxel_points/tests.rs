use super::*;
use crate::cloud::voxelize::{Workspace, voxelize};
use det_post_testing::npz::Npz;
use det_post_testing::shared_data::shared_data;
use det_post_types::{Grid, PointRange, RangeEnds, VoxelCoordinates};

fn params(max_points_per_voxel: usize, voxel_capacity: usize) -> VoxelizeParams {
    let range = PointRange { min: [0.0; 3], max: [4.0, 3.0, 2.0] };
    let grid = Grid::new(range, [1.0; 3]).unwrap();
    VoxelizeParams { grid, max_points_per_voxel, voxel_capacity }
}

fn points_of(num_channels: usize, values: &[f32]) -> Points {
    let mut points = Points::with_capacity(num_channels, values.len() / num_channels);
    assert!(values.chunks_exact(num_channels).all(|point| points.push(point)));
    points
}

fn group(points: &Points, params: &VoxelizeParams) -> Voxels {
    let mut voxels = Voxels::new(params);
    let mut workspace = Workspace::new(&params.grid, points.len());
    voxelize(points, params, &mut workspace, &mut voxels).unwrap();
    voxels
}

fn floats<'a>(view: &TensorView<'a>) -> &'a [f32] {
    let TensorValues::F32(values) = view.values() else { panic!() };
    values
}

fn integers<'a>(view: &TensorView<'a>) -> &'a [i32] {
    let TensorValues::I32(values) = view.values() else { panic!() };
    values
}

const A: [f32; 4] = [0.5, 0.5, 0.5, 7.0];
const B: [f32; 4] = [3.5, 2.5, 1.5, 8.0];

#[test]
fn points_stand_in_order_and_zeros_fill_up() {
    let points = points_of(4, &[A, B, [0.6, 0.5, 0.5, 9.0], A].concat());
    for (columns, coordinates) in [
        (VoxelCoordinates::Zyx, &[0, 0, 0, 1, 2, 3][..]),
        (VoxelCoordinates::BatchZyx, &[0, 0, 0, 0, 0, 1, 2, 3]),
    ] {
        let mut out = VoxelPoints::new(&params(2, 3), 4, columns).unwrap();
        for _ in 0..2 {
            let voxels = group(&points, &params(2, 3));
            voxel_points(&points, &voxels, &mut out).unwrap();
            let [values, numbers, cells] = out.views().unwrap();
            assert_eq!(values.shape(), [2, 2, 4]);
            assert_eq!(floats(&values), [A, [0.6, 0.5, 0.5, 9.0], B, [0.0; 4]].concat());
            assert_eq!((numbers.shape(), integers(&numbers)), (&[2][..], &[2, 1][..]));
            assert_eq!((cells.shape()[0], integers(&cells)), (2, coordinates));
            // A frame without voxels, and the next one.
            voxel_points(&points_of(4, &[]), &Voxels::new(&params(2, 3)), &mut out).unwrap();
            let [values, numbers, cells] = out.views().unwrap();
            assert_eq!((values.shape(), numbers.shape()), (&[0, 2, 4][..], &[0][..]));
            assert_eq!((cells.shape()[0], integers(&cells)), (0, &[][..]));
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let points = points_of(4, &A);
    let new = |params: &VoxelizeParams| VoxelPoints::new(params, 4, VoxelCoordinates::Zyx);
    assert!(new(&params(VoxelizeParams::ALL_POINTS, 1)).is_err());
    assert!(new(&params(usize::MAX / 2, 9)).is_err());
    let error = new(&params(1 << 20, 1 << 30)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Memory);
    let mut out = new(&params(2, 3)).unwrap();
    for (points, limits) in
        [(&points, params(2, 4)), (&points, params(1, 3)), (&points_of(3, &A[..3]), params(2, 3))]
    {
        let error = voxel_points(points, &group(points, &limits), &mut out).unwrap_err();
        assert!(error.message().contains("(3, 2, 4)"), "{error}");
    }
    let voxels = group(&points, &params(2, 3));
    let error = voxel_points(&points_of(4, &[]), &voxels, &mut out).unwrap_err();
    assert!(error.message().contains("point 0, there are 0"), "{error}");
}

/// Parameters of a case of the shared data.
fn case_params(
    case: &serde_json::Value,
    max_points_per_voxel: usize,
    ends: RangeEnds,
) -> VoxelizeParams {
    let numbers = |key: &str| -> Vec<f32> {
        let items = case["parameters"][key].as_array().unwrap();
        items.iter().map(|item| item.as_f64().unwrap() as f32).collect()
    };
    let range = PointRange::from_bounds(numbers("point_cloud_range").try_into().unwrap());
    let size = numbers("voxel_size").try_into().unwrap();
    VoxelizeParams {
        grid: Grid::truncated(range, size, ends).unwrap(),
        max_points_per_voxel,
        voxel_capacity: 60_000,
    }
}

/// Cells by their coordinates, with number, and the sums of points below the limit.
#[test]
fn the_cells_of_autoware_are_found() {
    let Some(data) = shared_data() else { return };
    for (folder, columns, ends, limit) in [
        ("transfusion", VoxelCoordinates::BatchZyx, RangeEnds::BothOutside, 20),
        ("bevfusion", VoxelCoordinates::Zyx, RangeEnds::LowInside, 10),
    ] {
        let data = data.join(folder);
        let text = std::fs::read_to_string(data.join("voxels.json")).unwrap();
        let cases: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
        assert!(cases.len() >= 3);
        for case in &cases {
            let name = case["case"].as_str().unwrap();
            let npz = Npz::open(&data.join(format!("{name}.npz")));
            let num_channels = npz.array("points").shape[1];
            let params = case_params(case, limit, ends);
            let points = points_of(num_channels, npz.f32("points"));
            let voxels = group(&points, &params);
            let mut out = VoxelPoints::new(&params, num_channels, columns).unwrap();
            voxel_points(&points, &voxels, &mut out).unwrap();
            compare(&out, &npz, &format!("{folder}/{name}"));
            assert_eq!(voxels.len() as u64, case["voxels"], "{folder}/{name}");
        }
    }
}

/// By channel.
fn sum_of(row: &[f32], channels: usize) -> Vec<f64> {
    let of_channel = |c| row.iter().skip(c).step_by(channels).map(|&v| f64::from(v)).sum();
    (0..channels).map(of_channel).collect()
}

fn compare(out: &VoxelPoints, npz: &Npz, name: &str) {
    let [values, numbers, cells] = out.views().unwrap();
    let &[_, slots, channels] = values.shape() else { panic!() };
    let width = cells.shape()[1];
    let mut found: Vec<_> = (0..numbers.shape()[0])
        .map(|voxel| {
            let row = &floats(&values)[voxel * slots * channels..][..slots * channels];
            let cell = &integers(&cells)[voxel * width..][..width];
            (cell, integers(&numbers)[voxel], sum_of(row, channels))
        })
        .collect();
    found.sort_by_key(|(cell, ..)| *cell);
    let expected = npz.i32("coors").chunks_exact(width).zip(npz.i32("num_points"));
    let sums: Vec<f64> = match npz.contains("sum_of_kept") {
        true => npz.f64("sum_of_kept").to_vec(),
        false => {
            let rows = npz.f32("voxels").chunks_exact(slots * channels);
            rows.flat_map(|row| sum_of(row, channels)).collect()
        }
    };
    let mut expected: Vec<_> = expected.zip(sums.chunks_exact(channels)).collect();
    expected.sort_by_key(|((cell, _), _)| *cell);
    assert_eq!(found.len(), expected.len(), "{name}");
    for ((cell, number, sum), ((at, num), sums)) in found.iter().zip(expected) {
        assert_eq!((*cell, number), (at, num), "{name}");
        let near = sum.iter().zip(sums).all(|(a, b)| (a - b).abs() <= 1e-3 + 1e-6 * b.abs());
        assert!(near, "{name}: {cell:?}: {sum:?}, expected {sums:?}");
    }
}
