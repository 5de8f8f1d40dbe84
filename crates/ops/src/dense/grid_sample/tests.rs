use super::*;
use crate::dense::testing::Tensors;

const LINEAR: GridSample =
    GridSample { method: Method::Linear, padding: Padding::Zeros, aligns_corners: false };

/// Samples of one plane.
fn of(op: GridSample, [h, w]: [usize; 2], values: &[f32], places: &[[f32; 2]]) -> Vec<f32> {
    let mut tensors = Tensors::default();
    let input = tensors.floats(&[1, 1, h, w], values);
    let grid = tensors.floats(&[1, 1, places.len(), 2], places.as_flattened());
    let output = tensors.output(&[1, 1, 1, places.len()]);
    grid_sample(&mut tensors.arena, &op, &input, &grid, &output).unwrap();
    tensors.read(&output)
}

#[test]
fn values_are_those_of_onnx() {
    // test_gridsample_bilinear, test_gridsample_aligncorners_true, _zeros_padding,
    // _border_padding and _nearest.
    let places = [
        [-10.0, -10.0],
        [-5.0, -5.0],
        [-0.2, -0.2],
        [10.0, 10.0],
        [10.0, 10.0],
        [-0.2, -0.2],
        [5.0, 5.0],
        [10.0, 10.0],
    ];
    let six = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0];
    let near = |found: Vec<f32>, expected: [f32; 8]| {
        let pairs = found.iter().zip(expected);
        assert!(pairs.clone().all(|(a, b)| (a - b).abs() < 1e-5), "{found:?} {expected:?}");
    };
    let size = [3, 2];
    near(of(LINEAR, size, &six, &places), [0.0, 0.0, 1.7, 0.0, 0.0, 1.7, 0.0, 0.0]);
    let border = GridSample { padding: Padding::Border, ..LINEAR };
    near(of(border, size, &six, &places), [0.0, 0.0, 1.7, 5.0, 5.0, 1.7, 5.0, 5.0]);
    let nearest = GridSample { method: Method::Nearest, padding: Padding::Zeros, ..LINEAR };
    near(of(nearest, size, &six, &places), [0.0, 0.0, 2.0, 0.0, 0.0, 2.0, 0.0, 0.0]);
    let aligned = GridSample { aligns_corners: true, ..LINEAR };
    near(of(aligned, size, &six, &places), [0.0, 0.0, 2.0, 0.0, 0.0, 2.0, 0.0, 0.0]);
}

#[test]
fn edges_and_what_is_no_number() {
    let four = [1.0, 2.0, 3.0, 4.0];
    let places = [[-1.0, -1.0], [1.0, 1.0], [f32::NAN, 0.0], [0.0, 0.0], [f32::INFINITY, 0.0]];
    let aligned = GridSample { aligns_corners: true, ..LINEAR };
    assert_eq!(of(aligned, [2, 2], &four, &places), [1.0, 4.0, 0.0, 2.5, 0.0]);
    // A quarter of the outer values.
    assert_eq!(of(LINEAR, [2, 2], &four, &places)[..2], [0.25, 1.0]);
    let border = GridSample { padding: Padding::Border, ..LINEAR };
    assert_eq!(of(border, [2, 2], &four, &places), [1.0, 4.0, 2.0, 2.5, 3.0]);
    let mut tensors = Tensors::default();
    let map = tensors.output(&[1, 2, 2, 2]);
    for (grid, to, fits) in [
        (&[1, 3, 4, 2][..], &[1, 2, 3, 4][..], true),
        (&[1, 3, 4, 3], &[1, 2, 3, 4], false),
        (&[1, 3, 4, 2], &[1, 2, 4, 3], false),
        (&[2, 3, 4, 2], &[2, 2, 3, 4], false),
    ] {
        let (grid, output) = (tensors.output(grid), tensors.output(to));
        assert_eq!(LINEAR.check(&map, &grid, &output).is_ok(), fits);
    }
}
