//! A network that finds classes by their vectors, and a vocabulary for it.

use std::path::Path;

use super::onnx::{Attr, Graph};
use det_post_types::ElementType;

/// The names of the vocabulary.
const NAMES: [&str; 4] = ["car", "dog", "cat", "bus"];

/// Three boxes, of which the n-th has the score of a class at the n-th value of its vector.
pub fn network(path: &Path, num_classes: i64) {
    let boxes = [[10.0, 30.0, 50.0], [32.0; 3], [8.0; 3], [8.0; 3]].concat();
    let unit: Vec<f32> = (0..12).map(|at| f32::from(u8::from(at / 3 == at % 3))).collect();
    let mean = [("axes", Attr::Ints(vec![0, 1, 2, 3])), ("keepdims", Attr::Int(0))];
    Graph::new("world", "classes by vectors")
        .input("images", ElementType::F32, &[1, 3, 64, 64])
        .input("txt_feats", ElementType::F32, &[1, num_classes, 4])
        .output("output0", ElementType::F32, &[1, -1, 3])
        .constant("boxes", &[1, 4, 3], &boxes)
        .constant("features", &[1, 4, 3], &unit)
        .constant("nothing", &[1], &[0.0])
        .op("MatMul", &["txt_feats", "features"], "found")
        .node("ReduceMean", &["images"], &["mean"], &mean)
        .op("Mul", &["mean", "nothing"], "zero")
        .op("Add", &["found", "zero"], "scores")
        .node("Concat", &["boxes", "scores"], &["output0"], &[("axis", Attr::Int(1))])
        .save(path)
        .unwrap();
}

/// A file of the vectors 0.9, 0.8, 0.7 and 0.6 at one place each.
pub fn vocabulary(path: &Path) {
    let entry = |index: usize| {
        let (name, start) = (NAMES[index], index * 16);
        format!(
            "{name:?}:{{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[{start},{}]}}",
            start + 16
        )
    };
    let header = format!("{{{}}}", (0..4).map(entry).collect::<Vec<_>>().join(","));
    let value = |at: usize| if at / 4 == at % 4 { 0.9 - 0.1 * (at / 4) as f32 } else { 0.0 };
    let data: Vec<u8> = (0..16).flat_map(|at| value(at).to_le_bytes()).collect();
    let len = (header.len() as u64).to_le_bytes();
    std::fs::write(path, [&len[..], header.as_bytes(), &data].concat()).unwrap();
}
