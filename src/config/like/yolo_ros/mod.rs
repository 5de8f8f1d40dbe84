//! `yolo_ros`: its node in Python, 4.x, and in C++, 2026.

mod keys;
mod plugins;

use std::path::{Path, PathBuf};

use super::key::Key;
use super::translation::{Given, Translation, TranslationOutcome};
use super::values::text_of;
use det_post_ros::yaml::Node;
pub(super) use keys::{ALL as KEYS, defaults};
use plugins::Names;

/// Emits our parameters.
pub(super) fn translate(t: &mut Translation<'_>) {
    let is_newer = keys::are_newer(|name| t.has(name));
    for (key, value) in [
        ("head.sensor", "camera"),
        ("head.class_names", "coco80"),
        ("head.placement", "center"),
        ("head.channel_order", "rgb"),
        ("score_kept_when", if is_newer { "at_least" } else { "above" }),
    ] {
        t.set(key, value);
    }
    t.set("head.pad_value", 114.0);
    t.set("head.std", 255.0);
    let Some(names) = plugins::names(t) else { return };
    let detector = &names.detector;
    let network = network(t, &names, is_newer);
    task(t, detector, network.as_deref());
    device(t, detector);
    for (key, ours) in [
        (&keys::THRESHOLD, "score_threshold"),
        (&keys::IOU, "nms.iou_threshold"),
        (&keys::MAX_DET, "max_detections"),
        (&keys::ENABLE, "enabled"),
    ] {
        if let Some(given) = take(t, detector, key) {
            t.rename(&given, ours);
        }
    }
    if is_newer && !detector.is_empty() {
        for (ours, value) in [("score_threshold", 0.7), ("nms.iou_threshold", 0.45)] {
            if !t.is_set(ours) {
                t.set(ours, value);
            }
        }
    }
    if let Some(given) = take(t, detector, &keys::AGNOSTIC_NMS) {
        let mode = if given.node == Node::Flag(true) { "agnostic" } else { "aware" };
        t.convert(&given, &[("nms.class_mode", mode.into())], "");
    }
    if let Some(given) = take(t, detector, &keys::N_THREADS) {
        match given.node {
            Node::Integer(num) if num > 0 => t.rename(&given, "engine.threads"),
            _ => t.ignore(&given, TranslationOutcome::NoEffect, "the engine's choice"),
        }
    }
    if let Some(given) = take(t, detector, &keys::MAX_FPS) {
        t.ignore(&given, TranslationOutcome::NoEffect, "");
        if given.node != Node::Integer(0) {
            t.warn(&given.key, "no effect: every image that there is time for is detected");
        }
    }
    t.ignore_table(detector, KEYS);
    match take(t, &names.camera, &keys::IMAGE_RELIABILITY) {
        Some(given) if given.node == Node::Integer(1) => {
            t.convert(&given, &[("qos.reliability", "reliable".into())], "");
        }
        Some(given) => t.convert(&given, &[("qos.reliability", "best_effort".into())], ""),
        None => {}
    }
    t.default("output_type", "yolo_detection_array");
    topics(t, &names, is_newer);
    refuse_topics(t, is_newer);
}

/// Parameters of other versions and of copies of the node that say which topic is read. Their section
/// is one for many nodes, whose unknown keys would be ignored.
const OF_TOPICS: [&str; 10] = [
    "camera_topic",
    "image_topic",
    "image_transport",
    "input_image_topic",
    "input_topic",
    "rgb_topic",
    "sub_topic_name",
    "subscribe_topic",
    "topic_name",
    "use_compressed",
];

/// Refuses what would read another topic than this node does.
fn refuse_topics(t: &mut Translation<'_>, is_newer: bool) {
    let topic = if is_newer { "image" } else { "image_raw" };
    for name in t.left() {
        let own = name.rsplit('.').next().unwrap_or_default();
        if !OF_TOPICS.contains(&own) {
            continue;
        }
        let Some(given) = t.take_name(&name) else { continue };
        let changes_nothing = match own {
            "image_transport" => text_of(&given.node) == Some("raw"),
            "use_compressed" => given.node == Node::Flag(false),
            _ => false,
        };
        if changes_nothing {
            t.ignore(&given, TranslationOutcome::NoEffect, "the topic stays");
            continue;
        }
        let allowed = match own {
            "image_transport" => "raw",
            "use_compressed" => "false",
            _ => "none: yolo_ros has no such parameter",
        };
        t.refuse(
            &given,
            &format!(
                "{allowed}; it has no effect here and would change which topic is read: \
                 `--ros-args -r {topic}:=TOPIC` names that, also one of compressed images"
            ),
        );
    }
}

