//! Layers of 32-bit floats among layers of 16-bit floats, by name and by what they compute.

use std::path::Path;

use det_post_infer::dense::{DenseEngine, Kind, Network, Plan, PlanOptions, Precision, Role};
use det_post_infer::{Engine, load};
use det_post_testing::onnx::{Attr, Graph};
use det_post_testing::precision_networks::{cases, norm_in_parts, overflowing, transformer};
use det_post_types::ElementType::{F16, F32};
use det_post_types::{
    ElementType, EngineKind, EngineOptions, GpuEngineOptions, LayerStudy, MapLayout, StudiedLayer,
    TensorValues, TensorView,
};

use super::{difference, noise, shape_of};

fn network(graph: &Graph, others: Precision, keep: &[&str]) -> Network {
    let keep_f32: Vec<String> = keep.iter().map(|name| (*name).to_owned()).collect();
    let precisions = PlanOptions { precision: others, keep_f32: &keep_f32, ..Default::default() };
    Network::new(&graph.to_bytes(), precisions, &shape_of).unwrap()
}

fn refused(graph: &Graph, keep: &str) -> String {
    let keep_f32 = [keep.to_owned()];
    let precisions =
        PlanOptions { precision: Precision::F16, keep_f32: &keep_f32, ..Default::default() };
    Network::new(&graph.to_bytes(), precisions, &shape_of).unwrap_err().message().to_owned()
}

fn run(network: Network) -> Vec<f32> {
    let shape = network.input_shapes[0].clone();
    let values = noise(shape.iter().product(), 1.0, 3);
    let mut engine = DenseEngine::new(network).unwrap();
    engine.run(&[TensorView::new(&shape, TensorValues::F32(&values)).unwrap()]).unwrap();
    match engine.output(0).unwrap().values() {
        TensorValues::F32(values) => values.to_vec(),
        other => panic!("{}", other.element()),
    }
}

/// Products and stored elements of the step of a layer.
fn elements(plan: &Plan, name: &str) -> (Option<ElementType>, ElementType) {
    let step = plan
        .steps()
        .iter()
        .find(|step| {
            let is_copy = step.kind.shown() == "copy";
            !is_copy && step.layers.iter().any(|layer| &**layer == name)
        })
        .unwrap_or_else(|| panic!("no step of {name}"));
    (step.kind.products(), plan.buffers()[step.kind.targets()[0].buffer].element)
}

#[test]
fn an_input_has_its_channels_last_where_its_readers_take_them_so() {
    // The convolution reads 8 channels as they are, 3 from planes; without one, nothing reads 16-bit floats.
    let of = |num_channels: usize, with_conv: bool, precision| {
        let c = num_channels as i64;
        let graph = Graph::new("one layer", "").input("map", F32, &[1, c, 6, 5]);
        let graph = if with_conv {
            graph
                .constant("weights", &[4, c, 1, 1], &noise(4 * num_channels, 1.0, 7))
                .op("Conv", &["map", "weights"], "out")
                .output("out", F32, &[1, 4, 6, 5])
        } else {
            graph.op("Relu", &["map"], "out").output("out", F32, &[1, c, 6, 5])
        };
        let options =
            PlanOptions { precision, channels_last_inputs: true, ..PlanOptions::default() };
        let plan = Network::new(&graph.to_bytes(), options, &shape_of).unwrap().plan;
        let input = plan.buffers().iter().find(|buffer| buffer.role == Role::Input(0)).unwrap();
        let num_copies = plan.steps().iter().filter(|step| step.kind.shown() == "copy").count();
        (plan.input_layout(0), input.element, num_copies)
    };
    assert_eq!(of(8, true, Precision::F16), (MapLayout::ChannelsLast, F16, 0));
    assert_eq!(of(8, true, Precision::F32), (MapLayout::ChannelsLast, F32, 0));
    assert_eq!(of(3, true, Precision::F16), (MapLayout::Planar, F32, 0));
    assert_eq!(of(8, false, Precision::F16).1, F32);
}

