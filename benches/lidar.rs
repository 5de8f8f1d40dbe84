//! Speed of the lidar ops on clouds of the density of a spinning sensor.
//!
//! `cargo bench --bench lidar` measures every op. `cargo bench --bench lidar --
//! --peer POINTS GROUPS` groups the points of a file once for the result and
//! many times for the clock: `benches/peers/voxelize_numpy.py` calls it.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a bench, not a library")]

use std::hint::black_box;
use std::time::Instant;

use criterion::Criterion;
use det_post_ops::cloud::densify::{Sweeps, densify};
use det_post_ops::cloud::pillar_features::pillar_features;
use det_post_ops::cloud::scatter::scatter;
use det_post_ops::cloud::unpack::{UnpackParams, unpack};
use det_post_ops::cloud::voxelize::{VoxelizeParams, Voxels, Workspace, voxelize};
use det_post_ops::decode::center::{CenterTask, decode_center};
use det_post_types::{
    Candidates, CenterDecode, CloudView, ElementType, Grid, PointChannel, PointField, PointFields,
    PointRange, Points, ScoreThresholds, SizeOrder, Stamp, Tensor, TensorValues, TensorView,
    YawConvention,
};
use nalgebra::{Isometry3, Translation3, UnitQuaternion};

const NUM_POINTS: usize = 200_000;
const MAX_POINTS: usize = 32;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let Some(at) = args.iter().position(|arg| arg == "--peer") {
        return peer(&args[at + 1], &args[at + 2]);
    }
    let mut criterion = Criterion::default().configure_from_args().sample_size(30);
    clouds(&mut criterion);
    pillars(&mut criterion);
    heads(&mut criterion);
    criterion.final_summary();
}

fn pillar_grid() -> VoxelizeParams {
    let range = PointRange { min: [-76.8, -76.8, -4.0], max: [76.8, 76.8, 6.0] };
    let grid = Grid::new(range, [0.32, 0.32, 10.0]).unwrap();
    VoxelizeParams { grid, max_points_per_voxel: MAX_POINTS, voxel_capacity: 40_000 }
}

fn voxel_grid() -> VoxelizeParams {
    let range = PointRange { min: [-54.0, -54.0, -5.0], max: [54.0, 54.0, 3.0] };
    let grid = Grid::new(range, [0.075, 0.075, 0.2]).unwrap();
    VoxelizeParams { grid, max_points_per_voxel: 10, voxel_capacity: 160_000 }
}

/// Uniform in [0, 1), the same every run.
fn noise(state: &mut u64) -> f32 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 40) as f32 / (1_u64 << 24) as f32
}

/// Rings swept azimuth by azimuth, x y z intensity: density falls with range.
fn scan() -> Points {
    let mut state = 7;
    let mut points = Points::with_capacity(4, NUM_POINTS);
    for i in 0..NUM_POINTS {
        let ring = (i % 64) as f32 / 64.0;
        let azimuth = (i / 64) as f32 * (64.0 * std::f32::consts::TAU / NUM_POINTS as f32);
        let wall = 0.7 + 0.3 * (7.0 * azimuth + 20.0 * ring).sin();
        let range = 2.5 + 90.0 * ring * ring * wall + 0.1 * noise(&mut state);
        let z = -1.8 + 2.5 * noise(&mut state) * ring;
        points.push(&[range * azimuth.cos(), range * azimuth.sin(), z, noise(&mut state)]);
    }
    points
}

fn clouds(criterion: &mut Criterion) {
    let points = scan();
    let data: Vec<u8> = points.values().iter().flat_map(|value| value.to_le_bytes()).collect();
    let mut fields = PointFields::new();
    for (name, offset) in [("x", 0), ("y", 4), ("z", 8), ("intensity", 12)] {
        fields.push(PointField { name, offset, datatype: 7, count: 1 }).unwrap();
    }
    let size = [NUM_POINTS as u32, 1];
    let cloud = CloudView::new(size, [16, data.len() as u32], false, fields, &data).unwrap();
    let params = UnpackParams {
        channels: vec![PointChannel::Intensity],
        intensity_scale: 1.0,
        range: Some(pillar_grid().grid.range()),
    };
    let mut out = Points::with_capacity(4, NUM_POINTS);
    criterion.bench_function("unpack/200k", |bencher| {
        bencher.iter(|| unpack(black_box(&cloud), &params, &mut out).unwrap());
    });

    let pose = |x: f64| {
        let rotation = UnitQuaternion::from_euler_angles(0.01, 0.02, 0.1 * x);
        Isometry3::from_parts(Translation3::new(x, 0.1, 0.0), rotation)
    };
    let mut sweeps = Sweeps::new(1, 4, NUM_POINTS);
    sweeps.push(&points, Stamp::from_nanos(0), &pose(0.0));
    let mut out = Points::with_capacity(4, 2 * NUM_POINTS);
    let stamp = Stamp::from_nanos(100_000_000);
    criterion.bench_function("densify/200k+200k", |bencher| {
        bencher.iter(|| {
            densify(black_box(&points), stamp, &pose(1.0), &sweeps, None, 1.0, &mut out).unwrap()
        });
    });
}

