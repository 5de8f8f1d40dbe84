//! `det_post eval` with masks and keypoints, whose figures are known.

use crate::common;

use std::path::Path;

use common::replay::det_post;
use det_post::draw::encode_keypoints;
use det_post_ros::bag::{BagCompression, BagWriter, OfferedQos};
use det_post_ros::messages::{Detection2DArray, Image, PointCloud2, definition};
use det_post_ros::truth::encode_2d;
use det_post_types::{Box2d, Header, Keypoint, Keypoints, Rle, Size, Stamp, Truth2d};
use serde_json::{Value, json};

const NUM_FRAMES: i64 = 3;
const IMAGE: Size = Size::new(64, 48);
/// Two persons beside each other, by left, top, right, bottom.
const BOXES: [[u32; 4]; 2] = [[4, 4, 20, 44], [30, 4, 46, 44]];

fn stamp(frame: i64) -> Stamp {
    Stamp::from_nanos(1_000_000_000 * (frame + 1))
}

/// Two keypoints of an object, moved to the right.
fn points(object: usize, moved: f32) -> [Keypoint; 2] {
    let [left, top, right, bottom] = BOXES[object].map(|edge| edge as f32);
    [(left, top, 2.0), (right, bottom, 1.0)].map(|(x, y, score)| Keypoint {
        x: x + moved,
        y,
        score,
    })
}

/// Boxes, label images and keypoints of two persons in every frame.
fn write_truth(folder: &Path) {
    let mut bag = BagWriter::create(folder, BagCompression::None).unwrap();
    let topics = [
        ("/truth/camera", Detection2DArray::TYPE),
        ("/truth/camera/attributes", PointCloud2::TYPE),
        ("/truth/camera/instances", Image::TYPE),
        ("/truth/camera/keypoints", PointCloud2::TYPE),
    ]
    .map(|(topic, type_name)| {
        bag.add_topic(topic, type_name, &definition(type_name).unwrap(), OfferedQos::default())
            .unwrap()
    });
    let [mut array, mut attributes, mut message] = [Vec::new(), Vec::new(), Vec::new()];
    let mut pixels = vec![0; (IMAGE.width * IMAGE.height) as usize];
    for (object, [left, top, right, bottom]) in BOXES.into_iter().enumerate() {
        for y in top..bottom {
            let row = (y * IMAGE.width) as usize;
            pixels[row + left as usize..row + right as usize].fill(object as u8 + 1);
        }
    }
    for frame in 0..NUM_FRAMES {
        let header = Header { stamp: stamp(frame), frame_id: "camera" };
        let objects: Vec<_> = (0..2)
            .map(|object| {
                let [x1, y1, x2, y2] = BOXES[object].map(|edge| edge as f32);
                Truth2d {
                    class_name: "person",
                    track_id: object as u32,
                    bbox: Box2d::new(x1, y1, x2, y2),
                    visibility: 1.0,
                    truncation: 0.0,
                    num_pixels: 99,
                }
            })
            .collect();
        // Parts may come before their boxes.
        let (encoding, height, width) = ("mono8", IMAGE.height, IMAGE.width);
        let (is_bigendian, step, data) = (false, width, &pixels[..]);
        Image { header, height, width, encoding, is_bigendian, step, data }
            .encode(&mut message)
            .unwrap();
        bag.write(topics[2], header.stamp, &message).unwrap();
        encode_2d(&header, &objects, &mut array, &mut attributes).unwrap();
        bag.write(topics[0], header.stamp, &array).unwrap();
        bag.write(topics[1], header.stamp, &attributes).unwrap();
        let all = [points(0, 0.0), points(1, 0.0)].concat();
        let keypoints = Keypoints { num_per_detection: 2, all: &all };
        encode_keypoints(&header, 2, &keypoints, &mut Vec::new(), &mut message).unwrap();
        bag.write(topics[3], header.stamp, &message).unwrap();
    }
    bag.finish().unwrap();
}

