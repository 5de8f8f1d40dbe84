//! The operator test vectors of the package onnx on the built-in engine and in dense layers: each is
//! computed as ONNX defines it, or refused when it is loaded.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]
#![allow(clippy::print_stdout, reason = "tests say what they skipped and what they ran")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use det_post_infer::dense::{DenseEngine, Precision};
use det_post_infer::{Engine, RtenEngine};
use det_post_types::{TensorValues, TensorView};
use serde_json::Value;

use det_post_testing::require::{Need, skip};

/// Vectors whose answers differ or whose runs fail, and why that stays.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("test_attention_4d_gqa_with_past_and_present_fp16", ROUNDED),
    ("test_attention_4d_gqa_with_past_and_present_fp16.constants", ROUNDED),
    ("test_attention_4d_gqa_with_past_and_present_fp16_expanded", ROUNDED),
    ("test_attention_4d_gqa_with_past_and_present_fp16_expanded.constants", ROUNDED),
    (
        "test_dynamicquantizelinear_expanded",
        "one level at a tie: rten divides by way of reciprocals",
    ),
];
const ROUNDED: &str =
    "float16 is computed as float: the vector's value is rounded by more than its tolerance";

/// What the engine made of a vector.
enum Outcome {
    Equal,
    Refused(String),
    /// Other numbers, or a failure that came after the start.
    Wrong(String),
}

/// A tensor of a vector.
struct Tensor {
    shape: Vec<usize>,
    is_integer: bool,
    bytes: Vec<[u8; 4]>,
}

impl Tensor {
    fn of(entry: &Value, data: &[u8]) -> Self {
        let shape = entry["shape"].as_array().unwrap().iter();
        let shape: Vec<usize> = shape.map(|dim| dim.as_u64().unwrap() as usize).collect();
        let begin = entry["offset"].as_u64().unwrap() as usize;
        let num: usize = shape.iter().product();
        let bytes = data[begin..begin + 4 * num].as_chunks().0.to_vec();
        Self { shape, is_integer: entry["integer"].as_bool().unwrap(), bytes }
    }

    fn floats(&self) -> Vec<f32> {
        self.bytes.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()
    }

    fn integers(&self) -> Vec<i32> {
        self.bytes.iter().map(|&bytes| i32::from_le_bytes(bytes)).collect()
    }
}

/// Why an answer is not that of a vector, if so.
fn difference(
    found: &TensorView<'_>,
    expected: &Tensor,
    (rtol, atol): (f64, f64),
) -> Option<String> {
    if found.shape() != expected.shape {
        return Some(format!("shape {:?} instead of {:?}", found.shape(), expected.shape));
    }
    let floats = |values: &[f32]| {
        let is_near = |a: f32, b: f32| {
            let (a, b) = (f64::from(a), f64::from(b));
            a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= atol + rtol * b.abs()
        };
        let expected = expected.floats();
        let at = values.iter().zip(&expected).position(|(a, b)| !is_near(*a, *b));
        at.map(|at| format!("{} instead of {} at {at}", values[at], expected[at]))
    };
    match found.values() {
        TensorValues::F32(values) if !expected.is_integer => floats(values),
        TensorValues::F16(values) if !expected.is_integer => {
            floats(&values.iter().map(|value| value.to_f32()).collect::<Vec<_>>())
        }
        TensorValues::I32(values) if expected.is_integer => {
            let expected = expected.integers();
            let at = values.iter().zip(&expected).position(|(a, b)| a != b);
            at.map(|at| format!("{} instead of {} at {at}", values[at], expected[at]))
        }
        values => {
            let name = if expected.is_integer { "an integer" } else { "a float" };
            Some(format!("{} instead of {name}", values.element()))
        }
    }
}

/// Loads a file for inputs of these shapes.
type Load = fn(&Path, &[Vec<usize>]) -> det_post_types::Result<Box<dyn Engine>>;

fn rten(path: &Path, _shapes: &[Vec<usize>]) -> det_post_types::Result<Box<dyn Engine>> {
    Ok(Box::new(RtenEngine::load(path, Some(1))?))
}

fn dense(path: &Path, shapes: &[Vec<usize>]) -> det_post_types::Result<Box<dyn Engine>> {
    let next = std::cell::Cell::new(0);
    let shape_of =
        |_: &det_post_types::TensorSpec| Ok(shapes[next.replace(next.get() + 1)].clone());
    Ok(Box::new(DenseEngine::load(path, Precision::F32, &shape_of)?))
}

