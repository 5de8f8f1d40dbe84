//! Golden cases of view decoders as files that a channel takes: parameters, a head and networks.
//! Used by the tests of the bindings.
#![allow(dead_code, reason = "each program uses its part")]

use std::fmt::Write;
use std::fs;
use std::path::Path;

use super::safetensors::{Named, read};
use super::streampetr::{FILES, Form, REFERENCE, reference_weights, save};

/// The cases, by the folders of the data and of [`save_all`].
pub const CASES: [&str; 4] = ["detr3d_c64", "detr3d_c256", "sparse4d_c64", "petr_c64"];

const CLASSES: &str = "[c0, c1, c2, c3, c4, c5, c6, c7, c8, c9]";

/// Writes a folder for every case, with `params.yaml`.
pub fn save_all(surround: &Path, to: &Path) {
    for case in CASES {
        let (from, to) = (surround.join(case), to.join(case));
        fs::create_dir_all(&to).unwrap();
        match case {
            "petr_c64" => streampetr(&from, &to),
            _ => views(case, &from, &to),
        }
    }
}

fn views(case: &str, from: &Path, to: &Path) {
    let [mut weights, inputs] =
        ["weights", "inputs"].map(|name| read(&from.join(name).with_extension("safetensors")));
    let path = |name: &str| to.join(name).display().to_string();
    let size = &inputs["image_wh"].1;
    let decoder = match case {
        "sparse4d_c64" => {
            "kind: sparse4d\ncached_yaw: cos_sin\nlevel_strides: [8, 16, 32, 64]\ndecoder: {channels: 64, heads: 8, \
             groups: 8, anchors: 48, cached: 32, blocks: 3, confidence_decay: 0.6}\n"
                .to_owned()
        }
        _ => {
            add_start(&mut weights, &inputs);
            let [queries, channels] = inputs["query"].0[..] else { panic!("{case}") };
            let (blocks, depth) = if channels == 64 { (4, 0.01) } else { (1, 1e-5) };
            format!(
                "kind: detr3d\nlevel_strides: [8, 16, 32]\nextra_level: true\npoint_range_m: {:?}\ndecoder: \
                 {{channels: {channels}, heads: 8, queries: {queries}, blocks: {blocks}, min_depth_m: {depth}, \
                 attention_residual: query}}\n",
                inputs["point_range"].1
            )
        }
    };
    fs::write(to.join("weights.safetensors"), file_of(&weights)).unwrap();
    let head = format!(
        "sensor: surround\nclass_names: {CLASSES}\ncameras: 6\ninput_size: [{}, {}]\nchannel_order: rgb\nmean: [0.0, \
         0.0, 0.0]\nstd: [1.0, 1.0, 1.0]\nsize_order: length_width_height\nyaw: counter_clockwise\n{decoder}",
        size[0], size[1]
    );
    fs::write(to.join("head.yaml"), head).unwrap();
    let networks = format!(
        "      head: {}\n      model_path: {}\n      weights_path: {}\n      decoder: {{precision: f32}}\n",
        path("head.yaml"),
        path("none.onnx"),
        path("weights.safetensors")
    );
    write_parameters(to, &networks);
}

/// The queries before the first block, which the data has beside the weights.
fn add_start(weights: &mut Named, inputs: &Named) {
    let [queries, channels] = inputs["query"].0[..] else { panic!("no queries") };
    let rows = |name: &str| inputs[name].1.chunks(channels);
    let pairs = rows("query_pos").zip(rows("query"));
    let values = pairs.flat_map(|(position, content)| [position, content].concat()).collect();
    weights.insert("query_embedding.weight".into(), (vec![queries, 2 * channels], values));
    weights.insert("reference_points".into(), inputs["reference_points"].clone());
}

fn streampetr(from: &Path, to: &Path) {
    save(to, &REFERENCE, &reference_weights(from), Form::AllLayers);
    let [height, width] = REFERENCE.image();
    let head = format!(
        "sensor: surround\nkind: streampetr\nclass_names: [c0, c1, c2, c3, c4]\ncameras: 6\ninput_size: [{width}, \
         {height}]\nchannel_order: rgb\nmean: [0.0, 0.0, 0.0]\nstd: [1.0, 1.0, 1.0]\nsize_order: \
         length_width_height\nyaw: counter_clockwise\n"
    );
    fs::write(to.join("head.yaml"), head).unwrap();
    let path = |name: &str| to.join(name).display().to_string();
    let [_, position, head] = FILES.map(path);
    let networks = format!(
        "      head: {}\n      model_path: {}\n      position_embedding_path: {position}\n      head_path: {head}\n",
        path("head.yaml"),
        path("none.onnx"),
    );
    write_parameters(to, &networks);
}

fn write_parameters(to: &Path, networks: &str) {
    let mut text = String::from("/**:\n  ros__parameters:\n    rig:\n      inputs: [");
    (0..6).for_each(|camera| write!(text, "/camera_{camera}, ").unwrap());
    writeln!(text, "]\n{networks}").unwrap();
    fs::write(to.join("params.yaml"), text).unwrap();
}

/// A file of safetensors.
fn file_of(tensors: &Named) -> Vec<u8> {
    let mut header = serde_json::Map::new();
    let mut data = Vec::new();
    for (name, (shape, values)) in tensors {
        let begin = data.len();
        values.iter().for_each(|value| data.extend(value.to_le_bytes()));
        let entry = serde_json::json!({"dtype": "F32", "shape": shape, "data_offsets": [begin, data.len()]});
        header.insert(name.clone(), entry);
    }
    let header = serde_json::Value::Object(header).to_string();
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat()
}
