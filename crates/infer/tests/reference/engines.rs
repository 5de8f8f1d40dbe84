//! Both engines run the same networks and agree.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]
#![allow(clippy::print_stdout, reason = "tests say what they skipped and what they ran")]

use det_post_testing::{onnx, require, shared_data};
use std::path::{Path, PathBuf};

use det_post_infer::{Engine, LIBRARY_VARIABLE, OrtEngine, RtenEngine, load};
use det_post_types::ErrorKind;
use det_post_types::{
    Dim, ElementType, EngineKind, EngineOptions, TensorSpec, TensorValues, TensorView,
};
use half::f16;
use onnx::{Attr, Graph};
use require::{Need, skip};

/// The library of ONNX Runtime, or `None` with a line that says so.
pub fn library() -> Option<PathBuf> {
    let library = std::env::var_os(LIBRARY_VARIABLE).filter(|value| !value.is_empty());
    if library.is_none() {
        skip(Need::Ort, format_args!("{LIBRARY_VARIABLE} is not set"));
    }
    library.map(PathBuf::from)
}

/// Values in [0, scale) that differ from place to place, the same every time.
fn noise(num: usize, scale: f32) -> Vec<f32> {
    let mut state = 0x2545_f491_u32;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 8) as f32 / (1 << 24) as f32 * scale
    };
    (0..num).map(|_| next()).collect()
}

fn fixed(spec: &TensorSpec) -> Vec<usize> {
    let dims = spec.shape.as_deref().unwrap_or_default();
    let dims = dims.iter().map(|dim| match dim {
        Dim::Fixed(n) => *n,
        Dim::Dynamic => panic!("{spec} is open"),
    });
    dims.collect()
}

fn floats(engine: &dyn Engine, index: usize) -> (Vec<usize>, Vec<f32>) {
    let output = engine.output(index).unwrap();
    match output.values() {
        TensorValues::F32(values) => (output.shape().to_vec(), values.to_vec()),
        other => panic!("output {index} holds {}", other.element()),
    }
}

/// The largest difference, relative to the largest value.
fn difference(found: &[f32], expected: &[f32]) -> f32 {
    let largest = |values: &mut dyn Iterator<Item = f32>| values.fold(0.0, f32::max);
    let scale = largest(&mut expected.iter().map(|value| value.abs()));
    largest(&mut found.iter().zip(expected).map(|(a, b)| (a - b).abs())) / scale
}

/// Runs a shared network on every engine there is: twice on each with equal
/// bytes, and with answers that agree between them.
fn engines_agree(model: &str, scale: f32, outputs: &[&[usize]]) {
    let Some(data) = shared_data::shared_data() else { return };
    let path = data.join("models").join(model);
    let mut engines: Vec<Box<dyn Engine>> = vec![Box::new(RtenEngine::load(&path, None).unwrap())];
    if let Some(library) = library() {
        engines.push(Box::new(OrtEngine::load(&path, &library, None).unwrap()));
    }
    let mut reference: Option<Vec<Vec<f32>>> = None;
    for engine in &mut engines {
        let shape = fixed(&engine.inputs()[0]);
        let values = noise(shape.iter().product(), scale);
        let input = TensorView::new(&shape, TensorValues::F32(&values)).unwrap();
        let mut answers = Vec::new();
        for round in 0..2 {
            engine.run(&[input]).unwrap();
            assert_eq!(engine.outputs().len(), outputs.len());
            for (index, &shape) in outputs.iter().enumerate() {
                let (found_shape, values) = floats(engine.as_ref(), index);
                assert_eq!(found_shape, shape, "{model} on {}", engine.name());
                assert!(values.iter().all(|value| value.is_finite()));
                if round == 0 {
                    answers.push(values);
                } else {
                    assert_eq!(values, answers[index], "{model} twice on {}", engine.name());
                }
            }
        }
        if let Some(reference) = &reference {
            for (found, expected) in answers.iter().zip(reference) {
                let difference = difference(found, expected);
                println!("{model}: engines differ by {difference:e} of the largest value");
                assert!(difference < 1e-5, "{model}: {difference:e}");
            }
        }
        reference = Some(answers);
    }
}

