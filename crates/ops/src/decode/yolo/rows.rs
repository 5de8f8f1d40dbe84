//! What layouts read and add alike.

use std::fmt::Arguments;

use super::argument;
use det_post_types::{Box2d, Candidate, Candidates, Error, Result, TensorView};

/// Adds a row whose score passes, or counts it if it is no box.
pub(super) fn push(
    candidates: &mut Candidates<Box2d>,
    bbox: Box2d,
    score: f32,
    class: usize,
    source: usize,
) {
    let (class, source) = (class as u32, source as u32);
    let is_valid = score.is_finite() && bbox.is_valid();
    candidates.push_if_valid(Candidate { bbox, score, class, source }, is_valid);
}

/// The only output.
pub(super) fn one<'a, 'o>(
    outputs: &'o [TensorView<'a>],
    expected: Arguments<'_>,
) -> Result<&'o TensorView<'a>> {
    match outputs {
        [output] => Ok(output),
        _ => Err(argument(format!("{} outputs; 1 of {expected} expected", outputs.len()))),
    }
}

/// The error of an output with another shape.
pub(super) fn misfit(output: &TensorView<'_>, expected: Arguments<'_>) -> Error {
    argument(format!("output {:?}; {expected} expected", output.shape()))
}
