//! A head in NVIDIA's nodes against its formulas, written out.

use super::*;
use crate::{Engine, RtenEngine};
use det_post_testing::five_onnx;
use det_post_testing::onnx::{Attr, Graph};
use det_post_testing::random::Random;
use det_post_types::{ElementType, EngineOptions, NetworkPart, TensorValues, TensorView};

const F32: ElementType = ElementType::F32;

fn values(num: usize, seed: u64) -> Vec<f32> {
    let mut random = Random::new(seed);
    (0..num).map(|_| random.range(-2.0, 2.0)).collect()
}

fn view<'a>(shape: &'a [usize], values: &'a [f32]) -> TensorView<'a> {
    TensorView::new(shape, TensorValues::F32(values)).unwrap()
}

fn floats(view: TensorView<'_>) -> Vec<f32> {
    match view.values() {
        TensorValues::F32(values) => values.to_vec(),
        TensorValues::I32(values) => values.iter().map(|&value| value as f32).collect(),
        other => panic!("{:?}", other.element()),
    }
}

/// The bytes of a file with another version of ONNX's operators.
fn of_set(graph: &Graph, set: u8) -> Vec<u8> {
    let mut bytes = graph.to_bytes();
    let entry = [0x42, 2, 0x10, 17];
    let at = bytes.windows(4).rposition(|window| window == entry).unwrap();
    bytes[at + 3] = set;
    bytes
}

fn load(bytes: &[u8], part: NetworkPart) -> Result<RtenEngine> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    let options = EngineOptions { part, threads: Some(1), ..EngineOptions::default() };
    RtenEngine::with_options(file.path(), &options)
}

fn norm(attributes: &[(&str, Attr)], inputs: &[&str]) -> Graph {
    Graph::new("norm", "")
        .input("x", F32, &[1, 3, 8])
        .constant("w", &[8], &values(8, 5))
        .constant("b", &[8], &values(8, 6))
        .node_of("nv", OPERATOR, inputs, &["y"], attributes)
        .op("Relu", &["y"], "z")
        .output("y", F32, &[1, 3, 8])
        .output("z", F32, &[1, 3, 8])
}

#[test]
fn a_layer_normalization_is_that_of_its_formula() {
    let (x, w, b) = (values(24, 4), values(8, 5), values(8, 6));
    for (epsilon, set) in [(1e-5, 13), (0.5, 17), (1e-5, 18), (0.0, 20)] {
        let attributes = [("axis", Attr::Int(-1)), ("epsilon", Attr::Float(epsilon))];
        let bytes = of_set(&norm(&attributes, &["x", "w", "b"]), set);
        let mut engine = load(&bytes, NetworkPart::Whole).unwrap();
        engine.run(&[view(&[1, 3, 8], &x)]).unwrap();
        let found = floats(engine.output(0).unwrap());
        let rectified = floats(engine.output(1).unwrap());
        for (row, found) in x.chunks(8).zip(found.chunks(8)) {
            let row: Vec<f64> = row.iter().map(|&value| f64::from(value)).collect();
            let mean = row.iter().sum::<f64>() / 8.0;
            let variance = row.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 8.0;
            let root = (variance + f64::from(epsilon)).sqrt();
            for (at, found) in found.iter().enumerate() {
                let expected = (row[at] - mean) / root * f64::from(w[at]) + f64::from(b[at]);
                assert!((f64::from(*found) - expected).abs() < 1e-5, "{set}: {found} {expected}");
            }
        }
        assert!(found.iter().zip(rectified).all(|(y, z)| z == y.max(0.0)));
    }
}

#[test]
fn normalizations_that_are_others_are_refused_by_name() {
    let all = ["x", "w", "b"];
    for (attributes, inputs, part) in [
        (vec![("axis", Attr::Int(1))], &all[..], "allowed: -1"),
        (vec![("epsilon", Attr::Float(-1.0))], &all[..], "a float of 0 and more"),
        (vec![("epsilon", Attr::Int(1))], &all[..], "a float of 0 and more"),
        (vec![], &all[..2], "allowed: a tensor, weight and bias"),
    ] {
        let error = load(&norm(&attributes, inputs).to_bytes(), NetworkPart::Whole).err().unwrap();
        assert!(error.message().contains(OPERATOR) && error.message().contains(part), "{error}");
    }
}

