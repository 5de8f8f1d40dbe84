//! Networks on a GPU: the same answers as on the CPU, in place, and taken down
//! cleanly.

use std::path::{Path, PathBuf};
use std::time::Instant;

use det_post::ErrorKind;
use det_post_infer::device::{DeviceEngine, NumBytes, fixed_shape};
use det_post_infer::{Engine, LIBRARY_VARIABLE, OrtEngine, RtenEngine};
use det_post_ops::device::cuda::{DeviceTensor, DeviceValues, Stream};
use det_post_types::{
    ElementType, EngineKind, EngineOptions, GpuEngineOptions, Provider, Tensor, TensorSpec,
    TensorValues, TensorView, Usage,
};

use super::network::{INPUT, network, noise};
use super::onnx::{Attr, Graph};
use super::require::{Need, skip};
use super::{gpu, saved};
use crate::common::bounds::bound;
use crate::common::memory::resident;

/// The library of ONNX Runtime, or `None` with a line that says so.
pub(super) fn library() -> Option<PathBuf> {
    let library = std::env::var_os(LIBRARY_VARIABLE).filter(|value| !value.is_empty());
    if library.is_none() {
        skip(Need::Ort, format_args!("{LIBRARY_VARIABLE} is not set"));
    }
    library.map(PathBuf::from)
}

fn options(gpu: GpuEngineOptions) -> EngineOptions {
    EngineOptions { kind: EngineKind::Auto, gpu, ..EngineOptions::default() }
}

/// On the CUDA provider, exactly as the CPU computes where `tf32` is off.
fn on_cuda(tf32: bool, cuda_graph: Usage) -> EngineOptions {
    let provider = Provider::Cuda;
    options(GpuEngineOptions { provider, cuda_graph, tf32, ..GpuEngineOptions::default() })
}

fn load(model: &Path, options: &EngineOptions, stream: &Stream) -> DeviceEngine {
    DeviceEngine::load(model, options, stream, shape).unwrap()
}

/// [`INPUT`] for every input that leaves dimensions open.
fn shape(spec: &TensorSpec) -> det_post::Result<Vec<usize>> {
    fixed_shape(spec).or_else(|_| Ok(INPUT.to_vec()))
}

fn write(tensor: &mut DeviceTensor, values: &[f32]) {
    match tensor.values_mut() {
        DeviceValues::F32(to) => to.write(values).unwrap(),
        _ => panic!("an input of other than f32"),
    }
}

fn floats(tensor: &DeviceTensor) -> Vec<f32> {
    match tensor.read().unwrap() {
        Tensor::F32 { values, .. } => values,
        Tensor::F16 { values, .. } => values.iter().map(|value| value.to_f32()).collect(),
    }
}

/// One run on `values`; the first output.
fn run(engine: &mut DeviceEngine, values: &[f32]) -> Vec<f32> {
    write(engine.input(0).unwrap(), values);
    engine.enqueue().unwrap();
    floats(engine.output(0).unwrap())
}

fn run_on_cpu(engine: &mut dyn Engine, values: &[f32]) -> Vec<f32> {
    engine.run(&[TensorView::new(&INPUT, TensorValues::F32(values)).unwrap()]).unwrap();
    match engine.output(0).unwrap().values() {
        TensorValues::F32(values) => values.to_vec(),
        other => panic!("an output of {}", other.element()),
    }
}

/// The largest difference, relative to the largest value.
fn difference(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len());
    let largest = |values: &mut dyn Iterator<Item = f32>| values.fold(0.0, f32::max);
    let scale = largest(&mut expected.iter().map(|value| value.abs()));
    largest(&mut found.iter().zip(expected).map(|(a, b)| (a - b).abs())) / scale
}

/// The first input and the second, for which a stale answer would be wrong.
fn inputs() -> [Vec<f32>; 2] {
    let num = INPUT.iter().product();
    [noise(num, 7), noise(num, 8)]
}

