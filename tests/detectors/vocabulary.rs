//! A network that finds classes by their vectors: names of a vocabulary, changed between frames.

use std::path::Path;

use det_post::config::Config;
use det_post::detectors::image2d::open;
use det_post::detectors::{Detector, FrameInput, FrameSet};
use det_post_ops::device::Device;
use det_post_testing::onnx::{Attr, Graph};
use det_post_types::{
    Detections, ElementType, Encoding, FrameReport, Header, ImagePayload, ImageView, Size,
};

const NAMES: [&str; 4] = ["car", "dog", "cat", "bus"];

/// Three boxes, of which the n-th has the score of a class at the n-th value of its vector.
fn network(path: &Path, num_classes: i64) {
    let boxes = [[10.0, 30.0, 50.0], [10.0; 3], [8.0; 3], [8.0; 3]].concat();
    let unit: Vec<f32> = (0..12).map(|at| f32::from(u8::from(at / 3 == at % 3))).collect();
    let mean = [("axes", Attr::Ints(vec![0, 1, 2, 3])), ("keepdims", Attr::Int(0))];
    Graph::new("world", "classes by vectors")
        .input("images", ElementType::F32, &[1, 3, 64, 64])
        .input("txt_feats", ElementType::F32, &[1, num_classes, 4])
        .output("output0", ElementType::F32, &[1, -1, 3])
        .constant("boxes", &[1, 4, 3], &boxes)
        .constant("features", &[1, 4, 3], &unit)
        .constant("nothing", &[1], &[0.0])
        .op("MatMul", &["txt_feats", "features"], "found")
        .node("ReduceMean", &["images"], &["mean"], &mean)
        .op("Mul", &["mean", "nothing"], "zero")
        .op("Add", &["found", "zero"], "scores")
        .node("Concat", &["boxes", "scores"], &["output0"], &[("axis", Attr::Int(1))])
        .save(path)
        .unwrap();
}

/// A file of the vectors 0.9, 0.8, 0.7 and 0.6 at one place each.
fn vocabulary(path: &Path) {
    let entry = |index: usize| {
        let (name, start) = (NAMES[index], index * 16);
        format!(
            "{name:?}:{{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[{start},{}]}}",
            start + 16
        )
    };
    let header = format!("{{{}}}", (0..4).map(entry).collect::<Vec<_>>().join(","));
    let value = |at: usize| if at / 4 == at % 4 { 0.9 - 0.1 * (at / 4) as f32 } else { 0.0 };
    let data: Vec<u8> = (0..16).flat_map(|at| value(at).to_le_bytes()).collect();
    let len = (header.len() as u64).to_le_bytes();
    std::fs::write(path, [&len[..], header.as_bytes(), &data].concat()).unwrap();
}

fn config(folder: &Path, more: &[&str]) -> det_post::Result<Config> {
    let path = |name: &str| folder.join(name).display().to_string();
    let mut overrides = vec![
        "c.input:=/i".to_owned(),
        "c.head:=yolov8".to_owned(),
        "c.score_threshold:=0.5".to_owned(),
        format!("c.model_path:={}", path("world.onnx")),
    ];
    if more.iter().any(|parameter| parameter.starts_with("c.classes")) {
        overrides.push(format!("c.vocabulary_path:={}", path("words.safetensors")));
    }
    overrides.extend(more.iter().map(|&parameter| parameter.to_owned()));
    Config::load(&[], &overrides)
}

/// Names and left edges, best first.
fn found(detector: &mut dyn Detector, config: &Config) -> Vec<(String, f32)> {
    let pixels = vec![50; 3 * 64 * 64];
    let image = ImageView::new(Size::new(64, 64), 3 * 64, Encoding::Rgb8, false, &pixels).unwrap();
    let input = [Some(FrameInput::image(Header::default(), ImagePayload::Raw(image)))];
    let found = detector.detect(&FrameSet::single(&input), &mut FrameReport::new()).unwrap();
    let Detections::Boxes2d(boxes) = found else { panic!("no boxes") };
    let names = config.channels[0].kind.class_names();
    boxes.iter().map(|of| (names[of.class as usize].clone(), of.bbox.x1)).collect()
}

fn camera(config: &Config) -> &det_post::config::CameraConfig {
    match &config.channels[0].kind {
        det_post::config::ChannelKind::Camera(camera) => camera,
        _ => panic!("no camera"),
    }
}

#[test]
fn classes_change_between_frames() {
    let folder = tempfile::tempdir().unwrap();
    network(&folder.path().join("world.onnx"), -1);
    vocabulary(&folder.path().join("words.safetensors"));
    let first = config(folder.path(), &["c.classes:=[dog, car]"]).unwrap();
    let mut detector = open(camera(&first), &Device::Cpu).unwrap();
    let of = |name: &str, left: f32| (name.to_owned(), left);
    assert_eq!(found(&mut *detector, &first), [of("car", 6.0), of("dog", 26.0)]);
    for (classes, expected) in [
        ("[cat]", vec![of("cat", 46.0)]),
        ("[bus]", vec![]),
        ("[bus, cat, dog, car]", vec![of("car", 6.0), of("dog", 26.0), of("cat", 46.0)]),
    ] {
        let changed = first.with_overrides(&[format!("c.classes:={classes}")]).unwrap();
        detector.reconfigure(&changed.channels[0]).unwrap();
        assert_eq!(found(&mut *detector, &changed), expected, "{classes}");
    }
    for (classes, part) in [
        ("[catt]", "did you mean \"cat\"?"),
        ("[dog, dog]", "twice"),
        ("[zeppelin]", "the 4 names of the vocabulary"),
    ] {
        let refused = first.with_overrides(&[format!("c.classes:={classes}")]).unwrap_err();
        assert!(refused.to_string().contains(part), "{refused}");
    }
}

#[test]
fn vocabularies_that_do_not_fit_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    network(&folder.path().join("world.onnx"), 2);
    vocabulary(&folder.path().join("words.safetensors"));
    let three = config(folder.path(), &["c.classes:=[dog, car, cat]"]).unwrap();
    let refused = open(camera(&three), &Device::Cpu).err().unwrap();
    assert!(refused.to_string().contains("3 classes of 4 values"), "{refused}");
    let two = config(folder.path(), &["c.classes:=[dog, car]"]).unwrap();
    assert_eq!(found(&mut *open(camera(&two), &Device::Cpu).unwrap(), &two).len(), 2);
    let alone = config(folder.path(), &["c.vocabulary_path:=/no/such"]).unwrap_err();
    assert!(alone.to_string().contains("vocabulary_path"), "{alone}");
    let without = Config::load(
        &[],
        &["c.input:=/i", "c.head:=yolov8", "c.model_path:=m", "c.classes:=[car]"].map(String::from),
    );
    assert!(without.unwrap_err().to_string().contains("c.classes"));
}
