//! Files of sparse networks: both dialects give the same list of operations,
//! and everything that is wrong in a file is refused by name.

use std::fmt::Write;

use det_post_infer::sparse::{
    Dialect, GridAxes, Operator, Origin, SparseFile, SparseNetwork, load, parse,
};
use det_post_ops::sparse::rulebook::Mode;
use det_post_testing::onnx::Attr;
use det_post_testing::shared_data::shared_data;
use det_post_testing::sparse_onnx::{ENCODER, File, Node, autoware, conv, scn};
use det_post_types::ElementType;

/// The operations without their names, one a line, with the level and channels
/// of their outputs.
fn listing(network: &SparseNetwork) -> String {
    let mut lines = String::new();
    for operation in &network.operations {
        let tensor = network.tensors[operation.output];
        let shown = match &operation.operator {
            Operator::Convolution(conv) => {
                let sum: f32 = conv.weight.iter().sum();
                let bias = conv.bias.as_deref().map(|bias| bias.iter().sum::<f32>());
                format!("{:?} {} {} {sum} {bias:?}", conv.mode, conv.input, conv.geometry)
            }
            other => format!("{other:?}"),
        };
        writeln!(lines, "{shown} -> level {} [{}]", tensor.level, tensor.channels).unwrap();
    }
    lines
}

fn read(file: &File) -> SparseFile {
    parse(&file.to_bytes()).unwrap()
}

/// The message with which a file is refused.
fn refusal(file: &File) -> String {
    parse(&file.to_bytes()).expect_err("the file is wrong").to_string()
}

fn assert_same(a: &SparseNetwork, b: &SparseNetwork) {
    assert_eq!(a.levels, b.levels);
    assert_eq!(a.tensors, b.tensors);
    assert_eq!((a.axes, a.map), (b.axes, b.map));
    assert_eq!(listing(a), listing(b));
    for (a, b) in a.operations.iter().zip(&b.operations) {
        assert_eq!(a.operator, b.operator, "{} and {}", a.name, b.name);
    }
}

#[test]
fn both_dialects_give_the_same_list() {
    let (scn, autoware) = (read(&scn()), read(&autoware()));
    assert_eq!((scn.dialect, autoware.dialect), (Dialect::Scn, Dialect::Autoware));
    assert_eq!((&scn.rest, &autoware.rest), (&None, &None));
    assert_same(&scn.network, &autoware.network);
    let network = scn.network;
    assert_eq!(network.input_channels(), 3);
    assert_eq!(network.map_shape(), [1, 8, 3, 4]);
    assert_eq!(network.axes, GridAxes::Zyx);
    let shapes: Vec<_> = network.levels.iter().map(|level| level.shape).collect();
    assert_eq!(shapes, [[9, 6, 8], [5, 3, 4], [2, 3, 4]]);
    let kinds: Vec<_> = network
        .operations
        .iter()
        .map(|operation| match &operation.operator {
            Operator::Convolution(conv) if conv.mode == Mode::Submanifold => 'm',
            Operator::Convolution(_) => 's',
            Operator::Add { .. } => '+',
            Operator::Relu { .. } => 'r',
            Operator::MaxPool { .. } => 'p',
            Operator::Merge { .. } => 'u',
        })
        .collect();
    assert_eq!(kinds.iter().collect::<String>(), "mrm+rsrsr");
}

#[test]
fn the_shared_files_give_the_same_list() {
    let Some(root) = shared_data() else { return };
    let open = |name: &str| load(&root.join("sparse").join(name)).unwrap();
    let (scn, autoware) = (open("tiny.scn.onnx"), open("tiny_autoware.onnx"));
    assert_eq!((scn.dialect, autoware.dialect), (Dialect::Scn, Dialect::Autoware));
    assert_same(&scn.network, &autoware.network);
    let network = &scn.network;
    let shapes: Vec<_> = network.levels.iter().map(|level| level.shape).collect();
    assert_eq!(shapes, [[41, 24, 32], [21, 12, 16], [11, 6, 8], [5, 3, 4], [2, 3, 4]]);
    let Origin::Strided { from: 2, geometry } = network.levels[3].origin else { panic!() };
    assert_eq!(geometry.padding, [0, 1, 1]);
    assert_eq!(network.operations.len(), 13 + 9 + 4 + 4, "convolutions, ReLUs, sums, ReLUs");
    assert_eq!(network.num_parameters(), 341_536 / 4);
    assert_eq!(network.map_shape(), [1, 32, 3, 4]);
    let Operator::Convolution(first) = &network.operations[0].operator else { panic!() };
    assert_eq!(first.weight.len(), 8 * 27 * 5);
}