#[test]
fn an_engine_on_the_cpu_gives_its_own_bytes_through_the_device() {
    let Some((_alone, device)) = gpu() else { return };
    let file = saved(&network(false));
    let stream = device.stream().unwrap();
    let mut direct = RtenEngine::load(file.path(), Some(2)).unwrap();
    let copied = Box::new(RtenEngine::load(file.path(), Some(2)).unwrap());
    let mut engine = DeviceEngine::on_host(copied, &stream, fixed_shape).unwrap();
    assert_eq!(engine.input(0).unwrap().shape(), INPUT);
    assert_eq!(engine.output(0).unwrap().shape(), [1, 24, 960]);
    for values in inputs() {
        assert!(run(&mut engine, &values) == run_on_cpu(&mut direct, &values));
    }
    let num: usize = INPUT.iter().product();
    assert_eq!(engine.copies(), NumBytes { to_host: 4 * num, to_device: 4 * 24 * 960 });
    assert_eq!(engine.input(1).unwrap_err().kind(), ErrorKind::Inference);
    assert_eq!(engine.output(1).unwrap_err().kind(), ErrorKind::Inference);
}

/// Both inputs are written before either run, and both outputs read after both.
fn run_two_in_flight(engine: &mut DeviceEngine, inputs: &[Vec<f32>; 2]) -> [Vec<f32>; 2] {
    for (frame, values) in inputs.iter().enumerate() {
        engine.select(frame).unwrap();
        write(engine.input(0).unwrap(), values);
    }
    for frame in 0..2 {
        engine.select(frame).unwrap();
        engine.enqueue().unwrap();
    }
    [0, 1].map(|frame| {
        engine.select(frame).unwrap();
        floats(engine.output(0).unwrap())
    })
}

#[test]
fn frames_in_flight_have_tensors_of_their_own() {
    let Some((_alone, device)) = gpu() else { return };
    let file = saved(&network(false));
    let stream = device.stream().unwrap();
    let on_cpu = Box::new(RtenEngine::load(file.path(), Some(2)).unwrap());
    let mut engines = vec![DeviceEngine::on_host(on_cpu, &stream, fixed_shape).unwrap()];
    if library().is_some() {
        let on_gpu = [Usage::Always, Usage::Never].map(|graph| on_cuda(true, graph));
        engines.extend(on_gpu.map(|options| load(file.path(), &options, &stream)));
    }
    for engine in &mut engines {
        let error = engine.select(1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument, "{error}");
        let [first, second] = inputs();
        let expected = [run(engine, &first), run(engine, &second)];
        for _ in 0..3 {
            engine.allow_in_flight(2).unwrap();
            let found = run_two_in_flight(engine, &[first.clone(), second.clone()]);
            assert!(found == expected, "{}", engine.name());
        }
    }
}

#[test]
fn instances_run_beside_each_other() {
    let (Some((_alone, device)), Some(_)) = (gpu(), library()) else { return };
    let file = saved(&network(false));
    let stream = device.stream().unwrap();
    let on_cpu = Box::new(RtenEngine::load(file.path(), Some(2)).unwrap());
    let on_host = DeviceEngine::on_host(on_cpu, &stream, fixed_shape).unwrap();
    assert!(on_host.duplicate(&stream.sibling_stream(0).unwrap()).unwrap().is_none());
    for graph in [Usage::Always, Usage::Never] {
        let mut first = load(file.path(), &on_cuda(true, graph), &stream);
        let mut second = first.duplicate(&stream.sibling_stream(0).unwrap()).unwrap().unwrap();
        assert_eq!(first.name(), second.name());
        let [one, other] = inputs();
        let expected = [run(&mut first, &one), run(&mut first, &other)];
        for _ in 0..3 {
            write(first.input(0).unwrap(), &one);
            write(second.input(0).unwrap(), &other);
            first.enqueue().unwrap();
            second.enqueue().unwrap();
            assert!(floats(first.output(0).unwrap()) == expected[0]);
            assert!(floats(second.output(0).unwrap()) == expected[1]);
        }
    }
    let engine = load(file.path(), &on_cuda(true, Usage::Auto), &stream);
    std::fs::remove_file(file.path()).unwrap();
    let gone = engine.duplicate(&stream.sibling_stream(0).unwrap()).err().unwrap();
    assert_eq!(gone.kind(), ErrorKind::Model, "{gone}");
}

