//! What follows a camera's network on one GPU: GPU time between events and
//! wall time with one wait, as recorded graphs.
//!
//! Prints one line per case; medians of many runs after a warm-up.

#![expect(clippy::print_stdout, reason = "the table is the result")]
#![expect(clippy::unwrap_used, reason = "shared with tests")]
#![expect(dead_code, reason = "shared with tests")]

use std::time::Instant;

use det_post::device::Device;
use det_post::device::cuda::{CudaDevice, DeviceCandidates, Event, Graph};
use det_post::ops::decode_yolo::cuda::Selection;
use det_post::ops::gather;
use det_post::ops::nms::cuda::Capacity;
use det_post::ops::nms_iou::cuda as nms_cuda;
use det_post::types::{ClassMode, DeviceChoice, Letterbox, NmsIou, Placement, Size, YoloLayout};

#[path = "../tests/parity/heads.rs"]
mod heads;
#[path = "../tests/parity/random.rs"]
mod random;
use heads::{Filling, Head};
use random::Random;

const NUM_RUNS: usize = 500;
const SOURCE: Size = Size::new(1920, 1080);
const MAX_DETECTIONS: usize = 300;

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
    let mut random = Random::new(60);
    for half in [false, true] {
        for (layout, num_rows) in [(YoloLayout::V5, 25200), (YoloLayout::V8, 8400)] {
            for num in [0, 200, 1000] {
                let mut head = heads::head(layout.clone(), num_rows, 80);
                let passing = num as f32 / num_rows as f32;
                head.fill(&mut random, Filling { passing, ..Filling::default() }, half);
                bench(&device, &head, 2048)?;
            }
        }
    }
    // More than fit: the cut.
    let mut head = heads::head(YoloLayout::V5, 25200, 80);
    head.fill(&mut random, Filling { passing: 0.5, ..Filling::default() }, false);
    bench(&device, &head, 2048)?;
    Ok(())
}

/// Decoding alone, then the whole chain.
fn bench(device: &CudaDevice, head: &Head, capacity: usize) -> det_post::Result<()> {
    let stream = device.stream()?;
    let mut decode = head.workspace(&stream);
    let class_filter = &[];
    decode.set(&Selection {
        score_threshold: 0.25,
        class_filter,
        candidate_capacity: capacity,
        pre_nms_top_k: capacity,
    })?;
    let mut candidates = DeviceCandidates::with_capacity(&stream, capacity)?;
    let mut suppress = nms_cuda::workspace(&stream, Capacity { candidates: capacity, classes: 1 })?;
    nms_cuda::set_nms_iou(
        &mut suppress,
        &NmsIou {
            iou_threshold: 0.45,
            offset: 0,
            class_mode: ClassMode::Agnostic,
            score_threshold: None,
            max_num: usize::MAX,
        },
    )?;
    let mut gather = gather::cuda::Workspace::new(&stream, MAX_DETECTIONS)?;
    let letterbox = Letterbox::new(SOURCE, head.network, Placement::Center);
    gather.set_placement(&letterbox.source_from_network(), SOURCE)?;
    let tensor = head.upload(&stream);

    let graph = Graph::record(&stream, || decode.enqueue(&[&tensor], &mut candidates))?;
    measure(&format!("decode {}", head.describe()), &graph, || stream.synchronize())?;
    let graph = Graph::record(&stream, || {
        decode.enqueue(&[&tensor], &mut candidates)?;
        nms_cuda::enqueue_nms_iou(&candidates, &mut suppress)
    })?;
    measure("  + suppress", &graph, || stream.synchronize())?;
    let graph = Graph::record(&stream, || {
        decode.enqueue(&[&tensor], &mut candidates)?;
        nms_cuda::enqueue_nms_iou(&candidates, &mut suppress)?;
        gather.enqueue(&candidates, suppress.kept(), decode.counts())
    })?;
    let mut out = Vec::with_capacity(MAX_DETECTIONS);
    graph.enqueue()?;
    let counts = gather.read(&mut out)?;
    let (num, num_out) = (counts.decoded.num_candidates, out.len());
    let name = format!("  + gather, {num} candidates, {num_out} detections");
    measure(&name, &graph, || gather.read(&mut out).map(|_| ()))
}

/// Medians of GPU and wall time of a graph; `read` makes the result readable.
fn measure(
    name: &str,
    graph: &Graph,
    mut read: impl FnMut() -> det_post::Result<()>,
) -> det_post::Result<()> {
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