#[test]
fn a_layer_that_overflows_is_mended_by_its_name() {
    let graph = overflowing();
    let expected = run(network(&graph, Precision::F32, &[]));
    assert!(expected.iter().all(|value| value.is_finite()));
    let broken = run(network(&graph, Precision::F16, &[]));
    assert!(broken.iter().any(|value| !value.is_finite()), "it does not overflow");

    let kept = network(&graph, Precision::F16, &["Conv_2"]);
    let plan = kept.plan.clone();
    let found = run(kept);
    let [_, l2] = difference(&found, &expected, Precision::F16);
    assert!(l2 < 4e-3, "{l2:e}");
    for (name, elements_of) in [
        ("Conv_0", (Some(F16), F32)),
        ("Conv_2", (Some(F32), F32)),
        ("MaxPool_3", (None, F32)),
        // It reads what Conv_2 wrote, and is read by a layer of 16-bit floats.
        ("Conv_6", (Some(F32), F16)),
        ("Conv_7", (Some(F16), F16)),
        ("Conv_8", (Some(F16), F32)),
    ] {
        assert_eq!(elements(&plan, name), elements_of, "{name}");
    }
    // A layer elsewhere mends nothing.
    let other = run(network(&graph, Precision::F16, &["Conv_7"]));
    assert!(other.iter().any(|value| !value.is_finite()));
}

#[test]
fn kept_layers_are_computed_as_32_bit_floats_are() {
    for (name, graph, keep) in cases() {
        let expected = run(network(&graph, Precision::F32, &keep));
        let found = run(network(&graph, Precision::F16, &keep));
        let [_, l2] = difference(&found, &expected, Precision::F16);
        println!("{name}: L2 {l2:.1e}");
        assert!(l2 < 4e-3, "{name}: {l2:e}");
        // Names change nothing where all layers have 32-bit floats, but for what is joined.
        let plain = run(network(&graph, Precision::F32, &[]));
        assert!(difference(&plain, &expected, Precision::F32)[1] < 1e-6, "{name}");
    }
}

#[test]
fn everything_kept_is_equal_to_32_bit_floats() {
    for graph in [overflowing(), transformer(), norm_in_parts()] {
        let all: Vec<String> = network(&graph, Precision::F32, &[])
            .plan
            .steps()
            .iter()
            .fold(Vec::new(), |all, step| {
                [all, step.layers.iter().map(|name| name.to_string()).collect()].concat()
            });
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let expected = run(network(&graph, Precision::F32, &all));
        assert_eq!(run(network(&graph, Precision::F16, &all)), expected);
    }
}

#[test]
fn streams_that_normalizations_read_keep_32_bits() {
    let plan = network(&transformer(), Precision::F16, &[]).plan;
    // The first product and the two that add to the stream.
    for (name, elements_of) in [
        ("MatMul_0", (Some(F16), F32)),
        ("MatMul_10", (Some(F16), F32)),
        ("MatMul_15", (Some(F16), F32)),
        ("MatMul_13", (Some(F16), F16)),
        ("LayerNormalization_1", (None, F16)),
        ("MatMul_6", (Some(F16), F32)),
        ("Softmax_8", (None, F16)),
    ] {
        assert_eq!(elements(&plan, name), elements_of, "{name}");
    }
    let plan = network(&norm_in_parts(), Precision::F16, &[]).plan;
    assert_eq!(elements(&plan, "Mul_1").1, F32);
    assert_eq!(elements(&plan, "ReduceMean_2").1, F32);
}

#[test]
fn weights_beyond_16_bit_floats_are_kept() {
    let graph = Graph::new("large", "")
        .input("x", ElementType::F32, &[1, 8, 4, 4])
        .constant("w", &[8, 8, 1, 1], &[7e4; 64])
        .constant("v", &[8, 8, 1, 1], &[1e-6; 64])
        .op("Conv", &["x", "w"], "a")
        .op("Conv", &["a", "v"], "y")
        .output("y", ElementType::F32, &[1, 8, 4, 4]);
    let expected = run(network(&graph, Precision::F32, &[]));
    let kept = network(&graph, Precision::F16, &[]);
    assert_eq!(elements(&kept.plan, "Conv_0"), (Some(F32), F32));
    assert_eq!(run(kept), expected);
}