/// Values near the one that an attribute has.
fn changed(value: &Attr) -> Vec<Attr> {
    let text = |text: &&'static str| match *text {
        "None" => vec!["ReLU", "Sigmoid", "LeakyReLU", "relu", ""],
        "ReLU" => vec!["None", "Sigmoid", "LeakyReLU", "relu", ""],
        "zyx" => vec!["xyz", "yxz", ""],
        _ => vec!["", "unknown"],
    };
    let mut changed = match value {
        Attr::Int(value) => {
            vec![value + 1, value - 1, -5, i64::MAX, i64::MIN].into_iter().map(Attr::Int).collect()
        }
        Attr::Float(value) => vec![Attr::Float(value + 0.5), Attr::Float(f32::NAN)],
        Attr::Text(value) => text(value).into_iter().map(Attr::Text).collect(),
        Attr::Floats(_) => vec![],
        Attr::Ints(values) => {
            let mut lists = vec![vec![], values[1..].to_vec(), [&values[..], &[1]].concat()];
            for at in 0..values.len() {
                for other in [values[at] + 1, values[at] - 1, -1, i64::MAX, i64::MIN] {
                    let mut list = values.clone();
                    list[at] = other;
                    lists.push(list);
                }
            }
            lists.into_iter().filter(|list| list != values).map(Attr::Ints).collect()
        }
    };
    // The same in another type.
    changed.push(match value {
        Attr::Int(_) => Attr::Text("1"),
        _ => Attr::Int(1),
    });
    changed
}

/// Removes and changes every attribute of every node. A file that is still read
/// has to give what `may_pass` says of (node, attribute, new value): true where
/// the value has no meaning, so that the list is the same, and false where
/// another network is as good a network.
fn every_attribute(file: &File, may_pass: impl Fn(&Node, &str, Option<&Attr>) -> Option<bool>) {
    let original = read(file).network;
    let (mut num_refused, mut num_passed) = (0, 0);
    for at in 0..file.nodes.len() {
        for index in 0..file.nodes[at].attributes.len() {
            let (name, value) = file.nodes[at].attributes[index].clone();
            let others = changed(&value).into_iter().map(Some).chain([None]);
            for other in others {
                let mut file = file.clone();
                match &other {
                    Some(other) => file.nodes[at].set(name, other.clone()),
                    None => drop(file.nodes[at].attributes.remove(index)),
                }
                let node = &file.nodes[at];
                let case = format!("{}_{at} {name} {other:?}", node.op);
                match parse(&file.to_bytes()) {
                    Err(error) => {
                        num_refused += 1;
                        let text = error.to_string();
                        let node = format!("{}_{at}", node.op);
                        // A contradiction may show at the node whose grid follows.
                        let is_named = text.contains(&node)
                            || text.contains(name)
                            || text.contains("spatial_shape")
                            || text.contains("ScatterND_15: zeros of");
                        assert!(is_named, "{case}: the node is not named: {text}");
                        // Of standard nodes only the combination is known.
                        let named = text.contains(name)
                            || file.nodes[at].domain.is_empty() && text.contains("understood")
                            || text.contains("spatial_shape")
                            || text.contains("kernel")
                            || text.contains("is expected")
                            || text.contains("terms of a sum");
                        assert!(named, "{case}: the attribute is not named: {text}");
                    }
                    Ok(read) => {
                        num_passed += 1;
                        match may_pass(node, name, other.as_ref()) {
                            Some(true) => assert_same(&read.network, &original),
                            Some(false) => assert_ne!(read.network, original, "{case}"),
                            None => panic!("{case}: read as if nothing had changed"),
                        }
                    }
                }
            }
        }
    }
    println!("{num_refused} files refused, {num_passed} read");
    assert!(num_refused > 10 * num_passed, "{num_refused} refused, {num_passed} read");
}

