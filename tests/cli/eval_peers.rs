//! The evaluation's figures on random frames, beside pycocotools and an
//! implementation in Python of its own, where `DET_POST_PEER_PYTHON` names a
//! Python that has `numpy` and `pycocotools`.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
#![allow(clippy::print_stdout, reason = "tests say what they skipped and what they ran")]

use crate::common::require;
use std::process::Command;

use det_post_eval::box_overlap::{Overlaps, View};
use det_post_eval::center_distance::Matching;
use det_post_eval::image::Measure;
use det_post_eval::parts::{FrameParts, Parts};
use det_post_eval::{Filter2d, Filter3d, Frame2d, Frame3d, GroundTruth2d, GroundTruth3d, image};
use det_post_types::{
    Box2d, Box3d, Detection2d, Detection3d, Evidence, ImageBox, Keypoint, Object3d, Rle, Size,
};
use require::{Need, skip};
use serde_json::{Value, json};

const NUM_CLASSES: u32 = 3;

/// A class of its own with only detections, and one with only truth.
const ONLY_FOUND: u32 = NUM_CLASSES;
const ONLY_THERE: u32 = NUM_CLASSES + 1;

struct Random(u64);

impl Random {
    /// Uniform in [0, 1).
    fn unit(&mut self) -> f32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1_u64 << 24) as f32
    }

    fn between(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * self.unit()
    }

    fn below(&mut self, n: u32) -> u32 {
        (self.unit() * n as f32) as u32
    }

    /// Scores with many ties.
    fn score(&mut self) -> f32 {
        let score = self.unit();
        if self.unit() < 0.5 { (score * 20.0).round() / 20.0 } else { score }
    }
}

fn frame_3d(random: &mut Random, noise: f32) -> Frame3d {
    let mut frame = Frame3d::default();
    for _ in 0..random.below(14) {
        let class = random.below(NUM_CLASSES);
        let bbox = Box3d {
            center: [
                random.between(-45.0, 45.0),
                random.between(-45.0, 45.0),
                random.between(-1.0, 1.0),
            ],
            length_m: random.between(0.6, 8.0),
            width_m: random.between(0.6, 3.0),
            height_m: random.between(1.0, 3.0),
            yaw_rad: random.between(-4.0, 4.0),
        };
        let velocity_mps = [random.between(-9.0, 9.0), random.between(-9.0, 9.0)];
        let evidence = Evidence::Points(random.below(40));
        frame.truth.push(GroundTruth3d { class, bbox, velocity_mps, evidence, visibility: 1.0 });
        while random.unit() < 0.6 {
            let mut jitter = |value: f32| value + noise * random.between(-1.0, 1.0);
            let found = Box3d {
                center: bbox.center.map(&mut jitter),
                length_m: jitter(bbox.length_m).max(0.1),
                width_m: jitter(bbox.width_m).max(0.1),
                height_m: jitter(bbox.height_m).max(0.1),
                yaw_rad: jitter(bbox.yaw_rad),
            };
            let velocity = velocity_mps.map(&mut jitter);
            frame.detections.push(Detection3d {
                class: if random.unit() < 0.9 { class } else { random.below(NUM_CLASSES) },
                score: random.score(),
                object: Object3d {
                    bbox: found,
                    // One class never has a velocity, one sometimes.
                    velocity_mps: (class != 1 && (class != 2 || random.unit() < 0.5))
                        .then_some(velocity),
                    variance: None,
                },
            });
        }
    }
    for _ in 0..random.below(4) {
        let center = [random.between(-45.0, 45.0), random.between(-45.0, 45.0), 0.0];
        let bbox = Box3d { center, length_m: 4.0, width_m: 2.0, height_m: 1.5, yaw_rad: 1.0 };
        let class = random.below(ONLY_FOUND + 1);
        let object = Object3d { bbox, velocity_mps: None, variance: None };
        frame.detections.push(Detection3d { class, score: random.score(), object });
        frame.truth.push(GroundTruth3d {
            class: ONLY_THERE,
            bbox,
            velocity_mps: [0.0; 2],
            evidence: Evidence::Points(9),
            visibility: 1.0,
        });
    }
    frame
}