fn outcome(folder: &Path, vector: &Value, data: &[u8], load: Load) -> Outcome {
    let tensors = |side: &str| -> Vec<Tensor> {
        vector[side].as_array().unwrap().iter().map(|entry| Tensor::of(entry, data)).collect()
    };
    let path = folder.join(format!("{}.onnx", vector["name"].as_str().unwrap()));
    let shapes: Vec<Vec<usize>> =
        tensors("inputs").into_iter().map(|tensor| tensor.shape).collect();
    let mut engine = match load(&path, &shapes) {
        Ok(engine) => engine,
        Err(error) => return Outcome::Refused(format!("{error}")),
    };
    let inputs: Vec<(Tensor, Vec<f32>, Vec<i32>)> = tensors("inputs")
        .into_iter()
        .map(|tensor| {
            let (floats, integers) = (tensor.floats(), tensor.integers());
            (tensor, floats, integers)
        })
        .collect();
    let views: Vec<TensorView<'_>> = inputs
        .iter()
        .map(|(tensor, floats, integers)| {
            let values = if tensor.is_integer {
                TensorValues::I32(integers)
            } else {
                TensorValues::F32(floats)
            };
            TensorView::new(&tensor.shape, values).unwrap()
        })
        .collect();
    if let Err(error) = engine.run(&views) {
        return Outcome::Wrong(format!("run: {error}"));
    }
    let tolerances = (vector["rtol"].as_f64().unwrap(), vector["atol"].as_f64().unwrap());
    for (index, expected) in tensors("outputs").iter().enumerate() {
        let problem = match engine.output(index) {
            Ok(found) => difference(&found, expected, tolerances),
            Err(error) => Some(format!("{error}")),
        };
        if let Some(problem) = problem {
            return Outcome::Wrong(format!("output {index}: {problem}"));
        }
    }
    Outcome::Equal
}

/// The folder of the exported vectors; `None` with a line that says why not.
fn exported() -> Option<&'static Path> {
    static EXPORTED: OnceLock<Option<tempfile::TempDir>> = OnceLock::new();
    EXPORTED.get_or_init(export).as_ref().map(tempfile::TempDir::path)
}

fn export() -> Option<tempfile::TempDir> {
    let Ok(python) = std::env::var("DET_POST_PEER_PYTHON") else {
        skip(Need::Peers, "DET_POST_PEER_PYTHON is not set");
        return None;
    };
    let folder = tempfile::tempdir().unwrap();
    let script = det_post_testing::workspace().join("tests/peers/onnx_vectors.py");
    let export =
        Command::new(python).arg("-Wignore").arg(script).arg(folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&export.stdout);
    if !export.status.success() {
        let said = String::from_utf8_lossy(&export.stderr);
        assert!(said.contains("No module named"), "{said}");
        skip(Need::Peers, format_args!("{}", said.lines().last().unwrap_or_default()));
        return None;
    }
    println!("{said}");
    Some(folder)
}

/// What became of all vectors, by name.
fn outcomes(folder: &Path, load: Load) -> Vec<(Value, Outcome)> {
    let data = std::fs::read(folder.join("data.bin")).unwrap();
    let index = std::fs::read(folder.join("index.json")).unwrap();
    let index: Vec<Value> = serde_json::from_slice(&index).unwrap();
    let of = |vector: Value| {
        let outcome = outcome(folder, &vector, &data, load);
        (vector, outcome)
    };
    index.into_iter().map(of).collect()
}

#[test]
fn every_vector_of_onnx_is_computed_as_defined_or_refused() {
    let Some(folder) = exported() else { return };
    let outcomes = outcomes(folder, rten);
    let mut num = BTreeMap::new();
    let mut wrong = Vec::new();
    for (vector, outcome) in &outcomes {
        let name = vector["name"].as_str().unwrap();
        let (word, said) = match outcome {
            Outcome::Equal => ("equal", ""),
            Outcome::Refused(reason) => ("refused", &reason[..]),
            Outcome::Wrong(reason) => ("wrong", &reason[..]),
        };
        println!("{word}\t{name}\t{said}");
        *num.entry(word).or_insert(0) += 1;
        let expected = vector["expected"].as_str().unwrap();
        let is_listed = EXCEPTIONS.iter().any(|(listed, _)| *listed == name);
        if (word == "wrong" && !is_listed) || (!expected.is_empty() && word != expected) {
            wrong.push(format!("{name}: {word} {said}"));
        }
        if word == "refused" {
            assert!(
                said.contains("engine.kind: onnxruntime") || said.contains("type of input"),
                "{said}"
            );
        }
    }
    println!("{num:?}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(num["equal"] > 1600 && outcomes.len() > 2800, "{num:?} of {}", outcomes.len());
}

#[test]
fn every_vector_of_onnx_is_computed_by_dense_layers_or_refused() {
    let Some(folder) = exported() else { return };
    let mut num_equal = 0;
    let mut wrong = Vec::new();
    for (vector, outcome) in outcomes(folder, dense) {
        let name = vector["name"].as_str().unwrap();
        match outcome {
            Outcome::Equal => num_equal += 1,
            Outcome::Refused(reason) => println!("refused\t{name}\t{reason}"),
            Outcome::Wrong(reason) => wrong.push(format!("{name}: {reason}")),
        }
    }
    println!("{num_equal} equal");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(num_equal > 700, "{num_equal} are equal");
}
