//! Suppression of boxes on scenes like a detector's output.
//!
//! `cargo bench --bench nms` times every op. `cargo bench --bench nms -- time
//! BOXES KEEP IOU_THRESHOLD` reads boxes from a file (little-endian f32, five a
//! box: x1 y1 x2 y2 score), writes the positions of the survivors (little-
//! endian u32) and prints the median time of `nms_iou` in nanoseconds:
//! `peers/nms_onnxruntime.py` puts ONNX Runtime beside it.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

use std::hint::black_box;
use std::time::Instant;

use criterion::{BenchmarkId, Criterion};
use det_post_ops::nms::iou::nms_iou;
use det_post_ops::nms::rotated::nms_rotated;
use det_post_ops::nms::{Workspace, suppress_2d, suppress_3d};
use det_post_types::{
    Box2d, Box3d, Candidate, CircleThreshold, ClassMode, Kept, Nms2d, Nms3d, NmsBev, NmsCircle,
    NmsFast, NmsIou, NmsIou3d, NmsRotated, NmsSoft, Object3d, RotatedBox2d, SoftDecay,
};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    match args.iter().position(|arg| arg == "time") {
        Some(at) => time_file(&args[at + 1], &args[at + 2], args[at + 3].parse().unwrap()),
        None => {
            let mut criterion = Criterion::default().configure_from_args();
            bench_2d(&mut criterion);
            bench_3d(&mut criterion);
            criterion.final_summary();
        }
    }
}

fn iou_params(iou_threshold: f32) -> NmsIou {
    NmsIou {
        iou_threshold,
        offset: 0,
        class_mode: ClassMode::Agnostic,
        score_threshold: None,
        max_num: usize::MAX,
    }
}

fn time_file(boxes: &str, keep_path: &str, iou_threshold: f32) {
    let bytes = std::fs::read(boxes).unwrap();
    let values: Vec<f32> =
        bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
    let candidates: Vec<Candidate<Box2d>> = (0..)
        .zip(values.chunks_exact(5))
        .map(|(source, v)| Candidate {
            bbox: Box2d::new(v[0], v[1], v[2], v[3]),
            score: v[4],
            class: 0,
            source,
        })
        .collect();
    let params = iou_params(iou_threshold);
    let mut workspace = Workspace::with_capacity(candidates.len());
    let mut keep = Vec::new();
    let mut times: Vec<u128> = (0..51)
        .map(|_| {
            let start = Instant::now();
            nms_iou(black_box(&candidates), &params, &mut workspace, &mut keep).unwrap();
            start.elapsed().as_nanos()
        })
        .collect();
    times.sort_unstable();
    let positions: Vec<u8> = keep.iter().flat_map(|kept| kept.index.to_le_bytes()).collect();
    std::fs::write(keep_path, positions).unwrap();
    println!("{}", times[times.len() / 2]);
}

/// A small generator, so that a scene is the same everywhere.
struct Random(u64);

impl Random {
    fn in_range(&mut self, low: f32, high: f32) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        low + (high - low) * ((self.0 >> 40) as f32 / (1 << 24) as f32)
    }
}

/// Three of five boxes lie around one of `num / 50` objects, the others
/// anywhere on 1920 x 1080 pixels; sides are log-uniform from 8 to 400 pixels.
fn scene_2d(num: u32) -> Vec<Candidate<Box2d>> {
    let mut random = Random(1);
    let side = |random: &mut Random| random.in_range(8_f32.ln(), 400_f32.ln()).exp();
    let anywhere = |random: &mut Random| {
        let (w, h) = (side(random), side(random));
        [random.in_range(0.0, 1920.0), random.in_range(0.0, 1080.0), w, h]
    };
    let objects: Vec<[f32; 4]> = (0..num / 50).map(|_| anywhere(&mut random)).collect();
    (0..num)
        .map(|source| {
            let [cx, cy, w, h] = if source % 5 < 3 {
                let [cx, cy, w, h] = objects[source as usize % objects.len()];
                [
                    cx + w * random.in_range(-0.1, 0.1),
                    cy + h * random.in_range(-0.1, 0.1),
                    w * random.in_range(0.8, 1.25),
                    h * random.in_range(0.8, 1.25),
                ]
            } else {
                anywhere(&mut random)
            };
            let score = random.in_range(0.0, 1.0);
            Candidate { bbox: Box2d::from_center(cx, cy, w, h), score, class: source % 7, source }
        })
        .collect()
}

