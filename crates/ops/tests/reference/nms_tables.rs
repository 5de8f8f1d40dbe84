//! Suppression and overlap against tables that other projects publish.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use det_post_ops::nms::Workspace;
use det_post_ops::nms::bev::nms_bev;
use det_post_ops::nms::circle::nms_circle;
use det_post_ops::nms::geometry::{iou_2d, iou_3d, rotated_intersection, rotated_iof, rotated_iou};
use det_post_ops::nms::iou::nms_iou;
use det_post_ops::nms::iou_3d::nms_iou_3d;
use det_post_testing::shared_data;
use det_post_types::{
    Box2d, Box3d, Candidate, CircleThreshold, ClassMode, Kept, NmsBev, NmsCircle, NmsIou, NmsIou3d,
    Object3d, RotatedBox2d,
};
use serde_json::Value;

const TABLES: &str = "tables/tables.json";
const LITERALS: &str = "tables/mmdet3d_mmcv_autoware_literals.json";
const CENTER_HEAD: &str = "reference/centerpoint_head_128.json";

fn read(name: &str) -> Option<Value> {
    let text = std::fs::read_to_string(shared_data::shared_data()?.join(name)).unwrap();
    Some(serde_json::from_str(&text).unwrap())
}

fn floats(value: &Value) -> Vec<f32> {
    value.as_array().unwrap().iter().map(|v| v.as_f64().unwrap() as f32).collect()
}

fn rows(value: &Value) -> Vec<Vec<f32>> {
    value.as_array().unwrap().iter().map(floats).collect()
}

fn integers(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|v| v.as_u64().unwrap() as u32).collect()
}

fn float(value: &Value) -> f32 {
    value.as_f64().unwrap() as f32
}

fn candidates<B>(
    boxes: impl IntoIterator<Item = B>,
    scores: &[f32],
    classes: &[u32],
) -> Vec<Candidate<B>> {
    (0..)
        .zip(boxes)
        .map(|(source, bbox)| {
            let (score, class) = (scores[source as usize], classes[source as usize]);
            Candidate { bbox, score, class, source }
        })
        .collect()
}

fn indices(keep: &[Kept]) -> Vec<u32> {
    keep.iter().map(|kept| kept.index).collect()
}

/// From x y z dx dy dz yaw.
fn object(row: &[f32]) -> Object3d {
    let bbox = Box3d {
        center: [row[0], row[1], row[2]],
        length_m: row[3],
        width_m: row[4],
        height_m: row[5],
        yaw_rad: row[6],
    };
    Object3d { bbox, ..Object3d::default() }
}

fn run_iou(candidates: &[Candidate<Box2d>], params: &NmsIou) -> Vec<u32> {
    let mut keep = Vec::new();
    nms_iou(candidates, params, &mut Workspace::with_capacity(candidates.len()), &mut keep)
        .unwrap();
    indices(&keep)
}

fn run_bev(
    candidates: &[Candidate<Object3d>],
    iou_threshold: f32,
    class_mode: ClassMode,
) -> Vec<u32> {
    let params = NmsBev {
        iou_thresholds: vec![iou_threshold],
        search_distance_m: f32::INFINITY,
        forbidden_pairs: vec![],
        class_mode,
    };
    let mut keep = Vec::new();
    nms_bev(candidates, &params, &mut Workspace::default(), &mut keep).unwrap();
    indices(&keep)
}

fn run_circle(candidates: &[Candidate<Object3d>], params: &NmsCircle) -> Vec<u32> {
    let mut keep = Vec::new();
    nms_circle(candidates, params, &mut Workspace::default(), &mut keep).unwrap();
    indices(&keep)
}

/// Every pair of rows against a table of numbers.
fn check_pairs(
    table: &Value,
    boxes: (&Value, &Value),
    tolerance: f32,
    measure: impl Fn(&[f32], &[f32]) -> f32,
) {
    let (first, second, expected) = (rows(boxes.0), rows(boxes.1), rows(table));
    assert_eq!(expected.len(), first.len());
    for (a, expected) in first.iter().zip(expected) {
        assert_eq!(expected.len(), second.len());
        for (b, expected) in second.iter().zip(expected) {
            let found = measure(a, b);
            assert!((found - expected).abs() <= tolerance, "{found} for {expected}: {a:?} {b:?}");
        }
    }
}