#[test]
fn every_attribute_of_scn_counts() {
    every_attribute(&scn(), |node, name, value| match (name, value) {
        // A key has no meaning of its own, and may be absent.
        ("rulebook", _) => Some(true),
        // Sizes of the example and of allocations.
        ("output_bound", None | Some(Attr::Int(1..))) => Some(true),
        ("input_shape" | "output_shape", Some(Attr::Ints(_))) => Some(true),
        // As in spconv, submanifold convolutions are centred whatever it says.
        ("padding", Some(Attr::Ints(_))) => {
            let is_subm =
                node.attributes.iter().any(|(name, value)| *name == "subm" && is_int(value, 1));
            is_subm.then_some(true)
        }
        // Other networks with the same grids.
        ("activation", Some(Attr::Text("ReLU" | "None"))) => Some(false),
        ("dilation", Some(Attr::Ints(_))) | ("subm", Some(Attr::Int(0))) => Some(false),
        ("format", Some(Attr::Text("xyz"))) => Some(false),
        _ => None,
    });
}

fn is_int(value: &Attr, expected: i64) -> bool {
    matches!(value, Attr::Int(value) if *value == expected)
}

#[test]
fn every_attribute_of_autoware_counts() {
    every_attribute(&autoware(), |node, name, value| match (name, value) {
        ("do_sort", None | Some(Attr::Int(0 | 1))) => Some(true),
        // How spconv computes; all of them give the same pairs.
        ("algo", Some(Attr::Int(0..=2))) => Some(true),
        ("output_scale" | "output_add_scale", _) => None,
        ("act_type", None | Some(Attr::Int(0 | 1))) if is_relu(node, value) => Some(false),
        ("act_type", None | Some(Attr::Int(0 | 1))) => Some(true),
        ("padding", Some(Attr::Ints(_))) => {
            let is_subm =
                node.attributes.iter().any(|(name, value)| *name == "subm" && is_int(value, 1));
            is_subm.then_some(true)
        }
        ("dilation", Some(Attr::Ints(_))) => Some(false),
        // Padding and strides that lead to the same grid give another network.
        ("to", _) => Some(true),
        _ => None,
    });
}

/// Whether the value differs from what `act_type` was.
fn is_relu(node: &Node, value: Option<&Attr>) -> bool {
    let was = node.outputs[0] != "2";
    let is = value.is_some_and(|value| is_int(value, 1));
    was != is
}

#[test]
fn extensions_of_scn_are_read() {
    let original = read(&scn()).network;
    let mut floats = scn();
    floats.half = false;
    floats.inputs[0].1 = ElementType::F32;
    floats.nodes.iter_mut().for_each(|node| node.domain = "det_post");
    floats.metadata.push(("point_channels".into(), "x y, intensity".into()));
    let file = read(&floats);
    assert_same(&file.network, &original);
    assert_eq!(file.point_channels.unwrap(), ["x", "y", "intensity"]);
    floats.metadata[0].1 = "x y".into();
    assert!(refusal(&floats).contains("point_channels names 2 channels, the network takes 3"));

    let mut without_bias = scn();
    without_bias.nodes[0].inputs.pop();
    let Operator::Convolution(first) = &read(&without_bias).network.operations[0].operator else {
        panic!()
    };
    assert!(first.bias.is_none());
    without_bias.nodes[0].inputs.push(String::new());
    assert!(parse(&without_bias.to_bytes()).is_ok(), "left out by an empty name");

    let mut calibrated = scn();
    for name in ["precision", "output_precision"] {
        calibrated.nodes[0].attributes.push((name, Attr::Text("fp16")));
    }
    calibrated.nodes[0].attributes.push(("input_dynamic_range", Attr::Float(3.0)));
    calibrated.nodes[0].attributes.push(("weight_dynamic_ranges", Attr::Floats(vec![1.0; 4])));
    calibrated.nodes[0].attributes.push(("fixed_launch_points", Attr::Int(1000)));
    assert_same(&read(&calibrated).network, &original);
}

