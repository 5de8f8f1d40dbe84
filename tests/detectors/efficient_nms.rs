//! Networks that end in TensorRT's suppression: it is cut off and done here.

use std::path::{Path, PathBuf};

use det_post::detectors::{self, Detector};
use det_post::{Config, ErrorKind};
use det_post_infer::efficient_nms::EfficientNms;
use det_post_infer::{Engine, LIBRARY_VARIABLE, OrtEngine, RtenEngine};
use det_post_types::{
    Detection2d, DeviceChoice, ElementType, Encoding, ImagePayload, ImageView, Size,
};

use crate::common::detect::in_image;
use crate::common::onnx::{Attr, Graph};
use crate::common::require::{Need, skip};

/// Three boxes that overlap, one apart, and scores of two classes.
const BOXES: [f32; 16] =
    [2.0, 2.0, 12.0, 12.0, 3.0, 2.0, 13.0, 12.0, 2.0, 3.0, 12.0, 13.0, 20.0, 20.0, 30.0, 28.0];
const SCORES: [f32; 8] = [0.9, 0.1, 0.8, 0.2, 0.1, 0.7, 0.3, 0.0];

/// A network with constant boxes and scores before the suppression.
fn network(folder: &Path, attributes: &[(&str, Attr)]) -> PathBuf {
    let float = ElementType::F32;
    let outputs = ["num_detections", "detection_boxes", "detection_scores", "detection_classes"];
    let graph = Graph::new("cut", "")
        .input("images", float, &[1, 3, 32, 32])
        .constant("zero", &[], &[0.0])
        .constant("constant_boxes", &[1, 4, 4], &BOXES)
        .constant("constant_scores", &[1, 4, 2], &SCORES)
        .node("ReduceMean", &["images"], &["mean"], &[("keepdims", Attr::Int(0))])
        .op("Mul", &["mean", "zero"], "nothing")
        .op("Add", &["constant_boxes", "nothing"], "boxes")
        .op("Add", &["constant_scores", "nothing"], "scores")
        .node_of("TRT", "EfficientNMS_TRT", &["boxes", "scores"], &outputs, attributes)
        .output("num_detections", ElementType::I32, &[1, 1])
        .output("detection_boxes", float, &[1, 10, 4])
        .output("detection_scores", float, &[1, 10])
        .output("detection_classes", ElementType::I32, &[1, 10]);
    let path = folder.join("cut.onnx");
    graph.save(&path).unwrap();
    path
}

fn settings(agnostic: i64) -> Vec<(&'static str, Attr)> {
    vec![
        ("score_threshold", Attr::Float(0.25)),
        ("iou_threshold", Attr::Float(0.5)),
        ("max_output_boxes", Attr::Int(10)),
        ("class_agnostic", Attr::Int(agnostic)),
        ("background_class", Attr::Int(-1)),
    ]
}

fn config(path: &Path, more: &[&str]) -> Config {
    let model = format!("c.model_path:={}", path.display());
    let overrides = [
        "c.input:=/image",
        "c.head.sensor:=camera",
        "c.head.class_names:=[CAR, BUS]",
        "c.head.layout.kind:=yolox",
        "c.head.placement:=top_left",
        "c.head.channel_order:=bgr",
        "c.engine.kind:=rten",
        "c.score_threshold:=0.85",
        &model,
    ];
    let overrides: Vec<String> =
        overrides.iter().chain(more).map(|text| (*text).to_owned()).collect();
    Config::load(&[], &overrides).unwrap()
}

fn detect(detector: &mut dyn Detector) -> Vec<Detection2d> {
    let pixels = vec![0; 32 * 32 * 3];
    let image = ImageView::new(Size::new(32, 32), 96, Encoding::Bgr8, false, &pixels).unwrap();
    in_image(detector, &ImagePayload::Raw(image)).unwrap().detections
}