fn frame_2d(random: &mut Random, noise: f32) -> Frame2d {
    let mut frame = Frame2d::default();
    for _ in 0..random.below(14) {
        let class = random.below(NUM_CLASSES);
        let (x, y) = (random.between(0.0, 600.0), random.between(0.0, 300.0));
        let (width, height) = (random.between(4.0, 90.0), random.between(4.0, 90.0));
        let bbox = Box2d::new(x, y, x + width, y + height);
        frame.truth.push(GroundTruth2d { class, bbox: bbox.into(), visibility: random.unit() });
        while random.unit() < 0.65 {
            let mut jitter = |value: f32| value + noise * 10.0 * random.between(-1.0, 1.0);
            let found =
                Box2d::new(jitter(bbox.x1), jitter(bbox.y1), jitter(bbox.x2), jitter(bbox.y2));
            if found.x2 > found.x1 && found.y2 > found.y1 {
                let class = if random.unit() < 0.9 { class } else { random.below(NUM_CLASSES) };
                let score = random.score();
                frame.detections.push(Detection2d { class, score, bbox: found.into() });
            }
        }
    }
    for _ in 0..random.below(4) {
        let (x, y) = (random.between(0.0, 600.0), random.between(0.0, 300.0));
        let bbox = Box2d::new(x, y, x + 30.0, y + 25.0);
        let class = random.below(ONLY_FOUND + 1);
        let bbox = ImageBox::from(bbox);
        frame.detections.push(Detection2d { class, score: random.score(), bbox });
        frame.truth.push(GroundTruth2d { class: ONLY_THERE, bbox, visibility: 1.0 });
    }
    // More of one class than COCO takes from an image.
    for _ in 0..if random.unit() < 0.1 { 150 } else { 0 } {
        let (x, y) = (random.between(0.0, 600.0), random.between(0.0, 300.0));
        let bbox = Box2d::new(x, y, x + 30.0, y + 25.0);
        frame.detections.push(Detection2d { class: 0, score: random.score(), bbox: bbox.into() });
    }
    frame
}

/// The images that masks are of.
const IMAGE: Size = Size::new(720, 420);

/// The ellipse inside of a box.
fn ellipse(bbox: &ImageBox) -> Rle {
    let Box2d { x1, y1, x2, y2 } = bbox.bounds();
    let (cx, cy) = (f32::midpoint(x1, x2), f32::midpoint(y1, y2));
    let (mut counts, mut position) = (vec![0], 0);
    for x in 0..IMAGE.width {
        let off = (x as f32 + 0.5 - cx) / (0.5 * (x2 - x1));
        let half = 0.5 * (y2 - y1) * (1.0 - off * off).max(0.0).sqrt();
        let [first, last] = [cy - half, cy + half]
            .map(|y| y.round().clamp(0.0, IMAGE.height as f32) as u32 + x * IMAGE.height);
        if last > first {
            *counts.last_mut().unwrap() += first - position;
            counts.extend([last - first, 0]);
            position = last;
        }
    }
    *counts.last_mut().unwrap() += IMAGE.width * IMAGE.height - position;
    Rle::new(IMAGE, counts).unwrap()
}

/// Keypoints of a body inside of a box.
fn body(random: &mut Random, bbox: &ImageBox, noise: f32) -> Vec<Keypoint> {
    let Box2d { x1, y1, x2, y2 } = bbox.bounds();
    let point = |at: i32| {
        let (sin, cos) = (at as f32).sin_cos();
        let mut moved = |low: f32, high: f32, part: f32| {
            low + (high - low) * (0.5 + 0.5 * part) + 5.0 * noise * random.between(-1.0, 1.0)
        };
        let (x, y) = (moved(x1, x2, cos), moved(y1, y2, sin));
        Keypoint { x, y, score: random.below(3) as f32 }
    };
    (0..17).map(point).collect()
}

