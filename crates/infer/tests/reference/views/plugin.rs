//! DETR3D as a node `SvTransformerDecoder` of an ONNX file: as attributes and as initializers, read by
//! the decoder and by `tools/export_view_decoder.py`; the rest of the file as a backbone.

use std::path::Path;
use std::process::Command;

use det_post_infer::safetensors::SafeTensors;
use det_post_infer::view_decoder::{CpuViewDecoder, parse};
use det_post_infer::{Engine, RtenEngine};
use det_post_types::{
    AttentionResidual, Detr3d, ElementType, TensorValues, TensorView, ViewDecoder,
};

use det_post_testing::onnx::{Attr, Graph};
use det_post_testing::require::{Need, skip};
use det_post_testing::view_networks::{
    StateDict, detr3d, detr3d_facts, sparse4d_facts, two_maps, two_views,
};

fn facts() -> Detr3d {
    Detr3d { attention_residual: AttentionResidual::QueryWithPosition, ..detr3d_facts() }
}

/// A name of the state dict as the plugin has it.
fn name_of(name: &str) -> String {
    let name = name.replace("in_proj_", "in_proj.");
    let mut parts: Vec<&str> = name.split('.').collect();
    let end = parts.pop().unwrap();
    let text = parts.join(".");
    let (block, path) = match parts[..] {
        ["transformer", "decoder", "layers", block, ..] => (Some(block), parts[4..].join(".")),
        ["reg_branches", block, layer] => (Some(block), format!("reg.{layer}")),
        ["cls_branches", _, layer] => (None, format!("cls.{layer}")),
        _ => (None, text),
    };
    let mut path = path;
    for (from, to) in [
        ("attentions.0.attn", "self_attention"),
        ("attentions.1", "cross_attention"),
        ("ffns.0.layers.0.0", "ffn.0"),
        ("ffns.0.layers.1", "ffn.1"),
        ("norms.0", "mha_norm"),
        ("norms.1", "svca_norm"),
        ("norms.2", "ffn_norm"),
    ] {
        path = path.replace(from, to);
    }
    let path = path.replace('.', "__");
    let fc = if path.contains("norm") { "" } else { "fc__" };
    let block = block.map_or_else(String::new, |block| {
        format!("block_{}__", block.parse::<usize>().unwrap() + 1)
    });
    format!("{block}{path}__{fc}{end}")
}

/// Projections of queries, keys and values one by one, and contents and positions, too.
fn taken_apart(dict: &StateDict) -> StateDict {
    let mut tensors = Vec::new();
    for (name, shape, values) in &dict.tensors {
        if name == "query_embedding.weight" {
            let half = shape[1] / 2;
            let part = |first: usize| {
                let rows = values.chunks(shape[1]);
                rows.flat_map(|row| row[first..first + half].to_vec()).collect::<Vec<_>>()
            };
            tensors.push(("query_pos".into(), vec![1, shape[0], half], part(0)));
            tensors.push(("query".into(), vec![1, shape[0], half], part(half)));
        } else if name.contains("in_proj_") {
            let third = values.len() / 3;
            let end = if name.ends_with("weight") { "weight" } else { "bias" };
            let block = name.split('.').nth(3).unwrap();
            for (index, of) in ["query", "key", "value"].into_iter().enumerate() {
                let mut shape = shape.clone();
                shape[0] /= 3;
                let values = values[index * third..][..third].to_vec();
                tensors.push((format!("block_{block}__mha__{of}__{end}"), shape, values));
            }
        } else {
            // Blocks from 0 on here.
            let name = name_of(name);
            let name = (0..2).fold(name, |name, block| {
                name.replace(&format!("block_{}__", block + 1), &format!("block_{block}__"))
            });
            tensors.push((name, shape.clone(), values.clone()));
        }
    }
    StateDict::of(tensors)
}

fn renamed(dict: &StateDict) -> StateDict {
    let rename = |(name, shape, values): &(String, Vec<usize>, Vec<f32>)| {
        (name_of(name), shape.clone(), values.clone())
    };
    StateDict::of(dict.tensors.iter().map(rename).collect())
}

