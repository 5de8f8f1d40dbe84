use super::*;
use crate::dense::testing::Tensors;

fn of(dims: &[usize], op: ArgMax, values: &[f32]) -> Vec<i32> {
    let mut tensors = Tensors::default();
    let mut out = dims.to_vec();
    out[op.axis] = 1;
    let (input, output) = (tensors.floats(dims, values), tensors.index_output(&out));
    arg_max(&mut tensors.arena, &op, &input, &output).unwrap();
    tensors.arena.read_indices(&output).unwrap()
}

#[test]
fn a_table_of_rows() {
    let first = ArgMax { axis: 1, is_smallest: false, is_last: false };
    let last = ArgMax { is_last: true, ..first };
    let smallest = ArgMax { is_smallest: true, ..first };
    // test_argmax_no_keepdims_example and its twin that selects the last.
    assert_eq!(of(&[2, 2], first, &[2.0, 1.0, 3.0, 10.0]), [0, 1]);
    assert_eq!(of(&[2, 2], first, &[2.0, 2.0, 3.0, 10.0]), [0, 1]);
    assert_eq!(of(&[2, 2], last, &[2.0, 2.0, 3.0, 10.0]), [1, 1]);
    assert_eq!(of(&[2, 2], smallest, &[2.0, 1.0, 3.0, 10.0]), [1, 0]);
    assert_eq!(of(&[2, 2], ArgMax { axis: 0, ..first }, &[2.0, 11.0, 3.0, 10.0]), [1, 0]);
    let zeros = [-0.0, 0.0, f32::NAN];
    assert_eq!(of(&[1, 3], first, &zeros), [0]);
    assert_eq!(of(&[1, 3], last, &zeros), [1]);
    assert_eq!(of(&[1, 3], smallest, &zeros), [0]);
    assert_eq!(of(&[1, 3], first, &[f32::NAN; 3]), [0]);
    assert_eq!(of(&[1, 3], last, &[f32::NAN; 3]), [2]);
    assert_eq!(of(&[1, 2], first, &[f32::NAN, f32::NEG_INFINITY]), [1]);
    assert_eq!(of(&[1, 2], smallest, &[f32::NAN, f32::INFINITY]), [1]);
}
