use super::*;
use crate::dense::testing::Tensors;

#[test]
fn a_table_of_updates() {
    // ONNX's first example, then one with slices and negative indices.
    let mut tensors = Tensors::default();
    let values: Vec<f32> = (1..=8).map(|v| v as f32).collect();
    let output = tensors.floats(&[8], &values);
    let scatter = Scatter {
        indices: tensors.indices(&[4, 1], &[4, 3, 1, 7]),
        updates: tensors.floats(&[4], &[9.0, 10.0, 11.0, 12.0]),
        output,
    };
    scatter_nd(&mut tensors.arena, &scatter).unwrap();
    assert_eq!(tensors.read(&output), [1.0, 11.0, 3.0, 10.0, 9.0, 6.0, 7.0, 12.0]);
    let output = tensors.indices(&[2, 2, 2], &[0; 8]);
    let scatter = Scatter {
        indices: tensors.indices(&[1, 3, 2], &[0, -1, -1, 0, 2, 0]),
        updates: tensors.indices(&[1, 3, 2], &[1, 2, 3, 4, 5, 6]),
        output,
    };
    scatter_nd(&mut tensors.arena, &scatter).unwrap();
    assert_eq!(tensors.arena.read_indices(&output).unwrap(), [0, 0, 1, 2, 3, 4, 0, 0]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut tensors = Tensors::default();
    let output = tensors.output(&[4, 3]);
    let mut check = |indices: &[usize], updates: &[usize]| {
        let scatter = Scatter {
            indices: tensors.index_output(indices),
            updates: tensors.output(updates),
            output,
        };
        scatter.check()
    };
    assert_eq!(check(&[5, 1], &[5, 3]).unwrap(), 1);
    assert_eq!(check(&[2], &[]).unwrap(), 2);
    for (indices, updates) in
        [(&[5, 1][..], &[5][..]), (&[5, 3], &[5]), (&[], &[4, 3]), (&[5, 0], &[5, 4, 3])]
    {
        assert!(check(indices, updates).is_err(), "{indices:?}");
    }
    assert!(check_indices(&[0, 1, 3, -1, -1, 0], 2, &[4, 3]).is_ok());
    assert!(check_indices(&[0, 1, 0, 1], 2, &[4, 3]).is_err());
    assert!(check_indices(&[3, 2, -1, -1], 2, &[4, 3]).is_err());
    assert!(check_indices(&[4, 0], 2, &[4, 3]).is_err());
}