#[test]
fn yolox_nano_agrees() {
    engines_agree("yolox_nano_416.onnx", 255.0, &[&[1, 3549, 85]]);
}

#[test]
fn yolov5n_agrees() {
    engines_agree("yolov5n_fp32_640.onnx", 1.0, &[&[1, 25200, 85]]);
}

#[test]
fn yolov8n_agrees() {
    engines_agree("yolov8n_f32_from_qdq_640.onnx", 1.0, &[&[1, 84, 8400]]);
}

#[test]
fn rten_gives_the_same_bytes_after_every_load() {
    let Some(data) = shared_data::shared_data() else { return };
    let path = data.join("models/yolox_nano_416.onnx");
    let shape = [1, 3, 416, 416];
    let values = noise(shape.iter().product(), 255.0);
    let input = TensorView::new(&shape, TensorValues::F32(&values)).unwrap();
    let answers = [(); 3].map(|()| {
        let mut engine = RtenEngine::load(&path, Some(3)).unwrap();
        engine.run(&[input]).unwrap();
        floats(&engine, 0).1
    });
    assert!(answers[1] == answers[0] && answers[2] == answers[0]);
}

#[test]
fn nuscenes_pillar_encoder_agrees() {
    engines_agree("pfe.onnx", 1.0, &[&[5268, 64]]);
}

#[test]
fn waymo_pillar_encoder_agrees() {
    engines_agree("pfe_baseline32000.onnx", 1.0, &[&[32000, 64]]);
}

pub fn save(graph: &Graph) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.onnx");
    graph.save(&path).unwrap();
    (folder, path)
}

/// Four floats in, twice as large and their count out; the row is open.
fn doubling(element: ElementType) -> Graph {
    let graph = Graph::new("doubling", "").input("x", element, &[-1, 4]);
    let graph = match element {
        ElementType::F16 => graph.constant_f16("two", &[], &[f16::from_f32(2.0)]),
        _ => graph.constant("two", &[], &[2.0]),
    };
    graph
        .op("Mul", &["x", "two"], "doubled")
        .op("Size", &["x"], "count")
        .node("ReduceMax", &["x"], &["largest"], &[("keepdims", Attr::Int(0))])
        .node("Cast", &["largest"], &["rounded"], &[("to", Attr::Int(6))])
        .output("doubled", element, &[-1, 4])
        .output("count", ElementType::I64, &[])
        .output("rounded", ElementType::I32, &[])
}

#[test]
fn rten_gives_long_integers_as_short_ones() {
    let (_folder, path) = save(&doubling(ElementType::F32));
    let mut engine = RtenEngine::load(&path, Some(1)).unwrap();
    assert_eq!(engine.inputs()[0].to_string(), "x f32 [?, 4]");
    assert_eq!(engine.outputs()[1].element, Some(ElementType::I32));
    assert!(engine.output(0).is_err(), "nothing ran");

    let values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.5];
    let input = TensorView::new(&[2, 4], TensorValues::F32(&values)).unwrap();
    engine.run(&[input]).unwrap();
    assert_eq!(floats(&engine, 0), (vec![2, 4], values.map(|value| value * 2.0).to_vec()));
    assert!(matches!(engine.output(1).unwrap().values(), TensorValues::I32([8])));
    assert_eq!(engine.output(1).unwrap().shape(), [0_usize; 0]);
    assert!(matches!(engine.output(2).unwrap().values(), TensorValues::I32([8])));
    assert!(engine.output(3).is_err());

    let wrong = TensorView::new(&[4, 2], TensorValues::F32(&values)).unwrap();
    assert_eq!(engine.run(&[wrong]).unwrap_err().kind(), ErrorKind::Inference);
    assert!(engine.output(0).is_err(), "the answers before a failed run are gone");
}

