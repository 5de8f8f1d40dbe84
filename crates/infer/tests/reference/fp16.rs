//! Networks converted to 16-bit floats against themselves in 32 bits.

use std::path::Path;

use det_post_infer::fp16::{Converted, convert};
use det_post_infer::{Engine, LIBRARY_VARIABLE, OrtEngine};
use det_post_types::{Dim, ElementType, TensorValues, TensorView};

use det_post_testing::bounds::bound;
use det_post_testing::onnx::{Attr, Graph};
use det_post_testing::require::{Need, skip};
use det_post_testing::shared_data;

const FLOAT: ElementType = ElementType::F32;

/// Values in [-1, 1) that differ from place to place, the same every time.
fn noise(num: usize) -> Vec<f32> {
    let mut state = 0x2545_f491_u32;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..num).map(|_| next()).collect()
}

/// Two convolutions with an activation between them, and boxes made of the result.
fn network(weights: &[f32]) -> Graph {
    Graph::new("fp16", "")
        .input("images", FLOAT, &[1, 2, 4, 4])
        .constant("first", &[2, 2, 1, 1], weights)
        .constant("second", &[4, 2, 1, 1], &noise(8))
        .constant("stride", &[], &[32.0])
        .integers("flat", &[1, 4, 16])
        .op("Conv", &["images", "first"], "features")
        .op("Sigmoid", &["features"], "gate")
        .op("Mul", &["features", "gate"], "active")
        .op("Conv", &["active", "second"], "raw")
        .op("Reshape", &["raw", "flat"], "rows")
        .op("Mul", &["rows", "stride"], "boxes")
        .output("boxes", FLOAT, &[1, 4, 16])
}

fn bytes(graph: &Graph) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("network.onnx");
    graph.save(&path).unwrap();
    std::fs::read(path).unwrap()
}

fn converted(graph: &Graph) -> Converted {
    convert(&bytes(graph)).unwrap().unwrap()
}

/// The outputs of a network for the same noise, in ONNX Runtime; `None` without its library.
fn outputs(network: &[u8]) -> Option<Vec<Vec<f32>>> {
    let Some(library) = std::env::var_os(LIBRARY_VARIABLE).filter(|value| !value.is_empty()) else {
        skip(Need::Ort, format_args!("{LIBRARY_VARIABLE} is not set"));
        return None;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("network.onnx");
    std::fs::write(&path, network).unwrap();
    let mut engine = OrtEngine::load(&path, Path::new(&library), None).unwrap();
    let dims = engine.inputs()[0].shape.clone().unwrap();
    let shape: Vec<usize> = dims
        .iter()
        .map(|dim| match dim {
            Dim::Fixed(n) => *n,
            // A batch of one image.
            Dim::Dynamic => 1,
        })
        .collect();
    assert_eq!(engine.inputs()[0].element, Some(FLOAT), "inputs keep their type");
    let values: Vec<f32> = noise(shape.iter().product()).iter().map(|v| v.abs()).collect();
    engine.run(&[TensorView::new(&shape, TensorValues::F32(&values)).unwrap()]).unwrap();
    let floats = |index| match engine.output(index).unwrap().values() {
        TensorValues::F32(values) => values.to_vec(),
        other => panic!("output {index} holds {}", other.element()),
    };
    Some((0..engine.outputs().len()).map(floats).collect())
}

/// The largest difference, relative to the largest value.
fn difference(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len());
    let scale = expected.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
    let pairs = found.iter().zip(expected);
    pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max) / scale
}

#[test]
fn features_are_converted_and_boxes_are_not() {
    let graph = network(&noise(4));
    let half = converted(&graph);
    // Both convolutions, the activation between them, and the move after the second.
    assert_eq!((half.num_converted, half.num_nodes, half.num_casts), (5, 6, 2));
    let (Some(found), Some(expected)) = (outputs(&half.bytes), outputs(&bytes(&graph))) else {
        return;
    };
    let difference = difference(&found[0], &expected[0]);
    // Two layers of two products, each rounded a few times to 11 bits.
    assert!(difference < 4e-3, "{difference:e}");
    assert!(difference > 1e-6, "nothing was rounded: {difference:e}");
}

