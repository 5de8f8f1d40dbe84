//! Peers that know the types of only Autoware or Isaac ROS.

use std::path::Path;

use det_post::node::DIAGNOSTICS_TOPIC;
use det_post_ros::messages::{DetectedObjects, Detection2DArray, DiagnosticArray, TensorList};
use det_post_ros::middleware::InputKind;
use serde_json::{Value, json};

use super::common::yolov8_tensor::{CANDIDATES, FOUND, tensor};
use super::node::{PROGRAM, Program, await_status};
use super::peer::{turn, with};
use super::recording::CLOUD_TOPIC;
use super::session::{LIDAR_OUT, messages, sample};

#[test]
fn a_tracker_of_autoware_receives_objects() {
    objects_are_received("detected_objects", DetectedObjects::TYPE);
}

#[test]
fn a_tracker_of_autoware_before_2024_06_receives_objects() {
    objects_are_received("auto_detected_objects", DetectedObjects::FORMER_TYPE);
}

/// A peer that knows only this type subscribes to the detections of the sample's lidar.
fn objects_are_received(output_type: &str, type_name: &str) {
    let turn = turn();
    let Some(mut peer) = turn.peer() else { return };
    let output_type = format!("lidar.output_type:={output_type}");
    let program = Program::start_sample(turn.domain, &[&output_type]);
    let reliable = json!({"reliable": true, "depth": 100});
    peer.reader(LIDAR_OUT, type_name, &reliable, 1);
    peer.writer(CLOUD_TOPIC, InputKind::PointCloud2.type_name(), &reliable, 1);
    let (.., cloud) =
        messages(&sample().join("drive")).into_iter().find(|(of, ..)| of == CLOUD_TOPIC).unwrap();
    let cloud: String = cloud.iter().map(|byte| format!("{byte:02x}")).collect();
    peer.ask(&json!({"op": "raw", "id": CLOUD_TOPIC, "hex": cloud}));
    let found = peer.take(LIDAR_OUT, 1);
    let [array] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(array["header"]["frame_id"], "base_link");
    let objects = array["objects"].as_array().unwrap();
    assert!(!objects.is_empty(), "{array}");
    for object in objects {
        let probability = object["existence_probability"].as_f64().unwrap();
        assert!((0.0..=1.0).contains(&probability), "{object}");
        let classes = object["classification"].as_array().unwrap();
        assert_eq!((classes.len(), &classes[0]["probability"]), (1, &json!(1.0)), "{object}");
        let kinematics = &object["kinematics"];
        let orientation = &kinematics["pose_with_covariance"]["pose"]["orientation"];
        let [x, y, z, w] = ["x", "y", "z", "w"].map(|axis| orientation[axis].as_f64().unwrap());
        assert!((x, y) == (0.0, 0.0) && (z * z + w * w - 1.0).abs() < 1e-9, "{object}");
        let size = &object["shape"]["dimensions"];
        assert!(["x", "y", "z"].iter().all(|axis| size[axis].as_f64().unwrap() > 0.0), "{object}");
    }
    assert_eq!(program.interrupt().0, Some(0));
}

/// A list with the tensor of the candidates, `more` in its fields.
fn list(more: &Value) -> Value {
    let (dims, data) = tensor(&CANDIDATES);
    let [_, channels, num] = dims.map(u64::from);
    let tensor = json!({"name": "output_tensor", "shape": {"rank": 3, "dims": dims},
        "data_type": 9, "strides": [4 * channels * num, 4 * num, 4], "data": data});
    let header = json!({"stamp": {"sec": 12, "nanosec": 34}, "frame_id": "camera0"});
    json!({"header": header, "tensors": [with(tensor, more)]})
}

#[test]
fn an_encoder_of_isaac_ros_has_its_tensors_decoded() {
    let turn = turn();
    let Some(mut peer) = turn.peer() else { return };
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("decoder.yaml");
    let text = "/**:\n  ros__parameters:\n    diagnostics_period_s: 0.1\n    decoder: {head: \
                isaac_ros_yolov8, input: tensor_sub, output: detections_output, qos: {reliability: \
                reliable}}\n";
    std::fs::write(&config, text).unwrap();
    let program = Program::start(Path::new(PROGRAM), turn.domain, &config, &[]);
    let reliable = json!({"reliable": true, "depth": 100});
    peer.reader(DIAGNOSTICS_TOPIC, DiagnosticArray::TYPE, &reliable, 1);
    peer.reader("/detections_output", Detection2DArray::TYPE, &reliable, 1);
    peer.writer("/tensor_sub", TensorList::TYPE, &reliable, 1);

    peer.write("/tensor_sub", &list(&json!({})));
    let found = peer.take("/detections_output", 1);
    let [array] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(array["header"], list(&json!({}))["header"]);
    let boxes = array["detections"].as_array().unwrap();
    assert_eq!(boxes.len(), FOUND.len());
    for (found, (class, score, [x, y, width, height])) in boxes.iter().zip(FOUND) {
        let hypothesis = &found["results"][0]["hypothesis"];
        assert_eq!(*hypothesis, json!({"class_id": class.to_string(), "score": f64::from(score)}));
        let center = json!({"position": {"x": x, "y": y}, "theta": 0.0});
        assert_eq!(found["bbox"], json!({"center": center, "size_x": width, "size_y": height}));
    }

    // (what is wrong, the status that shows it, a part of its message)
    let input = "det_post: decoder: input";
    for (wrong, status, part) in [
        (json!({"strides": [4, 4, 4]}), input, "inconsistent_layout"),
        (json!({"data_type": 0}), input, "inconsistent_layout"),
        (json!({"data": [1, 2, 3]}), input, "inconsistent_layout"),
        (json!({"shape": {"rank": 2, "dims": [1, 84, 4]}}), input, "inconsistent_layout"),
        (json!({"name": "boxes"}), "det_post: decoder: frames", "no tensor output_tensor"),
    ] {
        peer.write("/tensor_sub", &list(&wrong));
        let status = await_status(&mut peer, status, |status| status.level > 0);
        assert!(status.message.contains(part), "{wrong}: {status:?}");
    }
    peer.write("/tensor_sub", &list(&json!({})));
    assert_eq!(peer.take("/detections_output", 1).len(), 1, "only good ones");
    assert_eq!(program.interrupt().0, Some(0));
}
