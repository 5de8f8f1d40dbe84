//! Candidates from arrays of boxes, scores and classes, and survivors as arrays.
//!
//! The candidate at a position has the box, the score and the class at that position, and the
//! position as its source. Without classes all are of class 0. The arrays of survivors have
//! the order of a suppression, best first: positions as 64-bit integers and scores, or the
//! columns of the candidates themselves. Nothing is computed: values are copied, equal on
//! every device.
//!
//! On the device a box has as many numbers as the array has columns; numbers past the columns
//! are 0, so that centres are boxes without extents.

#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
mod kernels;

use det_post_types::{Candidate, Error, ErrorKind, Result};

/// The classes of candidates; integers of either size, none negative or above `u32::MAX`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Classes<'a> {
    /// All are of class 0.
    #[default]
    None,
    /// 32-bit integers.
    I32(&'a [i32]),
    /// 64-bit integers.
    I64(&'a [i64]),
}

/// Replaces the contents of `out` by the candidates of the arrays. `bbox` makes a box of its
/// numbers.
///
/// # Errors
/// `Argument`, with no candidates, when there are not as many scores and classes as boxes, a
/// class is out of range, or there are more than `u32::MAX` boxes.
pub fn candidate_arrays<B, const K: usize>(
    boxes: &[[f32; K]],
    scores: &[f32],
    classes: Classes<'_>,
    bbox: impl Fn([f32; K]) -> B,
    out: &mut Vec<Candidate<B>>,
) -> Result<()> {
    out.clear();
    let num_classes = match classes {
        Classes::None => boxes.len(),
        Classes::I32(classes) => classes.len(),
        Classes::I64(classes) => classes.len(),
    };
    if scores.len() != boxes.len() || num_classes != boxes.len() {
        return lengths(boxes.len(), scores.len(), num_classes);
    }
    if u32::try_from(boxes.len()).is_err() {
        return argument(format!("{} boxes exceed the limit of {}", boxes.len(), u32::MAX));
    }
    let rows = (0..).zip(boxes.iter().zip(scores));
    out.extend(rows.map(|(source, (&numbers, &score))| Candidate {
        bbox: bbox(numbers),
        score,
        class: 0,
        source,
    }));
    let set = match classes {
        Classes::None => Ok(()),
        Classes::I32(classes) => set_classes(out, classes),
        Classes::I64(classes) => set_classes(out, classes),
    };
    set.inspect_err(|_| out.clear())
}

fn set_classes<B, T: Copy + TryInto<u32> + std::fmt::Display>(
    candidates: &mut [Candidate<B>],
    classes: &[T],
) -> Result<()> {
    for (candidate, &class) in candidates.iter_mut().zip(classes) {
        let Ok(class) = class.try_into() else {
            let position = candidate.source;
            return argument(format!("class {class} at position {position}; {POSSIBLE_CLASSES}"));
        };
        candidate.class = class;
    }
    Ok(())
}

const POSSIBLE_CLASSES: &str = "it must be 0 to 2^32 - 1";

fn lengths(boxes: usize, scores: usize, classes: usize) -> Result<()> {
    argument(format!("{boxes} boxes, {scores} scores and {classes} classes must be equally many"))
}

fn argument<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Argument, "candidate_arrays", message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(scores: &[f32], classes: Classes<'_>) -> Result<Vec<Candidate<[f32; 2]>>> {
        let mut out = vec![Candidate::default(); 3];
        let found = candidate_arrays(&[[1.0, 2.0], [3.0, 4.0]], scores, classes, |b| b, &mut out);
        if found.is_err() {
            assert!(out.is_empty());
        }
        found.map(|()| out)
    }

    #[test]
    fn values_are_copied_by_position() {
        let expected = |classes: [u32; 2]| {
            [(1.0, 0.5, 0), (3.0, f32::INFINITY, 1)].map(|(x, score, source)| Candidate {
                bbox: [x, x + 1.0],
                score,
                class: classes[source as usize],
                source,
            })
        };
        let scores = [0.5, f32::INFINITY];
        assert_eq!(candidates(&scores, Classes::None).unwrap(), expected([0, 0]));
        assert_eq!(candidates(&scores, Classes::I32(&[7, 1])).unwrap(), expected([7, 1]));
        let largest = i64::from(u32::MAX);
        let found = candidates(&scores, Classes::I64(&[0, largest])).unwrap();
        assert_eq!(found, expected([0, u32::MAX]));
    }

    #[test]
    fn wrong_lengths_and_classes_are_refused_by_name() {
        let cases = [
            (&[0.5][..], Classes::None, "2 boxes, 1 scores and 2 classes"),
            (&[0.5, 0.5], Classes::I32(&[1]), "2 boxes, 2 scores and 1 classes"),
            (&[0.5, 0.5], Classes::I32(&[1, -1]), "class -1 at position 1"),
            (&[0.5, 0.5], Classes::I64(&[1 << 32, 0]), "class 4294967296 at position 0"),
        ];
        for (scores, classes, words) in cases {
            let error = candidates(scores, classes).unwrap_err();
            assert!(error.message().contains(words), "{error}");
        }
    }
}
