//! Networks of the DETR family and of mmdeploy, from the image to the detections: the objects that
//! their published pre- and post-processing gives, on rten and on ONNX Runtime.
//!
//! The data and where they come from: the folder detr of the shared data.

use std::path::{Path, PathBuf};

use det_post::config::{CameraConfig, ChannelKind, Config};
use det_post::detectors::image2d::{YoloHead, open};
use det_post_infer::LIBRARY_VARIABLE;
use det_post_ops::decode::gather::gather_2d;
use det_post_ops::decode::select::select;
use det_post_ops::device::Device;
use det_post_testing::npz::Npz;
use det_post_types::{
    Box2d, Candidates, CompressedFormat, CompressedView, Detection2d, Dim, ElementType,
    ImagePayload, Kept, Letterbox, Size, TensorSpec, TensorValues, TensorView,
};
use serde_json::Value;

use crate::common::detect::in_image;
use crate::common::require::{Need, skip};
use crate::common::shared_data::shared_data;

/// An object of the data, in pixels of the image.
struct Object {
    class: u32,
    score: f32,
    bbox: [f32; 4],
}

fn folder() -> Option<PathBuf> {
    let folder = shared_data()?.join("detr");
    if folder.is_dir() {
        return Some(folder);
    }
    skip(Need::Data, format_args!("{} is no folder", folder.display()));
    None
}

