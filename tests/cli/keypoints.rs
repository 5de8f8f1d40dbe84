//! A replay of a network with keypoints: lines, the recording of the detections, drawn frames.

use crate::common;

use std::path::Path;

use common::replay::det_post;
use common::shared_data::shared_data;
use det_post_ros::bag::{BagCompression, BagReader, BagWriter, OfferedQos};
use det_post_ros::messages::{Image, PointCloud2, definition};
use det_post_types::{Header, Stamp};
use serde_json::Value;

const SIZE: [u32; 2] = [150, 210];
const NUM_FRAMES: u32 = 2;

/// Images of noise.
fn write_images(folder: &Path) {
    let mut bag = BagWriter::create(folder, BagCompression::None).unwrap();
    let text = definition(Image::TYPE).unwrap();
    let topic =
        bag.add_topic("/camera/image_raw", Image::TYPE, &text, OfferedQos::default()).unwrap();
    let [width, height] = SIZE;
    let (mut state, mut message) = (7_u32, Vec::new());
    for frame in 0..NUM_FRAMES {
        let pixels: Vec<u8> = (0..3 * width * height)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            })
            .collect();
        let header = Header { stamp: Stamp::from_ros(100 + frame as i32, 0), frame_id: "camera" };
        let (encoding, is_bigendian, step) = ("rgb8", false, 3 * width);
        Image { header, height, width, encoding, is_bigendian, step, data: &pixels }
            .encode(&mut message)
            .unwrap();
        bag.write(topic, header.stamp, &message).unwrap();
    }
    bag.finish().unwrap();
}

#[test]
fn a_replay_writes_keypoints() {
    let Some(data) = shared_data() else { return };
    let model = data.join("detr/yolo26_pose_tiny.onnx").display().to_string();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    write_images(&folder.path().join("drive"));
    let (drive, out) = (path("drive"), path("out"));
    let more = ["-p", "camera.score_threshold:=0.25", "--images", "1"];
    let run =
        det_post(&[&["replay", &drive, "--model", &model, "--out", &out], &more[..]].concat());
    run.expect_code(0);

    let text = std::fs::read_to_string(format!("{out}/detections.jsonl")).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), NUM_FRAMES as usize);
    let mut clouds = 0;
    let mut bag = BagReader::open(Path::new(&format!("{out}/detections"))).unwrap();
    let topics = bag.topics().to_vec();
    while let Some(message) = bag.next_message().unwrap() {
        if !topics[message.topic].name.ends_with("/keypoints") {
            continue;
        }
        let cloud = PointCloud2::decode(message.data).unwrap();
        let found = lines[clouds]["detections_2d"].as_array().unwrap();
        clouds += 1;
        assert!(!found.is_empty() && cloud.height as usize == found.len());
        // Of every detection the same numbers, in the same order.
        let numbers = cloud.data.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
        let expected: Vec<f32> = found
            .iter()
            .flat_map(|detection| detection["keypoints"].as_array().unwrap())
            .flat_map(|point| point.as_array().unwrap())
            .map(|number| number.as_f64().unwrap() as f32)
            .collect();
        assert_eq!(expected.len(), found.len() * cloud.width as usize * 3);
        assert_eq!(numbers.collect::<Vec<_>>(), expected);
        for point in expected.as_chunks::<3>().0 {
            let [width, height] = SIZE.map(|side| side as f32);
            assert!((0.0..=width).contains(&point[0]) && (0.0..=height).contains(&point[1]));
        }
    }
    assert_eq!(clouds, NUM_FRAMES as usize);
    assert_eq!(std::fs::read_dir(format!("{out}/images")).unwrap().count(), 1);
}