#[test]
fn weights_that_f16_cannot_hold_keep_their_convolution_in_f32() {
    let half = converted(&network(&[1e5, 0.5, 0.25, 1.0]));
    // The first convolution is left, the activation after it is not.
    assert_eq!((half.num_converted, half.num_casts), (4, 2));
}

#[test]
fn an_expectation_of_probabilities_keeps_f32() {
    let graph = Graph::new("dfl", "")
        .input("images", FLOAT, &[1, 2, 4, 4])
        .constant("weights", &[16, 2, 1, 1], &noise(32))
        .constant("bins", &[1, 16, 1, 1], &(0..16).map(|bin| bin as f32).collect::<Vec<_>>())
        .integers("same", &[1, 16, 4, 4])
        .op("Conv", &["images", "weights"], "logits")
        .node("Softmax", &["logits"], &["bins_of_softmax"], &[("axis", Attr::Int(1))])
        .op("Reshape", &["bins_of_softmax", "same"], "probabilities")
        .op("Conv", &["probabilities", "bins"], "distances")
        .output("distances", FLOAT, &[1, 1, 4, 4]);
    let half = converted(&graph);
    assert_eq!((half.num_converted, half.num_casts), (1, 2));
}

#[test]
fn shapes_and_indices_are_not_touched() {
    let graph = Graph::new("shapes", "")
        .input("images", FLOAT, &[1, 2, 4, 4])
        .constant("weights", &[2, 2, 1, 1], &noise(4))
        .constant("scales", &[4], &[1.0, 1.0, 2.0, 2.0])
        .op("Conv", &["images", "weights"], "features")
        .op("Resize", &["features", "", "scales"], "larger")
        .op("Conv", &["larger", "weights"], "raw")
        .op("Shape", &["raw"], "shape")
        .op("Concat", &["raw", "raw"], "both")
        .op("Reshape", &["raw", "shape"], "same")
        .output("same", FLOAT, &[1, 2, 8, 8]);
    let graph = bytes(&graph);
    // `Concat` lacks its axis, and nothing reads it: an engine refuses the network, the
    // conversion does not look at attributes.
    let half = convert(&graph).unwrap().unwrap();
    assert_eq!((half.num_converted, half.num_casts), (5, 2));
}

#[test]
fn a_network_without_convolutions_is_left_alone() {
    let graph = Graph::new("none", "").input("x", FLOAT, &[1, 4]).op("Relu", &["x"], "y").output(
        "y",
        FLOAT,
        &[1, 4],
    );
    assert_eq!(convert(&bytes(&graph)).unwrap(), None);
    assert!(convert(&[1, 2, 3]).is_err());
}

/// Whether the outputs of a converted network are within the bound of docs/numerics.md.
fn agrees(network: &[u8], num_casts: usize) {
    let bound = bound("network", "converted to f16", "outputs, share of the largest").in_unit();
    let half = convert(network).unwrap().unwrap();
    println!("{} of {} nodes, {} casts", half.num_converted, half.num_nodes, half.num_casts);
    assert_eq!(half.num_casts, num_casts);
    let (Some(found), Some(expected)) = (outputs(&half.bytes), outputs(network)) else { return };
    for (found, expected) in found.iter().zip(&expected) {
        let difference = difference(found, expected);
        println!("differs by {difference:e} of the largest value");
        assert!(difference > 0.0 && f64::from(difference) < bound, "{difference:e}");
    }
}

#[test]
fn the_demo_networks_agree() {
    // The weights of the second are stored in f16: their conversions are computed once.
    for (name, num_casts) in [("camera.onnx", 3), ("camera_seg.onnx", 5)] {
        println!("{name}");
        let path = det_post_testing::workspace().join("models").join(name);
        agrees(&std::fs::read(path).unwrap(), num_casts);
    }
}

#[test]
fn networks_of_ultralytics_agree() {
    let Some(data) = shared_data::shared_data() else { return };
    for (name, num_casts) in [("yolov5n_fp32_640.onnx", 4), ("yolov8n_f32_from_qdq_640.onnx", 3)] {
        println!("{name}");
        agrees(&std::fs::read(data.join("models").join(name)).unwrap(), num_casts);
    }
}
