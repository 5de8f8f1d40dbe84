//! Networks whose outputs are rows of a number that differs between runs, and integers: through
//! host memory, on every engine the same.

use det_post_infer::device::{DeviceEngine, StagedOutput, fixed_shape};
use det_post_infer::{Engine, LIBRARY_VARIABLE, RtenEngine};
use det_post_ops::device::cuda::{DeviceTensor, DeviceValues};
use det_post_testing::gpu;
use det_post_testing::onnx::Graph;
use det_post_testing::require::{Need, skip};
use det_post_types::{
    ElementType, EngineKind, EngineOptions, ErrorKind, GpuEngineOptions, Provider, Tensor,
    TensorValues, TensorView, Usage,
};

const NUM_ROWS: usize = 40;
const SHAPE: [usize; 4] = [1, 1, NUM_ROWS, 5];
const OUTPUTS: [StagedOutput; 2] =
    [StagedOutput { position: 0, rows: Some(1) }, StagedOutput { position: 1, rows: Some(1) }];

/// The rows of an image whose last number is more than a half, and their numbers.
fn network() -> Graph {
    let dims = SHAPE.map(|dim| dim as i64);
    Graph::new("rows", "")
        .input("images", ElementType::F32, &dims)
        .integers("matrix", &[NUM_ROWS as i64, 5])
        .integers("list", &[-1])
        .integers("four", &[4])
        .integers("five", &[5])
        .integers("one", &[1])
        .integers("zero", &[0])
        .constant("half", &[], &[0.5])
        .op("Reshape", &["images", "matrix"], "all")
        .op("Slice", &["all", "four", "five", "one"], "column")
        .op("Reshape", &["column", "list"], "scores")
        .op("Greater", &["scores", "half"], "passes")
        .op("NonZero", &["passes"], "found")
        .op("Reshape", &["found", "list"], "rows")
        .op("Gather", &["all", "rows"], "boxes")
        .op("Unsqueeze", &["boxes", "zero"], "dets")
        .op("Unsqueeze", &["rows", "zero"], "labels")
        .output("dets", ElementType::F32, &[1, -1, 5])
        .output("labels", ElementType::I64, &[1, -1])
}

/// An image of which so many rows pass, and its rows and their numbers.
fn image(num_passing: usize, seed: usize) -> (Vec<f32>, [Vec<f32>; 2]) {
    let (mut values, mut rows, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
    for row in 0..NUM_ROWS {
        let passes = (row * 7 + seed) % NUM_ROWS < num_passing;
        let numbers_of_box = (0..4).map(|column| (row * 4 + column + seed) as f32);
        let row_values: Vec<f32> =
            numbers_of_box.chain([if passes { 0.75 } else { 0.25 }]).collect();
        if passes {
            rows.extend(&row_values);
            numbers.push(row as f32);
        }
        values.extend(row_values);
    }
    (values, [rows, numbers])
}

/// The values before those that no run wrote.
fn written(tensor: &DeviceTensor) -> Vec<f32> {
    let Tensor::F32 { mut values, .. } = tensor.read().unwrap() else { panic!("not f32") };
    let num = values.iter().position(|value| *value == f32::NEG_INFINITY).unwrap_or(values.len());
    assert!(values[num..].iter().all(|value| *value == f32::NEG_INFINITY));
    values.truncate(num);
    values
}

fn check(engine: &mut DeviceEngine, name: &str) {
    engine.stage(&OUTPUTS).unwrap();
    assert_eq!(engine.output(0).unwrap().shape(), [1, StagedOutput::MAX_ROWS, 5], "{name}");
    assert_eq!(engine.output(1).unwrap().shape(), [1, StagedOutput::MAX_ROWS], "{name}");
    let write =
        |engine: &mut DeviceEngine, values: &[f32]| match engine.input(0).unwrap().values_mut() {
            DeviceValues::F32(to) => to.write(values).unwrap(),
            _ => panic!("an input of other than f32"),
        };
    // More rows, fewer, none, all.
    for (seed, num) in [5, 9, 3, 0, NUM_ROWS, 1, 0].into_iter().enumerate() {
        let (values, expected) = image(num, seed);
        write(engine, &values);
        engine.enqueue().unwrap();
        for (index, expected) in expected.iter().enumerate() {
            let found = written(engine.output(index).unwrap());
            assert_eq!(&found, expected, "{name}: {num} rows, output {index}");
        }
    }
    assert!(!engine.name().contains("CUDA graph"), "{}", engine.name());
    assert_eq!(engine.stage(&[]).map_err(|error| error.kind()), Ok(()));
    // Frames in flight have memory of their own.
    engine.allow_in_flight(2).unwrap();
    assert_eq!(engine.stage(&OUTPUTS).unwrap_err().kind(), ErrorKind::Argument);
    let images = [image(7, 1), image(2, 2)];
    for (frame, (values, _)) in images.iter().enumerate() {
        engine.select(frame).unwrap();
        write(engine, values);
        engine.enqueue().unwrap();
    }
    for (frame, (_, expected)) in images.iter().enumerate() {
        engine.select(frame).unwrap();
        let found = [0, 1].map(|index| written(engine.output(index).unwrap()));
        assert_eq!(&found, expected, "{name}: frame {frame}");
    }
}

#[test]
fn varying_rows_and_integers_are_staged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.onnx");
    network().save(&path).unwrap();
    let rten = || Box::new(RtenEngine::load(&path, Some(1)).unwrap());
    let (values, expected) = image(5, 0);
    let mut on_cpu = rten();
    on_cpu.run(&[TensorView::new(&SHAPE, TensorValues::F32(&values)).unwrap()]).unwrap();
    let TensorValues::F32(rows) = on_cpu.output(0).unwrap().values() else { panic!("not f32") };
    assert_eq!(rows, expected[0]);
    let Some(device) = gpu() else { return };
    let stream = device.stream().unwrap();
    check(&mut DeviceEngine::on_host(rten(), &stream, fixed_shape).unwrap(), "rten");
    if std::env::var_os(LIBRARY_VARIABLE).is_none_or(|value| value.is_empty()) {
        return skip(Need::Ort, format_args!("{LIBRARY_VARIABLE} is not set"));
    }
    for cuda_graph in [Usage::Auto, Usage::Never] {
        let gpu = GpuEngineOptions {
            provider: Provider::Cuda,
            cuda_graph,
            ..GpuEngineOptions::default()
        };
        let options = EngineOptions { kind: EngineKind::Auto, gpu, ..EngineOptions::default() };
        let mut engine = DeviceEngine::load(&path, &options, &stream, fixed_shape).unwrap();
        check(&mut engine, "ONNX Runtime");
    }
}
