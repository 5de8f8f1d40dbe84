//! Messages whose declarations and data differ, or whose format says more than the file: what the
//! network sees, and what is counted.

use std::path::{Path, PathBuf};

use det_post_ros::bag::{BagCompression, BagWriter, OfferedQos};
use det_post_ros::messages::{CompressedImage, Image, PointCloud2, definition};
use det_post_types::ElementType::F32;
use det_post_types::{Header, Stamp};
use png::{BitDepth, ColorType};
use serde_json::Value;

use crate::common::counting_voxels;
use crate::common::onnx::{Attr, Graph};
use crate::common::replay::{Run, replay};

const HEADER: Header<'static> = Header { stamp: Stamp::from_ros(10, 0), frame_id: "camera" };

const SIDE: usize = 32;

/// Red, green and blue of the scene.
const RGB: [u8; 3] = [200, 100, 40];

/// Writes a network whose one box has the mean colour of the image as its corners (red / 16, green / 16,
/// 16 + blue / 16, 31), and its parameter file.
fn write_network(folder: &Path) -> PathBuf {
    let reduce = [("axes", Attr::Ints(vec![2, 3])), ("keepdims", Attr::Int(0))];
    let side = SIDE as i64;
    Graph::new("mean_color", "Set by hand, not trained. Answers the mean colour.")
        .input("images", F32, &[1, 3, side, side])
        .constant("scale", &[1, 3], &[1.0 / 16.0; 3])
        .constant("offset", &[1, 3], &[0.0, 0.0, 16.0])
        .constant("rest", &[1, 3], &[31.0, 0.9, 0.0])
        .integers("shape", &[1, 1, 6])
        .node("ReduceMean", &["images"], &["mean"], &reduce)
        .op("Mul", &["mean", "scale"], "scaled")
        .op("Add", &["scaled", "offset"], "corners")
        .node("Concat", &["corners", "rest"], &["row"], &[("axis", Attr::Int(1))])
        .op("Reshape", &["row", "shape"], "output0")
        .output("output0", F32, &[1, 1, 6])
        .save(&folder.join("color.onnx"))
        .unwrap();
    let facts = "sensor: camera\nclass_names: [thing]\nlayout: {kind: end_to_end}\n\
                 placement: stretch\nchannel_order: rgb\n";
    std::fs::write(folder.join("head.yaml"), facts).unwrap();
    let path = folder.join("camera.yaml");
    let text = folder.display();
    let parameters = format!(
        "/**:\n  ros__parameters:\n    camera:\n      input: /image\n      head: {text}/head.yaml\n      \
         model_path: {text}/color.onnx\n      engine: {{kind: rten}}\n"
    );
    std::fs::write(&path, parameters).unwrap();
    path
}

/// A replay of messages of one topic, a second apart.
fn run(folder: &Path, config: &Path, topic: &str, type_name: &str, messages: &[Vec<u8>]) -> Run {
    let bag = tempfile::tempdir_in(folder).unwrap().keep().join("bag");
    let mut writer = BagWriter::create(&bag, BagCompression::None).unwrap();
    let text = definition(type_name).unwrap();
    let number = writer.add_topic(topic, type_name, &text, OfferedQos::default()).unwrap();
    for (second, message) in (10..).zip(messages) {
        writer.write(number, Stamp::from_ros(second, 0), message).unwrap();
    }
    writer.finish().unwrap();
    replay(&bag, config.to_str().unwrap(), &[], &bag.with_file_name("out"))
}

/// The image of [`RGB`] as a mosaic whose 2x2 tile has these channels.
fn mosaic(tile: [usize; 4]) -> Vec<u8> {
    let places = (0..SIDE).flat_map(|y| (0..SIDE).map(move |x| 2 * (y % 2) + x % 2));
    places.map(|place| RGB[tile[place]]).collect()
}

fn png_file(color: ColorType, depth: BitDepth, data: &[u8]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, SIDE as u32, SIDE as u32);
    encoder.set_color(color);
    encoder.set_depth(depth);
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(data).unwrap();
    writer.finish().unwrap();
    file
}

fn compressed(format: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    CompressedImage { header: HEADER, format, data }.encode(&mut bytes).unwrap();
    bytes
}

fn raw(encoding: &str, data: &[u8]) -> Vec<u8> {
    let (side, step) = (SIDE as u32, (data.len() / SIDE) as u32);
    let image = Image {
        header: HEADER,
        height: side,
        width: side,
        encoding,
        is_bigendian: false,
        step,
        data,
    };
    let mut bytes = Vec::new();
    image.encode(&mut bytes).unwrap();
    bytes
}

fn channel(run: &Run, name: &str) -> Value {
    run.report()["channels"][name].clone()
}

/// Patterns: name, channels of a tile.
const PATTERNS: [(&str, [usize; 4]); 4] = [
    ("bayer_rggb8", [0, 1, 1, 2]),
    ("bayer_bggr8", [2, 1, 1, 0]),
    ("bayer_gbrg8", [1, 2, 0, 1]),
    ("bayer_grbg8", [1, 0, 2, 1]),
];

