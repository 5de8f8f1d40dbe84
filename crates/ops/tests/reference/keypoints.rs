//! Keypoints against the shared data: the formulas of ultralytics in f64.

use det_post_ops::decode::keypoints::{KeypointMapping, keypoints};
use det_post_testing::npz::Npz;
use det_post_testing::require::{Need, skip};
use det_post_testing::shared_data::shared_data;
use det_post_types::{Affine2, KeypointRows, Size, TensorValues, TensorView};
use serde_json::Value;

fn number(value: &Value) -> f32 {
    value.as_f64().unwrap() as f32
}

fn check(name: &str) {
    let Some(data) = shared_data() else { return };
    let folder = data.join("pose");
    if !folder.is_dir() {
        return skip(Need::Data, format_args!("{} is no folder", folder.display()));
    }
    let text = std::fs::read_to_string(folder.join(format!("{name}_expected.json"))).unwrap();
    let case: Value = serde_json::from_str(&text).unwrap();
    let whole = |value: &Value| value.as_u64().unwrap() as usize;
    let [num, num_values] = [&case["keypoints"], &case["values_per_keypoint"]].map(whole);
    let rows = match case["end_to_end"].as_bool().unwrap() {
        true => KeypointRows::of_final_rows(num, num_values),
        false => KeypointRows::of_planes(whole(&case["classes"]), num, num_values),
    };
    let tensors = Npz::open(&folder.join(format!("{name}.npz")));
    let shape = &tensors.array("output0").shape;
    let output = TensorView::new(shape, TensorValues::F32(tensors.f32("output0"))).unwrap();
    let objects = case["objects"].as_array().unwrap();
    let sources: Vec<u32> = objects.iter().map(|object| whole(&object["index"]) as u32).collect();
    let size = &case["source_size"];
    // The mapping of the references: one gain, and whole padding.
    let of = &case["letterbox"];
    let gain = number(&of["gain"]);
    let offset = [number(&of["left"]), number(&of["top"])].map(|padding| -padding / gain);
    let mapping = KeypointMapping {
        source_from_network: Affine2 { scale: [1.0 / gain; 2], offset },
        source: Size::new(whole(&size[0]) as u32, whole(&size[1]) as u32),
    };
    let mut found = Vec::new();
    keypoints(&output, &rows, &sources, &mapping, &mut found).unwrap();
    assert_eq!(found.len(), objects.len() * num);
    assert!(!found.is_empty());
    for (object, found) in objects.iter().zip(found.chunks_exact(num)) {
        for (at, found) in found.iter().enumerate() {
            let expected = &object["keypoints_source"][at];
            let near = [(found.x, &expected[0]), (found.y, &expected[1])]
                .iter()
                .all(|(found, expected)| (found - number(expected)).abs() < 0.01);
            assert!(near, "{name}: {found:?}, expected {expected}");
            let score = object["visibility"][at].as_f64().map_or(1.0, |score| score as f32);
            assert!((found.score - score).abs() < 1e-6, "{name}: {found:?}, expected {score}");
        }
    }
}

#[test]
fn keypoints_of_yolov8_equal_the_references() {
    check("v8_k17_640");
    check("v8_c3_k4_xy");
}

#[test]
fn keypoints_of_final_rows_equal_the_references() {
    check("end_to_end_k17_320");
}
