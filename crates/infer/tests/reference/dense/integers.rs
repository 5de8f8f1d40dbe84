//! Integers that depend on the inputs of a network: classes and cells of the best of a heat map.

use std::path::Path;

use det_post_infer::dense::{DenseEngine, PlanOptions, Precision};
use det_post_infer::{Engine, OrtEngine, RtenEngine};
use det_post_testing::onnx::{Attr, Graph};
use det_post_testing::proposal_onnx::{CHANNELS, HEAT, proposals};
use det_post_types::{ElementType, TensorValues, TensorView};

use super::{library, noise, shape_of};

const SHAPE: [usize; 4] = [1, CHANNELS as usize, HEAT[1] as usize, HEAT[2] as usize];

/// The outputs as floats.
fn run(engine: &mut dyn Engine, shape: &[usize], values: &[f32]) -> Vec<Vec<f32>> {
    engine.run(&[TensorView::new(shape, TensorValues::F32(values)).unwrap()]).unwrap();
    let read = |index| match engine.output(index).unwrap().values() {
        TensorValues::F32(values) => values.to_vec(),
        TensorValues::I32(values) => values.iter().map(|&value| value as f32).collect(),
        TensorValues::I64(values) => values.iter().map(|&value| value as f32).collect(),
        other => panic!("output {index} holds {}", other.element()),
    };
    (0..engine.outputs().len()).map(read).collect()
}

fn dense(path: &Path, precision: Precision, integers_as_floats: bool) -> DenseEngine {
    let options = PlanOptions { precision, integers_as_floats, ..PlanOptions::default() };
    DenseEngine::load(path, options, &shape_of).unwrap()
}

#[test]
fn proposals_have_the_classes_and_cells_of_other_engines() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("proposals.onnx");
    proposals().save(&path).unwrap();
    let mut others: Vec<Box<dyn Engine>> =
        vec![Box::new(RtenEngine::load(&path, Some(1)).unwrap())];
    if let Some(library) = library() {
        others.push(Box::new(OrtEngine::load(&path, &library, None).unwrap()));
    }
    let mut engines = [false, true].map(|as_floats| dense(&path, Precision::F32, as_floats));
    for seed in 0..8 {
        let values = noise(SHAPE.iter().product(), 4.0, seed);
        let found = engines.each_mut().map(|engine| run(engine, &SHAPE, &values));
        assert_eq!(found[0], found[1]);
        let [boxes, scores, labels] = &found[0][..] else { panic!("three outputs") };
        assert!(labels.iter().any(|label| *label != labels[0]), "{labels:?}");
        for other in &mut others {
            let expected = run(other.as_mut(), &SHAPE, &values);
            assert_eq!(labels, &expected[2], "{}", other.name());
            for (found, expected) in [boxes, scores].into_iter().zip(&expected) {
                for (found, expected) in found.iter().zip(expected) {
                    assert!(
                        (found - expected).abs() < 1e-5,
                        "{}: {found} {expected}",
                        other.name()
                    );
                }
            }
        }
        // The order of 16-bit floats may differ: labels are classes.
        let halves = run(&mut dense(&path, Precision::F16, true), &SHAPE, &values);
        let is_class = |label: &f32| (0..HEAT[0]).any(|class| *label == class as f32);
        assert!(halves[2].iter().all(is_class), "{:?}", halves[2]);
    }
    let element = |engine: &DenseEngine| engine.output(2).unwrap().values().element();
    assert_eq!(engines.each_ref().map(element), [ElementType::I32, ElementType::F32]);
}

