//! Grouping the points of a file into pillars, beside numpy: `benches/peers/voxelize_numpy.py`
//! calls it.
//!
//! `cargo bench --bench lidar -- --peer POINTS GROUPS` groups once for the result and many times
//! for the clock. `det_post bench` measures every operation.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a bench, not a library")]

use std::hint::black_box;
use std::time::Instant;

use det_post_ops::cloud::voxelize::{VoxelizeParams, Voxels, Workspace, voxelize};
use det_post_types::{Grid, PointRange, Points};

const MAX_POINTS: usize = 32;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    match args.iter().position(|arg| arg == "--peer").map(|at| &args[at + 1..]) {
        Some([points, groups, ..]) => peer(points, groups),
        _ => println!("nothing to do: expected --peer POINTS GROUPS"),
    }
}

/// Reads rows of x y z, groups them into pillars, writes per pillar x, y, the
/// number of points and `MAX_POINTS` indices (u32::MAX where there is none),
/// and prints the seconds of each of the timed calls.
fn peer(points_path: &str, groups_path: &str) {
    let bytes = std::fs::read(points_path).unwrap();
    let values: Vec<f32> =
        bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    let mut points = Points::with_capacity(3, values.len() / 3);
    values.chunks_exact(3).for_each(|point| {
        points.push(point);
    });
    // Room for every cell: the peer has no limit.
    let range = PointRange { min: [-76.8, -76.8, -4.0], max: [76.8, 76.8, 6.0] };
    let grid = Grid::new(range, [0.32, 0.32, 10.0]).unwrap();
    let params =
        VoxelizeParams { grid, max_points_per_voxel: MAX_POINTS, voxel_capacity: 480 * 480 };
    let mut workspace = Workspace::new(&params.grid, points.len());
    let mut voxels = Voxels::new(&params);
    for _ in 0..51 {
        let start = Instant::now();
        voxelize(black_box(&points), &params, &mut workspace, &mut voxels).unwrap();
        println!("{}", start.elapsed().as_secs_f64());
    }

    let mut groups = Vec::new();
    for (voxel, [x, y, _]) in voxels.coordinates().iter().enumerate() {
        let indices = voxels.points_of(voxel);
        let empty = std::iter::repeat_n(u32::MAX, MAX_POINTS - indices.len());
        let row = [*x, *y, indices.len() as u32].into_iter();
        let row = row.chain(indices.iter().copied()).chain(empty);
        row.for_each(|value| groups.extend(value.to_le_bytes()));
    }
    std::fs::write(groups_path, groups).unwrap();
}
