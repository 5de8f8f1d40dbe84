//! Selects the best candidates and sorts them into the total order.
//!
//! Order: score descending, then class, then source. Candidates beyond
//! `pre_nms_top_k` in that order are dropped, as are those beyond the capacity of
//! [`Candidates`] while decoding; the result does not depend on the order in which
//! candidates were decoded. Scores are compared and never changed: results are
//! equal on every device.

#[cfg(feature = "cuda")]
pub(crate) mod cuda;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
pub(crate) mod kernels;

use det_post_types::{Candidates, Count, FrameReport};

/// What decoding and selection dropped, for the frame report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SelectCounts {
    /// Candidates beyond the capacity of decoding.
    pub num_over_capacity: usize,
    /// Candidates within the capacity and beyond `pre_nms_top_k`.
    pub num_over_top_k: usize,
    /// Boxes with a NaN score.
    pub num_nan_scores: usize,
    /// Invalid boxes whose score passed.
    pub num_invalid_boxes: usize,
    /// Boxes whose score passed and whose class is not one of the head.
    pub num_unknown_classes: usize,
}

impl SelectCounts {
    /// Adds the counts to a report.
    pub fn add_to(&self, report: &mut FrameReport) {
        report.add_count(Count::CandidatesOverCapacity, self.num_over_capacity);
        report.add_count(Count::CandidatesOverTopK, self.num_over_top_k);
        report.add_count(Count::ScoresNan, self.num_nan_scores);
        report.add_count(Count::BoxesInvalid, self.num_invalid_boxes);
        report.add_count(Count::ClassesUnknown, self.num_unknown_classes);
    }
}

/// Maximum numbers of candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Candidates that decoding keeps, the best; at least one.
    pub candidate_capacity: usize,
    /// Candidates of these that suppression receives, the best.
    pub pre_nms_top_k: usize,
}

/// Truncates `candidates` to the best `pre_nms_top_k` and sorts them into the total
/// order. Nothing is allocated.
pub fn select<B: Copy>(candidates: &mut Candidates<B>, pre_nms_top_k: usize) -> SelectCounts {
    let num_over_top_k = candidates.finish(pre_nms_top_k);
    SelectCounts {
        num_over_capacity: candidates.num_dropped(),
        num_over_top_k,
        num_nan_scores: candidates.num_nan_scores(),
        num_invalid_boxes: candidates.num_invalid_boxes(),
        num_unknown_classes: candidates.num_unknown_classes(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use det_post_types::{Candidate, total_order};

    fn filled(capacity: usize, scores: &[f32]) -> Candidates<u32> {
        let mut candidates = Candidates::with_capacity(capacity);
        for (source, &score) in (0_u32..).zip(scores) {
            candidates.push(Candidate { bbox: source * 10, score, class: source % 3, source });
        }
        candidates
    }

    #[test]
    fn capacity_and_top_k_are_counted_apart() {
        let scores = [0.3, 0.9, 0.9, 0.1, 0.7];
        // (capacity, top_k, over capacity, over top_k, sources)
        let cases: [(usize, usize, usize, usize, &[u32]); 6] = [
            (8, 8, 0, 0, &[1, 2, 4, 0, 3]),
            (5, 5, 0, 0, &[1, 2, 4, 0, 3]),
            (4, 5, 1, 0, &[1, 2, 4, 0]),
            (4, 3, 1, 1, &[1, 2, 4]),
            (5, 1, 0, 4, &[1]),
            (5, 0, 0, 5, &[]),
        ];
        for (capacity, top_k, num_over_capacity, num_over_top_k, sources) in cases {
            let mut candidates = filled(capacity, &scores);
            let counts = select(&mut candidates, top_k);
            assert_eq!(
                counts,
                SelectCounts { num_over_capacity, num_over_top_k, ..SelectCounts::default() }
            );
            let kept: Vec<u32> = candidates.as_slice().iter().map(|c| c.source).collect();
            assert_eq!(kept, sources, "capacity {capacity}, top {top_k}");
            assert!(candidates.as_slice().iter().all(|c| c.bbox == c.source * 10));
        }
    }

    #[test]
    fn empty_stays_empty_and_nan_is_counted() {
        assert_eq!(select(&mut filled(4, &[]), 4), SelectCounts::default());
        let mut candidates = filled(4, &[f32::NAN, 0.5]);
        candidates.add_invalid_boxes(2);
        let counts = select(&mut candidates, 4);
        let expected =
            SelectCounts { num_nan_scores: 1, num_invalid_boxes: 2, ..SelectCounts::default() };
        assert_eq!(counts, expected);
        assert_eq!(candidates.as_slice().len(), 1);
        let mut report = FrameReport::new();
        counts.add_to(&mut report);
        assert_eq!((report.count(Count::ScoresNan), report.count(Count::BoxesInvalid)), (1, 2));
    }

    proptest! {
        #[test]
        fn equals_a_sort_of_everything(
            scores in prop::collection::vec((0_u8..20).prop_map(|s| f32::from(s) / 20.0), 0..200),
            capacity in 1_usize..80,
            top_k in 0_usize..80,
        ) {
            let mut expected: Vec<_> = filled(1000, &scores).as_slice().to_vec();
            expected.sort_by(total_order);
            expected.truncate(capacity.min(top_k));
            let mut candidates = filled(capacity, &scores);
            let counts = select(&mut candidates, top_k);
            prop_assert_eq!(candidates.as_slice(), &expected[..]);
            let lost = counts.num_over_capacity + counts.num_over_top_k;
            prop_assert_eq!(lost + expected.len(), scores.len());
        }
    }
}