#[test]
fn the_cuda_provider_agrees_with_the_cpu() {
    let (Some((_alone, device)), Some(library)) = (gpu(), library()) else { return };
    let file = saved(&network(false));
    let stream = device.stream().unwrap();
    let mut rten = RtenEngine::load(file.path(), None).unwrap();
    let mut ort = OrtEngine::load(file.path(), &library, None).unwrap();
    for (tf32, bound) in [(false, 1e-5), (true, 5e-3)] {
        let mut engine = load(file.path(), &on_cuda(tf32, Usage::Auto), &stream);
        assert_eq!(engine.copies(), NumBytes::default());
        for values in inputs() {
            let answer = run(&mut engine, &values);
            for cpu in [&mut rten as &mut dyn Engine, &mut ort] {
                let found = difference(&answer, &run_on_cpu(cpu, &values));
                println!("{} (tf32 {tf32}) and {}: {found:e}", engine.name(), cpu.name());
                assert!(found < bound, "{found:e}");
            }
            assert!(answer == run(&mut engine, &values), "the same input, other bytes");
        }
    }
}

/// Both layouts, and 16-bit floats in each.
#[test]
fn every_way_to_run_a_network_agrees_with_the_cpu() {
    let (Some((_alone, device)), Some(_)) = (gpu(), library()) else { return };
    let file = saved(&network(false));
    let stream = device.stream().unwrap();
    let mut rten = RtenEngine::load(file.path(), None).unwrap();
    let provider = Provider::Cuda;
    let of_f16 = bound("network", "converted to f16", "outputs, share of the largest").in_unit();
    for (fp16, channels_last, bound) in [
        (false, Usage::Never, 5e-3),
        (false, Usage::Always, 5e-3),
        (true, Usage::Never, of_f16),
        (true, Usage::Always, of_f16),
    ] {
        let gpu = GpuEngineOptions { provider, fp16, channels_last, ..GpuEngineOptions::default() };
        let mut engine = load(file.path(), &options(gpu), &stream);
        assert_eq!(
            engine.name().contains("channels last"),
            channels_last == Usage::Always,
            "{}",
            engine.name()
        );
        for values in inputs() {
            let answer = run(&mut engine, &values);
            let found = difference(&answer, &run_on_cpu(&mut rten, &values));
            println!("{} (fp16 {fp16}): {found:e}", engine.name());
            assert!(f64::from(found) < bound, "{found:e}");
            assert!(answer == run(&mut engine, &values), "the same input, other bytes");
        }
    }
}

#[test]
fn a_graph_gives_the_bytes_of_single_launches() {
    let (Some((_alone, device)), Some(_)) = (gpu(), library()) else { return };
    let file = saved(&network(false));
    let stream = device.stream().unwrap();
    let mut single = load(file.path(), &on_cuda(true, Usage::Never), &stream);
    let mut graph = load(file.path(), &on_cuda(true, Usage::Always), &stream);
    assert!(graph.name().ends_with("one CUDA graph"), "{}", graph.name());
    for values in inputs() {
        assert!(run(&mut graph, &values) == run(&mut single, &values));
    }
    for engine in [&mut single, &mut graph] {
        let start = Instant::now();
        for _ in 0..200 {
            engine.enqueue().unwrap();
        }
        let queued = start.elapsed();
        stream.synchronize().unwrap();
        let all = start.elapsed();
        println!("{}: {:?} to enqueue, {:?} in all, each", engine.name(), queued / 200, all / 200);
        if engine.name().ends_with("one CUDA graph") {
            assert!(2 * queued < all, "a launch of the graph waits for the GPU");
        }
    }
    // Any thread launches the graph.
    let [values, _] = inputs();
    let expected = run(&mut single, &values);
    let elsewhere = std::thread::scope(|scope| scope.spawn(|| run(&mut graph, &values)).join());
    assert!(elsewhere.unwrap() == expected);
}

#[test]
fn open_dimensions_are_fixed_at_load() {
    let (Some((_alone, device)), Some(_)) = (gpu(), library()) else { return };
    let file = saved(&network(true));
    let stream = device.stream().unwrap();
    let mut rten = RtenEngine::load(file.path(), None).unwrap();
    for cuda_graph in [Usage::Never, Usage::Auto] {
        let mut engine = load(file.path(), &on_cuda(false, cuda_graph), &stream);
        assert_eq!(engine.output(0).unwrap().shape(), [1, 24, 24, 40]);
        for values in inputs() {
            let found = difference(&run(&mut engine, &values), &run_on_cpu(&mut rten, &values));
            println!("{} with open dimensions: {found:e}", engine.name());
            assert!(found < 1e-5, "{found:e}");
        }
    }
    let refused =
        DeviceEngine::load(file.path(), &on_cuda(false, Usage::Auto), &stream, fixed_shape);
    assert_eq!(refused.err().unwrap().kind(), ErrorKind::Model);
}

