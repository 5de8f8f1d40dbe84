//! The ops of a lidar's frame on clouds of the density of a spinning sensor.

#[cfg(feature = "cuda")]
mod cuda;
mod proposals;
mod several;

use nalgebra::{Isometry3, Translation3, UnitQuaternion};

use super::case::Case;
use super::inputs::Random;
use super::measure::Bench;
use det_post_ops::cloud::densify::{Sweeps, densify};
use det_post_ops::cloud::pillar_features::pillar_features;
use det_post_ops::cloud::scatter::scatter;
use det_post_ops::cloud::unpack::{UnpackParams, unpack};
use det_post_ops::cloud::voxelize::{VoxelizeParams, Voxels, Workspace, voxelize};
use det_post_ops::decode::center::{CenterTask, decode_center};
use det_post_ops::device::Device;
use det_post_types::{
    Candidates, CenterDecode, CloudView, ElementType, Grid, MapLayout, PointChannel, PointField,
    PointFields, PointRange, Points, Result, ScoreThresholds, SizeOrder, Stamp, Tensor,
    TensorValues, TensorView, YawConvention,
};

const NUM_POINTS: usize = 200_000;
const MAX_POINTS: usize = 32;
const NUM_FEATURES: usize = 9;
const NUM_CHANNELS: usize = 32;
/// Cells of a side, of pillars of 0.32 m.
const SIDE: usize = 480;
const NUM_CLASSES: usize = 5;
/// The most candidates that enter suppression.
const TOP_K: usize = 1000;

const UNPACK: &str = "unpack 200k points";
const DENSIFY: &str = "densify 200k + 200k points";
const VOXELIZE: &str = "voxelize 200k points, 0.32 m pillars";
const FEATURES: &str = "pillar_features 40000x32x9";
const SCATTER: &str = "scatter 32x480x480";
const SCATTER_LAST: &str = "scatter 32x480x480, channels last, f16";
const DECODE: &str = "decode_center 5x480x480";

pub(super) fn cases(bench: &mut Bench<'_>, device: &Device) -> Result<()> {
    proposals::cases(bench, device)?;
    match device {
        Device::Cpu => {
            clouds(bench)?;
            several::cases(bench)?;
            pillars(bench)?;
            heads(bench)
        }
        #[cfg(feature = "cuda")]
        Device::Cuda(device) => cuda::cases(bench, device),
    }
}

fn pillar_grid() -> Result<VoxelizeParams> {
    let range = PointRange { min: [-76.8, -76.8, -4.0], max: [76.8, 76.8, 6.0] };
    let grid = Grid::new(range, [0.32, 0.32, 10.0])?;
    Ok(VoxelizeParams { grid, max_points_per_voxel: MAX_POINTS, voxel_capacity: 40_000 })
}

/// Rings swept azimuth by azimuth, x y z intensity: density falls with range.
pub(super) fn scan() -> Points {
    let mut random = Random::new(7);
    let mut points = Points::with_capacity(4, NUM_POINTS);
    for i in 0..NUM_POINTS {
        let ring = (i % 64) as f32 / 64.0;
        let azimuth = (i / 64) as f32 * (64.0 * std::f32::consts::TAU / NUM_POINTS as f32);
        let wall = 0.7 + 0.3 * (7.0 * azimuth + 20.0 * ring).sin();
        let range = 2.5 + 90.0 * ring * ring * wall + random.range(0.0, 0.1);
        let z = -1.8 + random.range(0.0, 2.5) * ring;
        points.push(&[range * azimuth.cos(), range * azimuth.sin(), z, random.range(0.0, 1.0)]);
    }
    points
}

/// Points as a message has them.
pub(super) struct Cloud(Vec<u8>);

impl Cloud {
    pub(super) fn of(points: &Points) -> Self {
        Self(points.values().iter().flat_map(|value| value.to_le_bytes()).collect())
    }

    fn fields() -> Result<PointFields<'static>> {
        let mut fields = PointFields::new();
        for (name, offset) in [("x", 0), ("y", 4), ("z", 8), ("intensity", 12)] {
            fields.push(PointField { name, offset, datatype: 7, count: 1 })?;
        }
        Ok(fields)
    }

    pub(super) fn view(&self) -> Result<CloudView<'_>> {
        Self::view_of(&self.0)
    }

    /// A cloud of the same layout.
    pub(super) fn view_of(data: &[u8]) -> Result<CloudView<'_>> {
        let steps = [16, data.len() as u32];
        CloudView::new([NUM_POINTS as u32, 1], steps, false, Self::fields()?, data)
    }
}

fn unpack_params() -> Result<UnpackParams> {
    Ok(UnpackParams {
        channels: vec![PointChannel::Intensity],
        intensity_scale: 1.0,
        range: Some(pillar_grid()?.grid.range()),
    })
}

