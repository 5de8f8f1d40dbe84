//! A network in the layout of ultralytics' oriented boxes, from a recording to
//! lines, a recording, an image and figures.

use crate::common;

use std::f32::consts::{FRAC_PI_2, FRAC_PI_4, PI};
use std::path::Path;

use common::onnx::{Attr, Graph};
use common::replay::{Run, det_post};
use det_post_eval::draw::class_rgb;
use det_post_ros::bag::{BagCompression, BagReader, BagWriter, OfferedQos};
use det_post_ros::messages::{Detection2DArray, Image, PointCloud2, definition};
use det_post_ros::truth::encode_2d;
use det_post_types::{ElementType, Header, ImageBox, RotatedBox2d, Stamp, Truth2d};
use serde_json::Value;

const WIDTH: usize = 320;
const HEIGHT: usize = 240;
/// Side of the network's input: images are halved and padded by 20 rows above
/// and below.
const INPUT: i64 = 160;
const PAD: f32 = 20.0;
const CLASSES: [&str; 2] = ["ship", "plane"];
const FRAME_ID: &str = "down";
/// cx cy w h, scores of two classes, angle; and what the image's mean adds to the
/// score of the first class.
const COLUMNS: [([f32; 7], f32); 6] = [
    ([80.0, 80.0, 60.0, 10.0, 0.9, 0.1, FRAC_PI_4], 0.0),
    // Across the first, with the same bounds.
    ([80.0, 80.0, 60.0, 10.0, 0.8, 0.1, FRAC_PI_4 + FRAC_PI_2], 0.0),
    // Almost the first: suppressed.
    ([80.5, 80.0, 60.0, 10.0, 0.7, 0.1, FRAC_PI_4 + 0.02], 0.0),
    // The first again, as another class.
    ([80.0, 80.0, 60.0, 10.0, 0.1, 0.6, FRAC_PI_4], 0.0),
    // In bright images only.
    ([40.0, 60.0, 20.0, 12.0, 0.0, 0.1, -0.2], 0.6),
    // In the padding.
    ([80.0, 5.0, 10.0, 4.0, 0.95, 0.1, 0.3], 0.0),
];

fn stamp(frame: u32) -> Stamp {
    Stamp::from_ros(1000, 100_000_000 * frame)
}

/// Columns that do not depend on the image, but for the score of one.
fn write_network(path: &Path) {
    let num_columns = COLUMNS.len() as i64;
    let plane = |plane: usize| COLUMNS.iter().map(move |(column, _)| column[plane]);
    let base: Vec<f32> = (0..7).flat_map(plane).collect();
    let gain = (0..7).flat_map(|plane| {
        COLUMNS.iter().map(move |&(_, gain)| if plane == 4 { gain } else { 0.0 })
    });
    let gain: Vec<f32> = gain.collect();
    let dims = [1, 7, num_columns];
    let mean = [("axes", Attr::Ints(vec![1, 2, 3])), ("keepdims", Attr::Int(0))];
    Graph::new("oriented_boxes", "fixed oriented boxes, one of which needs a bright image")
        .input("images", ElementType::F32, &[1, 3, INPUT, INPUT])
        .output("output0", ElementType::F32, &dims)
        .constant("base", &dims, &base)
        .constant("gain", &dims, &gain)
        .node("ReduceMean", &["images"], &["mean"], &mean)
        .op("Mul", &["gain", "mean"], "added")
        .op("Add", &["base", "added"], "output0")
        .save(path)
        .unwrap();
}

fn add_topic(bag: &mut BagWriter, topic: &str, type_name: &str) -> usize {
    let text = definition(type_name).unwrap();
    bag.add_topic(topic, type_name, &text, OfferedQos::default()).unwrap()
}

/// A dark image and a bright one.
fn write_images(folder: &Path) {
    let mut bag = BagWriter::create(folder, BagCompression::None).unwrap();
    let topic = add_topic(&mut bag, "/down/image_raw", Image::TYPE);
    let mut bytes = Vec::new();
    for (frame, value) in [(0, 0), (1, 255)] {
        let image = Image {
            header: Header { stamp: stamp(frame), frame_id: FRAME_ID },
            height: HEIGHT as u32,
            width: WIDTH as u32,
            encoding: "rgb8",
            is_bigendian: false,
            step: 3 * WIDTH as u32,
            data: &[value; 3 * WIDTH * HEIGHT],
        };
        image.encode(&mut bytes).unwrap();
        bag.write(topic, stamp(frame), &bytes).unwrap();
    }
    bag.finish().unwrap();
}