/// The topics and the service of the node.
fn topics(t: &mut Translation<'_>, names: &Names, is_newer: bool) {
    if !names.detector.is_empty() {
        t.default("output", format!("{}detections", names.camera.replace('.', "/")));
        if let Some(topic) = plugins::image_topic(t, names) {
            t.default("input", topic);
        }
        return;
    }
    t.default("enable_service", "enable");
    if !is_newer && t.has("vocabulary_path") {
        t.default("classes_service", "set_classes");
    }
    t.topics(if is_newer { "image" } else { "image_raw" }, "detections");
    if let Some(given) = t.take(&keys::IMAGE_TOPIC) {
        t.convert(&given, &[("input", given.node.clone())], "");
    }
}

/// Takes a parameter whose name has others before it.
fn take(t: &mut Translation<'_>, prefix: &str, key: &Key) -> Option<Given> {
    if prefix.is_empty() {
        return t.take(key);
    }
    key.names.iter().find_map(|name| t.take_name(&format!("{prefix}{name}")))
}

/// Sets the layout: axis-aligned or rotated boxes, keypoints or masks. A network of final boxes is known by
/// the shape of its output.
fn task(t: &mut Translation<'_>, prefix: &str, network: Option<&Path>) {
    let given = take(t, prefix, &keys::MODEL_TYPE);
    let name = given.as_ref().map_or(Some("auto"), |given| text_of(&given.node));
    let name = name.unwrap_or_default().to_ascii_lowercase();
    let file = network.and_then(|path| path.file_name()).unwrap_or_default();
    let file = file.to_string_lossy();
    let is_rotated = |name: &str| name.contains("obb") || name.contains("rotat");
    let has = |name: &str, words: &[&str]| words.iter().any(|word| name.contains(word));
    let has_keypoints = |name: &str| has(name, &["pose", "keypoint", "kpt"]);
    let has_masks = |name: &str| has(name, &["segment", "-seg", "_seg"]);
    let is_other = |name: &str| has(name, &["class", "cls", "clf"]);
    let finds_by_vectors = matches!(&*name, "world" | "yoloe");
    if let (Some(given), true, false) = (&given, finds_by_vectors, t.has("vocabulary_path")) {
        t.refuse(
            given,
            "World and YOLOE with `vocabulary_path`, a file of the vectors of names, and `classes`, those that are found: \
             docs/tutorials/your-network.md; others without",
        );
        return;
    }
    let layout = match &*name {
        "world" | "yoloe" if has_masks(&file) => Some("seg"),
        "world" | "yoloe" => Some("v8"),
        // The class of ultralytics that loads networks of every task.
        "yolo" if has_keypoints(&file) => Some("pose"),
        "yolo" if has_masks(&file) => Some("seg"),
        "yolo" | "detect" | "det" | "detection" => Some("v8"),
        "auto" | "" if has_keypoints(&file) => Some("pose"),
        "auto" | "" if has_masks(&file) => Some("seg"),
        "auto" | "" if is_other(&file) => None,
        "auto" | "" => Some(if is_rotated(&file) { "obb" } else { "v8" }),
        name if has_keypoints(name) => Some("pose"),
        name if name == "seg" || has_masks(name) => Some("seg"),
        name => is_rotated(name).then_some("obb"),
    };
    match (layout, &given) {
        (Some(layout), _) => {
            t.set("head.layout.kind", layout);
            if let Some(given) = given {
                t.convert(&given, &[("head.layout.kind", layout.into())], "");
            }
        }
        (None, Some(given)) => t.refuse(
            given,
            "YOLO, Detect, OBB, Pose, Segment, World, YOLOE, or auto with the file of such a network: classes of images \
             are not built",
        ),
        (None, None) => t.problem(
            "model_type",
            &format!("the network {file} is by its name none of boxes, masks or keypoints; allowed: Detect, OBB, Pose or Segment, where it is"),
        ),
    }
}

/// The network: a .pt cannot be loaded, the .onnx that was exported from it can. What is downloaded
/// by theirs is read where it is kept.
fn network(t: &mut Translation<'_>, names: &Names, is_newer: bool) -> Option<PathBuf> {
    let prefix = &names.detector;
    let [repo, file, cache] = [&keys::MODEL_REPO, &keys::MODEL_FILENAME, &keys::CACHE_DIR]
        .map(|key| take(t, prefix, key));
    let model = take(t, prefix, &keys::MODEL);
    let text = |given: &Option<Given>| {
        given.as_ref().and_then(|given| text_of(&given.node)).unwrap_or_default().to_owned()
    };
    let [repo_name, file_name] = [text(&repo), text(&file)];
    if let (Some(repo), Some(file)) = (&repo, &file)
        && !repo_name.is_empty()
        && !file_name.is_empty()
    {
        let path = kept_path(&text(&cache), &repo_name, &file_name);
        let node = Node::Text(path.to_string_lossy().into_owned());
        t.convert(repo, &[("model_path", node)], "the file that was downloaded");
        t.convert(file, &[], "in `model_path`");
        for unused in [&cache, &model].into_iter().flatten() {
            t.ignore(unused, TranslationOutcome::Replaced, "`model_repo` holds");
        }
        if !path.is_file() {
            let note = format!(
                "{} is not there, and nothing is downloaded: `hf download {repo_name} {file_name}` fetches it; an \
                 empty `model_repo` means `model`",
                path.display()
            );
            t.warn(&repo.key.clone(), &note);
        }
        return Some(path);
    }
    for unused in [&repo, &file, &cache].into_iter().flatten() {
        t.ignore(unused, TranslationOutcome::NoEffect, "`model` holds");
    }
    if is_newer && model.is_none() {
        t.missing(&format!("{prefix}model"), "yolo.yaml; or model_repo and model_filename");
        return None;
    }
    model_path(t, model.as_ref())
}

