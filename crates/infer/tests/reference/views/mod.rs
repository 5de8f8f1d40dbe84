//! View decoders against a reference in f64 that agrees with the published modules of
//! DETR3D and Sparse4D v3: operations, blocks, whole frames, chosen pairs.

mod detr3d;
mod export;
mod files;
mod in_place;
mod operations;
mod plugin;
mod sparse4d;
mod sparse4d_width;

use det_post_ops::decode::query::{Queries, Workspace, decode_query};
use det_post_testing::Bounds;
use det_post_types::{
    Candidates, QueryBox, QueryDecode, ScoreThresholds, SizeOrder, YawConvention,
};

/// Of attention, feed-forward layers and refinement.
const EXACT: Bounds = Bounds { max: 5e-6, p99: 5e-6 };
/// Of what has sampled the views: a query half a metre before a camera magnifies the
/// rounding of its projection.
const SAMPLED: Bounds = Bounds { max: 5e-4, p99: 3e-5 };

/// Boxes as the reference gives them: the centre, extents, yaw and velocity, N numbers.
fn decoded_boxes<const N: usize>(boxes: &[QueryBox]) -> Vec<f32> {
    let decoded = boxes.iter().flat_map(|&[x, y, z, e0, e1, e2, sin, cos, vx, vy, vz]| {
        let values = [x, y, z, e0.exp(), e1.exp(), e2.exp(), sin.atan2(cos), vx, vy, vz];
        values.into_iter().take(N)
    });
    decoded.collect()
}

/// The pairs of `selected` are those that decoding chooses, in order.
fn assert_selected(selected: &serde_json::Value, logits: &[f32], num_classes: usize) {
    let max_pairs = selected["top_k"].as_u64().unwrap() as usize;
    let threshold = selected["threshold"].as_f64().unwrap() as f32;
    let params = QueryDecode {
        size_order: SizeOrder::LengthWidthHeight,
        yaw: YawConvention::CounterClockwise,
        score_thresholds: ScoreThresholds::uniform(threshold, num_classes),
        yaw_norm_thresholds: Vec::new(),
        center_range: None,
    };
    let boxes = vec![[0.5; 11]; logits.len() / num_classes];
    let queries = Queries { logits, boxes: &boxes, quality: None };
    let mut workspace = Workspace::new(max_pairs);
    let mut candidates = Candidates::with_capacity(max_pairs);
    decode_query(&queries, &params, &mut workspace, &mut candidates).unwrap();
    let found: Vec<(u64, u64)> =
        workspace.pairs().iter().map(|p| (u64::from(p.source), u64::from(p.class))).collect();
    let kept = selected["kept"].as_array().unwrap();
    let expected: Vec<(u64, u64)> = kept
        .iter()
        .map(|pair| (pair["query"].as_u64().unwrap(), pair["class"].as_u64().unwrap()))
        .collect();
    assert_eq!(found, expected);
    let num_over = selected["num_over_threshold"].as_u64().unwrap() as usize;
    assert_eq!(workspace.num_dropped() + found.len(), num_over);
    for (candidate, pair) in candidates.as_slice().iter().zip(kept) {
        assert!((f64::from(candidate.score) - pair["score"].as_f64().unwrap()).abs() < 1e-6);
    }
}
