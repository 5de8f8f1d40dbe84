use super::*;
use crate::dense::testing::Tensors;

fn of(axis: usize, [is_exclusive, is_reversed]: [bool; 2], values: &[f32]) -> Vec<f32> {
    let mut tensors = Tensors::default();
    let region = tensors.floats(&[2, values.len() / 2], values);
    let op = CumSum { axis, is_exclusive, is_reversed };
    cumsum(&mut tensors.arena, &op, &region, &region).unwrap();
    tensors.read(&region)
}

#[test]
fn a_table_of_sums() {
    // test_cumsum_2d_axis_0, test_cumsum_2d_axis_1 and the rows of test_cumsum_1d_*.
    let six = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    assert_eq!(of(0, [false, false], &six), [1.0, 2.0, 3.0, 5.0, 7.0, 9.0]);
    assert_eq!(of(1, [false, false], &six), [1.0, 3.0, 6.0, 4.0, 9.0, 15.0]);
    assert_eq!(of(1, [true, false], &six), [0.0, 1.0, 3.0, 0.0, 4.0, 9.0]);
    assert_eq!(of(1, [false, true], &six), [6.0, 5.0, 3.0, 15.0, 11.0, 6.0]);
    assert_eq!(of(1, [true, true], &six), [5.0, 3.0, 0.0, 11.0, 6.0, 0.0]);
    let mut tensors = Tensors::default();
    let (input, output) = (tensors.indices(&[3], &[1, i32::MAX, 2]), tensors.index_output(&[3]));
    let op = CumSum { axis: 0, is_exclusive: false, is_reversed: false };
    cumsum(&mut tensors.arena, &op, &input, &output).unwrap();
    assert_eq!(tensors.arena.read_indices(&output).unwrap(), [1, i32::MIN, i32::MIN + 2]);
    let floats = tensors.output(&[3]);
    assert!(cumsum(&mut tensors.arena, &op, &input, &floats).is_err());
    assert!(CumSum { axis: 1, ..op }.check(&input, &output).is_err());
}