#[test]
fn int8_is_refused_by_name() {
    for (at, name, value) in [
        (0, "precision", Attr::Text("int8")),
        (0, "output_precision", Attr::Text("int8")),
        (1, "input_dynamic_range", Attr::Float(3.0)),
        (1, "weight_dynamic_ranges", Attr::Floats(vec![1.0; 4])),
        (2, "input0_dynamic_range", Attr::Float(3.0)),
        (2, "precision", Attr::Text("int8")),
        (6, "input_dynamic_range", Attr::Float(3.0)),
    ] {
        let mut file = scn();
        file.nodes[at].attributes.push((name, value));
        let text = refusal(&file);
        let node = format!("{}_{at}: attribute {name}", file.nodes[at].op);
        assert!(text.contains(&node), "{text}");
    }
}

/// The three ways in which shipped files lay out the map.
#[test]
fn every_layout_of_the_map_is_read() {
    let with = |format, dims: [i64; 4], transpose: Option<[i64; 5]>, reshaped: [i64; 4]| {
        let mut file = scn();
        file.nodes.truncate(6);
        file.scatter_dense("6", "7", format, dims);
        let last = match transpose {
            Some(order) => {
                file.op("Transpose", &["7"], "t", vec![("dims", Attr::Ints(order.to_vec()))]);
                "t"
            }
            None => "7",
        };
        file.op("Reshape", &[last], "8", vec![("dims", Attr::Ints(reshaped.to_vec()))]);
        file.outputs[0].1 = reshaped.to_vec();
        read(&file).network
    };
    let grid = [4, 2, 3, 4];
    let network = with("zyx", grid, None, [1, 8, 3, 4]);
    assert_eq!((network.axes, network.map.axes), (GridAxes::Zyx, [0, 1, 2]));
    let network = with("zyx", grid, Some([0, 1, 2, 4, 3]), [1, 8, 4, 3]);
    assert_eq!((network.axes, network.map.axes), (GridAxes::Zyx, [0, 2, 1]));
    let network = with("xyz", grid, Some([0, 1, 4, 2, 3]), [1, 16, 2, 3]);
    assert_eq!((network.axes, network.map.axes), (GridAxes::Xyz, [2, 0, 1]));
    assert_eq!(network.map_shape(), [1, 16, 2, 3]);
}

/// A transposed and an inverse convolution, which no shipped encoder has.
#[test]
fn transposed_and_inverse_convolutions_are_read() {
    const DOWN: [[i64; 3]; 3] = [[3; 3], [2; 3], [1; 3]];
    let mut file = scn();
    file.nodes.truncate(4);
    file.scn_conv(&ENCODER[2], "4", "5");
    let mut back = conv([8, 4], [[3; 3], [1; 3], [0; 3]], [1, 0], [0, 0, 1], "down1", false);
    file.scn_conv(&back, "5", "6");
    file.op("Add", &["6", "4"], "7", vec![]);
    let mut up = conv([4, 4], DOWN, [0, 0], [0, 1, 0], "up", true);
    up.grids[1] = [17, 11, 15];
    file.scn_conv(&up, "7", "8");
    file.scatter_dense("8", "9", "zyx", [4, 17, 11, 15]);
    file.op("Reshape", &["9"], "10", vec![("dims", Attr::Ints(vec![1, 68, 11, 15]))]);
    file.outputs = vec![("10".into(), vec![1, 68, 11, 15])];
    let network = read(&file).network;
    let shapes: Vec<_> = network.levels.iter().map(|level| level.shape).collect();
    assert_eq!(shapes, [[9, 6, 8], [5, 3, 4], [17, 11, 15]]);
    let modes: Vec<_> = network
        .operations
        .iter()
        .filter_map(|operation| match &operation.operator {
            Operator::Convolution(conv) => {
                Some((conv.mode, network.tensors[operation.output].level))
            }
            _ => None,
        })
        .collect();
    assert_eq!(modes[2..], [(Mode::Strided, 1), (Mode::Inverse, 0), (Mode::Transposed, 2)]);

    back.key = "unknown";
    file.nodes[5].set("rulebook", Attr::Text(back.key));
    let text = refusal(&file);
    assert!(
        text.contains("SparseConvolution_5: attribute inverse is 1 and rulebook unknown, which no"),
        "{text}"
    );
}

