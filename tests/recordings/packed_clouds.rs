//! Clouds packed by other implementations, unpacked here and there: the same bytes, and the points that were packed
//! within the step of the format.

use std::collections::HashMap;
use std::process::Command;

use det_post_ros::messages::PointCloud2;
use det_post_ros::packed_cloud::{PackedCloud, Unpacker};
use det_post_types::Datatype;
use serde_json::Value;

use crate::common::packed_clouds::few;
use crate::common::require::{Need, skip};
use crate::common::shared_data::shared_data;

/// Compares a cloud with that of another implementation: of both every declared byte.
fn assert_same(name: &str, found: &[u8], expected: &[u8]) {
    let [found, expected] = [found, expected].map(|cdr| PointCloud2::decode(cdr).unwrap());
    assert_eq!((found.header, found.is_dense), (expected.header, expected.is_dense), "{name}");
    assert_eq!(found.fields.as_slice(), expected.fields.as_slice(), "{name}");
    assert_eq!((found.height, found.width), (expected.height, expected.width), "{name}");
    let steps = |cloud: &PointCloud2<'_>| (cloud.point_step, cloud.row_step, cloud.is_bigendian);
    assert_eq!(steps(&found), steps(&expected), "{name}");
    assert_eq!(found.data.len(), expected.data.len(), "{name}");
    let step = (found.point_step as usize).max(1);
    let points = found.data.chunks(step).zip(expected.data.chunks(step));
    for (index, (mine, theirs)) in points.enumerate() {
        for field in found.fields.as_slice() {
            let datatype = Datatype::from_ros(field.datatype).unwrap();
            for value in 0..field.count as usize {
                let at = field.offset as usize + value * datatype.size();
                let of = |point: &[u8]| point[at..at + datatype.size()].to_vec();
                let (mine, theirs) = (of(mine), of(theirs));
                let both_nan = [&mine, &theirs].iter().all(|of| is_nan(datatype, of));
                assert!(mine == theirs || both_nan, "{name}: {} of point {index}", field.name);
            }
        }
    }
}

fn is_nan(datatype: Datatype, value: &[u8]) -> bool {
    matches!(datatype, Datatype::F32 | Datatype::F64) && number(datatype, value).is_nan()
}

fn number(datatype: Datatype, bytes: &[u8]) -> f64 {
    match datatype {
        Datatype::I8 => i8::from_le_bytes(bytes.try_into().unwrap()).into(),
        Datatype::U8 => bytes[0].into(),
        Datatype::I16 => i16::from_le_bytes(bytes.try_into().unwrap()).into(),
        Datatype::U16 => u16::from_le_bytes(bytes.try_into().unwrap()).into(),
        Datatype::I32 => i32::from_le_bytes(bytes.try_into().unwrap()).into(),
        Datatype::U32 => u32::from_le_bytes(bytes.try_into().unwrap()).into(),
        Datatype::F32 => f32::from_le_bytes(bytes.try_into().unwrap()).into(),
        Datatype::F64 => f64::from_le_bytes(bytes.try_into().unwrap()),
    }
}

/// Compares a cloud with the points that were packed; fields without a tolerance are equal.
fn assert_near(name: &str, cloud: &[u8], original: &[u8], tolerance: &HashMap<String, f64>) {
    let cloud = PointCloud2::decode(cloud).unwrap();
    let step = (cloud.point_step as usize).max(1);
    assert_eq!(cloud.data.len(), original.len(), "{name}");
    for (index, (found, packed)) in cloud.data.chunks(step).zip(original.chunks(step)).enumerate() {
        for field in cloud.fields.as_slice() {
            let datatype = Datatype::from_ros(field.datatype).unwrap();
            for value in 0..field.count as usize {
                let at = field.offset as usize + value * datatype.size();
                let of = |point: &[u8]| number(datatype, &point[at..at + datatype.size()]);
                let (found, packed) = (of(found), of(packed));
                let allowed = tolerance.get(field.name).copied().unwrap_or(0.0);
                let is_near =
                    (found - packed).abs() <= allowed || (found.is_nan() && packed.is_nan());
                assert!(
                    is_near,
                    "{name}: {} of point {index}: {found}, packed {packed}",
                    field.name
                );
            }
        }
    }
}

#[test]
fn few_packed_clouds_are_those_of_other_implementations() {
    let (mut unpacker, mut cloud) = (Unpacker::default(), Vec::new());
    let cases = few();
    for case in &cases {
        let unpacked = unpacker.unpack_to(case.kind, &case.packed, 1 << 20, &mut cloud);
        unpacked.unwrap_or_else(|error| panic!("{}: {error}", case.name));
        assert_same(&case.name, &cloud, &case.expected);
    }
    assert!(cases.len() > 30);
}

#[test]
fn packed_clouds_are_those_of_other_implementations() {
    let Ok(python) = std::env::var("DET_POST_PEER_PYTHON") else {
        return skip(Need::Peers, "DET_POST_PEER_PYTHON is not set");
    };
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(python);
    command.current_dir(env!("CARGO_MANIFEST_DIR"));
    command.arg("tests/peers/packed_clouds.py").arg(folder.path());
    // Point clouds of Draco's own tests, where the data has them.
    let files = shared_data().map(|root| root.join("scans/draco")).filter(|path| path.is_dir());
    let num_files = files.map_or(0, |files| {
        command.arg(&files);
        std::fs::read_dir(files).unwrap().count()
    });
    assert!(command.status().unwrap().success());
    let read = |name: &str, of: &str| std::fs::read(folder.path().join(format!("{name}.{of}")));
    let cases = std::fs::read(folder.path().join("cases.json")).unwrap();
    let cases: Vec<Value> = serde_json::from_slice(&cases).unwrap();
    let (mut unpacker, mut cloud) = (Unpacker::default(), Vec::new());
    for case in &cases {
        let name = case["name"].as_str().unwrap();
        let kind = PackedCloud::of_type(case["type"].as_str().unwrap()).unwrap();
        let packed = read(name, "packed").unwrap();
        let unpacked = unpacker.unpack_to(kind, &packed, 64 << 20, &mut cloud);
        unpacked.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_same(name, &cloud, &read(name, "expected").unwrap());
        if let Ok(original) = read(name, "original") {
            let fields = case["tolerance"].as_object().into_iter().flatten();
            let tolerance = fields.map(|(field, most)| (field.clone(), most.as_f64().unwrap()));
            assert_near(name, &cloud, &original, &tolerance.collect());
        }
    }
    println!("{} packed clouds of other implementations, {num_files} files of Draco", cases.len());
    assert!(cases.len() > 80, "{}", cases.len());
}

/// The cloud of a real sensor that Cloudini ships as a sample, packed by the general formats and back.
#[test]
fn the_cloud_of_a_real_sensor_keeps_its_bytes() {
    let Some(root) = shared_data() else { return };
    let raw = std::fs::read(root.join("scans/cloudini/dds_message.bin")).unwrap();
    let cloud = PointCloud2::decode(&raw).unwrap();
    let packed = crate::common::packed_clouds::gzip(&cloud);
    let mut found = Vec::new();
    Unpacker::default().unpack_to(PackedCloud::Compressed, &packed, 2 << 20, &mut found).unwrap();
    assert_same("dds_message", &found, &raw);
    assert!(packed.len() < raw.len());
}
