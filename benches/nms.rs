//! Suppression of the boxes of a file, beside ONNX Runtime: `peers/nms_onnxruntime.py` calls it.
//!
//! `cargo bench --bench nms -- time BOXES KEEP IOU_THRESHOLD` reads boxes (little-endian f32, five a
//! box: x1 y1 x2 y2 score), writes the positions of the survivors (little-endian u32) and prints
//! the median time of `nms_iou` in nanoseconds. `det_post bench nms` measures every suppression.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a bench, not a library")]

use std::hint::black_box;
use std::time::Instant;

use det_post_ops::nms::Workspace;
use det_post_ops::nms::iou::nms_iou;
use det_post_types::{Box2d, Candidate, ClassMode, NmsIou};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    match args.iter().position(|arg| arg == "time").map(|at| &args[at + 1..]) {
        Some([boxes, keep, iou_threshold, ..]) => {
            time_file(boxes, keep, iou_threshold.parse().unwrap());
        }
        _ => println!("nothing to do: expected time BOXES KEEP IOU_THRESHOLD"),
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
    let params = NmsIou {
        iou_threshold,
        offset: 0,
        class_mode: ClassMode::Agnostic,
        score_threshold: None,
        max_num: usize::MAX,
    };
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