/// A head of four proposals whose outputs are its inputs.
fn passing_head(outputs: &[(&str, i64)]) -> Graph {
    let mut graph = Graph::new("head", "");
    for (name, channels) in outputs {
        graph = graph.input(&format!("{name}.in"), F32, &[1, *channels, 4]);
        graph = graph.op("Identity", &[&format!("{name}.in")], name);
        graph = graph.output(name, F32, &[1, *channels, 4]);
    }
    graph
}

const GOOD: [(&str, i64); 6] =
    [("score", 3), ("rot", 2), ("dim", 3), ("reg", 2), ("height", 1), ("vel", 2)];

#[test]
fn six_outputs_become_boxes_scores_and_labels() {
    let tensors: Vec<Vec<f32>> =
        GOOD.iter().zip(1..).map(|((_, n), seed)| values(4 * *n as usize, seed)).collect();
    let mut tensors = tensors;
    // The first of equal classes counts.
    tensors[0][4] = 3.0;
    tensors[0][8] = 3.0;
    let [score, rot, dim, reg, height, vel] = &tensors[..] else { panic!() };
    for set in [13, 18] {
        let mut engine = load(&of_set(&passing_head(&GOOD), set), NetworkPart::Proposals).unwrap();
        let names: Vec<_> = engine.outputs().iter().map(|output| output.name.clone()).collect();
        assert_eq!(names, NAMES);
        let shapes = GOOD.map(|(_, channels)| [1, channels as usize, 4]);
        let inputs: Vec<_> =
            shapes.iter().zip(&tensors).map(|(shape, values)| view(shape, values)).collect();
        engine.run(&inputs).unwrap();
        let [boxes, scores, labels] = [0, 1, 2].map(|at| engine.output(at).unwrap());
        assert_eq!(
            (boxes.shape(), scores.shape(), labels.shape()),
            (&[10, 4][..], &[4][..], &[4][..])
        );
        let [boxes, scores, labels] = [boxes, scores, labels].map(floats);
        assert_eq!(labels[0], 1.0);
        for at in 0..4 {
            let of = |tensor: &[f32], channel: usize| tensor[4 * channel + at];
            let class = labels[at] as usize;
            assert_eq!(scores[at], of(score, class));
            assert!((0..3).all(|other| of(score, other) <= scores[at]));
            let expected = [
                [of(reg, 0), of(reg, 1), of(height, 0)],
                [of(dim, 1), of(dim, 0), of(dim, 2)],
                [-of(rot, 1), -of(rot, 0), of(vel, 0)],
            ];
            let found: Vec<f32> = (0..10).map(|channel| of(&boxes, channel)).collect();
            assert_eq!(found[..9], expected.concat());
            assert_eq!(found[9], of(vel, 1));
            // The yaw is -a - pi/2 of the angle a that turns clockwise from -y.
            let angle = f64::from(of(rot, 0)).atan2(f64::from(of(rot, 1)));
            let yaw = f64::from(found[6]).atan2(f64::from(found[7]));
            let differs = yaw + angle + std::f64::consts::FRAC_PI_2;
            assert!(differs.sin().abs() < 1e-6 && differs.cos() > 0.0, "{yaw} {angle}");
        }
    }
}

#[test]
fn heads_with_other_outputs_are_refused_by_name() {
    let change = |at: usize, to: (&'static str, i64)| {
        let mut outputs = GOOD;
        outputs[at] = to;
        passing_head(&outputs)
    };
    for (graph, part) in [
        (change(0, ("heatmap", 3)), "there is no output score; found: heatmap, rot"),
        (change(1, ("rot", 1)), "output rot is"),
        (change(2, ("dim", 2)), "allowed: [1, 3, P]"),
        (change(5, ("vel", 3)), "output vel is"),
    ] {
        let error = load(&graph.to_bytes(), NetworkPart::Proposals).err().unwrap();
        assert!(error.message().contains(part), "{error}");
    }
    let bytes = five_onnx::head("score").to_bytes();
    let engine = load(&bytes, NetworkPart::Proposals).unwrap();
    assert_eq!(engine.inputs().len(), 1);
    assert_eq!(load(&bytes, NetworkPart::Whole).unwrap().outputs().len(), 6);
}
