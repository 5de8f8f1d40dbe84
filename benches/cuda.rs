//! Ops on one GPU: GPU time between events and wall time with one wait, as
//! recorded graphs, beside the floors of the same run.
//!
//! Prints one line per case; medians of many runs after a warm-up.

#![expect(clippy::print_stdout, reason = "the table is the result")]

use std::time::Instant;

use det_post::device::Device;
use det_post::device::cuda::abi::empty::{Empty, EmptyArgs};
use det_post::device::cuda::{
    CudaDevice, DeviceBuffer, DeviceCandidates, DeviceImage, DeviceTensor, Event, Graph, Grid,
    Kernel,
};
use det_post::ops::nms::cuda::Capacity;
use det_post::ops::{letterbox, nms_circle, nms_iou};
use det_post::types::{
    Box2d, Box3d, Candidate, ChannelOrder, CircleThreshold, ClassMode, DeviceChoice, ElementType,
    Encoding, ImageView, Kept, NmsCircle, NmsIou, Normalization, Placement, Size,
};

#[path = "../tests/parity/random.rs"]
mod random;
use random::Random;

const NUM_RUNS: usize = 500;

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
    println!("{:<46} {:>9} {:>9} {:>9}", "case", "GPU us", "wall us", "p99 us");
    bench_floors(&device)?;
    bench_letterbox(&device)?;
    for num in [1000, 5000, 20000] {
        bench_iou(&device, num)?;
    }
    for num in [500, 2000, 10000] {
        bench_circle(&device, num)?;
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
    println!("{name:<46} {gpu:>9.2} {wall:>9.2} {p99:>9.2}");
    Ok(())
}

/// What launches alone cost: graphs of kernels that do nothing.
fn bench_floors(device: &CudaDevice) -> det_post::Result<()> {
    for num_kernels in [1, 3, 5] {
        let stream = device.stream()?;
        let kernel: Kernel<Empty> = device.kernel()?;
        let mut memory = DeviceBuffer::zeros(&stream, 1)?;
        let graph = Graph::record(&stream, || {
            let args = EmptyArgs { nothing: memory.output(&stream)? };
            let grid = Grid { num_blocks: [132, 1], threads_per_block: 256 };
            (0..num_kernels).try_for_each(|_| kernel.enqueue(&stream, grid, args))
        })?;
        measure(&format!("floor: {num_kernels} empty kernels"), &graph, || stream.synchronize())?;
    }
    Ok(())
}

fn bench_letterbox(device: &CudaDevice) -> det_post::Result<()> {
    let params = letterbox::LetterboxParams {
        placement: Placement::Center,
        channel_order: ChannelOrder::Rgb,
        normalization: Normalization { alpha: [1.0 / 255.0; 3], beta: [0.0; 3] },
        pad_value: 114.0,
    };
    let mut random = Random::new(5);
    let size = Size::new(1920, 1080);
    for encoding in [Encoding::Bgr8, Encoding::Nv12, Encoding::Yuy2, Encoding::BayerRggb8] {
        let step = encoding.row_bytes(size.width);
        let data = random.bytes(step * encoding.num_rows(size.height));
        let view = ImageView::new(size, step, encoding, false, &data)?;
        for element in [ElementType::F32, ElementType::F16] {
            let stream = device.stream()?;
            let kernels = letterbox::cuda::Kernels::load(device)?;
            let mut image = DeviceImage::with_capacity(&stream, data.len())?;
            let mut out = DeviceTensor::zeros(&stream, element, &[1, 3, 640, 640])?;
            image.enqueue_upload(&view)?;
            stream.synchronize()?;
            let graph = Graph::record(&stream, || {
                letterbox::cuda::enqueue_letterbox(&stream, &kernels, &image, &params, &mut out)
                    .map(|_| ())
            })?;
            let name = format!("letterbox 1920x1080 {encoding:?} 640x640 {element}");
            measure(&name, &graph, || stream.synchronize())?;
        }
    }
    Ok(())
}

fn bench_iou(device: &CudaDevice, num: usize) -> det_post::Result<()> {
    for spread in ["uniform", "clusters of 20"] {
        let mut random = Random::new(6);
        let mut centers = Vec::new();
        let candidates: Vec<Candidate<Box2d>> = (0..num as u32)
            .map(|source| {
                if spread == "uniform" || source % 20 == 0 {
                    centers.push([random.range(0.0, 1920.0), random.range(0.0, 1080.0)]);
                }
                let [x, y] = centers[random.below(centers.len())];
                let (x, y) = (x + random.range(-6.0, 6.0), y + random.range(-6.0, 6.0));
                let (width, height) = (random.range(20.0, 120.0), random.range(20.0, 120.0));
                Candidate {
                    bbox: Box2d::from_center(x, y, width, height),
                    score: random.range(0.0, 1.0),
                    class: random.below(80) as u32,
                    source,
                }
            })
            .collect();
        let stream = device.stream()?;
        let capacity = Capacity { candidates: num, classes: 80 };
        let mut workspace = nms_iou::cuda::workspace(&stream, capacity)?;
        let mut on_device = DeviceCandidates::with_capacity(&stream, num)?;
        let params = NmsIou {
            iou_threshold: 0.5,
            offset: 0,
            class_mode: ClassMode::Agnostic,
            score_threshold: None,
            max_num: usize::MAX,
        };
        nms_iou::cuda::set_nms_iou(&mut workspace, &params)?;
        on_device.write(&candidates)?;
        let graph =
            Graph::record(&stream, || nms_iou::cuda::enqueue_nms_iou(&on_device, &mut workspace))?;
        let mut keep: Vec<Kept> = Vec::with_capacity(num);
        graph.enqueue()?;
        workspace.read_kept(&mut keep)?;
        let name = format!("nms_iou {num} {spread} ({} kept)", keep.len());
        measure(&name, &graph, || stream.synchronize())?;
    }
    Ok(())
}

fn bench_circle(device: &CudaDevice, num: usize) -> det_post::Result<()> {
    let mut random = Random::new(7);
    let candidates: Vec<Candidate<Box3d>> = (0..num as u32)
        .map(|source| Candidate {
            bbox: Box3d {
                center: [random.range(-76.8, 76.8), random.range(-76.8, 76.8), 0.0],
                length_m: 4.5,
                width_m: 2.0,
                height_m: 1.7,
                yaw_rad: random.range(-3.0, 3.0),
            },
            score: random.range(0.0, 1.0),
            class: random.below(5) as u32,
            source,
        })
        .collect();
    let stream = device.stream()?;
    let capacity = Capacity { candidates: num, classes: 16 };
    let mut workspace = nms_circle::cuda::workspace(&stream, capacity)?;
    let mut on_device = DeviceCandidates::with_capacity(&stream, num)?;
    let params = NmsCircle {
        thresholds: vec![1.5],
        reading: CircleThreshold::Radius,
        class_mode: ClassMode::Agnostic,
    };
    nms_circle::cuda::set_nms_circle(&mut workspace, &params)?;
    on_device.write(&candidates)?;
    let graph = Graph::record(&stream, || {
        nms_circle::cuda::enqueue_nms_circle(&on_device, &mut workspace)
    })?;
    let mut keep: Vec<Kept> = Vec::with_capacity(num);
    graph.enqueue()?;
    workspace.read_kept(&mut keep)?;
    let name = format!("nms_circle {num} ({} kept)", keep.len());
    measure(&name, &graph, || stream.synchronize())
}