#[test]
fn mmcv_batched_nms() {
    let Some(tables) = read(TABLES) else { return };
    let table = &tables["mmcv_batched_nms_iou_0p7"];
    let boxes = rows(&table["boxes"]).into_iter().map(|b| Box2d::new(b[0], b[1], b[2], b[3]));
    let candidates = candidates(boxes, &floats(&table["scores"]), &integers(&table["idxs"]));
    assert_eq!(candidates.len(), 949);
    let params = NmsIou {
        iou_threshold: 0.7,
        offset: 0,
        class_mode: ClassMode::Aware,
        score_threshold: None,
        max_num: usize::MAX,
    };
    let expected = integers(&table["keep"]);
    assert_eq!(expected.len(), 554);
    assert_eq!(run_iou(&candidates, &params), expected);
    let first = NmsIou { max_num: 100, ..params };
    assert_eq!(run_iou(&candidates, &first), expected[..100]);
}

#[test]
fn onnx_non_max_suppression() {
    let Some(tables) = read(TABLES) else { return };
    let cases = tables["onnx_nms"].as_array().unwrap();
    assert_eq!(cases.len(), 10);
    for case in cases {
        let by_center = case["center_point_box"] == 1;
        let params = NmsIou {
            iou_threshold: float(&case["iou"]),
            offset: 0,
            class_mode: ClassMode::Aware,
            score_threshold: Some(float(&case["score"])),
            max_num: case["max_output"].as_u64().unwrap() as usize,
        };
        let mut selected = Vec::new();
        let batches =
            case["boxes"].as_array().unwrap().iter().zip(case["scores"].as_array().unwrap());
        for (batch, (boxes, scores)) in batches.enumerate() {
            // Corners may be any two that lie across: y1 x1 y2 x2.
            let boxes: Vec<Box2d> = rows(boxes)
                .iter()
                .map(|b| match by_center {
                    true => Box2d::from_center(b[0], b[1], b[2], b[3]),
                    false => {
                        Box2d::new(b[1].min(b[3]), b[0].min(b[2]), b[1].max(b[3]), b[0].max(b[2]))
                    }
                })
                .collect();
            for (class, scores) in rows(scores).iter().enumerate() {
                let classes = vec![class as u32; boxes.len()];
                let candidates = candidates(boxes.iter().copied(), scores, &classes);
                let kept = run_iou(&candidates, &params);
                selected.extend(kept.iter().map(|&index| [batch as u32, class as u32, index]));
            }
        }
        let expected: Vec<Vec<u32>> =
            case["selected"].as_array().unwrap().iter().map(integers).collect();
        assert_eq!(selected.len(), expected.len(), "{}", case["name"]);
        assert!(selected.iter().zip(&expected).all(|(a, b)| a[..] == b[..]), "{}", case["name"]);
    }
}

#[test]
fn mmdet3d_circle_nms() {
    let Some(tables) = read(TABLES) else { return };
    let table = &tables["mmdet3d_circle_nms_0p175"];
    let dets = rows(&table["dets_x_y_score"]);
    let scores: Vec<f32> = dets.iter().map(|det| det[2]).collect();
    let objects = dets.iter().map(|det| object(&[det[0], det[1], 0.0, 1.0, 1.0, 1.0, 0.0]));
    let candidates = candidates(objects, &scores, &vec![0; dets.len()]);
    let params = NmsCircle {
        thresholds: vec![0.175],
        reading: CircleThreshold::SquaredDistance,
        class_mode: ClassMode::Agnostic,
    };
    let mut kept = run_circle(&candidates, &params);
    kept.sort_unstable();
    assert_eq!(kept, integers(&table["keep_sorted"]));
}