/// Both persons with exact boxes; the mask of the second is its upper part of 57.5 %, and its
/// keypoints are far away.
fn write_lines(path: &Path) {
    let found = [0, 1].map(|object| {
        let [left, top, right, bottom] = BOXES[object];
        let rows = if object == 0 { bottom - top } else { 23 };
        let mut counts = vec![left * IMAGE.height + top];
        for _ in left..right {
            counts.extend([rows, IMAGE.height - rows]);
        }
        *counts.last_mut().unwrap() += (IMAGE.width - right) * IMAGE.height - top;
        let mask = Rle::new(IMAGE, counts).unwrap();
        let moved = if object == 0 { 0.0 } else { 200.0 };
        let keypoints = points(object, moved).map(|point| [point.x, point.y, point.score]);
        json!({
            "class_id": 0, "class_name": "person", "score": 0.9 - 0.1 * object as f32,
            "box": BOXES[object], "keypoints": keypoints,
            "mask": {"size": [IMAGE.height, IMAGE.width], "counts": mask.to_compressed()},
        })
    });
    let line = |frame| {
        let line = json!({"channel": "camera", "topic": "/camera/detections",
            "stamp_ns": stamp(frame).nanos(), "frame_id": "camera", "detections_2d": found});
        format!("{line}\n")
    };
    std::fs::write(path, (0..NUM_FRAMES).map(line).collect::<String>()).unwrap();
}

#[test]
fn masks_and_keypoints_have_figures_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    write_truth(&folder.path().join("truth"));
    write_lines(&folder.path().join("found.jsonl"));
    let [found, truth, figures, coco] = ["found.jsonl", "truth", "eval.json", "coco"].map(path);
    let files = ["eval", "--detections", &found, "--truth", &truth, "--json", &figures];
    let run = det_post(&[&files[..], &["--coco", &coco]].concat());
    run.expect_code(0);
    let heads = run.stdout.lines().find(|line| line.contains("mask AP")).unwrap();
    assert!(heads.contains("keypoint AP"), "{}", run.stdout);
    let read = |path: &str| -> Value {
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    };
    let person = read(&figures)["sensors"][0]["classes"]["person"].take();
    let near = |found: &Value, expected: f64| {
        assert!((found.as_f64().unwrap() - expected).abs() < 1e-6, "{found} {expected}");
    };
    near(&person["ap"], 1.0);
    // From an overlap of 0.60 on half of the masks are right.
    let half = 51.0 / 101.0;
    near(&person["masks"]["ap50"], 1.0);
    near(&person["masks"]["ap75"], half);
    near(&person["masks"]["ap"], (2.0 + 8.0 * half) / 10.0);
    for key in ["ap", "ap50", "ap75"] {
        near(&person["keypoints"][key], half);
    }

    // pycocotools reads the files.
    let truth = read(&format!("{coco}/camera_truth.json"));
    let annotation = &truth["annotations"][1];
    assert_eq!(annotation["num_keypoints"], 2);
    assert_eq!(annotation["keypoints"], json!([30.0, 4.0, 2.0, 46.0, 44.0, 2.0]));
    assert_eq!(annotation["segmentation"]["size"], json!([48, 64]));
    assert_eq!(annotation["area"], 640.0);
    assert_eq!([&truth["images"][0]["height"], &truth["images"][0]["width"]], [48, 64]);
    let found = read(&format!("{coco}/camera_detections.json"));
    assert_eq!(found[0]["keypoints"], json!([4.0, 4.0, 2.0, 20.0, 44.0, 1.0]));
    assert!(found[0]["segmentation"]["counts"].is_string());
}

#[test]
fn a_mask_that_is_none_leaves_its_frame_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    write_truth(&folder.path().join("truth"));
    write_lines(&folder.path().join("found.jsonl"));
    let text = std::fs::read_to_string(path("found.jsonl")).unwrap();
    let text = text.replacen("\"size\":[48,64]", "\"size\":[48,65]", 1);
    std::fs::write(path("found.jsonl"), text).unwrap();
    let (found, truth) = (path("found.jsonl"), path("truth"));
    let run = det_post(&["eval", "--detections", &found, "--truth", &truth]);
    run.expect_code(3);
    assert!(run.stdout.contains("line 1 of"), "{}", run.stdout);
}