/// Masks and keypoints of a frame. Some objects have no labelled keypoint.
fn parts(random: &mut Random, frame: &Frame2d, noise: f32) -> FrameParts {
    let mut keypoints = Vec::new();
    for truth in &frame.truth {
        let is_labelled = random.unit() < 0.8;
        let mut points = body(random, &truth.bbox, 0.0);
        points.iter_mut().filter(|_| !is_labelled).for_each(|point| point.score = 0.0);
        keypoints.push(points);
    }
    let masks = frame.truth.iter().map(|truth| Some(ellipse(&truth.bbox))).collect();
    let truth = Parts { masks, keypoints };
    let found = &frame.detections;
    let detections = Parts {
        masks: found.iter().map(|found| Some(ellipse(&found.bbox))).collect(),
        keypoints: found.iter().map(|found| body(random, &found.bbox, noise)).collect(),
    };
    FrameParts { truth, detections }
}

/// What an object or a detection has beside its box, as COCO writes it.
fn parts_json(parts: &Parts, at: usize) -> Value {
    let mask = parts.mask(at).unwrap();
    let points = parts.keypoints(at).iter().flat_map(|point| [point.x, point.y, point.score]);
    json!({
        "segmentation": {"size": [IMAGE.height, IMAGE.width], "counts": mask.to_compressed()},
        "area": mask.area(),
        "keypoints": points.map(f64::from).collect::<Vec<_>>(),
        "num_keypoints": parts.num_labelled(at),
    })
}

/// All values as doubles, so that Python reads the very floats.
fn doubles(values: &[f32]) -> Vec<f64> {
    values.iter().copied().map(f64::from).collect()
}

fn box_json(bbox: &Box3d) -> Value {
    json!({
        "center": doubles(&bbox.center),
        "size": doubles(&[bbox.length_m, bbox.width_m, bbox.height_m]),
        "yaw": f64::from(bbox.yaw_rad),
    })
}

fn with(mut value: Value, more: Value) -> Value {
    let (Value::Object(fields), Value::Object(more)) = (&mut value, more) else { return value };
    fields.extend(more);
    value
}

fn space(frames: &[Frame3d]) -> Value {
    let as_json = |frame: &Frame3d| {
        let truth = frame.truth.iter().map(|t| {
            let Evidence::Points(num_points) = t.evidence else { panic!("{t:?}") };
            let more = json!({"class": t.class, "velocity": doubles(&t.velocity_mps), "num_points": num_points});
            with(box_json(&t.bbox), more)
        });
        let detections = frame.detections.iter().map(|d| {
            let velocity = d.object.velocity_mps.map(|v| doubles(&v));
            let more = json!({"class": d.class, "score": f64::from(d.score), "velocity": velocity});
            with(box_json(&d.object.bbox), more)
        });
        json!({"truth": truth.collect::<Vec<_>>(), "detections": detections.collect::<Vec<_>>()})
    };
    let mut cases = Vec::new();
    for class in 0..=ONLY_THERE {
        let (matching, overlaps) = (Matching::new(frames, class), Overlaps::new(frames, class));
        for (min_range_m, max_range_m, min_points) in
            [(0.0, 1e9, 0), (0.0, 50.0, 5), (10.0, 20.0, 5)]
        {
            let filter = Filter3d {
                min_range_m,
                max_range_m,
                min_points,
                min_pixels: 0,
                min_visibility: 0.0,
            };
            let min_overlap = [0.3, 0.5, 0.7, 0.5, 0.5][class as usize];
            let found = matching.accuracy(&filter);
            let errors = found.errors.map(|e| {
                json!({"translation_m": e.translation_m, "scale": e.scale,
                       "heading_rad": e.heading_rad, "velocity_mps": e.velocity_mps})
            });
            cases.push(json!({
                "class": class,
                "filter": {"min_range_m": min_range_m, "max_range_m": max_range_m, "min_points": min_points},
                "min_overlap": min_overlap,
                "found": {
                    "num_truth": found.num_truth,
                    "ap": found.ap,
                    "errors": errors,
                    "precision": found.precision.to_vec(),
                    "bev": overlaps.average_precision(View::Bev, min_overlap, &filter),
                    "space": overlaps.average_precision(View::Space, min_overlap, &filter),
                },
            }));
        }
    }
    json!({"frames": frames.iter().map(as_json).collect::<Vec<_>>(), "cases": cases})
}