#[test]
fn mmdet3d_aligned_3d_nms() {
    let Some(tables) = read(LITERALS) else { return };
    let table = &tables["mmdet3d_aligned_3d_nms"];
    let objects = rows(&table["boxes"]).into_iter().map(|b| {
        let center = [0, 1, 2].map(|axis| 0.5 * (b[axis] + b[axis + 3]));
        let size = [0, 1, 2].map(|axis| b[axis + 3] - b[axis]);
        object(&[center[0], center[1], center[2], size[0], size[1], size[2], 0.0])
    });
    let candidates = candidates(objects, &floats(&table["scores"]), &integers(&table["classes"]));
    let params = NmsIou3d {
        iou_thresholds: vec![float(&table["iou_threshold"])],
        class_mode: ClassMode::Aware,
    };
    let mut keep = Vec::new();
    nms_iou_3d(&candidates, &params, &mut Workspace::default(), &mut keep).unwrap();
    assert_eq!(indices(&keep), integers(&table["keep_in_order"]));
}

#[test]
fn mmcv_overlaps() {
    let Some(tables) = read(LITERALS) else { return };
    let rotated =
        |b: &[f32]| RotatedBox2d { cx: b[0], cy: b[1], width: b[2], height: b[3], angle_rad: b[4] };
    let table = &tables["mmcv_box_iou_rotated"];
    let boxes = (&table["boxes1"], &table["boxes2"]);
    check_pairs(&table["iou"], boxes, 1e-4, |a, b| rotated_iou(&rotated(a), &rotated(b)));
    check_pairs(&table["iof"], boxes, 1e-4, |a, b| rotated_iof(&rotated(a), &rotated(b)));

    let bbox = |b: &[f32]| object(b).bbox;
    let table = &tables["mmcv_boxes_overlap_bev"];
    let boxes = (&table["boxes1"], &table["boxes2"]);
    check_pairs(&table["overlap_area"], boxes, 1e-4, |a, b| {
        rotated_intersection(&bbox(a).footprint(), &bbox(b).footprint())
    });
    let table = &tables["mmcv_boxes_iou3d"];
    let boxes = (&table["boxes1"], &table["boxes2"]);
    check_pairs(&table["iou"], boxes, 1e-4, |a, b| iou_3d(&bbox(a), &bbox(b)));

    let flat = |b: &[f32]| Box2d::new(b[0], b[1], b[2], b[3]);
    for case in tables["mmcv_bbox_overlaps_offset1"]["cases"].as_array().unwrap() {
        let boxes = (&case["boxes1"], &case["boxes2"]);
        check_pairs(&case["iou"], boxes, 1e-6, |a, b| iou_2d(&flat(a), &flat(b), 1.0));
    }
}

#[test]
fn mmcv_nms3d() {
    let Some(tables) = read(LITERALS) else { return };
    let run = |table: &Value, has_yaw: bool| {
        let boxes = rows(&table["boxes"]);
        let objects = boxes.iter().map(|b| {
            let yaw = if has_yaw { b[6] } else { 0.0 };
            object(&[b[0], b[1], b[2], b[3], b[4], b[5], yaw])
        });
        let candidates = candidates(objects, &floats(&table["scores"]), &vec![0; boxes.len()]);
        run_bev(&candidates, float(&table["iou_threshold"]), ClassMode::Agnostic)
    };
    for (name, has_yaw) in [("mmcv_nms3d_5", true), ("mmcv_nms3d_normal_5", false)] {
        let table = &tables[name];
        assert_eq!(run(table, has_yaw), integers(&table["keep_in_order"]), "{name}");
    }
    let table = &tables["mmcv_nms3d_555"];
    let num_kept = |has_yaw| run(table, has_yaw).len() as u64;
    assert_eq!(Some(num_kept(true)), table["kept_count_rotated_exact_polygons"].as_u64());
    assert_eq!(Some(num_kept(false)), table["kept_count_yaw_ignored"].as_u64());
}

