//! One replay after another in one process: memory, handles and latency stay flat.

use std::time::{Duration, Instant};

use det_post::config::Config;
use det_post::replay::{Rate, Replay, ReplayOptions};
use det_post_infer::LIBRARY_VARIABLE;
use det_post_ops::device::Device;
use det_post_types::{DeviceChoice, Stage};

use crate::common::memory::resident;
use crate::common::session::sample;

/// What the process holds after a replay, and how long its frames took.
struct Sample {
    resident: usize,
    on_gpu: usize,
    num_files: usize,
    num_threads: usize,
    /// The median of the frames.
    latency: Duration,
}

fn num_entries(folder: &str) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

/// Replays the sample: on a GPU at full rate with four frames in flight, else at the recorded
/// pace.
fn replay(gpu: Option<&Device>) -> Sample {
    let mut config = Config::load(&[sample().join("sample.param.yaml")], &[]).unwrap();
    let mut options = ReplayOptions { frames_in_flight: Some(4), ..ReplayOptions::default() };
    if let Some(device) = gpu {
        config = config.with_device(device.choice()).unwrap();
    } else {
        config = config.with_device(DeviceChoice::Cpu).unwrap();
        options.rate = Rate::Factor(1.0);
    }
    let mut times = vec![];
    let replay = Replay::open(&sample().join("drive"), &config, options).unwrap();
    let report = replay.run(|frame| {
        let report = frame.result.as_ref().unwrap().report;
        times.extend(report.duration(Stage::Total));
        Ok(())
    });
    drop(report.unwrap());
    times.sort_unstable();
    let on_gpu = match gpu {
        Some(Device::Cuda(device)) => {
            // The free memory falls as the used one rises.
            usize::MAX - device.free_memory().unwrap()
        }
        _ => 0,
    };
    Sample {
        resident: resident(),
        on_gpu,
        num_files: num_entries("/proc/self/fd"),
        num_threads: num_entries("/proc/self/task"),
        latency: times[times.len() / 2],
    }
}

/// Memory of the host and of the GPU that cuDNN keeps of a network on CUDA that was closed
/// (docs/benchmarks.md).
const KEPT_BY_CUDNN: [usize; 2] = [96 << 10, 6 << 10];

/// The networks of the sample: that of the camera twice, for four frames in flight.
const NUM_NETWORKS: usize = 4;

/// `DET_POST_SOAK_SECONDS` is the duration.
#[test]
#[ignore = "takes ten minutes"]
fn replay_after_replay_stays_flat() {
    let seconds = std::env::var("DET_POST_SOAK_SECONDS").map_or(600, |text| text.parse().unwrap());
    let gpu = Device::open(DeviceChoice::Cuda(0)).ok();
    let (start, mut samples) = (Instant::now(), vec![]);
    while start.elapsed() < Duration::from_secs(seconds) {
        samples.push(replay(gpu.as_ref()));
    }
    // Pools and caches are full after the first quarter.
    let settled = &samples[samples.len() / 4..];
    let halves = settled.split_at(settled.len() / 2);
    let most = |half: &[Sample], of: fn(&Sample) -> usize| half.iter().map(of).max().unwrap();
    let latency = |half: &[Sample]| {
        let mut medians: Vec<_> = half.iter().map(|sample| sample.latency).collect();
        medians.sort_unstable();
        medians[medians.len() / 2]
    };
    let of_halves = [halves.0, halves.1].map(|half| {
        let counts: [usize; 4] = [
            most(half, |sample| sample.resident),
            most(half, |sample| sample.on_gpu),
            most(half, |sample| sample.num_files),
            most(half, |sample| sample.num_threads),
        ];
        (counts, latency(half))
    });
    println!("{} replays in {seconds} s on {gpu:?}", samples.len());
    for ([resident, on_gpu, num_files, num_threads], latency) in of_halves {
        let of_gpu = on_gpu.wrapping_sub(of_halves[0].0[1]) as isize >> 20;
        println!(
            "{} MiB resident, {of_gpu} MiB more on the GPU, {num_files} files, {num_threads} \
             threads, frames of {latency:?}",
            resident >> 20
        );
    }
    let [(first, before), (second, after)] = of_halves;
    let is_on_cuda = gpu.is_some() && std::env::var_os(LIBRARY_VARIABLE).is_some();
    let num_closed = if is_on_cuda { halves.1.len() * NUM_NETWORKS } else { 0 };
    let kept = KEPT_BY_CUDNN.map(|num_bytes| num_closed * num_bytes);
    let most = [first[0] + first[0] / 20 + kept[0], first[1].saturating_add((8 << 20) + kept[1])];
    assert!(second[0] <= most[0], "memory is not flat within 5 % and {kept:?} bytes of cuDNN");
    assert!(second[1] <= most[1], "memory of the GPU is not flat within 8 MiB and {kept:?}");
    assert!(second[2] <= first[2], "files stay open");
    assert!(second[3] <= first[3], "threads stay");
    assert!(after <= before + before / 4, "latency rises");
}
