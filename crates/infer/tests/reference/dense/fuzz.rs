//! Files that are broken or hostile: an error, no panic, and little work.

use std::time::Instant;

use det_post_infer::dense::{Network, Precision};
use det_post_testing::onnx::{Attr, Graph};
use det_post_types::ElementType::F32;
use det_post_types::ErrorKind;

use super::shape_of;

fn seed() -> Vec<u8> {
    Graph::new("seed", "")
        .input("x", F32, &[1, 3, 8, 8])
        .constant("w", &[4, 3, 3, 3], &[0.1; 108])
        .integers("shape", &[1, 2, 2, 64])
        .integers("starts", &[0, 1])
        .integers("ends", &[2, 9])
        .node(
            "Conv",
            &["x", "w"],
            &["a"],
            &[("pads", Attr::Ints(vec![1; 4])), ("strides", Attr::Ints(vec![1, 1]))],
        )
        .op("Sigmoid", &["a"], "b")
        .op("Mul", &["a", "b"], "c")
        .node(
            "MaxPool",
            &["c"],
            &["d"],
            &[("kernel_shape", Attr::Ints(vec![3, 3])), ("pads", Attr::Ints(vec![1; 4]))],
        )
        .node("Concat", &["c", "d"], &["e"], &[("axis", Attr::Int(1))])
        .op("Slice", &["e", "starts", "ends"], "f")
        .op("Reshape", &["a", "shape"], "g")
        .node("Transpose", &["g"], &["h"], &[("perm", Attr::Ints(vec![0, 2, 1, 3]))])
        .node("Softmax", &["h"], &["i"], &[("axis", Attr::Int(2))])
        .output("f", F32, &[-1, -1, -1, -1])
        .output("i", F32, &[1, 2, 2, 64])
        .to_bytes()
}

#[test]
fn mutated_files_are_read_or_refused() {
    let num = std::env::var("DET_POST_FUZZ_ITERATIONS");
    let num: u64 = num.ok().and_then(|num| num.parse().ok()).unwrap_or(3000);
    let original = seed();
    let begin = Instant::now();
    let (mut num_read, mut slowest) = (0, 0.0_f64);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for _ in 0..num {
        let mut bytes = original.clone();
        for _ in 0..1 + next() % 4 {
            let at = (next() % bytes.len() as u64) as usize;
            match next() % 4 {
                0 => bytes[at] = next() as u8,
                1 => bytes[at] ^= 1 << (next() % 8),
                2 => drop(bytes.remove(at)),
                _ => bytes.insert(at, next() as u8),
            }
        }
        let one = Instant::now();
        match Network::new(&bytes, Precision::F16, &shape_of) {
            Ok(_) => num_read += 1,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Model, "{error:?}"),
        }
        slowest = slowest.max(one.elapsed().as_secs_f64());
    }
    println!("{num} files, {num_read} read, the slowest in {slowest:.3} s, {:?}", begin.elapsed());
    assert!(num_read > 0 && slowest < 20.0);
}

fn refusal(graph: &Graph) -> String {
    let error = Network::new(&graph.to_bytes(), Precision::F16, &shape_of).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Model);
    error.message().to_owned()
}

#[test]
fn the_first_node_that_is_not_covered_is_named() {
    let graph = || Graph::new("refused", "").input("x", F32, &[1, 3, 8, 8]);
    let message =
        refusal(&graph().op("Relu", &["x"], "a").op("Det", &["a"], "y").output("y", F32, &[]));
    assert_eq!(message, "Det Det_1: the operator is not covered");
    let cubic = [("mode", Attr::Text("cubic"))];
    let message = refusal(
        &graph()
            .constant("s", &[4], &[1.0, 1.0, 2.0, 2.0])
            .node("Resize", &["x", "", "s"], &["y"], &cubic)
            .output("y", F32, &[]),
    );
    assert_eq!(message, "Resize Resize_0: mode cubic; nearest and linear are covered");
    let message =
        refusal(&graph().node_of("mine", "Relu", &["x"], &["y"], &[]).output("y", F32, &[]));
    assert_eq!(message, "Relu Relu_0: an operator of mine is not covered");
}

#[test]
fn large_shapes_cost_little() {
    let large = |shape: &[i64], op: &str| {
        let begin = Instant::now();
        let graph = Graph::new("large", "")
            .input("x", F32, &[1, 1])
            .integers("shape", shape)
            .op(op, &["x", "shape"], "y")
            .output("y", F32, &[]);
        let message = refusal(&graph);
        assert!(begin.elapsed().as_secs() < 5, "{message}");
        message
    };
    assert!(large(&[1 << 40, 1 << 40], "Expand").contains("exceeds the limit of"));
    assert!(large(&[1 << 20, 1 << 20], "Tile").contains("exceeds the limit of"));
    let graph = Graph::new("large", "")
        .input("x", F32, &[1, 1])
        .integers("shape", &[1 << 20, 1 << 20])
        .op("ConstantOfShape", &["shape"], "y")
        .output("y", F32, &[]);
    assert!(refusal(&graph).contains("a constant of"));
}