#[test]
fn names_that_are_unknown_or_vanish_are_refused() {
    let graph = overflowing();
    let error = refused(&graph, "Cnv_2");
    assert!(
        error.contains("no layer is called \"Cnv_2\"") && error.contains("\"Conv_2\""),
        "{error}"
    );
    assert!(refused(&graph, "").contains("no layer is called \"\""));
    assert!(refused(&graph, "Con").contains("no layer"));
    let graph = Graph::new("folded", "")
        .input("x", ElementType::F32, &[1, 4])
        .constant("a", &[4], &[1.0; 4])
        .op("Sqrt", &["a"], "b")
        .op("Add", &["x", "b"], "y")
        .output("y", ElementType::F32, &[1, 4]);
    let error = refused(&graph, "Sqrt_0");
    assert!(error.contains("\"Sqrt_0\" is part of no step"), "{error}");
}

#[test]
fn layers_that_others_take_over_are_found_by_their_names() {
    let conv = [("pads", Attr::Ints(vec![1; 4]))];
    let graph = Graph::new("fused", "")
        .input("x", ElementType::F32, &[1, 8, 8, 8])
        .constant("w", &[8, 8, 3, 3], &noise(576, 0.2, 1))
        .constant("v", &[8, 8, 3, 3], &noise(576, 0.2, 2))
        .constant("scale", &[8], &[1.5; 8])
        .constant("shift", &[8], &[0.5; 8])
        .node("Conv", &["x", "w"], &["a"], &conv)
        .op("BatchNormalization", &["a", "scale", "shift", "shift", "scale"], "b")
        .op("Sigmoid", &["b"], "c")
        .op("Mul", &["b", "c"], "d")
        .node("Conv", &["d", "v"], &["e"], &conv)
        .op("Add", &["e", "d"], "f")
        .node("Conv", &["f", "v"], &["y"], &conv)
        .output("y", ElementType::F32, &[1, 8, 8, 8]);
    let plain = network(&graph, Precision::F16, &[]).plan;
    assert_eq!(
        plain.steps().iter().filter(|step| matches!(step.kind, Kind::Conv { .. })).count(),
        3
    );
    assert_eq!(elements(&plain, "Conv_0"), (Some(F16), F16));
    for name in ["Conv_0", "Conv Conv_0", "BatchNormalization_1", "Sigmoid_2", "Mul_3"] {
        let plan = network(&graph, Precision::F16, &[name]).plan;
        assert_eq!(elements(&plan, "Conv_0"), (Some(F32), F32), "{name}");
    }
    let plan = network(&graph, Precision::F16, &["Add_5"]).plan;
    assert_eq!(elements(&plan, "Conv_4"), (Some(F32), F32));
}

fn study(path: &Path, tf32: bool, keep_f32: Vec<String>) -> Vec<StudiedLayer> {
    let study = LayerStudy::default();
    let gpu = GpuEngineOptions { tf32, keep_f32, ..GpuEngineOptions::default() };
    let study_of = Some(study.clone());
    let options =
        EngineOptions { kind: EngineKind::Cuda, gpu, study: study_of, ..EngineOptions::default() };
    let mut engine = load(path, &options).unwrap();
    let values = noise(8 * 16 * 16, 1.0, 3);
    let input = TensorView::new(&[1, 8, 16, 16], TensorValues::F32(&values)).unwrap();
    engine.run(&[input]).unwrap();
    study.networks().remove(0).layers
}

#[test]
fn a_study_says_what_every_layer_writes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("overflowing.onnx");
    overflowing().save(&path).unwrap();
    let layer = |layers: &[StudiedLayer], name: &str| -> StudiedLayer {
        layers.iter().find(|layer| layer.layers.contains(&name.to_owned())).unwrap().clone()
    };
    let wide = study(&path, false, Vec::new());
    assert!(wide.iter().all(|layer| layer.num_not_finite == 0 && layer.largest > 0.0));
    let [first, large] = ["Conv_0", "Conv_2"].map(|name| layer(&wide, name));
    assert!(first.largest < 10.0 && large.largest > 65504.0, "{first:?} {large:?}");
    let half = study(&path, true, Vec::new());
    assert_eq!(layer(&half, "Conv_0").num_not_finite, 0);
    let large = layer(&half, "Conv_2");
    assert!(large.num_not_finite > 0 && large.stored == F16 && large.products == Some(F16));
    let kept = study(&path, true, vec!["Conv_2".into()]);
    assert!(kept.iter().all(|layer| layer.num_not_finite == 0));
    assert!(layer(&kept, "Conv_2").largest > 65504.0);
}
