use super::*;
use crate::dense::host::HostBuffer;
use crate::dense::{Activation, Residual, Window};

fn push(arena: &mut HostArena, dims: &[usize], values: &[f32]) -> Region {
    let buffer = arena.push(HostBuffer::F32(values.to_vec()));
    Region { buffer, window: Window::contiguous(dims).unwrap() }
}

#[test]
fn weights_multiply_every_row() {
    let right = RightWeights {
        num_inputs: 2,
        num_outputs: 3,
        weights: &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
        bias: Some(&[0.5, 0.0, -40.0]),
    };
    let epilogue =
        Epilogue { activation: Activation::Relu, residual: Some(Residual::BeforeActivation) };
    let product = MatMul::with_weights(&right, epilogue, Products::F32).unwrap();
    let mut arena = HostArena::new();
    let left = push(&mut arena, &[1, 2, 2], &[1.0, 10.0, 2.0, 20.0]);
    let residual = push(&mut arena, &[1, 2, 3], &[1.0; 6]);
    let output = push(&mut arena, &[1, 2, 3], &[0.0; 6]);
    let regions = MatMulRegions { left, right: None, residual: Some(residual), output };
    matmul(&mut arena, &product, &regions).unwrap();
    let expected = [42.5, 53.0, 24.0, 83.5, 105.0, 87.0];
    assert_eq!(arena.read(&output).unwrap(), expected);
    assert!(matmul(&mut arena, &product, &MatMulRegions { residual: None, ..regions }).is_err());
    assert!(matmul(&mut arena, &product, &MatMulRegions { right: Some(left), ..regions }).is_err());
}

#[test]
fn windows_are_multiplied_item_by_item() {
    let product = MatMul::of_windows(Epilogue::default(), Products::F32);
    let mut arena = HostArena::new();
    let left = push(&mut arena, &[2, 1, 2], &[1.0, 2.0, 3.0, 4.0]);
    // Transposed by its strides.
    let mut right = push(&mut arena, &[2, 2, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
    right.window = right.window.permute(&[0, 2, 1]).unwrap();
    let output = push(&mut arena, &[2, 1, 2], &[0.0; 4]);
    let regions = MatMulRegions { left, right: Some(right), residual: None, output };
    matmul(&mut arena, &product, &regions).unwrap();
    assert_eq!(arena.read(&output).unwrap(), [5.0, 11.0, 39.0, 53.0]);
    let fewer = Region { window: right.window.slice(1, 0, 1, 1).unwrap(), ..right };
    let regions = MatMulRegions { right: Some(fewer), ..regions };
    assert!(matmul(&mut arena, &product, &regions).is_err());
}

#[test]
fn what_does_not_fit_is_refused() {
    let of = |num_inputs, weights: &[f32], products| {
        let right = RightWeights { num_inputs, num_outputs: 2, weights, bias: None };
        MatMul::with_weights(&right, Epilogue::default(), products).is_ok()
    };
    assert!(of(2, &[1.0; 4], Products::F16));
    assert!(!of(0, &[], Products::F16));
    assert!(!of(2, &[1.0; 5], Products::F16));
    assert!(!of(2, &[7e4; 4], Products::F16));
    assert!(!of(2, &[f32::NAN; 4], Products::F32));
}
