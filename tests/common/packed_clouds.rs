//! Clouds that other implementations packed.
#![allow(dead_code, reason = "each suite uses its part")]

use std::io::Write;
use std::path::Path;

use det_post_ros::messages::{CompressedPointCloud2, PointCloud2};
use det_post_ros::packed_cloud::PackedCloud;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

/// A message and the `PointCloud2` that the other implementation makes of it.
pub struct Case {
    pub name: String,
    pub kind: PackedCloud,
    pub packed: Vec<u8>,
    pub expected: Vec<u8>,
}

/// Small ones, by `tests/peers/packed_clouds.py --few`.
pub fn few() -> Vec<Case> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/packed_clouds.json");
    let cases: Vec<Value> = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let bytes = |hex: &Value| {
        let digits = hex.as_str().unwrap().as_bytes().chunks(2);
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16);
        digits.map(|pair| byte(pair).unwrap()).collect()
    };
    let case = |case: &Value| Case {
        name: case["name"].as_str().unwrap().to_owned(),
        kind: PackedCloud::of_type(case["type"].as_str().unwrap()).unwrap(),
        packed: bytes(&case["packed"]),
        expected: bytes(&case["expected"]),
    };
    cases.iter().map(case).collect()
}

/// The message that point_cloud_transport's publisher of `zlib` makes of a cloud.
pub fn gzip(cloud: &PointCloud2<'_>) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(cloud.data).unwrap();
    compressed(cloud, "zlib", &encoder.finish().unwrap())
}

/// A message of a format with the layout of a cloud.
pub fn compressed(cloud: &PointCloud2<'_>, format: &str, compressed_data: &[u8]) -> Vec<u8> {
    let PointCloud2 { header, height, width, fields, .. } = *cloud;
    let PointCloud2 { is_bigendian, point_step, row_step, is_dense, .. } = *cloud;
    let packed = CompressedPointCloud2 {
        header,
        height,
        width,
        fields,
        is_bigendian,
        point_step,
        row_step,
        compressed_data,
        is_dense,
        format,
    };
    let mut cdr = Vec::new();
    packed.encode(&mut cdr).unwrap();
    cdr
}
