use super::*;
use crate::dense::testing::Tensors;

fn of(
    op: Gather,
    dims: &[usize],
    values: &[f32],
    of_indices: &[usize],
    indices: &[i32],
) -> Vec<f32> {
    let mut tensors = Tensors::default();
    let (input, indices) = (tensors.floats(dims, values), tensors.indices(of_indices, indices));
    let output = tensors.output(&op.output_dims(dims, of_indices).unwrap());
    gather(&mut tensors.arena, &op, &input, &indices, &output).unwrap();
    tensors.read(&output)
}

#[test]
fn a_table_of_selections() {
    let values = [1.0, 1.2, 2.3, 3.4, 4.5, 5.7];
    let slices = |axis| Gather { axis, mode: Mode::Slices };
    let elements = |axis| Gather { axis, mode: Mode::Elements };
    // ONNX's two examples of Gather, and test_gather_negative_indices.
    let found = of(slices(0), &[3, 2], &values, &[2, 2], &[0, 1, 1, 2]);
    assert_eq!(found, [1.0, 1.2, 2.3, 3.4, 2.3, 3.4, 4.5, 5.7]);
    let nine = [1.0, 1.2, 1.9, 2.3, 3.4, 3.9, 4.5, 5.7, 5.9];
    assert_eq!(of(slices(1), &[3, 3], &nine, &[1, 2], &[0, 2]), [1.0, 1.9, 2.3, 3.9, 4.5, 5.9]);
    assert_eq!(of(slices(0), &[6], &values, &[3], &[0, -1, -6]), [1.0, 5.7, 1.0]);
    // One number leaves the dimension out.
    assert_eq!(of(slices(1), &[3, 2], &values, &[], &[1]), [1.2, 3.4, 5.7]);
    // test_gather_elements_0, test_gather_elements_1 and negative indices.
    let four = [1.0, 2.0, 3.0, 4.0];
    assert_eq!(of(elements(1), &[2, 2], &four, &[2, 2], &[0, 0, 1, 0]), [1.0, 1.0, 4.0, 3.0]);
    let nine: Vec<f32> = (1..=9).map(|v| v as f32).collect();
    let found = of(elements(0), &[3, 3], &nine, &[2, 3], &[1, 2, 0, 2, 0, 0]);
    assert_eq!(found, [4.0, 8.0, 3.0, 7.0, 2.0, 3.0]);
    let found = of(elements(0), &[3, 3], &nine, &[2, 3], &[-1, -2, 0, -2, 0, 0]);
    assert_eq!(found, [7.0, 5.0, 3.0, 4.0, 2.0, 3.0]);
    let absent = of(slices(0), &[2], &four[..2], &[4], &[2, -3, i32::MIN, 1]);
    assert!(absent[..3].iter().all(|value| value.is_nan()) && absent[3] == 2.0);
}

#[test]
fn integers_are_taken_and_what_does_not_fit_is_refused() {
    let op = Gather { axis: 0, mode: Mode::Slices };
    let mut tensors = Tensors::default();
    let input = tensors.indices(&[3], &[10, 20, 30]);
    let indices = tensors.indices(&[2], &[2, 5]);
    let output = tensors.index_output(&[2]);
    gather(&mut tensors.arena, &op, &input, &indices, &output).unwrap();
    assert_eq!(tensors.arena.read_indices(&output).unwrap(), [30, i32::MIN]);
    let floats = tensors.output(&[2]);
    assert!(gather(&mut tensors.arena, &op, &input, &indices, &floats).is_err());
    assert!(gather(&mut tensors.arena, &op, &input, &floats, &output).is_err());
    let three = tensors.index_output(&[3]);
    assert!(gather(&mut tensors.arena, &op, &input, &indices, &three).is_err());
    let elements = Gather { axis: 0, mode: Mode::Elements };
    assert_eq!(elements.output_dims(&[3, 2], &[5, 3]), None);
    assert_eq!(elements.output_dims(&[3, 2], &[5, 2]), Some(vec![5, 2]));
    assert_eq!(op.output_dims(&[2; 5], &[2; 3]), None);
    assert!(check_indices(&[0, 2, -3], 3).is_ok());
    for index in [3, -4, i32::MIN] {
        assert!(check_indices(&[0, index], 3).is_err());
    }
}