/// Functions of an index, with constants of both signs, and sums over slices that are set.
fn arithmetic() -> Graph {
    let names = ["Add", "Sub", "Mul", "Div", "Mod", "Min", "Max"];
    let mut graph = Graph::new("arithmetic", "")
        .input("x", ElementType::F32, &[1, 9])
        .integers("nine", &[9])
        .integers("four", &[-4])
        .integers("three", &[3])
        .node("TopK", &["x", "nine"], &["best", "index"], &[("axis", Attr::Int(1))])
        .op("Add", &["index", "four"], "signed");
    for (at, name) in names.into_iter().enumerate() {
        for constant in ["four", "three"] {
            let output = format!("{name}.{constant}");
            graph = graph.op(name, &["signed", constant], &output).output(
                &output,
                ElementType::I64,
                &[1, 9],
            );
        }
        let (is_less, chosen) = (format!("is.less.{at}"), format!("chosen.{at}"));
        graph = graph
            .op("Less", &["signed", "three"], &is_less)
            .op("Where", &[&is_less, "three", &format!("{name}.four")], &chosen)
            .output(&chosen, ElementType::I64, &[1, 9]);
    }
    let to = |element: i64| [("to", Attr::Int(element))];
    let last = [("axis", Attr::Int(1))];
    graph
        .op("Neg", &["signed"], "neg")
        .op("Abs", &["signed"], "abs")
        .node("Concat", &["neg", "abs"], &["joined"], &last)
        .node("Cast", &["signed"], &["float"], &to(1))
        .constant("half", &[], &[0.75])
        .op("Mul", &["float", "half"], "scaled")
        .node("Cast", &["scaled"], &["truncated"], &to(7))
        .node("Cast", &["signed"], &["is.set"], &to(9))
        .node("Cast", &["is.set"], &["set"], &to(7))
        .integers("depth", &[5])
        .integers("off.on", &[-2, 7])
        .node("OneHot", &["signed", "depth", "off.on"], &["hot"], &[("axis", Attr::Int(0))])
        .integers("places.list", &[1, 4])
        .integers("places.shape", &[2, 1])
        .op("Reshape", &["places.list", "places.shape"], "places")
        .integers("column", &[9, 1])
        .op("Reshape", &["signed", "column"], "rows")
        .integers("two", &[2, 1])
        .integers("zero", &[0])
        .integers("end", &[2])
        .op("Slice", &["rows", "zero", "end"], "first")
        .op("ScatterND", &["rows", "places", "first"], "scattered")
        .output("joined", ElementType::I64, &[1, 18])
        .output("float", ElementType::F32, &[1, 9])
        .output("truncated", ElementType::I64, &[1, 9])
        .output("set", ElementType::I64, &[1, 9])
        .output("hot", ElementType::I64, &[5, 1, 9])
        .output("scattered", ElementType::I64, &[9, 1])
}

#[test]
fn integers_are_computed_as_by_onnx_runtime() {
    let Some(library) = library() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("arithmetic.onnx");
    arithmetic().save(&path).unwrap();
    let mut reference = OrtEngine::load(&path, &library, None).unwrap();
    for precision in [Precision::F32, Precision::F16] {
        let mut engine = dense(&path, precision, true);
        for seed in 0..4 {
            let values = noise(9, 1.0, seed);
            let expected = run(&mut reference, &[1, 9], &values);
            assert_eq!(run(&mut engine, &[1, 9], &values), expected, "{precision:?}");
        }
    }
}

#[test]
fn integers_that_are_not_covered_are_named() {
    let index = || {
        Graph::new("refused", "").input("x", ElementType::F32, &[1, 9]).node(
            "ArgMax",
            &["x"],
            &["index"],
            &[("axis", Attr::Int(1))],
        )
    };
    let float = [("fmod", Attr::Int(1))];
    for (graph, part) in [
        (index().op("Sign", &["index"], "y"), "Sign of integers that depend"),
        (index().op("Add", &["index", "x"], "y"), "Add of integers that depend"),
        (index().node("Mod", &["index", "index"], &["y"], &float), "attribute fmod is 1"),
        (index().op("Mod", &["x", "x"], "y"), "Mod"),
        (index().op("Softmax", &["index"], "y"), "integers of index depend"),
        (
            index().integers("d", &[1 << 40]).integers("v", &[0, 1]).op(
                "OneHot",
                &["index", "d", "v"],
                "y",
            ),
            "a depth of",
        ),
        (
            index().integers("d", &[3]).op("OneHot", &["index", "d", "index"], "y"),
            "two constants are covered",
        ),
        (index().op("ScatterND", &["x", "index", "x"], "y"), "index depends on the inputs"),
        (
            index().integers("i", &[0, 9]).constant("u", &[], &[1.0]).op(
                "ScatterND",
                &["x", "i", "u"],
                "y",
            ),
            "axis 9 of 9",
        ),
        (
            index().integers("i", &[0, 1, 2]).op("ScatterND", &["x", "i", "x"], "y"),
            "indices of [3] for data of [1, 9]",
        ),
        (
            index().integers("i", &[0, 1]).op("ScatterND", &["x", "i", "x"], "y"),
            "updates of [1, 9] at indices of [2]",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("refused.onnx");
        graph.output("y", ElementType::F32, &[1, 9]).save(&path).unwrap();
        let error = DenseEngine::load(&path, Precision::F32, &shape_of).err().unwrap();
        assert!(error.message().contains(part), "{part}: {error}");
    }
}
