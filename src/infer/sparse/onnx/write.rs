//! Writing a model from pieces of another one.

const VARINT: u64 = 0;
const BYTES: u64 = 2;

/// A graph `rest` of nodes, constants and outputs as they stand in a file, with
/// one input of f32.
pub(in super::super) fn graph<'a>(
    nodes: impl Iterator<Item = &'a [u8]>,
    initializers: impl Iterator<Item = &'a [u8]>,
    (input, shape): (&str, [usize; 4]),
    outputs: impl Iterator<Item = &'a [u8]>,
) -> Vec<u8> {
    let mut graph = Vec::new();
    nodes.for_each(|node| put_bytes(&mut graph, 1, node));
    put_bytes(&mut graph, 2, b"rest");
    initializers.for_each(|tensor| put_bytes(&mut graph, 5, tensor));
    put_bytes(&mut graph, 11, &value_info(input, shape));
    outputs.for_each(|output| put_bytes(&mut graph, 12, output));
    graph
}

/// A model of a graph.
pub(in super::super) fn model(ir_version: i64, operator_sets: &[&[u8]], graph: &[u8]) -> Vec<u8> {
    let mut model = Vec::with_capacity(graph.len() + 256);
    put_int(&mut model, 1, ir_version.cast_unsigned());
    put_bytes(&mut model, 2, b"det_post");
    put_bytes(&mut model, 7, graph);
    operator_sets.iter().for_each(|set| put_bytes(&mut model, 8, set));
    model
}

/// A ValueInfoProto of a tensor of f32.
fn value_info(name: &str, shape: [usize; 4]) -> Vec<u8> {
    let mut dims = Vec::new();
    for dim in shape {
        let mut dimension = Vec::new();
        put_int(&mut dimension, 1, dim as u64);
        put_bytes(&mut dims, 1, &dimension);
    }
    let mut tensor = Vec::new();
    put_int(&mut tensor, 1, 1);
    put_bytes(&mut tensor, 2, &dims);
    let mut of_type = Vec::new();
    put_bytes(&mut of_type, 1, &tensor);
    let mut info = Vec::new();
    put_bytes(&mut info, 1, name.as_bytes());
    put_bytes(&mut info, 2, &of_type);
    info
}

fn put_int(to: &mut Vec<u8>, field: u64, value: u64) {
    put_varint(to, field << 3 | VARINT);
    put_varint(to, value);
}

fn put_bytes(to: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    put_varint(to, field << 3 | BYTES);
    put_varint(to, bytes.len() as u64);
    to.extend_from_slice(bytes);
}

fn put_varint(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}