/// The detections of a frame: class, score and box in the image.
fn expected(frame: u32) -> Vec<(usize, f32, RotatedBox2d)> {
    let of = |column: usize, width: f32, height: f32, angle_rad: f32| {
        let [cx, cy, ..] = COLUMNS[column].0;
        let (width, height) = (2.0 * width, 2.0 * height);
        RotatedBox2d { cx: 2.0 * cx, cy: 2.0 * (cy - PAD), width, height, angle_rad }
    };
    let mean = (PAD / 80.0) * (114.0 / 255.0) + (1.0 - PAD / 80.0) * frame as f32;
    let mut found = vec![
        (0, 0.9, of(0, 60.0, 10.0, FRAC_PI_4)),
        // Angles are in [0, pi/2].
        (0, 0.8, of(1, 10.0, 60.0, FRAC_PI_4)),
        (1, 0.6, of(3, 60.0, 10.0, FRAC_PI_4)),
    ];
    if frame == 1 {
        found.push((0, 0.6 * mean, of(4, 12.0, 20.0, PI - 0.2 - FRAC_PI_2)));
    }
    found
}

/// Truth at the expected boxes, turned by `turn_rad`, and a companion.
fn write_truth(folder: &Path, turn_rad: f32) {
    let mut bag = BagWriter::create(folder, BagCompression::None).unwrap();
    let array_topic = add_topic(&mut bag, "/truth/down", Detection2DArray::TYPE);
    let table_topic = add_topic(&mut bag, "/truth/down/attributes", PointCloud2::TYPE);
    let [mut array, mut table] = [Vec::new(), Vec::new()];
    for frame in 0..2 {
        let objects = (0..).zip(expected(frame)).map(|(track_id, (class, _, bbox))| Truth2d {
            class_name: CLASSES[class],
            track_id,
            bbox: RotatedBox2d { angle_rad: bbox.angle_rad + turn_rad, ..bbox },
            visibility: 1.0,
            truncation: 0.0,
            num_pixels: 99,
        });
        let header = Header { stamp: stamp(frame), frame_id: FRAME_ID };
        encode_2d(&header, &objects.collect::<Vec<_>>(), &mut array, &mut table).unwrap();
        bag.write(array_topic, stamp(frame), &array).unwrap();
        bag.write(table_topic, stamp(frame), &table).unwrap();
    }
    bag.finish().unwrap();
}

/// A parameter file for the network.
fn write_config(folder: &Path) -> String {
    write_network(&folder.join("model.onnx"));
    let head = include_str!("../../config/heads/yolo_obb.yaml");
    let (_, facts) = head.split_once("layout:").unwrap();
    let head = format!("sensor: camera\nclass_names: [ship, plane]\nlayout:{facts}");
    std::fs::write(folder.join("head.yaml"), head).unwrap();
    let config = folder.join("node.yaml");
    let path = |name: &str| folder.join(name).display().to_string();
    let text = format!(
        "/**:
  ros__parameters:
    device: cpu
    camera:
      input: /down/image_raw
      head: {}
      model_path: {}
      engine: {{kind: rten}}
",
        path("head.yaml"),
        path("model.onnx")
    );
    std::fs::write(&config, text).unwrap();
    config.to_str().unwrap().to_owned()
}

fn replayed(folder: &Path, config: &str, out: &str, more: &[&str]) -> Run {
    let path = |name: &str| folder.join(name).display().to_string();
    let (bag, out) = (path("drive"), path(out));
    let arguments = ["replay", &bag, "-c", config, "--out", &out, "--images", "1"];
    det_post(&[&arguments, more].concat())
}

fn numbers(value: &Value) -> Vec<f32> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap() as f32).collect()
}

#[track_caller]
fn assert_near(found: &[f32], expected: &[f32]) {
    let near = found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-4);
    assert!(near && found.len() == expected.len(), "{found:?} {expected:?}");
}

fn assert_lines(path: &Path) {
    let text = std::fs::read_to_string(path).unwrap();
    assert_eq!(text.lines().count(), 2);
    for (frame, line) in (0..).zip(text.lines()) {
        let line: Value = serde_json::from_str(line).unwrap();
        let (found, expected) = (line["detections_2d"].as_array().unwrap(), expected(frame));
        assert_eq!(found.len(), expected.len(), "{line}");
        for (found, (class, score, bbox)) in found.iter().zip(expected) {
            assert_eq!(found["class_name"], CLASSES[class]);
            assert!(found.get("box").is_none(), "{found}");
            assert_near(&numbers(&found["center"]), &[bbox.cx, bbox.cy]);
            assert_near(&numbers(&found["size"]), &[bbox.width, bbox.height]);
            let rest = [&found["theta"], &found["score"]].map(|v| v.as_f64().unwrap() as f32);
            assert_near(&rest, &[bbox.angle_rad, score]);
        }
    }
}