/// What is wrong with a file and part of the message that says so.
#[test]
fn wrong_wiring_is_refused() {
    type Edit = fn(&mut File);
    let cases: [(Edit, &str); 18] = [
        (|f| f.nodes[3].op = "Sigmoid", "Sigmoid_3: unknown operator"),
        (|f| f.nodes[3].domain = "com.example", "Relu_3: unknown domain com.example"),
        (|f| f.nodes[3].inputs[0] = "9".into(), "Relu_3: input 9 is not written before"),
        (
            |f| f.nodes[2].inputs[1] = "0".into(),
            "Add_2: the terms of a sum do not match: SparseConvolution_1 (4 channels",
        ),
        (|f| f.nodes[2].inputs.push("1".into()), "Add_2: 3 inputs exceed the limit of 2"),
        (|f| f.nodes[2].inputs.truncate(1), "Add_2: 1 inputs, at least 2 required"),
        (|f| f.nodes[2].outputs[0] = "2".into(), "Add_2: tensor 2 is defined twice"),
        (|f| f.nodes[2].outputs.clear(), "0 outputs; one is expected"),
        (|f| f.nodes[0].inputs[1] = "0".into(), "SparseConvolution_0: input 0 is not a constant"),
        (|f| f.constants[0].1[3] = 4, "is [4, 3, 3, 4, 3]; [4, 3, 3, 3, 3] is expected"),
        (|f| f.constants[0].2.truncate(5), "SparseConvolution_0: initializer spconv0.weight has"),
        (|f| f.constants[0].2[7] = f32::NAN, "initializer spconv0.weight: value 7 is NaN"),
        (|f| f.nodes[4].inputs[0] = "3".into(), "its output is not used"),
        (|f| f.nodes[7].inputs[0] = "6".into(), "Reshape_7: input 6 is not an output of"),
        (|f| f.outputs[0].0 = "7".into(), "output 7 is not written by a Reshape"),
        (|f| f.outputs[0].1[1] = 9, "output 8 is [Some(1), Some(9)"),
        (|f| f.inputs.push(("1b".into(), ElementType::F16, vec![1])), "2 inputs; one is expected"),
        (|f| f.inputs[0].2 = vec![50, 4], "attribute in_channels is 3; 4 is expected"),
    ];
    for (at, (edit, expected)) in cases.into_iter().enumerate() {
        let mut file = scn();
        edit(&mut file);
        let text = refusal(&file);
        assert!(text.contains(expected), "case {at}: {text}");
    }
}

#[test]
fn keys_of_strided_convolutions_agree_with_their_geometry() {
    let mut file = scn();
    file.nodes[5].set("rulebook", Attr::Text("down1"));
    let text = refusal(&file);
    assert!(text.contains("SparseConvolution_5: attribute rulebook down1 belongs to"), "{text}");
}

#[test]
fn what_is_no_network_is_refused() {
    for (bytes, expected) in [
        (&b""[..], "the file holds no graph"),
        (b"\x08\x08", "the file holds no graph"),
        (b"not an ONNX file", "ModelProto at byte"),
        (&[0x3a, 0x00], "no sparse convolution"),
        (&[0x3a, 0x05, 0x0a], "5 bytes where 1 are left"),
    ] {
        let error = parse(bytes).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("encoder.onnx");
    std::fs::write(&path, b"\x08\x08").unwrap();
    let error = load(&path).unwrap_err();
    assert!(error.to_string().contains("encoder.onnx: onnx: the file holds no graph"), "{error}");
    let error = load(&folder.path().join("absent.onnx")).unwrap_err();
    assert!(error.to_string().contains("cannot read"), "{error}");
}
