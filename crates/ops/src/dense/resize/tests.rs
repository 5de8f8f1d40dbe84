use super::*;
use crate::dense::testing::Tensors;

/// The change of size of one plane.
fn resized(op: &Resize, [from, to]: [[usize; 2]; 2], values: &[f32]) -> Vec<f32> {
    let mut tensors = Tensors::default();
    let input = tensors.floats(&[1, 1, from[0], from[1]], values);
    let output = tensors.output(&[1, 1, to[0], to[1]]);
    resize(&mut tensors.arena, op, &input, &output).unwrap();
    tensors.read(&output)
}

fn near(found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len());
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() < 1e-5, "{found:?}, expected {expected:?}");
    }
}

const LINEAR: Resize =
    Resize { coordinates: Coordinates::HalfPixel, method: Method::Linear, scales: None };

fn nearest(mode: Nearest, coordinates: Coordinates) -> Resize {
    Resize { coordinates, method: Method::Nearest(mode), scales: None }
}

#[test]
fn linear_values_are_those_of_onnx() {
    let up = [[2, 2], [4, 4]];
    let two = [1.0, 2.0, 3.0, 4.0];
    // test_resize_upsample_scales_linear.
    let expected = [
        [1.0, 1.25, 1.75, 2.0],
        [1.5, 1.75, 2.25, 2.5],
        [2.5, 2.75, 3.25, 3.5],
        [3.0, 3.25, 3.75, 4.0],
    ];
    near(&resized(&LINEAR, up, &two), expected.as_flattened());
    let symmetric = Resize { coordinates: Coordinates::HalfPixelSymmetric, ..LINEAR };
    near(&resized(&symmetric, up, &two), expected.as_flattened());
    // test_resize_upsample_scales_linear_align_corners.
    let corners = Resize { coordinates: Coordinates::AlignCorners, ..LINEAR };
    let third = 1.0 / 3.0;
    let expected: Vec<f32> = (0..4)
        .flat_map(|y| (0..4).map(move |x| 1.0 + 2.0 * third * y as f32 + third * x as f32))
        .collect();
    near(&resized(&corners, up, &two), &expected);
    // test_resize_downsample_scales_linear, and with aligned corners.
    let eight: Vec<f32> = (1..=8).map(|v| v as f32).collect();
    let scaled = |coordinates| Resize { coordinates, scales: Some([0.6; 2]), ..LINEAR };
    let down = [[2, 4], [1, 2]];
    near(&resized(&scaled(Coordinates::HalfPixel), down, &eight), &[2.666_666_5, 4.333_333]);
    near(&resized(&scaled(Coordinates::AlignCorners), down, &eight), &[1.0, 4.0]);
    // test_resize_downsample_sizes_linear_pytorch_half_pixel.
    let sixteen: Vec<f32> = (1..=16).map(|v| v as f32).collect();
    let pytorch = Resize { coordinates: Coordinates::PytorchHalfPixel, ..LINEAR };
    near(&resized(&pytorch, [[4, 4], [3, 1]], &sixteen), &[1.666_666_6, 7.0, 12.333_333]);
    // test_resize_downsample_scales_linear_half_pixel_symmetric.
    let symmetric = scaled(Coordinates::HalfPixelSymmetric);
    near(&resized(&symmetric, [[1, 4], [1, 2]], &eight[..4]), &[1.666_666_7, 3.333_333_3]);
}

#[test]
fn nearest_values_are_those_of_onnx() {
    let two = [1.0, 2.0, 3.0, 4.0];
    // test_resize_upsample_scales_nearest.
    let op = nearest(Nearest::RoundPreferFloor, Coordinates::HalfPixel);
    let found = resized(&op, [[2, 2], [4, 6]], &two);
    let rows = [[1.0, 1.0, 1.0, 2.0, 2.0, 2.0], [3.0, 3.0, 3.0, 4.0, 4.0, 4.0]];
    assert_eq!(found, [rows[0], rows[0], rows[1], rows[1]].concat());
    // test_resize_downsample_scales_nearest.
    let eight: Vec<f32> = (1..=8).map(|v| v as f32).collect();
    let scaled = Resize { scales: Some([0.6; 2]), ..op };
    assert_eq!(resized(&scaled, [[2, 4], [1, 2]], &eight), [1.0, 3.0]);
    // The first rows of test_resize_upsample_sizes_nearest_{ceil_half_pixel,
    // floor_align_corners, round_prefer_ceil_asymmetric}.
    let sixteen: Vec<f32> = (1..=16).map(|v| v as f32).collect();
    for (op, expected) in [
        (nearest(Nearest::Ceil, Coordinates::HalfPixel), [1, 2, 2, 3, 3, 4, 4, 4]),
        (nearest(Nearest::Floor, Coordinates::AlignCorners), [1, 1, 1, 2, 2, 3, 3, 4]),
        (nearest(Nearest::RoundPreferCeil, Coordinates::Asymmetric), [1, 2, 2, 3, 3, 4, 4, 4]),
        (nearest(Nearest::RoundPreferFloor, Coordinates::Asymmetric), [1, 1, 2, 2, 3, 3, 4, 4]),
    ] {
        let found = resized(&op, [[4, 4], [8, 8]], &sixteen);
        assert_eq!(found[..8], expected.map(|v| v as f32), "{op:?}");
    }
}

#[test]
fn one_coordinate_and_equal_sizes() {
    let values = [3.0, 5.0, 7.0];
    for coordinates in [Coordinates::PytorchHalfPixel, Coordinates::AlignCorners] {
        let op = Resize { coordinates, ..LINEAR };
        assert_eq!(resized(&op, [[1, 3], [1, 1]], &values), [3.0]);
    }
    for coordinates in [Coordinates::HalfPixel, Coordinates::AlignCorners, Coordinates::Asymmetric]
    {
        for method in [Method::Linear, Method::Nearest(Nearest::Floor)] {
            let op = Resize { coordinates, method, scales: None };
            assert_eq!(resized(&op, [[1, 3], [1, 3]], &values), values);
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut tensors = Tensors::default();
    let map = tensors.output(&[1, 2, 2, 2]);
    for dims in [&[1, 3, 4, 4][..], &[2, 4, 4]] {
        let output = tensors.output(dims);
        assert!(LINEAR.check(&map, &output).is_err(), "{dims:?}");
    }
    let output = tensors.output(&[1, 2, 4, 4]);
    assert!(LINEAR.check(&map, &output).is_ok());
    for scale in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        assert!(Resize { scales: Some([1.0, scale]), ..LINEAR }.check(&map, &output).is_err());
    }
}