/// The same scene on 100 x 60 metres, every box turned by an angle.
fn scene_3d(num: u32) -> Vec<Candidate<Object3d>> {
    let mut random = Random(2);
    let object = |bbox: Box2d, random: &mut Random| Object3d {
        bbox: Box3d {
            center: [bbox.x1 * 0.05, bbox.y1 * 0.05, random.in_range(-0.5, 0.5)],
            length_m: (bbox.x2 - bbox.x1) * 0.03,
            width_m: (bbox.y2 - bbox.y1) * 0.03,
            height_m: 1.6,
            yaw_rad: random.in_range(-3.1, 3.1),
        },
        ..Object3d::default()
    };
    let to_3d = |c: Candidate<Box2d>| Candidate {
        bbox: object(c.bbox, &mut random),
        score: c.score,
        class: c.class,
        source: c.source,
    };
    scene_2d(num).into_iter().map(to_3d).collect()
}

fn bench_2d(criterion: &mut Criterion) {
    let class_mode = ClassMode::Aware;
    let soft = |decay| {
        let class_mode = ClassMode::Aware;
        Nms2d::Soft(NmsSoft { decay, min_score: 0.05, offset: 0, class_mode })
    };
    let kinds = [
        ("nms_iou", Nms2d::Iou(iou_params(0.5))),
        ("nms_fast", Nms2d::Fast(NmsFast { iou_threshold: 0.5, class_mode })),
        ("nms_soft_linear", soft(SoftDecay::Linear { iou_threshold: 0.3 })),
        ("nms_soft_gaussian", soft(SoftDecay::Gaussian { sigma: 0.5 })),
    ];
    for (name, nms) in kinds {
        let mut group = criterion.benchmark_group(name);
        for num in [1000, 5000, 20000] {
            let candidates = scene_2d(num);
            let mut workspace = Workspace::with_capacity(candidates.len());
            let mut keep: Vec<Kept> = Vec::with_capacity(candidates.len());
            group.bench_function(BenchmarkId::from_parameter(num), |bencher| {
                bencher.iter(|| suppress_2d(&candidates, &nms, &mut workspace, &mut keep).unwrap());
            });
        }
    }
}

fn bench_3d(criterion: &mut Criterion) {
    let class_mode = || ClassMode::Aware;
    let kinds = [
        (
            "nms_circle",
            Nms3d::Circle(NmsCircle {
                thresholds: vec![0.5],
                reading: CircleThreshold::Radius,
                class_mode: class_mode(),
            }),
        ),
        (
            "nms_bev",
            Nms3d::Bev(NmsBev {
                iou_thresholds: vec![0.2],
                search_distance_m: 10.0,
                forbidden_pairs: Vec::new(),
                class_mode: class_mode(),
            }),
        ),
        (
            "nms_iou_3d",
            Nms3d::Iou3d(NmsIou3d { iou_thresholds: vec![0.2], class_mode: class_mode() }),
        ),
    ];
    for (name, nms) in kinds {
        let mut group = criterion.benchmark_group(name);
        for num in [1000, 5000] {
            let candidates = scene_3d(num);
            let mut workspace = Workspace::with_capacity(candidates.len());
            let mut keep: Vec<Kept> = Vec::with_capacity(candidates.len());
            group.bench_function(BenchmarkId::from_parameter(num), |bencher| {
                bencher.iter(|| suppress_3d(&candidates, &nms, &mut workspace, &mut keep).unwrap());
            });
        }
    }
    let mut group = criterion.benchmark_group("nms_rotated");
    let params = NmsRotated { iou_threshold: 0.2, class_mode: class_mode() };
    for num in [1000, 5000] {
        let candidates: Vec<Candidate<RotatedBox2d>> = scene_3d(num)
            .iter()
            .map(|c| Candidate {
                bbox: c.bbox.bbox.footprint(),
                score: c.score,
                class: c.class,
                source: c.source,
            })
            .collect();
        let mut workspace = Workspace::with_capacity(candidates.len());
        let mut keep: Vec<Kept> = Vec::with_capacity(candidates.len());
        group.bench_function(BenchmarkId::from_parameter(num), |bencher| {
            bencher.iter(|| nms_rotated(&candidates, &params, &mut workspace, &mut keep).unwrap());
        });
    }
}