fn pillars(criterion: &mut Criterion) {
    let points = scan();
    for (name, params) in [("pillars", pillar_grid()), ("voxels", voxel_grid())] {
        let mut workspace = Workspace::new(&params.grid, NUM_POINTS);
        let mut voxels = Voxels::new(&params);
        criterion.bench_function(&format!("voxelize/{name}/200k"), |bencher| {
            bencher.iter(|| {
                voxelize(black_box(&points), &params, &mut workspace, &mut voxels).unwrap()
            });
        });
    }

    let params = pillar_grid();
    let mut voxels = Voxels::new(&params);
    let mut workspace = Workspace::new(&params.grid, NUM_POINTS);
    voxelize(&points, &params, &mut workspace, &mut voxels).unwrap();
    let mut features =
        Tensor::zeros(ElementType::F32, &[params.voxel_capacity, MAX_POINTS, 9]).unwrap();
    criterion.bench_function("pillar_features/40000x32x9", |bencher| {
        bencher.iter(|| {
            let points = black_box(&points);
            pillar_features(points, &voxels, &params.grid, false, &mut features).unwrap();
        });
    });

    let values = vec![0.5; params.voxel_capacity * 32];
    let shape = [params.voxel_capacity, 32];
    let features = TensorView::new(&shape, TensorValues::F32(&values)).unwrap();
    let mut map = Tensor::zeros(ElementType::F32, &[1, 32, 480, 480]).unwrap();
    criterion.bench_function("scatter/32x480x480", |bencher| {
        bencher.iter(|| scatter(black_box(&features), &voxels, &params.grid, &mut map).unwrap());
    });
}

fn heads(criterion: &mut Criterion) {
    const SIDE: usize = 480;
    let mut state = 3;
    let shapes = [5, 2, 1, 3, 2].map(|channels| [1, channels, SIDE, SIDE]);
    let mut maps = shapes.map(|shape| -> Vec<f32> {
        (0..shape.iter().product()).map(|_| noise(&mut state)).collect()
    });
    // One cell in five hundred holds an object.
    maps[0]
        .iter_mut()
        .for_each(|logit| *logit = if *logit < 0.0004 { 1.0 } else { -6.0 * *logit - 1.0 });
    let view = |i: usize| TensorView::new(&shapes[i], TensorValues::F32(&maps[i])).unwrap();
    let task = CenterTask {
        heatmap: view(0),
        offset: view(1),
        height: view(2),
        size: view(3),
        rotation: view(4),
        velocity: None,
    };
    let params = CenterDecode {
        origin_m: [-76.8, -76.8],
        cell_size_m: [0.32, 0.32],
        tasks: vec![vec![0, 1, 2, 3, 4]],
        heatmap_logits: true,
        size_order: SizeOrder::WidthLengthHeight,
        size_log: true,
        yaw: YawConvention::ClockwiseFromMinusY,
        score_thresholds: ScoreThresholds::uniform(0.35, 5),
        yaw_norm_thresholds: vec![0.3, 0.3, 0.3, 0.3, 0.0],
        center_range: None,
        has_velocity: false,
        has_variance: false,
    };
    let mut candidates = Candidates::with_capacity(1000);
    criterion.bench_function("decode_center/5x480x480", |bencher| {
        bencher.iter(|| decode_center(black_box(&[task]), &params, &mut candidates).unwrap());
    });
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
    let params = VoxelizeParams { voxel_capacity: 480 * 480, ..pillar_grid() };
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