#[test]
fn rten_widens_half_floats() {
    let (_folder, path) = save(&doubling(ElementType::F16));
    let mut engine = RtenEngine::load(&path, Some(1)).unwrap();
    assert_eq!(engine.inputs()[0].to_string(), "x f32 [?, 4]");
    let input = TensorView::new(&[1, 4], TensorValues::F32(&[0.5, 1.0, 1.5, 2.0])).unwrap();
    engine.run(&[input]).unwrap();
    assert_eq!(floats(&engine, 0).1, [1.0, 2.0, 3.0, 4.0]);
    let halves = [f16::ONE; 4];
    let input = TensorView::new(&[1, 4], TensorValues::F16(&halves)).unwrap();
    assert_eq!(engine.run(&[input]).unwrap_err().kind(), ErrorKind::Inference);
}

#[test]
fn onnx_runtime_takes_and_gives_half_floats_and_integers() {
    let Some(library) = library() else { return };
    let (_folder, path) = save(&doubling(ElementType::F16));
    let mut engine = OrtEngine::load(&path, &library, Some(1)).unwrap();
    assert_eq!(engine.inputs()[0].to_string(), "x f16 [?, 4]");
    assert!(engine.output(0).is_err(), "nothing ran");

    let halves = [0.5, 1.0, 1.5, 2.0].map(f16::from_f32);
    let input = TensorView::new(&[1, 4], TensorValues::F16(&halves)).unwrap();
    engine.run(&[input]).unwrap();
    let output = engine.output(0).unwrap();
    let TensorValues::F16(values) = output.values() else { panic!("{output:?}") };
    assert_eq!(values, [1.0, 2.0, 3.0, 4.0].map(f16::from_f32));
    assert!(matches!(engine.output(1).unwrap().values(), TensorValues::I64([4])));
    assert!(matches!(engine.output(2).unwrap().values(), TensorValues::I32([2])));
    assert!(engine.output(3).is_err());

    let floats = TensorView::new(&[1, 4], TensorValues::F32(&[0.0; 4])).unwrap();
    assert_eq!(engine.run(&[floats]).unwrap_err().kind(), ErrorKind::Inference);
    assert!(engine.output(0).is_err(), "the answers before a failed run are gone");

    // Open rows: a second run of another size, and one of none.
    let input = TensorView::new(&[0, 4], TensorValues::F16(&[])).unwrap();
    match engine.run(&[input]) {
        Ok(()) => assert!(engine.output(0).unwrap().values().is_empty()),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Inference),
    }
}

#[test]
fn unusable_libraries_and_models_are_refused() {
    let (folder, path) = save(&doubling(ElementType::F32));
    // After a good library was loaded, the refusal names that one instead.
    let error = OrtEngine::load(&path, Path::new("/no/such/libonnxruntime.so"), None);
    let error = error.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Model);
    assert!(error.to_string().contains("/no/such/libonnxruntime.so"), "{error}");

    let garbage = folder.path().join("garbage.onnx");
    std::fs::write(&garbage, b"not a network").unwrap();
    let rten = EngineOptions { kind: EngineKind::Rten, ..EngineOptions::default() };
    let error = load(&garbage, &rten).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Model);
    assert!(error.to_string().contains("garbage.onnx"), "{error}");

    let Some(library) = library() else { return };
    let error = OrtEngine::load(&garbage, &library, None).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Model);
    OrtEngine::load(&path, &library, None).unwrap();
    let error = OrtEngine::load(&path, Path::new("/another/libonnxruntime.so"), None);
    let message = error.err().unwrap().to_string();
    assert!(message.contains("/another/libonnxruntime.so"), "{message}");
    assert!(message.contains(&*library.file_name().unwrap().to_string_lossy()), "{message}");
}
