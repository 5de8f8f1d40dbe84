//! Which operators of rten give a number where ONNX gives a NaN: the list of docs/numerics.md.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use det_post_infer::{Engine, RtenEngine};
use det_post_testing::onnx::{Attr, Graph};
use det_post_types::{ElementType, TensorValues, TensorView};

/// Rows and columns of the input.
const SHAPE: [usize; 4] = [1, 1, 4, 16];
const NUM: usize = 64;

/// Operators of one input.
const OPERATORS: [&str; 34] = [
    "Abs",
    "AveragePool",
    "Ceil",
    "Elu",
    "Erf",
    "Exp",
    "Floor",
    "GlobalAveragePool",
    "GlobalMaxPool",
    "HardSigmoid",
    "HardSwish",
    "LeakyRelu",
    "Log",
    "LogSoftmax",
    "MaxPool",
    "Neg",
    "Reciprocal",
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
    "Relu",
    "Round",
    "Sigmoid",
    "Sign",
    "Softmax",
    "Softplus",
    "Softsign",
    "Sqrt",
];

/// Operators of two inputs, the second a constant.
const OPERATORS_OF_TWO: [&str; 7] = ["Add", "Clip", "Max", "Min", "Mul", "PRelu", "Sub"];

fn keeps_nan(operator: &str) -> bool {
    let dims = SHAPE.map(|size| size as i64);
    let graph = Graph::new("nan", "one operator").input("x", ElementType::F32, &dims);
    let graph = match operator {
        "MaxPool" | "AveragePool" => {
            let attributes = [("kernel_shape", Attr::Ints(vec![2, 2]))];
            graph.node(operator, &["x"], &["y"], &attributes)
        }
        _ if OPERATORS_OF_TWO.contains(&operator) => {
            let dims: &[i64] = if operator == "Clip" { &[] } else { &[1] };
            graph.constant("k", dims, &[0.5]).op(operator, &["x", "k"], "y")
        }
        _ => graph.op(operator, &["x"], "y"),
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nan.onnx");
    graph.output("y", ElementType::F32, &[-1, -1, -1, -1]).save(&path).unwrap();
    let mut engine = RtenEngine::load(&path, Some(1)).unwrap();
    (0..NUM).all(|at| {
        let mut values: Vec<f32> = (1..=NUM).map(|value| value as f32 / NUM as f32).collect();
        values[at] = f32::NAN;
        engine.run(&[TensorView::new(&SHAPE, TensorValues::F32(&values)).unwrap()]).unwrap();
        let output = engine.output(0).unwrap();
        let TensorValues::F32(found) = output.values() else { panic!("{operator}: no floats") };
        found.iter().any(|value| value.is_nan())
    })
}

#[test]
fn operators_that_lose_a_nan_are_listed() {
    let all = OPERATORS.into_iter().chain(OPERATORS_OF_TWO);
    let mut lost: Vec<String> =
        all.filter(|operator| !keeps_nan(operator)).map(|name| format!("`{name}`")).collect();
    lost.sort();
    let page = std::fs::read_to_string(det_post_testing::workspace().join("docs/numerics.md"));
    let expected = format!("Of a NaN, rten gives a number in {}", lost.join(", "));
    assert!(page.unwrap().contains(&expected), "docs/numerics.md does not say: {expected}");
}
