//! A lidar frame's ops on one GPU: GPU time between events and wall time with
//! one wait, as recorded graphs.
//!
//! Prints one line per case; medians of many runs after a warm-up.

#![expect(clippy::print_stdout, reason = "the table is the result")]
#![expect(clippy::unwrap_used, reason = "shared with tests")]
#![expect(dead_code, reason = "shared with tests")]

use std::time::Instant;

use det_post::device::Device;
use det_post::device::cuda::{
    CudaDevice, DeviceBuffer, DeviceCandidates, DeviceCloud, DevicePoints, DeviceTensor,
    DeviceValues, Event, Graph, num_bytes,
};
use det_post::ops::decode_center::cuda::{DeviceCenterTask, Workspace as Decode};
use det_post::ops::gather::cuda::{LidarInputs, LidarWorkspace, SaysOfObjects};
use det_post::ops::nms::cuda::Capacity;
use det_post::ops::nms_circle::cuda as circle;
use det_post::ops::pillar_features::cuda as features;
use det_post::ops::scatter::cuda::Workspace as Scatter;
use det_post::ops::select::Limits;
use det_post::ops::unpack::{UnpackParams, cuda::Workspace as Unpack};
use det_post::ops::voxelize::VoxelizeParams;
use det_post::ops::voxelize::cuda::{DeviceVoxels, Workspace as Voxelize};
use det_post::types::{
    CenterDecode, CircleThreshold, ClassMode, DeviceChoice, ElementType, Grid, NmsCircle,
    PointChannel, PointRange, ScoreThresholds, SizeOrder, YawConvention,
};

#[path = "../tests/parity/clouds.rs"]
mod clouds;
#[path = "../tests/parity/random.rs"]
mod random;
use clouds::Cloud;
use random::Random;

const NUM_RUNS: usize = 500;
const NUM_POINTS: usize = 200_000;
const NUM_CHANNELS: usize = 32;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = match Device::open(DeviceChoice::Cuda(0)) {
        Ok(Device::Cuda(device)) => device,
        Ok(Device::Cpu) => return Ok(()),
        Err(reason) => {
            println!("skipped: {reason}");
            return Ok(());
        }
    };
    println!("{device}");
    println!("{:<52} {:>9} {:>9} {:>9}", "case", "GPU us", "wall us", "p99 us");
    for element in [ElementType::F32, ElementType::F16] {
        for name in ["rings", "uniform"] {
            bench_points(&device, name, element)?;
        }
    }
    for element in [ElementType::F32, ElementType::F16] {
        for passing in [0.0, 0.0008, 0.004] {
            bench_center(&device, element, passing)?;
        }
    }
    Ok(())
}

/// Medians of GPU and wall time of a graph; `read` makes the result readable.
fn measure(
    name: &str,
    graph: &Graph,
    mut read: impl FnMut() -> det_post::Result<()>,
) -> det_post::Result<()> {
    // As with other benches: only the cases whose name has the argument in it.
    if std::env::args().nth(1).is_some_and(|part| !part.starts_with('-') && !name.contains(&part)) {
        return Ok(());
    }
    let stream = graph.stream().clone();
    let (start, end) = (Event::new(&stream)?, Event::new(&stream)?);
    let (mut on_gpu, mut walls) = (Vec::new(), Vec::new());
    for run in 0..NUM_RUNS + 50 {
        let begin = Instant::now();
        graph.enqueue()?;
        read()?;
        let wall = begin.elapsed().as_secs_f32() * 1e6;
        start.record(&stream)?;
        graph.enqueue()?;
        end.record(&stream)?;
        stream.synchronize()?;
        if run >= 50 {
            walls.push(wall);
            on_gpu.push(start.micros_until(&end)?);
        }
    }
    walls.sort_by(f32::total_cmp);
    on_gpu.sort_by(f32::total_cmp);
    let (gpu, wall, p99) = (on_gpu[NUM_RUNS / 2], walls[NUM_RUNS / 2], walls[NUM_RUNS * 99 / 100]);
    println!("{name:<52} {gpu:>9.2} {wall:>9.2} {p99:>9.2}");
    Ok(())
}

