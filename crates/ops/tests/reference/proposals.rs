//! Proposals of Autoware's LiDAR networks through all stages: the boxes that its nodes keep
//! (`transfusion` and `bevfusion` of the shared data).

use std::f64::consts::PI;
use std::path::Path;

use det_post_ops::decode::gather::gather_3d;
use det_post_ops::decode::proposals::{ProposalOutputs, decode_proposals};
use det_post_ops::decode::select::select;
use det_post_ops::nms::{Workspace, suppress_stages_3d};
use det_post_testing::npz::Npz;
use det_post_testing::shared_data::shared_data;
use det_post_types::{
    Candidate, Candidates, CircleThreshold, ClassMode, Detection3d, Kept, Nms3d, NmsBevFast,
    NmsCircle, Object3d, ProposalDecode, ProposalLayout, ScoreThresholds, TensorValues, TensorView,
};
use serde_json::Value;

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

fn numbers(value: &Value) -> Vec<f32> {
    value.as_array().unwrap().iter().map(|item| number(item) as f32).collect()
}

/// A case with its parameters.
struct Case {
    name: String,
    expected: Value,
    npz: Npz,
    layout: ProposalLayout,
}

impl Case {
    fn open(folder: &Path, name: &str, layout: ProposalLayout) -> Self {
        let text = std::fs::read_to_string(folder.join(format!("{name}_expected.json"))).unwrap();
        Self {
            name: format!("{layout:?} {name}"),
            expected: serde_json::from_str(&text).unwrap(),
            npz: Npz::open(&folder.join(format!("{name}_raw.npz"))),
            layout,
        }
    }

    fn of(&self, key: &str) -> &Value {
        &self.expected["parameters"][key]
    }

    fn class_names(&self) -> Vec<&str> {
        self.of("class_names")
            .as_array()
            .unwrap()
            .iter()
            .map(|name| name.as_str().unwrap())
            .collect()
    }

    fn params(&self) -> ProposalDecode {
        let names = self.class_names();
        let score_thresholds = match self.of("score_threshold") {
            Value::Null => ScoreThresholds {
                distance_upper_limits_m: numbers(self.of("distance_bin_upper_limits")),
                per_class: names
                    .iter()
                    .map(|name| numbers(&self.of("min_confidence_scores")[name]))
                    .collect(),
            },
            // Above, not at least.
            threshold => {
                ScoreThresholds::uniform((number(threshold) as f32).next_up(), names.len())
            }
        };
        let factor = self.of("out_size_factor").as_f64().unwrap_or(4.0) as f32;
        let (range, size) = (numbers(self.of("point_cloud_range")), numbers(self.of("voxel_size")));
        ProposalDecode {
            layout: self.layout,
            origin_m: [range[0], range[1]],
            cell_size_m: [size[0] * factor, size[1] * factor],
            score_thresholds,
            yaw_norm_thresholds: numbers(self.of("yaw_norm_thresholds")),
        }
    }

    /// Circle, then footprints.
    fn stages(&self) -> Vec<Nms3d> {
        let class = |name| self.class_names().iter().position(|of| *of == name);
        let pedestrian = class("PEDESTRIAN").unwrap() as u32;
        let others = (0..self.class_names().len() as u32).filter(|&of| of != pedestrian);
        vec![
            Nms3d::Circle(NmsCircle {
                thresholds: vec![number(self.of("circle_nms_dist_threshold")) as f32],
                reading: CircleThreshold::Radius,
                class_mode: ClassMode::Agnostic,
            }),
            Nms3d::BevFast(NmsBevFast {
                iou_thresholds: vec![number(self.of("iou_nms_threshold")) as f32],
                search_distance_m: number(self.of("iou_nms_search_distance_2d")) as f32,
                unlimited_pairs: Vec::new(),
                forbidden_pairs: others.map(|of| [pedestrian, of]).collect(),
                class_mode: ClassMode::Agnostic,
            }),
        ]
    }