#[test]
fn the_suppression_is_done_here_with_its_settings() {
    let folder = tempfile::tempdir().unwrap();
    for (agnostic, expected) in
        [(0, &[(0, 0.9), (1, 0.7), (0, 0.3)][..]), (1, &[(0, 0.9), (0, 0.3)])]
    {
        let path = network(folder.path(), &settings(agnostic));
        let config_ = config(&path, &[]);
        let mut detector = detectors::open(&config_.channels[0], DeviceChoice::Cpu).unwrap();
        let found = |detector: &mut dyn Detector| -> Vec<(u32, f32)> {
            detect(detector).iter().map(|d| (d.class, d.score)).collect()
        };
        assert_eq!(found(&mut *detector), expected);
        let first = detect(&mut *detector)[0].bbox;
        assert_eq!([first.x1, first.y1, first.x2, first.y2], BOXES[..4]);
        // Thresholds of the configuration have no effect; the class filter has.
        let changed = config(&path, &["c.score_threshold:=0.1", "c.class_filter:=[CAR]"]);
        detector.reconfigure(&changed.channels[0]).unwrap();
        assert_eq!(found(&mut *detector), [(0, 0.9), (0, 0.3)]);
    }
}

#[test]
fn a_filter_of_the_background_alone_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let background = [("background_class", Attr::Int(1))];
    let path = network(folder.path(), &[&settings(0)[..4], &background].concat());
    let open = |more: &[&str]| {
        let channel = config(&path, more).channels.remove(0);
        detectors::open(&channel, DeviceChoice::Cpu).map(|detector| (detector, channel))
    };
    let (mut detector, _) = open(&[]).unwrap();
    let classes: Vec<u32> = detect(&mut *detector).iter().map(|found| found.class).collect();
    assert_eq!(classes, [0, 0]);
    let bus = "c.class_filter:=[BUS]";
    for error in [
        open(&[bus]).map(|_| ()).unwrap_err(),
        detector.reconfigure(&config(&path, &[bus]).channels[0]).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Config);
        let part = "class_filter keeps only background_class 1";
        assert!(error.message().contains(part), "{error}");
    }
}

#[test]
fn the_settings_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let more = [("score_activation", Attr::Int(1)), ("background_class", Attr::Int(1))];
    let path = network(folder.path(), &[&settings(1)[..4], &more].concat());
    let nms = EfficientNms::of_file(&path).unwrap().unwrap();
    assert_eq!((nms.boxes.as_str(), nms.scores.as_str()), ("boxes", "scores"));
    assert_eq!((nms.score_threshold, nms.iou_threshold), (0.25, 0.5));
    assert_eq!((nms.max_output_boxes, nms.background_class), (10, Some(1)));
    assert!(nms.is_class_agnostic && nms.has_logits);

    let path = network(folder.path(), &[("box_coding", Attr::Int(1))]);
    let error = EfficientNms::of_file(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Model);
    assert!(error.message().contains("box_coding"), "{error}");
    // Only the name, in a text that is no network.
    std::fs::write(&path, "EfficientNMS_TRT").unwrap();
    assert_eq!(EfficientNms::of_file(&path).unwrap_err().kind(), ErrorKind::Model);
    std::fs::write(&path, "no network").unwrap();
    assert_eq!(EfficientNms::of_file(&path).unwrap(), None);
}

#[test]
fn both_engines_load_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let path = network(folder.path(), &settings(0));
    let names = |engine: &dyn Engine| -> Vec<String> {
        engine.outputs().iter().map(|spec| spec.name.clone()).collect()
    };
    assert_eq!(names(&RtenEngine::load(&path, Some(1)).unwrap()), ["boxes", "scores"]);
    let Some(library) = std::env::var_os(LIBRARY_VARIABLE).filter(|value| !value.is_empty()) else {
        return skip(Need::Ort, format_args!("{LIBRARY_VARIABLE} is not set"));
    };
    let engine = OrtEngine::load(&path, Path::new(&library), Some(1)).unwrap();
    assert_eq!(names(&engine), ["boxes", "scores"]);
}