fn assert_recording(path: &Path) {
    let mut reader = BagReader::open(path).unwrap();
    let topics = reader.topics().to_vec();
    let mut frames = 0;
    while let Some(message) = reader.next_message().unwrap() {
        if topics[message.topic].type_name != Detection2DArray::TYPE {
            continue;
        }
        let array = Detection2DArray::decode(message.data).unwrap();
        assert_eq!((array.header.stamp, array.header.frame_id), (stamp(frames), FRAME_ID));
        let found: Vec<_> = array.detections.map(Result::unwrap).collect();
        assert_eq!(found.len(), expected(frames).len());
        for (found, (class, _, expected)) in found.iter().zip(expected(frames)) {
            assert_eq!(found.best.unwrap().class_id, CLASSES[class]);
            let ImageBox::Rotated(bbox) = found.bbox() else { panic!("{found:?}") };
            let of = |b: RotatedBox2d| [b.cx, b.cy, b.width, b.height, b.angle_rad];
            assert_near(&of(bbox), &of(expected));
        }
        frames += 1;
    }
    assert_eq!(frames, 2);
}

/// The sides of the turned rectangles have the colour of their class, and those of
/// their bounds have not.
fn assert_image(folder: &Path) {
    let mut images: Vec<_> = std::fs::read_dir(folder).unwrap().map(Result::unwrap).collect();
    assert_eq!(images.len(), 1);
    let file = std::fs::File::open(images.remove(0).path()).unwrap();
    let mut reader = png::Decoder::new(std::io::BufReader::new(file)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    reader.next_frame(&mut pixels).unwrap();
    assert_eq!((reader.info().width, reader.info().height), (WIDTH as u32, HEIGHT as u32));
    let is_colored = |x: f32, y: f32| {
        let [x, y] = [x, y].map(|value| value.round() as usize);
        (y - 1..=y + 1)
            .any(|y| (x - 1..=x + 1).any(|x| pixels[3 * (y * WIDTH + x)..][..3] == class_rgb(0)))
    };
    // The second box: its long sides rise to the right.
    let (_, _, bbox) = expected(0)[1];
    let (sin, cos) = bbox.angle_rad.sin_cos();
    for along in [-0.4, -0.3, 0.3, 0.4] {
        let (across, along) = (0.5 * bbox.width, along * bbox.height);
        for across in [-across, across] {
            let (x, y) = (cos * across - sin * along, sin * across + cos * along);
            assert!(is_colored(bbox.cx + x, bbox.cy + y), "{x} {y}");
        }
    }
    let bounds = ImageBox::from(bbox).bounds();
    // Below is the label, in the colour of the class.
    for (x, y) in [(bounds.x1, bbox.cy), (bounds.x2, bbox.cy)] {
        assert!(!is_colored(x, y), "{x} {y}");
    }
}

/// Mean AP of the camera.
fn mean_ap(folder: &Path, detections: &str, truth: &str) -> f64 {
    let path = |name: &str| folder.join(name).display().to_string();
    let (found, truth, json) = (path(detections), path(truth), path("eval.json"));
    det_post(&["eval", "--detections", &found, "--truth", &truth, "--json", &json]).expect_code(0);
    let figures: Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    figures["sensors"][0]["map"].as_f64().unwrap()
}

#[test]
fn rotated_boxes_reach_every_output() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_images(&folder.join("drive"));
    let config = write_config(folder);
    replayed(folder, &config, "out", &[]).expect_code(0);
    let out = folder.join("out");
    assert_lines(&out.join("detections.jsonl"));
    assert_recording(&out.join("detections"));
    assert_image(&out.join("images"));

    let isolated = replayed(folder, &config, "isolated", &["-p", "camera.isolate:=true"]);
    isolated.expect_code(0);
    let lines = |name: &str| std::fs::read(folder.join(name).join("detections.jsonl")).unwrap();
    assert!(lines("out") == lines("isolated"), "an isolated channel finds something else");

    write_truth(&folder.join("truth"), 0.0);
    write_truth(&folder.join("half_turn"), PI);
    write_truth(&folder.join("turned"), 0.5 * FRAC_PI_4);
    for detections in ["out", "out/detections"] {
        assert!((mean_ap(folder, detections, "truth") - 1.0).abs() < 1e-6, "{detections}");
        assert!((mean_ap(folder, detections, "half_turn") - 1.0).abs() < 1e-6, "{detections}");
        assert!(mean_ap(folder, detections, "turned") < 0.2, "{detections}");
    }
}