    fn decode(&self) -> Candidates<Object3d> {
        let [boxes, scores, others] = match self.layout {
            ProposalLayout::TransFusion => ["bbox_pred0", "cls_score0", "dir_cls_pred0"],
            ProposalLayout::BevFusion => ["bbox_pred", "score", "label_pred"],
        };
        let view =
            |name: &str, values| TensorView::new(&self.npz.array(name).shape, values).unwrap();
        let floats = |name: &str| view(name, TensorValues::F32(self.npz.f32(name)));
        let outputs = ProposalOutputs {
            boxes: floats(boxes),
            scores: floats(scores),
            directions_or_labels: match self.layout {
                ProposalLayout::TransFusion => floats(others),
                ProposalLayout::BevFusion => view(others, TensorValues::I64(self.npz.i64(others))),
            },
        };
        let mut candidates = Candidates::with_capacity(1000);
        decode_proposals(&outputs, &self.params(), &mut candidates).unwrap();
        select(&mut candidates, 1000);
        candidates
    }

    fn check(&self) {
        let candidates = self.decode();
        let boxes = candidates.as_slice();
        let proposals = |key: &str| -> Vec<u32> {
            let found = self.expected[key].as_array().unwrap().iter();
            found.map(|proposal| proposal.as_u64().unwrap() as u32).collect()
        };
        let sources: Vec<u32> = boxes.iter().map(|candidate| candidate.source).collect();
        assert_eq!(sources, proposals("proposals_after_score"), "{}", self.name);
        let stages = self.stages();
        assert_eq!(
            of_kept(boxes, &suppressed(boxes, &stages[..1])),
            proposals("proposals_after_circle"),
            "{}",
            self.name
        );
        let kept = suppressed(boxes, &stages);
        assert_eq!(of_kept(boxes, &kept), proposals("proposals_after_iou"), "{}", self.name);
        let mut detections = Vec::with_capacity(1000);
        assert_eq!(gather_3d(boxes, &kept, 1000, &mut detections), 0);
        let objects = self.expected["objects"].as_array().unwrap();
        assert_eq!(detections.len(), objects.len(), "{}", self.name);
        for (found, object) in detections.iter().zip(objects) {
            self.compare(found, object);
        }
    }

    fn compare(&self, found: &Detection3d, object: &Value) {
        let Detection3d { class, score, object: Object3d { bbox, velocity_mps, .. } } = *found;
        assert_eq!(u64::from(class), object["class_index"], "{}", self.name);
        assert_eq!(score, number(&object["score"]) as f32, "{}", self.name);
        let [x, y, z] = bbox.center;
        let mut pairs = vec![
            (x, "x"),
            (y, "y"),
            (z, "z"),
            (bbox.length_m, "length"),
            (bbox.width_m, "width"),
            (bbox.height_m, "height"),
        ];
        if let Some([vx, vy]) = velocity_mps {
            pairs.extend([(vx, "vx"), (vy, "vy")]);
        }
        for (value, key) in pairs {
            let expected = number(&object[key]);
            let difference = (f64::from(value) - expected).abs();
            assert!(difference <= 1e-4, "{}: {key} {value}, expected {expected}", self.name);
        }
        let turn = (f64::from(bbox.yaw_rad) - number(&object["yaw"])).rem_euclid(2.0 * PI);
        assert!(turn.min(2.0 * PI - turn) <= 1e-5, "{}: yaw {}", self.name, bbox.yaw_rad);
    }
}

fn suppressed(boxes: &[Candidate<Object3d>], stages: &[Nms3d]) -> Vec<Kept> {
    let mut keep = Vec::new();
    suppress_stages_3d(boxes, stages, &mut Workspace::default(), &mut keep).unwrap();
    keep
}

fn of_kept(boxes: &[Candidate<Object3d>], kept: &[Kept]) -> Vec<u32> {
    kept.iter().map(|kept| boxes[kept.index as usize].source).collect()
}

#[test]
fn autoware_s_boxes_are_kept() {
    let Some(data) = shared_data() else { return };
    let cases: [(&str, ProposalLayout, &[&str]); 2] = [
        ("transfusion", ProposalLayout::TransFusion, &["edges", "nothing", "p200", "p500"]),
        (
            "bevfusion",
            ProposalLayout::BevFusion,
            &["edges", "p200_bins", "p500_bins", "p500_one_threshold", "p500_seven_classes"],
        ),
    ];
    for (folder, layout, names) in cases {
        for name in names {
            Case::open(&data.join(folder), name, layout).check();
        }
    }
}
