//! Sparse convolutions against results of spconv and numpy in f64, and the files
//! and plans of their networks.

mod autoware;
mod dialects;
mod encoders;
mod export;
mod files;
mod frames;
mod operations;
mod plans;

/// The largest error of results that one operation or a small network gives,
/// as a share of the largest value.
const TOLERANCE: f32 = 1e-5;

#[track_caller]
fn assert_close(found: &[f32], expected: &[f32], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let largest = expected.iter().fold(0_f32, |largest, value| largest.max(value.abs()));
    let error = found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    println!("{what}: error {:.1e} of {largest}", error / largest);
    assert!(error <= TOLERANCE * largest, "{what}: {error} of {largest}");
    assert!(found.iter().all(|value| value.is_finite()), "{what}");
}
