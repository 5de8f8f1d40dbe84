//! A network that finds classes by their vectors: names of a vocabulary, changed between frames.

use std::path::Path;

use det_post::config::Config;
use det_post::detectors::image2d::open;
use det_post::detectors::{Detector, FrameInput, FrameSet};
use det_post_ops::device::Device;
use det_post_types::{Detections, Encoding, FrameReport, Header, ImagePayload, ImageView, Size};

use super::common::vocabulary::{network, vocabulary};

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
    let by_itself = config(folder.path(), &["c.vocabulary_path:=/no/such"]).unwrap_err();
    assert!(by_itself.to_string().contains("vocabulary_path"), "{by_itself}");
    let without = Config::load(
        &[],
        &["c.input:=/i", "c.head:=yolov8", "c.model_path:=m", "c.classes:=[car]"].map(String::from),
    );
    assert!(without.unwrap_err().to_string().contains("c.classes"));
}
