//! Nodes of Isaac ROS and yolo_ros with their parameters in a file, and recordings for them.

use std::path::Path;

use det_post_ros::bag::{BagCompression, BagWriter, OfferedQos};
use det_post_ros::messages::{TensorList, definition};
use det_post_types::{Header, Stamp, TensorType};

use super::{ReplacedNode, networks};
use crate::common::recording;
use crate::common::yolov8_tensor::{CANDIDATES, message};

/// Topic of the tensors of Isaac ROS.
const TENSORS: &str = "/tensor_pub";

/// All of them, each below a folder of its own.
pub fn nodes(folder: &Path) -> Vec<ReplacedNode<'_>> {
    vec![yolo_ros(folder), isaac_yolov8(folder), isaac_rtdetr(folder)]
}

/// yolo_ros with a network beside the .pt that its parameter names.
pub fn yolo_ros(folder: &Path) -> ReplacedNode<'_> {
    networks::yolov8(80).save(&folder.join("own.onnx")).unwrap();
    let bag = folder.join("images");
    recording::write(&bag).unwrap();
    let model = folder.join("own.pt");
    let text = format!(
        "model_type: YOLO\n    model: {}\n    device: cpu\n    yolo_encoding: bgr8\n    \
         enable: true\n    threshold: 0.5\n    iou: 0.7\n    imgsz_height: 480\n    \
         imgsz_width: 640\n    half: false\n    max_det: 30\n    agnostic_nms: false\n    \
         image_reliability: 1",
        model.display()
    );
    let output = "/yolo/detections";
    node(folder, "yolo_ros", &text, (recording::IMAGE_TOPIC, output))
}

/// The decoder of YOLOv8, with the tensors of its test.
pub fn isaac_yolov8(folder: &Path) -> ReplacedNode<'_> {
    write_tensors(&folder.join("isaac_ros_yolov8"), |header| {
        message(header, "output_tensor", &CANDIDATES)
    });
    let text = "tensor_name: output_tensor\n    confidence_threshold: 0.25\n    \
                nms_threshold: 0.45\n    num_classes: 80";
    node(folder, "isaac_ros_yolov8", text, (TENSORS, "/detections_output"))
}

/// The decoder of RT-DETR, with two boxes of which one is kept.
pub fn isaac_rtdetr(folder: &Path) -> ReplacedNode<'_> {
    let floats = |values: &[f32]| -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    };
    let labels: Vec<u8> = [2_i64, 7].iter().flat_map(|value| value.to_le_bytes()).collect();
    let boxes = floats(&[10.0, 20.0, 110.0, 70.5, 200.0, 210.0, 220.0, 230.0]);
    let scores = floats(&[0.95, 0.5]);
    write_tensors(&folder.join("isaac_ros_rtdetr"), |header| {
        let tensors = [
            ("labels", TensorType::I64, &[1, 2][..], &*labels),
            ("boxes", TensorType::F32, &[1, 2, 4], &*boxes),
            ("scores", TensorType::F32, &[1, 2], &*scores),
        ];
        let mut cdr = Vec::new();
        TensorList::encode(header, &tensors, &mut cdr).unwrap();
        cdr
    });
    let text = "labels_tensor_name: labels\n    confidence_threshold: 0.9";
    node(folder, "isaac_ros_rtdetr", text, (TENSORS, "/detections_output"))
}

fn node<'a>(
    folder: &'a Path,
    package: &'static str,
    parameters: &str,
    (input, output): (&'static str, &'static str),
) -> ReplacedNode<'a> {
    let file = folder.join(format!("{package}.yaml"));
    let text = format!("/**:\n  ros__parameters:\n    {parameters}\n");
    std::fs::write(&file, text).unwrap();
    let bag = if package == "yolo_ros" { "images" } else { package };
    ReplacedNode {
        package,
        folder,
        bag: folder.join(bag),
        files: vec![file.display().to_string()],
        overrides: Vec::new(),
        arguments: Vec::new(),
        channel: "camera",
        input,
        output,
    }
}

/// Writes a recording of two lists of tensors.
fn write_tensors(bag: &Path, message: impl Fn(&Header<'_>) -> Vec<u8>) {
    let mut writer = BagWriter::create(bag, BagCompression::None).unwrap();
    let text = definition(TensorList::TYPE).unwrap();
    let topic = writer.add_topic(TENSORS, TensorList::TYPE, &text, OfferedQos::default()).unwrap();
    for second in 1..=2 {
        let header = Header { stamp: Stamp::from_ros(second, 0), frame_id: "camera0" };
        writer.write(topic, header.stamp, &message(&header)).unwrap();
    }
    writer.finish().unwrap();
}