fn case(folder: &Path, name: &str) -> Value {
    let text = std::fs::read_to_string(folder.join(format!("{name}_expected.json"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn numbers<const N: usize>(value: &Value) -> [f32; N] {
    let numbers: Vec<f32> = value.as_array().unwrap().iter().map(number).collect();
    numbers.try_into().unwrap()
}

fn number(value: &Value) -> f32 {
    value.as_f64().unwrap() as f32
}

fn size(value: &Value) -> Size {
    let [width, height] = numbers(value);
    Size::new(width as u32, height as u32)
}

/// The objects, clipped to the image, as detections are; without those outside of it.
fn objects(objects: &Value, key: &str, image: Size) -> Vec<Object> {
    let [width, height] = [image.width as f32, image.height as f32];
    let of = |object: &Value| {
        let [x1, y1, x2, y2] = numbers(&object[key]);
        let bbox = [
            x1.clamp(0.0, width),
            y1.clamp(0.0, height),
            x2.clamp(0.0, width),
            y2.clamp(0.0, height),
        ];
        Object {
            class: object["class_id"].as_u64().unwrap() as u32,
            score: number(&object["score"]),
            bbox,
        }
    };
    let all = objects.as_array().unwrap().iter().map(of);
    let mut inside: Vec<Object> = all
        .filter(|object| object.bbox[0] < object.bbox[2] && object.bbox[1] < object.bbox[3])
        .collect();
    // The total order: the data of mmdeploy have the order of rows.
    inside.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.class.cmp(&b.class)));
    inside
}

/// The configuration of a channel with a shipped head, whose class names are replaced by as many
/// others where `num_classes` is given.
fn config(head: &str, model: &Path, num_classes: Option<usize>, more: &[String]) -> CameraConfig {
    let folder = tempfile::tempdir().unwrap();
    let mut head = head.to_owned();
    if let Some(num) = num_classes {
        let shipped =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("config/heads/{head}.yaml"));
        let names: Vec<String> = (0..num).map(|class| format!("class {class}")).collect();
        let text = std::fs::read_to_string(shipped).unwrap();
        let (from, to) = ("class_names: coco80", format!("class_names: [{}]", names.join(", ")));
        assert!(text.contains(from));
        let path = folder.path().join("head.yaml");
        std::fs::write(&path, text.replace(from, &to)).unwrap();
        head = path.display().to_string();
    }
    let mut overrides = vec!["c.input:=/i".into(), format!("c.head:={head}")];
    overrides.push(format!("c.model_path:={}", model.display()));
    overrides.extend_from_slice(more);
    match Config::load(&[], &overrides).unwrap().channels.remove(0).kind {
        ChannelKind::Camera(config) => *config,
        _ => panic!("a camera head"),
    }
}

fn check(found: &[Detection2d], expected: &[Object], (pixels, scores): (f32, f32), what: &str) {
    let classes = |found: &[Detection2d]| found.iter().map(|d| d.class).collect::<Vec<_>>();
    let expected_classes: Vec<u32> = expected.iter().map(|object| object.class).collect();
    assert_eq!(classes(found), expected_classes, "{what}");
    for (found, expected) in found.iter().zip(expected) {
        let Box2d { x1, y1, x2, y2 } = found.bbox;
        let near = [x1, y1, x2, y2].iter().zip(expected.bbox).all(|(a, b)| (a - b).abs() <= pixels);
        let near = near && (found.score - expected.score).abs() <= scores;
        assert!(near, "{what}: {found:?}, expected {:?} {}", expected.bbox, expected.score);
    }
}

/// Engines to run a network with: their parameters.
fn engines() -> Vec<String> {
    let mut engines = vec!["c.engine.kind:=rten".to_owned()];
    match std::env::var_os(LIBRARY_VARIABLE).filter(|library| !library.is_empty()) {
        Some(_) => engines.push("c.engine.kind:=onnxruntime".to_owned()),
        None => skip(Need::Ort, format_args!("{LIBRARY_VARIABLE} is not set")),
    }
    engines
}

/// Runs a network on its images, by every engine of the CPU.
fn network(head: &str, name: &str, num_classes: Option<usize>) {
    for engine in engines() {
        network_on(&Device::Cpu, &engine, (head, name, num_classes));
    }
}

/// Runs a network on its images; `engine` is a parameter.
fn network_on(
    device: &Device,
    engine: &str,
    (head, name, num_classes): (&str, &str, Option<usize>),
) {
    let Some(folder) = folder() else { return };
    let case = case(&folder, name);
    let model = folder.join(case["model"].as_str().unwrap());
    let threshold = format!("c.score_threshold:={}", case["threshold"]);
    let is_one = case["picture"].is_string();
    let images: Vec<&Value> = match is_one {
        true => vec![&case["picture"]],
        false => case["pictures"].as_array().unwrap().iter().collect(),
    };
    let config = config(head, &model, num_classes, &[engine.to_owned(), threshold]);
    let mut detector = open(&config, device).unwrap();
    for (index, image) in images.iter().enumerate() {
        let file = std::fs::read(folder.join(image.as_str().unwrap())).unwrap();
        let payload = ImagePayload::Compressed(CompressedView::new(CompressedFormat::Png, &file));
        let (source, of_case) = match is_one {
            true => (&case["source_size"], &case["objects"]),
            false => (&case["source_sizes"][index], &case["objects"][index]),
        };
        let expected = objects(of_case, "box", size(source));
        assert!(!expected.is_empty());
        let found = in_image(detector.as_mut(), &payload).unwrap().detections;
        check(&found, &expected, (0.05, 1e-3), &format!("{name} {image} {engine}"));
    }
}

#[cfg(feature = "cuda")]
#[test]
fn a_gpu_finds_the_objects() {
    let Some(device) = det_post_testing::gpu() else { return };
    let device = Device::Cuda(device);
    for (engine, of) in [
        ("c.engine.kind:=rten", ("rfdetr", "rfdetr_tiny", None)),
        ("c.engine.kind:=rten", ("dfine", "dfine_tiny", None)),
        ("c.engine.kind:=rten", ("dfine", "deim_tiny_batch2", None)),
        ("c.engine.kind:=rten", ("dfine_raw", "dfine_tiny_raw", Some(20))),
    ] {
        network_on(&device, engine, of);
    }
}

#[test]
fn rfdetr_finds_the_objects() {
    network("rfdetr", "rfdetr_tiny", None);
}

#[test]
fn dfine_finds_the_objects() {
    network("dfine", "dfine_tiny", None);
    network("dfine", "rtdetrv2_tiny_640", None);
}

#[test]
fn deim_finds_the_objects_of_images_one_by_one() {
    network("dfine", "deim_tiny_batch2", None);
}

#[test]
fn dfine_without_post_processing_finds_the_objects() {
    network("dfine_raw", "dfine_tiny_raw", Some(20));
}

/// The outputs of a file say which head fits.
#[test]
fn the_heads_are_found() {
    let Some(folder) = folder() else { return };
    for (name, head) in [
        ("rfdetr_tiny", "rfdetr"),
        ("dfine_tiny", "dfine"),
        ("rtdetrv2_tiny_640", "dfine"),
        ("deim_tiny_batch2", "dfine"),
        ("mmdeploy", "mmdeploy"),
        ("yolo26_detect_tiny", "yolo26"),
    ] {
        let model = folder.join(format!("{name}.onnx"));
        assert_eq!(config("auto", &model, None, &[]).head, head, "{name}");
    }
}

/// Tensors that are given: name of the head's output and shape, in the head's order.
fn tensors(head: &str, name: &str, outputs: &[&str], (num_classes, key): (Option<usize>, &str)) {
    let Some(folder) = folder() else { return };
    let case = case(&folder, name);
    let tensors = Npz::open(&folder.join(case["raw"].as_str().unwrap()));
    let threshold = format!("c.score_threshold:={}", case["threshold"]);
    let mut config = config(head, Path::new("m"), num_classes, &[threshold]);
    let source = size(&case["source_size"]);
    let network = match case["input_size"].is_array() {
        true => size(&case["input_size"]),
        false => source,
    };
    config.facts.input_size = Some(network);
    let spec = |name: &&str| TensorSpec {
        name: (*name).into(),
        element: Some(ElementType::F32),
        shape: Some(tensors.array(name).shape.iter().map(|&n| Dim::Fixed(n)).collect()),
    };
    let specs: Vec<TensorSpec> = outputs.iter().map(spec).collect();
    let head = YoloHead::of_outputs(&config.facts, &specs).unwrap();
    let views: Vec<TensorView<'_>> = outputs
        .iter()
        .map(|name| {
            let shape = &tensors.array(name).shape;
            // Labels of mmdeploy are whole numbers.
            let values = match shape.len() {
                2 => TensorValues::I64(tensors.i64(name)),
                _ => TensorValues::F32(tensors.f32(name)),
            };
            TensorView::new(shape, values).unwrap()
        })
        .collect();
    let mut candidates = Candidates::<Box2d>::with_capacity(config.candidate_capacity);
    head.decode(&|index| Ok(views[index]), config.score_threshold, &mut candidates).unwrap();
    let top_k = case["top_k"].as_u64().map_or(config.pre_nms_top_k, |top_k| top_k as usize);
    select(&mut candidates, top_k);
    let found = candidates.as_slice();
    let keep: Vec<Kept> =
        (0..).zip(found).map(|(index, of)| Kept { index, score: of.score }).collect();
    let placed = Letterbox::new(source, network, config.facts.placement);
    let mut detections = Vec::new();
    gather_2d(found, &keep, &placed.source_from_network(), source, usize::MAX, &mut detections);
    let expected = objects(&case["objects"], key, source);
    check(&detections, &expected, (1e-3, 1e-5), name);
}

#[test]
fn tensors_of_rfdetr_give_the_objects() {
    tensors("rfdetr", "rfdetr_raw", &["dets", "labels"], (None, "box"));
}

#[test]
fn logits_of_dfine_give_the_objects() {
    let outputs = ["pred_boxes", "pred_logits"];
    tensors("dfine_raw", "detr_raw_c80", &outputs, (None, "box"));
    tensors("dfine_raw", "detr_raw_few", &outputs, (Some(3), "box"));
}

/// With the resized size that mmdetection rounds.
#[test]
fn tensors_of_mmdeploy_give_the_objects() {
    let outputs = ["dets", "labels"];
    tensors("mmdeploy", "mmdeploy", &outputs, (None, "box_clipped_to_picture"));
}
