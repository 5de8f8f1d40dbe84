use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use det_post_types::PointRange;

fn grid() -> Grid {
    let range = PointRange { min: [-2.0, 0.0, -1.0], max: [2.0, 1.5, 1.0] };
    Grid::new(range, [0.5, 0.25, 2.0]).unwrap()
}

fn params(voxel_capacity: usize, max_points_per_voxel: usize) -> VoxelizeParams {
    VoxelizeParams { grid: grid(), max_points_per_voxel, voxel_capacity }
}

fn points_of(rows: &[[f32; 3]]) -> Points {
    let mut points = Points::with_capacity(3, rows.len());
    assert!(rows.iter().all(|row| points.push(row)));
    points
}

fn run(rows: &[[f32; 3]], params: &VoxelizeParams) -> (Voxels, VoxelizeCounts) {
    let mut workspace = Workspace::new(&params.grid, rows.len());
    let mut voxels = Voxels::new(params);
    let points = points_of(rows);
    let counts = voxelize(&points, params, &mut workspace, &mut voxels).unwrap();
    // What the last frame left makes no difference.
    assert_eq!(voxelize(&points, params, &mut workspace, &mut voxels).unwrap(), counts);
    (voxels, counts)
}

/// Cells and their points.
type Groups = Vec<([u32; 3], Vec<u32>)>;

fn groups_of(voxels: &Voxels) -> Groups {
    let groups = (0..voxels.len()).map(|v| (voxels.coordinates()[v], voxels.points_of(v).to_vec()));
    groups.collect()
}

const A: [f32; 3] = [-1.9, 0.1, 0.0];
const B: [f32; 3] = [1.9, 1.4, 0.0];
const C: [f32; 3] = [0.6, 0.3, 0.0];

#[test]
fn voxels_and_points_stand_in_order_of_arrival() {
    let (voxels, counts) = run(&[B, A, B, C, A, B], &params(8, 8));
    assert_eq!(
        groups_of(&voxels),
        [([7, 5, 0], vec![0, 2, 5]), ([0, 0, 0], vec![1, 4]), ([5, 1, 0], vec![3])]
    );
    assert_eq!(
        counts,
        VoxelizeCounts { num_in_range: 6, num_voxels: 3, ..VoxelizeCounts::default() }
    );
}

#[test]
fn limits_cut_by_arrival_and_count_what_they_cut() {
    let rows = [B, A, B, C, A, B, C, C];
    // (voxel_capacity, max_points, groups, [voxels over, points over voxel, points over capacity])
    type Losses = [usize; 3];
    let cases: [(usize, usize, &[&[u32]], Losses); 4] = [
        (3, 3, &[&[0, 2, 5], &[1, 4], &[3, 6, 7]], [0, 0, 0]),
        (3, 2, &[&[0, 2], &[1, 4], &[3, 6]], [0, 2, 0]),
        (2, 3, &[&[0, 2, 5], &[1, 4]], [1, 0, 3]),
        (1, 1, &[&[0]], [2, 2, 5]),
    ];
    for (voxel_capacity, max_points, groups, losses) in cases {
        let (voxels, counts) = run(&rows, &params(voxel_capacity, max_points));
        let found: Vec<_> = groups_of(&voxels).into_iter().map(|(_, points)| points).collect();
        assert_eq!(found, groups);
        assert_eq!(
            [
                counts.num_voxels_over_capacity,
                counts.num_points_over_voxel,
                counts.num_points_over_voxel_capacity
            ],
            losses
        );
    }
}

#[test]
fn no_points_outside_points_and_nan() {
    let (voxels, counts) = run(&[], &params(2, 2));
    assert!(voxels.is_empty());
    assert_eq!(counts, VoxelizeCounts::default());
    let outside =
        [[2.0, 0.1, 0.0], [0.0, -1e-3, 0.0], [f32::NAN, 0.1, 0.0], [0.0, 0.1, f32::INFINITY]];
    let (voxels, counts) = run(&outside, &params(2, 2));
    assert!(voxels.is_empty());
    assert_eq!(counts, VoxelizeCounts { num_out_of_range: 4, ..VoxelizeCounts::default() });
}

#[test]
fn arguments_must_fit() {
    let given = params(4, 4);
    let huge = PointRange { min: [0.0; 3], max: [1000.0; 3] };
    let huge = VoxelizeParams { grid: Grid::new(huge, [0.1, 0.1, 0.1]).unwrap(), ..given };
    let coarse = Grid::new(given.grid.range(), [1.0, 1.0, 2.0]).unwrap();
    // (parameters of the call, of the voxels, point capacity)
    let cases = [
        (given, given, 1),
        (given, params(4, 3), 2),
        (given, params(3, 4), 2),
        (params(0, 4), params(0, 4), 2),
        (params(4, 0), params(4, 0), 2),
        (huge, huge, 2),
    ];
    for (call, made, point_capacity) in cases {
        let mut workspace = Workspace::new(&call.grid, point_capacity);
        let result = voxelize(&points_of(&[A, B]), &call, &mut workspace, &mut Voxels::new(&made));
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Argument);
    }
    let mut workspace = Workspace::new(&coarse, 2);
    let result = voxelize(&points_of(&[A, B]), &given, &mut workspace, &mut Voxels::new(&given));
    assert!(result.unwrap_err().message().contains("grid"));
}

/// The same by maps and sorting, limits applied afterwards.
fn reference(rows: &[[f32; 3]], params: &VoxelizeParams) -> (Groups, [usize; 6]) {
    let mut groups: BTreeMap<[u32; 3], Vec<u32>> = BTreeMap::new();
    for (index, row) in rows.iter().enumerate() {
        if let Some(cell) = params.grid.voxel_of(*row) {
            groups.entry(cell).or_default().push(index as u32);
        }
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, points)| points[0]);
    let num_in_range: usize = groups.iter().map(|(_, points)| points.len()).sum();
    let lost = groups.split_off(params.voxel_capacity.min(groups.len()));
    let mut over_voxel = 0;
    for (_, points) in &mut groups {
        over_voxel += points.len().saturating_sub(params.max_points_per_voxel);
        points.truncate(params.max_points_per_voxel);
    }
    let lost_points = lost.iter().map(|(_, points)| points.len()).sum();
    let num_out = rows.len() - num_in_range;
    let counts = [num_in_range, num_out, groups.len(), lost.len(), over_voxel, lost_points];
    (groups, counts)
}

proptest! {
    #[test]
    fn equals_the_reference(
        rows in prop::collection::vec([-2.5_f32..2.5, -0.5_f32..2.0, -1.2_f32..1.2], 0..300),
        voxel_capacity in 1_usize..60,
        max_points_per_voxel in prop_oneof![4 => 1_usize..12, 1 => Just(VoxelizeParams::ALL_POINTS)],
        fine: bool,
    ) {
        let size = if fine { [0.001, 0.001, 0.5] } else { [0.5, 0.25, 2.0] };
        let grid = Grid::new(grid().range(), size).unwrap();
        let params = VoxelizeParams { grid, max_points_per_voxel, voxel_capacity };
        let (voxels, c) = run(&rows, &params);
        let (groups, counts) = reference(&rows, &params);
        prop_assert_eq!(groups_of(&voxels), groups);
        prop_assert_eq!(
            [c.num_in_range, c.num_out_of_range, c.num_voxels, c.num_voxels_over_capacity,
             c.num_points_over_voxel, c.num_points_over_voxel_capacity],
            counts
        );
    }
}