#[test]
fn autoware_bev_nms() {
    let Some(tables) = read(LITERALS) else { return };
    let table = &tables["autoware_iou_bev_nms"];
    let objects = table["objects"].as_array().unwrap();
    let boxes = objects.iter().map(|o| {
        let [x, y, dx, dy, yaw] = ["x", "y", "dx", "dy", "yaw"].map(|key| float(&o[key]));
        object(&[x, y, 0.0, dx, dy, 1.5, yaw])
    });
    let scores: Vec<f32> = objects.iter().map(|o| float(&o["score"])).collect();
    let classes: Vec<u32> = objects.iter().map(|o| u32::from(o["cls"] != "car")).collect();
    let candidates = candidates(boxes, &scores, &classes);
    let params = NmsBev {
        iou_thresholds: vec![float(&table["iou_threshold"])],
        search_distance_m: float(&table["search_distance_2d"]),
        forbidden_pairs: vec![],
        class_mode: ClassMode::Agnostic,
    };
    let mut keep = Vec::new();
    nms_bev(&candidates, &params, &mut Workspace::default(), &mut keep).unwrap();
    let kept = indices(&keep);
    assert_eq!(Some(kept.len() as u64), table["kept_count"].as_u64());
    assert!(integers(&table["must_keep"]).iter().all(|index| kept.contains(index)));
}

/// The decoded boxes of the stored CenterPoint heads; the class is the task.
fn centerpoint_candidates(reference: &Value) -> Vec<Candidate<Object3d>> {
    let decoded = reference["decoded"].as_array().unwrap();
    let scores: Vec<f32> = decoded.iter().map(|d| float(&d["score"])).collect();
    let tasks: Vec<u32> = decoded.iter().map(|d| d["task"].as_u64().unwrap() as u32).collect();
    let boxes = decoded.iter().map(|d| {
        // x y z w l h vx vy yaw, the yaw clockwise from -y.
        let b = floats(&d["box"]);
        object(&[b[0], b[1], b[2], b[4], b[3], b[5], -b[8] - std::f32::consts::FRAC_PI_2])
    });
    candidates(boxes, &scores, &tasks)
}

fn check_per_task(candidates: &[Candidate<Object3d>], kept: &[u32], expected: &Value) {
    for (task, expected) in (0..).zip(expected.as_array().unwrap()) {
        let of_task: Vec<u32> = kept
            .iter()
            .copied()
            .filter(|&index| candidates[index as usize].class == task)
            .collect();
        assert_eq!(of_task, integers(expected), "task {task}");
    }
}

#[test]
fn centerpoint_circle_nms_per_task() {
    let Some(reference) = read(CENTER_HEAD) else { return };
    let candidates = centerpoint_candidates(&reference);
    let params = NmsCircle {
        thresholds: floats(&reference["min_radius"]),
        reading: CircleThreshold::SquaredDistance,
        class_mode: ClassMode::Aware,
    };
    let kept = run_circle(&candidates, &params);
    check_per_task(&candidates, &kept, &reference["keep_circle_per_task"]);
}

#[test]
fn centerpoint_rotated_nms_per_task() {
    let Some(reference) = read(CENTER_HEAD) else { return };
    let candidates = centerpoint_candidates(&reference);
    let kept = run_bev(&candidates, 0.2, ClassMode::Aware);
    check_per_task(&candidates, &kept, &reference["keep_rotate_per_task"]);
}

#[test]
fn centerpoint_circle_nms_over_all_tasks() {
    let Some(reference) = read(CENTER_HEAD) else { return };
    let mut candidates = centerpoint_candidates(&reference);
    candidates.retain(|candidate| candidate.score > 0.35);
    let params = NmsCircle {
        thresholds: vec![0.5],
        reading: CircleThreshold::Radius,
        class_mode: ClassMode::Agnostic,
    };
    let kept: Vec<u32> = run_circle(&candidates, &params)
        .into_iter()
        .map(|index| candidates[index as usize].source)
        .collect();
    assert_eq!(kept, integers(&reference["keep_circle_0p5_score_0p35"]));
}