fn image(frames: &[Frame2d], parts: &[FrameParts]) -> Value {
    let corners = |b: &ImageBox| {
        let Box2d { x1, y1, x2, y2 } = b.bounds();
        doubles(&[x1, y1, x2, y2])
    };
    let as_json = |(frame, parts): (&Frame2d, &FrameParts)| {
        let truth = frame.truth.iter().enumerate().map(|(at, t)| {
            let visibility = f64::from(t.visibility);
            let of_box =
                json!({"class": t.class, "box": corners(&t.bbox), "visibility": visibility});
            with(of_box, parts_json(&parts.truth, at))
        });
        let detections = frame.detections.iter().enumerate().map(|(at, d)| {
            let score = f64::from(d.score);
            let of_box = json!({"class": d.class, "score": score, "box": corners(&d.bbox)});
            with(of_box, parts_json(&parts.detections, at))
        });
        json!({"truth": truth.collect::<Vec<_>>(), "detections": detections.collect::<Vec<_>>()})
    };
    let mut cases = Vec::new();
    for class in 0..=ONLY_THERE {
        for (min_height, max_height, min_visibility) in
            [(0.0, 1e9, 0.0), (0.0, 1e9, 0.5), (12.0, 1e9, 0.5), (25.0, 50.0, 0.5)]
        {
            let filter = Filter2d { min_height, max_height, min_visibility };
            let measures = [
                ("bbox", Measure::Boxes),
                ("segm", Measure::Masks(parts)),
                ("keypoints", Measure::Keypoints(parts)),
            ];
            for (name, measure) in measures {
                // The peer's range of areas stands for heights, which similarity needs as they are.
                if name == "keypoints" && min_height > 0.0 {
                    continue;
                }
                let found = image::accuracy_by(&measure, frames, class, &filter);
                cases.push(json!({
                    "class": class,
                    "measure": name,
                    "filter": {"min_height": min_height, "max_height": max_height, "min_visibility": min_visibility},
                    "found": {"ap": found.ap, "precision": found.precision.to_vec()},
                }));
            }
        }
    }
    json!({"frames": frames.iter().zip(parts).map(as_json).collect::<Vec<_>>(), "cases": cases})
}

#[test]
fn figures_agree_with_the_published_definitions() {
    let Ok(python) = std::env::var("DET_POST_PEER_PYTHON") else {
        skip(Need::Peers, "DET_POST_PEER_PYTHON is not set");
        return;
    };
    let packages =
        Command::new(&python).args(["-c", "import numpy, pycocotools"]).output().unwrap();
    if !packages.status.success() {
        skip(Need::Peers, format_args!("{python} lacks numpy or pycocotools"));
        return;
    }
    let sets: Vec<Value> = [(1, 0.1, 25), (2, 0.4, 40), (3, 1.0, 25), (4, 0.3, 2), (5, 0.3, 0)]
        .into_iter()
        .map(|(seed, noise, num_frames)| {
            let mut random = Random(seed);
            let clouds: Vec<_> = (0..num_frames).map(|_| frame_3d(&mut random, noise)).collect();
            let images: Vec<_> = (0..num_frames).map(|_| frame_2d(&mut random, noise)).collect();
            let parts: Vec<_> =
                images.iter().map(|frame| parts(&mut random, frame, noise)).collect();
            json!({"space": space(&clouds), "image": image(&images, &parts)})
        })
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sets.json");
    std::fs::write(&path, serde_json::to_string(&sets).unwrap()).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/check_eval.py");
    let output = Command::new(python).args([script.as_ref(), path.as_os_str()]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}");
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
}
