//! `two_stage_nms.json`: circle, then footprints in which boxes that go still suppress.

use det_post::config::{ChannelKind, Config};
use det_post_types::{Box3d, Candidate, Nms3d, Object3d};
use serde_json::Value;

use crate::common::shared_data::shared_data;

const CLASSES: [&str; 2] = ["CAR", "PEDESTRIAN"];

/// A scene with what is kept of it.
pub struct TwoStages(Value);

impl TwoStages {
    /// All scenes; `None`, said so, without the shared data.
    pub fn all() -> Option<Vec<Self>> {
        let path = shared_data()?.join("dropin/messages/two_stage_nms.json");
        let cases: Vec<Value> =
            serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        assert!(!cases.is_empty());
        Some(cases.into_iter().map(Self).collect())
    }

    /// Its boxes, in the order of their scores.
    pub fn boxes(&self) -> Vec<Candidate<Object3d>> {
        let number = |value: &Value| value.as_f64().unwrap() as f32;
        let boxes = (0..).zip(self.0["boxes"].as_array().unwrap()).map(|(source, b)| {
            let bbox = Box3d {
                center: [number(&b["x"]), number(&b["y"]), 0.0],
                length_m: number(&b["length"]),
                width_m: number(&b["width"]),
                height_m: 1.0,
                yaw_rad: number(&b["yaw"]),
            };
            let class = CLASSES.iter().position(|name| b["class"] == *name).unwrap() as u32;
            let bbox = Object3d { bbox, ..Object3d::default() };
            Candidate { bbox, score: number(&b["score"]), class, source }
        });
        boxes.collect()
    }

    /// Circle, then a suppression of this kind: `bev_fast` or `bev`.
    pub fn stages(&self, second: &str) -> Vec<Nms3d> {
        let overrides = [
            "l.input:=/points",
            "l.head:=centerpoint_autoware",
            "l.encoder_path:=e.onnx",
            "l.model_path:=m.onnx",
            &format!("l.nms.kind:=[circle, {second}]"),
            &format!("l.nms.circle_radius_m:={}", self.0["circle_radius_m"]),
            &format!("l.nms.iou_thresholds:={}", self.0["iou_threshold"]),
            &format!("l.nms.search_distance_m:={}", self.0["search_distance_m"]),
        ];
        let config = Config::load(&[], &overrides.map(str::to_owned)).unwrap();
        let ChannelKind::Lidar(lidar) = &config.channels[0].kind else { panic!() };
        let mut stages = lidar.nms.clone();
        // Of this case's two classes.
        match &mut stages[1] {
            Nms3d::Bev(bev) => bev.forbidden_pairs = vec![[0, 1]],
            Nms3d::BevFast(bev) => bev.forbidden_pairs = vec![[0, 1]],
            other => panic!("{other:?}"),
        }
        stages
    }

    /// Indices of the boxes that are kept: `kept`, `kept_by_a_greedy_stage`, `after_circle`.
    pub fn indices(&self, key: &str) -> Vec<u32> {
        let indices = self.0[key].as_array().unwrap().iter();
        indices.map(|index| index.as_u64().unwrap() as u32).collect()
    }
}