#[test]
fn outputs_that_are_no_floats_are_refused_when_asked_for() {
    let (Some((_alone, device)), Some(_)) = (gpu(), library()) else { return };
    let graph = Graph::new("mixed", "a float and an integer output")
        .input("x", ElementType::F32, &[1, 16])
        .op("Sigmoid", &["x"], "score")
        .node("ArgMax", &["x"], &["best"], &[("axis", Attr::Int(1))])
        .output("score", ElementType::F32, &[1, 16])
        .output("best", ElementType::I64, &[1, 1]);
    let file = saved(&graph);
    let stream = device.stream().unwrap();
    let host = options(GpuEngineOptions { provider: Provider::Cpu, ..GpuEngineOptions::default() });
    for options in [&on_cuda(false, Usage::Auto), &host] {
        let mut engine = load(file.path(), options, &stream);
        let values = noise(16, 3);
        let scores = run(&mut engine, &values);
        let sigmoid = |x: &f32| 1.0 / (1.0 + (-x).exp());
        assert!(difference(&scores, &values.iter().map(sigmoid).collect::<Vec<_>>()) < 1e-6);
        let error = engine.output(1).unwrap_err();
        assert!(error.message().contains("holds neither floats nor int8"), "{error}");
    }
}

#[test]
fn a_provider_that_cannot_be_loaded_is_explained() {
    let (Some((_alone, device)), Some(_)) = (gpu(), library()) else { return };
    let file = saved(&network(false));
    let stream = device.stream().unwrap();
    let tensorrt = GpuEngineOptions { provider: Provider::TensorRt, ..GpuEngineOptions::default() };
    match DeviceEngine::load(file.path(), &options(tensorrt), &stream, fixed_shape) {
        Ok(engine) => println!("TensorRT is there: {}", engine.name()),
        Err(error) => {
            println!("{error}");
            assert_eq!(error.kind(), ErrorKind::Model);
            let words = ["TensorRT", "libnvinfer", "onnxruntime_providers_tensorrt"];
            assert!(words.iter().any(|word| error.to_string().contains(word)), "{error}");
        }
    }
}

/// ONNX Runtime keeps page-locked memory of runs for which the host does not wait.
#[test]
fn runs_without_a_graph_keep_no_memory() {
    const NUM_RUNS: usize = 1024;
    let (Some((_alone, device)), Some(_)) = (gpu(), library()) else { return };
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/camera.onnx");
    if !model.is_file() {
        return skip(Need::Models, format_args!("no {}", model.display()));
    }
    let stream = device.stream().unwrap();
    let shape = |_: &TensorSpec| Ok(vec![1, 3, 384, 640]);
    let mut engine =
        DeviceEngine::load(&model, &on_cuda(true, Usage::Never), &stream, shape).unwrap();
    let mut run_all = || {
        for _ in 0..NUM_RUNS {
            engine.enqueue().unwrap();
        }
        stream.synchronize().unwrap();
        resident()
    };
    // Memory of the runs between two for which the host waits is used again.
    let [settled, after] = [run_all(), run_all()];
    let growth = after.saturating_sub(settled);
    println!("{growth} bytes more after another {NUM_RUNS} runs");
    // Tests beside this one take some, too; what was kept were 432 KiB a run.
    assert!(growth < (16 << 10) * NUM_RUNS, "{growth} bytes");
}

#[test]
fn engines_are_taken_down_again_and_again() {
    let (Some((_alone, device)), Some(_)) = (gpu(), library()) else { return };
    let file = saved(&network(false));
    let [values, _] = inputs();
    let mut first = None;
    for round in 0..20 {
        let graph = if round % 2 == 0 { Usage::Never } else { Usage::Always };
        let stream = device.stream().unwrap();
        let mut engine = load(file.path(), &on_cuda(false, graph), &stream);
        let answer = run(&mut engine, &values);
        // The last of the stream goes with the engine, or after it, or work is
        // still queued when it goes.
        match round % 3 {
            0 => drop(stream),
            1 => engine.enqueue().unwrap(),
            _ => {}
        }
        drop(engine);
        assert!(*first.get_or_insert_with(|| answer.clone()) == answer, "round {round}");
    }
}