fn clouds(bench: &mut Bench<'_>) -> Result<()> {
    if !bench.wants(UNPACK) && !bench.wants(DENSIFY) {
        return Ok(());
    }
    let points = scan();
    if bench.wants(UNPACK) {
        let (cloud, params) = (Cloud::of(&points), unpack_params()?);
        let view = cloud.view()?;
        let mut out = Points::with_capacity(4, NUM_POINTS);
        bench.host(Case::new(UNPACK), || unpack(&view, &params, &mut out).map(|_| ()))?;
    }
    if bench.wants(DENSIFY) {
        let pose = |x: f64| {
            let rotation = UnitQuaternion::from_euler_angles(0.01, 0.02, 0.1 * x);
            Isometry3::from_parts(Translation3::new(x, 0.1, 0.0), rotation)
        };
        let mut sweeps = Sweeps::new(1, 4, NUM_POINTS);
        sweeps.push(&points, Stamp::from_nanos(0), &pose(0.0));
        let mut out = Points::with_capacity(4, 2 * NUM_POINTS);
        let (stamp, pose) = (Stamp::from_nanos(100_000_000), pose(1.0));
        bench.host(Case::new(DENSIFY), || {
            densify(&points, stamp, &pose, &sweeps, None, 1.0, &mut out).map(|_| ())
        })?;
    }
    Ok(())
}

fn pillars(bench: &mut Bench<'_>) -> Result<()> {
    if ![VOXELIZE, FEATURES, SCATTER].iter().any(|name| bench.wants(name)) {
        return Ok(());
    }
    let (points, params) = (scan(), pillar_grid()?);
    let mut workspace = Workspace::new(&params.grid, NUM_POINTS);
    let mut voxels = Voxels::new(&params);
    voxelize(&points, &params, &mut workspace, &mut voxels)?;
    if bench.wants(VOXELIZE) {
        bench.host(Case::new(VOXELIZE), || {
            voxelize(&points, &params, &mut workspace, &mut voxels).map(|_| ())
        })?;
    }
    if bench.wants(FEATURES) {
        let shape = [params.voxel_capacity, MAX_POINTS, NUM_FEATURES];
        let mut features = Tensor::zeros(ElementType::F32, &shape)?;
        bench.host(Case::new(FEATURES), || {
            pillar_features(&points, &voxels, &params.grid, false, &mut features)
        })?;
    }
    if bench.wants(SCATTER) {
        let values = vec![0.5; params.voxel_capacity * NUM_CHANNELS];
        let shape = [params.voxel_capacity, NUM_CHANNELS];
        let features = TensorView::new(&shape, TensorValues::F32(&values))?;
        let mut map = Tensor::zeros(ElementType::F32, &[1, NUM_CHANNELS, SIDE, SIDE])?;
        bench.host(Case::new(SCATTER), || {
            scatter(&features, &voxels, &params.grid, MapLayout::Planar, &mut map)
        })?;
    }
    Ok(())
}

/// The maps of a CenterPoint head (heat, offset, height, size, rotation), one
/// cell in five hundred of which holds an object.
pub(super) fn maps_of_a_head() -> [Tensor; 5] {
    let mut random = Random::new(3);
    let mut maps = [NUM_CLASSES, 2, 1, 3, 2].map(|channels| {
        let shape = vec![1, channels, SIDE, SIDE];
        let values = (0..channels * SIDE * SIDE).map(|_| random.range(0.0, 1.0)).collect();
        Tensor::F32 { shape, values }
    });
    if let Tensor::F32 { values, .. } = &mut maps[0] {
        for logit in values {
            *logit = if *logit < 0.0004 { 1.0 } else { -6.0 * *logit - 1.0 };
        }
    }
    maps
}

fn decode_params() -> CenterDecode {
    CenterDecode {
        origin_m: [-76.8, -76.8],
        cell_size_m: [0.32, 0.32],
        tasks: vec![(0..NUM_CLASSES as u32).collect()],
        heatmap_logits: true,
        size_order: SizeOrder::WidthLengthHeight,
        size_log: true,
        yaw: YawConvention::ClockwiseFromMinusY,
        score_thresholds: ScoreThresholds::uniform(0.35, NUM_CLASSES),
        yaw_norm_thresholds: vec![0.3, 0.3, 0.3, 0.3, 0.0],
        center_range: None,
        has_velocity: false,
        has_variance: false,
    }
}

fn heads(bench: &mut Bench<'_>) -> Result<()> {
    if !bench.wants(DECODE) {
        return Ok(());
    }
    let maps = maps_of_a_head();
    let task = CenterTask {
        heatmap: maps[0].view(),
        offset: maps[1].view(),
        height: maps[2].view(),
        size: maps[3].view(),
        rotation: maps[4].view(),
        velocity: None,
    };
    let params = decode_params();
    let mut candidates = Candidates::with_capacity(TOP_K);
    bench.host(Case::new(DECODE), || decode_center(&[task], &params, &mut candidates))
}
