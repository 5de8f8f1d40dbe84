//! Networks of a folder on the GPU: what they give, and what each step takes.
//!
//! `DET_POST_DENSE_FOLDER` names a folder with NAME.onnx and, for every output K, NAME.K.bin: every
//! `stride`-th value of f32 that ONNX Runtime gives for the noise of [`noise`], after the stride as a u32.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement")]

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::*;
use det_post_ops::device::cuda::{CudaDevice, Event};
use half::f16;

use det_post_types::{Dim, Tensor, TensorValues, TensorView};

const NUM_RUNS: usize = 200;

/// Values in [0, 1) that differ from place to place, the same every time.
fn noise(num: usize) -> Vec<f32> {
    let mut state = 0x2545_f491_u32;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 8) as f32 / (1 << 24) as f32
    };
    (0..num).map(|_| next()).collect()
}

fn median(mut values: Vec<f32>) -> f32 {
    values.sort_by(f32::total_cmp);
    values[values.len() / 2]
}

/// Microseconds of a graph, by events and by the clock of the host.
fn timed(stream: &Stream, graph: &Graph, num: usize) -> [f32; 2] {
    let (begin, end) = (Event::new(stream).unwrap(), Event::new(stream).unwrap());
    let (mut events, mut walls) = (Vec::new(), Vec::new());
    for _ in 0..num {
        stream.synchronize().unwrap();
        let clock = Instant::now();
        begin.record(stream).unwrap();
        graph.enqueue().unwrap();
        end.record(stream).unwrap();
        stream.synchronize().unwrap();
        walls.push(clock.elapsed().as_secs_f32() * 1e6);
        events.push(begin.micros_until(&end).unwrap());
    }
    [median(events), median(walls)]
}

fn compare(path: &Path, tensor: &DeviceTensor) -> String {
    let Ok(bytes) = std::fs::read(path) else { return "nothing to compare with".into() };
    let (stride, values) = bytes.split_at(4);
    let stride = u32::from_le_bytes(stride.try_into().unwrap()) as usize;
    let expected = values.as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes));
    let found = match tensor.read().unwrap() {
        Tensor::F32 { values, .. } => values,
        Tensor::F16 { values, .. } => values.into_iter().map(|value| value.to_f32()).collect(),
    };
    let (mut square, mut norm, mut largest, mut worst, mut num_nan) =
        (0.0, 0.0, 0.0_f32, 0.0_f32, 0);
    for (found, expected) in found.iter().step_by(stride).zip(expected) {
        if expected.abs() > 1e6 {
            continue;
        }
        num_nan += usize::from(found.is_nan());
        let difference = (found - expected).abs();
        square += f64::from(difference).powi(2);
        norm += f64::from(expected).powi(2);
        (largest, worst) = (largest.max(expected.abs()), worst.max(difference));
    }
    format!(
        "relative L2 {:.2e}, largest difference {:.2e} of {largest:.3}, {num_nan} NaN",
        (square / norm).sqrt(),
        worst
    )
}

#[test]
#[ignore = "a measurement of the networks in DET_POST_DENSE_FOLDER"]
fn networks_of_a_folder() {
    let folder = std::env::var("DET_POST_DENSE_FOLDER").unwrap();
    let stream = CudaDevice::open(0).unwrap().stream().unwrap();
    let mut files: Vec<_> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let is_network = |file: &&PathBuf| file.extension().is_some_and(|found| found == "onnx");
    for file in files.iter().filter(is_network) {
        measure(&stream, file, Precision::F16.into());
        let channels_last_inputs = true;
        measure(&stream, file, PlanOptions { channels_last_inputs, ..PlanOptions::default() });
        measure(&stream, file, Precision::F32.into());
    }
}

/// Compares the outputs of a network, and says what a run, and each of its steps, takes.
fn measure(stream: &Stream, file: &Path, options: PlanOptions<'_>) {
    let precision = options.precision;
    let name = file.file_stem().unwrap().to_string_lossy().into_owned();
    let shape_of = |spec: &TensorSpec| {
        let dims = spec.shape.as_ref().unwrap().iter();
        Ok(dims.map(|dim| if let Dim::Fixed(length) = dim { *length } else { 1 }).collect())
    };
    let clock = Instant::now();
    let (runner, mut tensors) =
        match DenseRunner::load((file, NetworkPart::Whole), options, stream, &shape_of) {
            Ok(loaded) => loaded,
            Err(error) => return println!("== {name} {precision:?}: {error}"),
        };
    let num_steps = runner.plan().steps().len();
    println!("== {name} {precision:?}: {num_steps} steps, loaded in {:?}", clock.elapsed());
    let layout = runner.plan().input_layout(0);
    if options.channels_last_inputs && layout == MapLayout::Planar {
        return;
    }
    println!("   inputs are {layout:?}");
    for tensor in &mut tensors.inputs {
        let shape = tensor.shape().to_vec();
        let values = noise(shape.iter().product());
        let halves: Vec<f16>;
        let values = match layout {
            MapLayout::ChannelsLast => {
                let &[n, h, w, c] = &*shape else { panic!("{shape:?}") };
                halves = (0..n * h * w * c)
                    .map(|at| {
                        f16::from_f32(
                            values[(at % c + at / (h * w * c) * c) * h * w + at / c % (h * w)],
                        )
                    })
                    .collect();
                TensorValues::F16(&halves)
            }
            _ => TensorValues::F32(&values),
        };
        tensor.write(&TensorView::new(&shape, values).unwrap()).unwrap();
    }
    runner.enqueue(0).unwrap();
    stream.synchronize().unwrap();
    for (at, tensor) in tensors.outputs.iter().enumerate() {
        let Some(tensor) = tensor else { continue };
        let path = file.with_file_name(format!("{name}.{at}.bin"));
        println!("   output {at}: {}", compare(&path, tensor));
    }
    let [events, wall] = timed(stream, &runner.graphs[0], NUM_RUNS);
    println!("   one run: {events:.1} us by events, {wall:.1} us by the host");
    if precision == Precision::F32 {
        return;
    }
    let mut before = 0.0;
    for num in 1..=num_steps {
        let arena = runner.first_arena();
        let graph = Graph::capture(stream, || runner.enqueue_steps(arena, num)).unwrap();
        let [events, _] = timed(stream, &graph, 30);
        let step = &runner.plan().steps()[num - 1];
        let kernel = match &runner.layers[num - 1] {
            Layer::Conv(conv) => conv.kernel(),
            _ => step.kind.shown(),
        };
        println!(
            "   {:7.2} us  {kernel:24} {:?} {}",
            events - before,
            step.kind.output_dims(),
            step.name
        );
        before = events;
    }
}
