//! Networks of dense layers on the CPU beside ONNX Runtime.

mod fuzz;
mod graphs;
mod integers;
mod networks;
mod precision;

use std::path::{Path, PathBuf};

use det_post_infer::dense::{DenseEngine, Precision};
use det_post_infer::{Engine, LIBRARY_VARIABLE, OrtEngine};
use det_post_testing::require::{Need, skip};
use det_post_types::{Dim, Result, TensorSpec, TensorValues, TensorView};

/// The library of ONNX Runtime, or `None` with a line that says so.
fn library() -> Option<PathBuf> {
    let library = std::env::var_os(LIBRARY_VARIABLE).filter(|value| !value.is_empty());
    if library.is_none() {
        skip(Need::Ort, format_args!("{LIBRARY_VARIABLE} is not set"));
    }
    library.map(PathBuf::from)
}

/// Values in [0, scale) that differ from place to place, the same every time.
fn noise(num: usize, scale: f32, seed: u32) -> Vec<f32> {
    let mut state = 0x2545_f491_u32 ^ seed.wrapping_mul(0x9e37_79b9);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 8) as f32 / (1 << 24) as f32 * scale
    };
    (0..num).map(|_| next()).collect()
}

/// The lengths of an input; dynamic ones are 1.
fn shape_of(spec: &TensorSpec) -> Result<Vec<usize>> {
    let dims = spec.shape.as_deref().unwrap_or_default().iter();
    Ok(dims.map(|dim| if let Dim::Fixed(length) = dim { *length } else { 1 }).collect())
}

/// Shape and values of every output.
fn outputs(
    engine: &mut dyn Engine,
    inputs: &[(Vec<usize>, Vec<f32>)],
) -> Vec<(Vec<usize>, Vec<f32>)> {
    let views: Vec<TensorView<'_>> = inputs
        .iter()
        .map(|(shape, values)| TensorView::new(shape, TensorValues::F32(values)).unwrap())
        .collect();
    engine.run(&views).unwrap();
    let read = |index| {
        let output = engine.output(index).unwrap();
        let values = match output.values() {
            TensorValues::F32(values) => values.to_vec(),
            other => panic!("output {index} holds {}", other.element()),
        };
        (output.shape().to_vec(), values)
    };
    (0..engine.outputs().len()).map(read).collect()
}

/// How far apart outputs are: the largest difference over the largest value, and the L2 norm of the differences over
/// that of the values. Values below -1e3 are those of cells that are no peaks of a heat map: in f16, neighbours closer than
/// its resolution may change places, at most one cell in a thousand.
fn difference(found: &[f32], expected: &[f32], precision: Precision) -> [f64; 2] {
    let (mut largest, mut worst, mut square, mut norm) = (0.0_f64, 0.0_f64, 0.0, 0.0);
    let mut num_moved = 0;
    for (&found, &expected) in found.iter().zip(expected) {
        if found < -1e3 || expected < -1e3 {
            num_moved += usize::from(found != expected);
            continue;
        }
        let apart = f64::from(found - expected).abs();
        assert!(!apart.is_nan(), "{found} instead of {expected}");
        (largest, worst) = (largest.max(f64::from(expected.abs())), worst.max(apart));
        (square, norm) = (square + apart * apart, norm + f64::from(expected).powi(2));
    }
    let may_move = if precision == Precision::F16 { found.len() / 1000 } else { 0 };
    assert!(num_moved <= may_move, "{num_moved} cells of {} are other peaks", found.len());
    [worst / largest.max(1e-30), (square / norm.max(1e-30)).sqrt()]
}

/// A file gives in dense layers what it gives in ONNX Runtime: in f32 to 1e-5 of the largest value, in f16 to 4e-3 in L2.
/// The number of steps in f16.
fn agrees(path: &Path, library: &Path, scale: f32) -> usize {
    let mut reference = OrtEngine::load(path, library, None).unwrap();
    let mut num_steps = 0;
    for (precision, limit) in
        [(Precision::F32, [1e-5, 1e-5]), (Precision::F16, [f64::INFINITY, 4e-3])]
    {
        let mut engine = DenseEngine::load(path, precision, &shape_of).unwrap();
        num_steps = engine.network().plan.steps().len();
        let shapes = engine.network().input_shapes.iter().enumerate();
        let inputs: Vec<(Vec<usize>, Vec<f32>)> = shapes
            .map(|(at, shape)| (shape.clone(), noise(shape.iter().product(), scale, at as u32)))
            .collect();
        let expected = outputs(&mut reference, &inputs);
        for round in 0..2 {
            let found = outputs(&mut engine, &inputs);
            assert_eq!(found.len(), expected.len());
            for ((found_shape, found), (shape, expected)) in found.iter().zip(&expected) {
                assert_eq!(found_shape, shape);
                let [largest, l2] = difference(found, expected, precision);
                if round == 0 {
                    println!(
                        "{}: {precision:?} {largest:.1e} of the largest value, L2 {l2:.1e}",
                        path.display()
                    );
                }
                assert!(
                    largest <= limit[0] && l2 <= limit[1],
                    "{}: {precision:?} {largest:e} {l2:e}",
                    path.display()
                );
            }
            // What is left in buffers changes nothing.
            if expected.iter().map(|(_, values)| values.len()).sum::<usize>() > 1 << 16 {
                break;
            }
        }
    }
    num_steps
}