/// A backbone of two levels and the node behind it.
fn graph(dict: &StateDict, as_attributes: bool, settings: &[(&'static str, i64)]) -> Graph {
    let mut graph = Graph::new("svt", "test")
        .input("images", ElementType::F32, &[2, 16, 4, 8])
        .input("lidar2img", ElementType::F32, &[2, 4, 4])
        .op("Relu", &["images"], "p3")
        .op("Neg", &["p3"], "p4")
        .output("boxes", ElementType::F32, &[1, 12, 10])
        .output("logits", ElementType::F32, &[1, 12, 3]);
    let mut attributes: Vec<(&str, Attr)> =
        settings.iter().map(|&(name, value)| (name, Attr::Int(value))).collect();
    let mut inputs = vec!["p3", "p4", "lidar2img"];
    for (name, shape, values) in &dict.tensors {
        if as_attributes {
            attributes.push((name, Attr::Floats(values.clone())));
        } else {
            let dims: Vec<i64> = shape.iter().map(|&side| side as i64).collect();
            graph = graph.constant(name, &dims, values);
            inputs.push(name);
        }
    }
    graph.node("SvTransformerDecoder", &inputs, &["boxes", "logits"], &attributes)
}

const SETTINGS: &[(&str, i64)] = &[
    ("num_cam", 2),
    ("seq_len", 12),
    ("num_classes", 3),
    ("l2i_matr_h", 4),
    ("num_reg_points", 10),
];

fn save(graph: &Graph, folder: &Path) -> (String, Vec<u8>) {
    let path = folder.join("svt.onnx");
    graph.save(&path).unwrap();
    (path.to_str().unwrap().to_owned(), std::fs::read(path).unwrap())
}

fn logits(bytes: &[u8], facts: &Detr3d) -> Vec<f32> {
    let network = parse(bytes, &ViewDecoder::Detr3d(facts.clone())).unwrap();
    let mut decoder = CpuViewDecoder::new(&network);
    decoder.set_views(&two_views()).unwrap();
    let decoded = decoder.run(&two_maps(1), None).unwrap();
    [decoded.logits, decoded.boxes.as_flattened()].concat()
}

#[test]
fn attributes_and_initializers_are_the_state_dict() {
    let (facts, folder) = (facts(), tempfile::tempdir().unwrap());
    let dict = detr3d(&facts);
    let expected = logits(&dict.to_safetensors(), &facts);
    for tensors in [renamed(&dict), taken_apart(&dict)] {
        for as_attributes in [true, false] {
            let (_, bytes) = save(&graph(&tensors, as_attributes, SETTINGS), folder.path());
            assert_eq!(logits(&bytes, &facts), expected, "{as_attributes}");
        }
    }
}

#[test]
fn constant_references_take_the_place_of_their_layer() {
    let facts = facts();
    let mut dict = detr3d(&facts);
    dict.tensors.retain(|(name, ..)| !name.starts_with("transformer.reference_points."));
    let values: Vec<f32> = (0..3 * facts.num_queries).map(|i| (i % 17) as f32 / 16.0).collect();
    dict.tensors.push(("reference_points".into(), vec![facts.num_queries, 3], values));
    let expected = logits(&dict.to_safetensors(), &facts);
    let folder = tempfile::tempdir().unwrap();
    let mut of_node = renamed(&dict);
    for (name, ..) in &mut of_node.tensors {
        *name = name.replace("__fc__reference_points", "reference_points");
    }
    of_node.tensors.pop();
    of_node.tensors.push(dict.tensors.last().unwrap().clone());
    let (_, bytes) = save(&graph(&of_node, true, SETTINGS), folder.path());
    assert_eq!(logits(&bytes, &facts), expected);
    dict.tensors.last_mut().unwrap().2[1] = 1.5;
    let error = parse(&dict.to_safetensors(), &ViewDecoder::Detr3d(facts)).unwrap_err();
    assert!(error.message().contains("reference_points has values outside 0 to 1"), "{error}");
}

/// Without a velocity it is 0; what is after ten numbers changes nothing.
#[test]
fn the_refinement_may_have_other_widths() {
    let facts = detr3d_facts();
    let dict = detr3d(&facts);
    let with_width = |width: usize| {
        let mut other = dict.clone();
        for (name, shape, values) in &mut other.tensors {
            if name.starts_with("reg_branches.") && name.contains(".4.") {
                let columns = if shape.len() == 2 { shape[1] } else { 1 };
                values.resize(width * columns, 0.25);
                shape[0] = width;
            }
        }
        other.to_safetensors()
    };
    let ten = logits(&with_width(10), &facts);
    assert_eq!(logits(&with_width(13), &facts), ten);
    let eight = logits(&with_width(8), &facts);
    let boxes = ten.len() - 11 * facts.num_queries;
    assert_eq!(eight[..boxes], ten[..boxes]);
    for (found, wide) in eight[boxes..].chunks(11).zip(ten[boxes..].chunks(11)) {
        assert_eq!(found[..8], wide[..8]);
        assert_eq!(found[8..], [0.0; 3]);
    }
    for width in [0, 7, 65] {
        let error = parse(&with_width(width), &ViewDecoder::Detr3d(facts.clone())).unwrap_err();
        assert!(
            error.message().contains(&format!("has {width} rows; allowed: 8 to 64")),
            "{error}"
        );
    }
}

#[test]
fn what_contradicts_the_head_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let dict = renamed(&detr3d(&facts()));
    let refusal = |dict: &StateDict, settings: &[(&'static str, i64)], facts: &ViewDecoder| {
        let (_, bytes) = save(&graph(dict, true, settings), folder.path());
        parse(&bytes, facts).unwrap_err().message().to_owned()
    };
    let of = |facts: Detr3d| ViewDecoder::Detr3d(facts);
    let message = refusal(&dict, SETTINGS, &of(detr3d_facts()));
    assert!(message.contains("attention_residual: query_with_position is required"), "{message}");
    let message = refusal(&dict, &[("seq_len", 900)], &of(facts()));
    assert!(message.contains("seq_len is 900; the head says 12"), "{message}");
    let message = refusal(&dict, SETTINGS, &ViewDecoder::Sparse4d(sparse4d_facts()));
    assert!(message.contains("the head is of another kind"), "{message}");
    let mut more = dict.clone();
    more.tensors.push(("block_1__gate__fc__weight".into(), vec![1], vec![0.0]));
    let message = refusal(&more, SETTINGS, &of(facts()));
    assert!(message.contains("unknown names: block_1__gate__fc__weight;"), "{message}");
    let mut fewer = dict.clone();
    fewer.tensors.retain(|(name, ..)| name != "block_2__svca_norm__bias");
    let message = refusal(&fewer, SETTINGS, &of(facts()));
    assert!(message.contains("layers.1.norms.1.bias is missing"), "{message}");
    let mut fewer = taken_apart(&detr3d(&facts()));
    fewer.tensors.retain(|(name, ..)| name != "block_0__mha__key__weight");
    let message = refusal(&fewer, SETTINGS, &of(facts()));
    assert!(
        message.contains("has no transformer.decoder.layers.0.attentions.0.attn.in_proj/1.weight"),
        "{message}"
    );
}

/// Engines load the file without its node: its maps are the outputs.
#[test]
fn the_file_is_also_the_backbone() {
    let folder = tempfile::tempdir().unwrap();
    let dict = renamed(&detr3d(&facts()));
    for as_attributes in [true, false] {
        let (path, _) = save(&graph(&dict, as_attributes, SETTINGS), folder.path());
        let mut engine = RtenEngine::load(Path::new(&path), Some(1)).unwrap();
        let names = |specs: &[det_post_types::TensorSpec]| {
            specs.iter().map(|spec| spec.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(names(engine.inputs()), ["images"]);
        assert_eq!(names(engine.outputs()), ["p3", "p4"]);
        let images: Vec<f32> = (0..2 * 16 * 32).map(|i| i as f32 - 500.0).collect();
        let view = TensorView::new(&[2, 16, 4, 8], TensorValues::F32(&images)).unwrap();
        engine.run(&[view]).unwrap();
        let TensorValues::F32(p4) = engine.output(1).unwrap().values() else { panic!() };
        assert!(p4.iter().zip(&images).all(|(found, image)| *found == -image.max(0.0)));
    }
}

#[test]
fn the_tool_exports_the_node() {
    let Ok(python) = std::env::var("DET_POST_PEER_PYTHON") else {
        return skip(Need::Peers, format_args!("DET_POST_PEER_PYTHON is not set"));
    };
    let (facts, folder) = (facts(), tempfile::tempdir().unwrap());
    let dict = detr3d(&facts);
    let out = folder.path().join("out.safetensors");
    let run = |path: &str, options: &[&str]| {
        let tool = det_post_testing::workspace().join("tools/export_view_decoder.py");
        let mut command = Command::new(&python);
        command.arg(tool).arg(path).arg(&out).args(options).output().unwrap()
    };
    for (tensors, as_attributes) in
        [(renamed(&dict), true), (renamed(&dict), false), (taken_apart(&dict), true)]
    {
        let (path, _) = save(&graph(&tensors, as_attributes, SETTINGS), folder.path());
        let exported = run(&path, &[]);
        assert!(exported.status.success(), "{}", String::from_utf8_lossy(&exported.stderr));
        assert_eq!(
            String::from_utf8_lossy(&exported.stdout),
            "kind: detr3d\ndecoder: {channels: 16, queries: 12, blocks: 2, attention_residual: \
             query_with_position, min_depth_m: 0.01}\n"
        );
        let (found, expected) = (std::fs::read(&out).unwrap(), dict.to_safetensors());
        let [found, expected] = [&found, &expected].map(|bytes| SafeTensors::parse(bytes).unwrap());
        assert!(found.names().eq(expected.names()));
        for name in expected.names() {
            assert_eq!(found.get(name), expected.get(name), "{name}");
        }
    }
    let mut more = renamed(&dict);
    let (name, ..) = &mut more.tensors[0];
    *name = "embedding_of_mine".into();
    let (path, _) = save(&graph(&more, true, SETTINGS), folder.path());
    let refused = run(&path, &[]);
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && message.contains("embedding_of_mine"), "{message}");
    let names = folder.path().join("names.txt");
    std::fs::write(&names, "embedding_of_mine query_embedding.weight\n").unwrap();
    let named = run(&path, &["--names", names.to_str().unwrap()]);
    assert!(named.status.success(), "{}", String::from_utf8_lossy(&named.stderr));
}