/// Everything before a pillar encoder, each line with one step more.
fn bench_points(device: &CudaDevice, name: &str, element: ElementType) -> det_post::Result<()> {
    let mut random = Random::new(70);
    let points = match name {
        "rings" => clouds::scan(&mut random, NUM_POINTS, 4),
        _ => clouds::uniform(&mut random, NUM_POINTS, 4, 76.0),
    };
    let cloud = Cloud::plain(points.values(), &["intensity"]);
    let view = cloud.view();
    let range = PointRange { min: [-76.8, -76.8, -80.0], max: [76.8, 76.8, 80.0] };
    let unpacking = UnpackParams {
        channels: vec![PointChannel::Intensity],
        intensity_scale: 1.0,
        range: Some(range),
    };
    let params = VoxelizeParams {
        grid: Grid::new(range, [0.32, 0.32, 160.0])?,
        max_points_per_voxel: 32,
        voxel_capacity: 40_000,
    };
    let stream = device.stream()?;
    let mut uploaded = DeviceCloud::with_capacity(&stream, num_bytes(&view))?;
    uploaded.enqueue_upload(&view)?;
    let mut unpack = Unpack::new(&stream, NUM_POINTS)?;
    let mut out = DevicePoints::with_capacity(&stream, 4, NUM_POINTS)?;
    let mut voxelize = Voxelize::new(&stream, &params, NUM_POINTS)?;
    let mut voxels = DeviceVoxels::new(&stream, &params)?;
    let kernels = features::Kernels::load(device)?;
    let mut rows = DeviceTensor::zeros(&stream, element, &[40_000, 32, 9])?;
    let graph =
        Graph::record(&stream, || unpack.enqueue(&uploaded, view.fields(), &unpacking, &mut out))?;
    measure(&format!("unpack 200k {name}"), &graph, || stream.synchronize())?;
    let graph = Graph::record(&stream, || voxelize.enqueue(&out, &mut voxels))?;
    measure("  voxelize alone", &graph, || stream.synchronize())?;
    let graph = Graph::record(&stream, || {
        features::enqueue_pillar_features(&stream, &kernels, (&out, &voxels), false, &mut rows)
    })?;
    measure(&format!("  pillar_features alone {element}"), &graph, || stream.synchronize())?;
    let graph = Graph::record(&stream, || {
        unpack.enqueue(&uploaded, view.fields(), &unpacking, &mut out)?;
        voxelize.enqueue(&out, &mut voxels)?;
        features::enqueue_pillar_features(&stream, &kernels, (&out, &voxels), false, &mut rows)
    })?;
    measure(&format!("unpack + voxelize + features {element} {name}"), &graph, || {
        stream.synchronize()
    })?;
    println!("  {:?}", voxelize.counts().read()?);
    let mut scatter = Scatter::new(&stream, &params.grid)?;
    let encoded = DeviceTensor::zeros(&stream, element, &[40_000, NUM_CHANNELS])?;
    let mut map = DeviceTensor::zeros(&stream, element, &[1, NUM_CHANNELS, 480, 480])?;
    let graph = Graph::record(&stream, || scatter.enqueue(&encoded, &voxels, &mut map))?;
    measure(&format!("scatter 32x480x480 {element}"), &graph, || stream.synchronize())
}

/// What follows a CenterPoint network, each line with one step more.
fn bench_center(device: &CudaDevice, element: ElementType, passing: f32) -> det_post::Result<()> {
    const SIDE: usize = 480;
    const CAPACITY: usize = 1000;
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
        has_velocity: true,
        has_variance: false,
    };
    let circles = NmsCircle {
        thresholds: vec![0.5],
        reading: CircleThreshold::Radius,
        class_mode: ClassMode::Agnostic,
    };
    let mut random = Random::new(71);
    let stream = device.stream()?;
    let mut map = |num_channels: usize, is_heat: bool| -> det_post::Result<DeviceTensor> {
        let mut tensor = DeviceTensor::zeros(&stream, element, &[1, num_channels, SIDE, SIDE])?;
        let values = (0..num_channels * SIDE * SIDE).map(|_| match is_heat {
            true if random.range(0.0, 1.0) < passing / 5.0 => random.range(0.0, 4.0),
            true => random.range(-7.0, -1.0),
            false => random.range(-1.0, 1.0),
        });
        match tensor.values_mut() {
            DeviceValues::F32(to) => to.write(&values.collect::<Vec<_>>())?,
            DeviceValues::F16(to) => {
                to.write(&values.map(half::f16::from_f32).collect::<Vec<_>>())?;
            }
        }
        Ok(tensor)
    };
    let maps = [(5, true), (2, false), (1, false), (3, false), (2, false), (2, false)]
        .map(|(num_channels, is_heat)| map(num_channels, is_heat));
    let [heatmap, offset, height, size, rotation, velocity] = maps;
    let (heatmap, offset, height) = (heatmap?, offset?, height?);
    let (size, rotation, velocity) = (size?, rotation?, velocity?);
    let task = DeviceCenterTask {
        heatmap: &heatmap,
        offset: &offset,
        height: &height,
        size: &size,
        rotation: &rotation,
        velocity: Some(&velocity),
    };
    let mut num_voxels = DeviceBuffer::zeros(&stream, 1)?;
    num_voxels.write(&[1])?;
    let mut decode = Decode::new(&stream, &params, SIDE * SIDE, CAPACITY)?;
    decode.set(&params, Limits { candidate_capacity: CAPACITY, pre_nms_top_k: CAPACITY })?;
    let mut candidates = DeviceCandidates::with_capacity(&stream, CAPACITY)?;
    let room = Capacity { candidates: CAPACITY, classes: 5 };
    let mut suppress = circle::workspace(&stream, room)?;
    circle::set_nms_circle(&mut suppress, &circles)?;
    let says = SaysOfObjects { velocity: true, variance: false };
    let mut gather = LidarWorkspace::new(&stream, says, 500)?;

    let graph = Graph::record(&stream, || decode.enqueue(&[task], &num_voxels, &mut candidates))?;
    let name = format!("decode_center 5x480x480 {element}");
    measure(&name, &graph, || stream.synchronize())?;
    let graph = Graph::record(&stream, || {
        decode.enqueue(&[task], &num_voxels, &mut candidates)?;
        circle::enqueue_nms_circle(&candidates, &mut suppress)
    })?;
    measure("  + circle NMS", &graph, || stream.synchronize())?;
    let graph = Graph::record(&stream, || {
        decode.enqueue(&[task], &num_voxels, &mut candidates)?;
        circle::enqueue_nms_circle(&candidates, &mut suppress)?;
        gather.enqueue(&LidarInputs {
            candidates: &candidates,
            motions: Some(decode.motions()),
            kept: suppress.kept(),
            decoded: decode.counts(),
            unpacked: None,
            densified: None,
            voxelized: None,
        })
    })?;
    graph.enqueue()?;
    let mut out = Vec::with_capacity(500);
    let counts = gather.read(&mut out)?;
    let num = counts.frame.decoded.num_candidates;
    let name = format!("  + gather, {num} candidates, {} detections", out.len());
    measure(&name, &graph, || gather.read(&mut out).map(|_| ()))
}