/// Where a file of Hugging Face is kept: in the folder of the commit that `main` is.
fn kept_path(cache: &str, repo: &str, file: &str) -> PathBuf {
    let home = || std::env::var_os("HOME").unwrap_or_default();
    let cache = match cache {
        "" => Path::new(&home()).join(".cache/huggingface/hub"),
        cache => match cache.strip_prefix("~/") {
            Some(rest) => Path::new(&home()).join(rest),
            None => PathBuf::from(cache),
        },
    };
    let folder = cache.join(format!("models--{}", repo.replace('/', "--")));
    let commit = det_post_types::input_file::read_text(&folder.join("refs/main"), 256);
    let commit = commit.unwrap_or_default();
    let commit = commit.trim();
    folder.join("snapshots").join(if commit.is_empty() { "main" } else { commit }).join(file)
}

fn model_path(t: &mut Translation<'_>, given: Option<&Given>) -> Option<PathBuf> {
    let named = match given {
        None => "yolov8m.pt",
        Some(given) => match text_of(&given.node).filter(|path| !path.is_empty()) {
            Some(path) => path,
            None => {
                t.refuse(given, "the path of a network");
                return None;
            }
        },
    };
    let path = Path::new(named);
    let is_torch = path.extension().is_some_and(|extension| extension == "pt");
    let onnx = if is_torch { path.with_extension("onnx") } else { path.to_owned() };
    let text = onnx.to_string_lossy().into_owned();
    match given {
        None => t.set("model_path", text),
        Some(given) if !is_torch => t.rename(given, "model_path"),
        Some(given) => {
            let note = "the exported network beside it";
            t.convert(given, &[("model_path", text.as_str().into())], note);
            if !onnx.is_file() {
                let note = format!(
                    "{text} is not there: `yolo export model={named} format=onnx` makes it"
                );
                t.warn(&given.key, &note);
            }
        }
    }
    Some(onnx)
}

fn device(t: &mut Translation<'_>, prefix: &str) {
    let provider = take(t, prefix, &keys::PROVIDER);
    let name = provider.as_ref().and_then(|given| text_of(&given.node)).unwrap_or("auto");
    let is_cpu = name.eq_ignore_ascii_case("cpu");
    if let Some(given) = &provider {
        match name.to_ascii_lowercase().as_str() {
            "cpu" => t.convert(given, &[("device", "cpu".into())], ""),
            "tensorrt" | "trt" => t.ignore(
                given,
                TranslationOutcome::Engine,
                "`engine.kind: onnxruntime` and `engine.provider: tensorrt` select TensorRT",
            ),
            "auto" | "cuda" => t.ignore(given, TranslationOutcome::NoEffect, "`device` holds"),
            _ => t.refuse(given, "auto, cuda, tensorrt or cpu"),
        }
    }
    let Some(given) = take(t, prefix, &keys::DEVICE) else { return };
    if is_cpu {
        return t.ignore(&given, TranslationOutcome::NoEffect, "`provider` holds");
    }
    let ordinal = match &given.node {
        Node::Integer(ordinal) => ordinal.to_string(),
        Node::Text(text) => text.to_ascii_lowercase(),
        _ => return t.refuse(&given, "cpu, cuda:N or N"),
    };
    let (kind, number) = ordinal.split_once(':').unwrap_or(match &*ordinal {
        "cuda" | "trt" | "tensorrt" => (&*ordinal, "0"),
        "cpu" => ("cpu", ""),
        number => ("cuda", number),
    });
    match (kind, number) {
        // So that it starts without a GPU, too.
        ("cuda" | "trt" | "tensorrt", "0") => t.convert(&given, &[("device", "auto".into())], ""),
        ("cuda" | "trt" | "tensorrt", number) if number.parse::<u16>().is_ok() => {
            t.convert(&given, &[("device", format!("cuda:{number}").into())], "");
        }
        ("cpu", _) => t.convert(&given, &[("device", "cpu".into())], ""),
        _ => t.refuse(&given, "cpu, cuda:N or N"),
    }
}