#[test]
fn a_compressed_image_is_read_as_the_raw_image_of_its_encoding() {
    let folder = tempfile::tempdir().unwrap();
    let config = write_network(folder.path());
    let seen = |type_name: &str, message: Vec<u8>| {
        let run = run(folder.path(), &config, "/image", type_name, &[message]);
        run.expect_code(0);
        run.lines()[0]["detections_2d"].clone()
    };
    for (pattern, tile) in PATTERNS {
        let mosaic = mosaic(tile);
        let expected = seen(Image::TYPE, raw(pattern, &mosaic));
        let file = png_file(ColorType::Grayscale, BitDepth::Eight, &mosaic);
        for format in [
            format!("{pattern}; png compressed "),
            format!("{pattern}; png compressed {pattern}"),
            format!("{pattern};png"),
        ] {
            assert_eq!(
                seen(CompressedImage::TYPE, compressed(&format, &file)),
                expected,
                "{format}"
            );
        }
        let corner = expected[0]["box"][0].as_f64().unwrap() * 16.0;
        assert!((corner - f64::from(RGB[0])).abs() < 6.0, "{pattern}: {expected}");
    }
    // Colours, and grey values of 16 bits.
    let colors = RGB.repeat(SIDE * SIDE);
    let expected = seen(Image::TYPE, raw("rgb8", &colors));
    let bgr = [RGB[2], RGB[1], RGB[0]].repeat(SIDE * SIDE);
    for (format, data) in [
        ("rgb8; png compressed bgr8", &colors),
        ("bgr8; png compressed bgr8", &colors),
        ("png", &colors),
        ("rgb8; png compressed rgb8", &bgr),
    ] {
        let file = png_file(ColorType::Rgb, BitDepth::Eight, data);
        assert_eq!(seen(CompressedImage::TYPE, compressed(format, &file)), expected, "{format}");
    }
    let deep = [0x12, 0x34].repeat(SIDE * SIDE);
    let little = [0x34, 0x12].repeat(SIDE * SIDE);
    let file = png_file(ColorType::Grayscale, BitDepth::Sixteen, &deep);
    let found = seen(CompressedImage::TYPE, compressed("mono16; png compressed ", &file));
    assert_eq!(found, seen(Image::TYPE, raw("mono16", &little)));
}

#[test]
fn a_format_that_is_not_supported_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let config = write_network(folder.path());
    let grey = png_file(ColorType::Grayscale, BitDepth::Eight, &mosaic([0, 1, 1, 2]));
    let colors = png_file(ColorType::Rgb, BitDepth::Eight, &RGB.repeat(SIDE * SIDE));
    for (format, file, named) in [
        ("bayer_rggb16; png compressed ", &grey, "bayer_rggb16"),
        ("16UC1; png compressed ", &grey, "16UC1"),
        ("yuv422; png compressed yuv422", &grey, "yuv422"),
        ("bayer_rggb8; png compressed ", &colors, "bayer_rggb8"),
    ] {
        let message = compressed(format, file);
        let run = run(folder.path(), &config, "/image", CompressedImage::TYPE, &[message]);
        run.expect_code(1);
        let channel = channel(&run, "camera");
        let reason = &channel["dropped"]["unsupported_encoding"];
        assert_eq!(reason["count"], 1, "{format}: {channel}");
        assert!(reason["first"].as_str().unwrap().contains(named), "{format}: {channel}");
    }
}

#[test]
fn the_signature_of_a_file_decides_with_one_warning() {
    let folder = tempfile::tempdir().unwrap();
    let config = write_network(folder.path());
    let file = png_file(ColorType::Rgb, BitDepth::Eight, &RGB.repeat(SIDE * SIDE));
    let messages = ["png", "jpeg", "rgb8; jpeg compressed bgr8"].map(|of| compressed(of, &file));
    let run = run(folder.path(), &config, "/image", CompressedImage::TYPE, &messages);
    run.expect_code(0);
    let lines = run.lines();
    assert_eq!(lines.len(), 3);
    assert!(lines.iter().all(|line| line["detections_2d"] == lines[0]["detections_2d"]));
    assert_eq!(channel(&run, "camera")["truncated"]["images_mislabelled"], 2);
    assert_eq!(run.stderr.matches("the signature of PNG").count(), 1, "{}", run.stderr);
}

#[test]
fn clouds_with_a_wrong_step_of_rows_are_read_with_one_warning() {
    let folder = tempfile::tempdir().unwrap();
    let config = counting_voxels::write(folder.path());
    let (points, fields) = (counting_voxels::cloud(7, 600), ["x", "y", "z", "intensity"]);
    let values: Vec<f32> = points.as_flattened().to_vec();
    let bytes = counting_voxels::message(HEADER.stamp, &fields, &values);
    let organised = |row_step: u32, len: usize| {
        let cloud = PointCloud2::decode(&bytes).unwrap();
        let (height, width) = (3, cloud.width / 3);
        let data = &cloud.data[..len];
        let mut encoded = Vec::new();
        PointCloud2 { height, width, row_step, data, ..cloud }.encode(&mut encoded).unwrap();
        encoded
    };
    let num_bytes = 600 * 16;
    let replayed = |row_step: u32, len: usize| {
        let messages = vec![organised(row_step, len); 2];
        run(folder.path(), &config, counting_voxels::TOPIC, PointCloud2::TYPE, &messages)
    };
    let expected = replayed(200 * 16, num_bytes);
    expected.expect_code(0);
    assert!(!expected.stderr.contains("row_step"), "{}", expected.stderr);
    for row_step in [0, 600 * 16, 600, 200] {
        let found = replayed(row_step, num_bytes);
        found.expect_code(0);
        assert_eq!(found.lines(), expected.lines(), "{row_step}");
        assert_eq!(channel(&found, "lidar")["truncated"]["row_steps_corrected"], 2);
        let warned = found.stderr.matches(&format!("row_step is {row_step},")).count();
        assert_eq!(warned, 1, "{row_step}: {}", found.stderr);
    }
    for (row_step, len) in [(0, num_bytes - 1), (200 * 16 - 1, num_bytes), (201 * 16, num_bytes)] {
        let found = replayed(row_step, len);
        found.expect_code(1);
        let channel = channel(&found, "lidar");
        assert_eq!(channel["dropped"]["inconsistent_layout"]["count"], 2, "{channel}");
    }
}
