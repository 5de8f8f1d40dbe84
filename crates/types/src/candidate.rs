//! Decoded boxes before suppression, and their order.

use std::cmp::Ordering;

/// A decoded box before suppression, in the frame its head decodes to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Candidate<B> {
    /// The box.
    pub bbox: B,
    /// Score in [0, 1].
    pub score: f32,
    /// Class index, a position in the head's `class_names`.
    pub class: u32,
    /// Position of the box in the network's output (row, or cell over all tasks). Unique
    /// within a frame: the last criterion of the total order.
    pub source: u32,
}

/// The total order of candidates: score descending, then class, then source.
///
/// `Less` means `a` comes first. Scores compare by [`f32::total_cmp`], so the
/// order is total for every bit pattern; ops drop NaN scores before they sort.
pub fn total_order<B>(a: &Candidate<B>, b: &Candidate<B>) -> Ordering {
    b.score
        .total_cmp(&a.score)
        .then_with(|| a.class.cmp(&b.class))
        .then_with(|| a.source.cmp(&b.source))
}

/// A candidate that suppression kept, and its score afterwards.
///
/// Hard suppression does not change the score, soft suppression lowers it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Kept {
    /// Position in the slice of candidates that was suppressed.
    pub index: u32,
    /// Score after suppression.
    pub score: f32,
}

/// A bounded collection of candidates, which drops the worst first.
///
/// Holds `capacity` candidates. More may be pushed: the worst by [`total_order`] are
/// dropped and counted. Memory for twice the capacity is allocated once, by
/// [`Candidates::with_capacity`]; pushing never allocates. The order of pushing has no
/// effect on the result.
#[derive(Clone, Debug)]
pub struct Candidates<B> {
    items: Vec<Candidate<B>>,
    capacity: usize,
    num_dropped: usize,
    num_nan_scores: usize,
    num_invalid_boxes: usize,
    num_unknown_classes: usize,
}

impl<B: Copy> Candidates<B> {
    /// An empty collection for at most `capacity` candidates (at least one).
    pub fn with_capacity(capacity: usize) -> Self {
        let capacity = capacity.max(1);
        Self {
            items: Vec::with_capacity(2 * capacity),
            capacity,
            num_dropped: 0,
            num_nan_scores: 0,
            num_invalid_boxes: 0,
            num_unknown_classes: 0,
        }
    }

    /// Adds a candidate. One whose score is NaN is not held, but counted in
    /// [`Candidates::num_nan_scores`].
    #[inline]
    pub fn push(&mut self, candidate: Candidate<B>) {
        if candidate.score.is_nan() {
            self.num_nan_scores += 1;
            return;
        }
        if self.items.len() == 2 * self.capacity {
            self.drop_worst();
        }
        self.items.push(candidate);
    }

    /// Adds a candidate whose score passes, if its box is valid. Otherwise it is not held,
    /// but counted in [`Candidates::num_invalid_boxes`].
    #[inline]
    pub fn push_if_valid(&mut self, candidate: Candidate<B>, is_valid: bool) {
        if is_valid {
            self.push(candidate);
        } else {
            self.num_invalid_boxes += 1;
        }
    }

    /// Counts boxes that a decoder dropped because they are invalid
    /// ([`Count::BoxesInvalid`](super::Count::BoxesInvalid)).
    pub fn add_invalid_boxes(&mut self, num: usize) {
        self.num_invalid_boxes += num;
    }

    /// Counts boxes that a decoder dropped because their class is not one of the head
    /// ([`Count::ClassesUnknown`](super::Count::ClassesUnknown)).
    pub fn add_unknown_classes(&mut self, num: usize) {
        self.num_unknown_classes += num;
    }

    /// Counts boxes of which a decoder read a NaN as a score
    /// ([`Count::ScoresNan`](super::Count::ScoresNan)).
    pub fn add_nan_scores(&mut self, num: usize) {
        self.num_nan_scores += num;
    }

    /// Sorts into the total order and cuts to `limit` and to the capacity. Returns the
    /// number of candidates beyond `limit`; those beyond the capacity are in
    /// [`Candidates::num_dropped`].
    pub fn finish(&mut self, limit: usize) -> usize {
        self.drop_worst();
        let over = self.items.len().saturating_sub(limit);
        if over > 0 {
            self.items.select_nth_unstable_by(limit, total_order);
            self.items.truncate(limit);
        }
        self.items.sort_unstable_by(total_order);
        over
    }

    /// Cuts to the capacity, then removes the candidates that are not wanted. These do
    /// not count as dropped; those beyond the capacity do, in any order of pushing.
    pub fn retain(&mut self, mut is_wanted: impl FnMut(&Candidate<B>) -> bool) {
        self.drop_worst();
        self.items.retain(|candidate| is_wanted(candidate));
    }

    /// Empties the collection; keeps its memory.
    pub fn clear(&mut self) {
        self.items.clear();
        self.num_dropped = 0;
        self.num_nan_scores = 0;
        self.num_invalid_boxes = 0;
        self.num_unknown_classes = 0;
    }

    /// The candidates held: in the total order after [`Candidates::finish`],
    /// in no stated order before.
    pub fn as_slice(&self) -> &[Candidate<B>] {
        &self.items
    }

    /// Candidates over the capacity since the last [`Candidates::clear`].
    pub fn num_dropped(&self) -> usize {
        self.num_dropped
    }

    /// Boxes with a NaN score since the last [`Candidates::clear`].
    pub fn num_nan_scores(&self) -> usize {
        self.num_nan_scores
    }

    /// Boxes whose score passed and that are invalid, since the last [`Candidates::clear`].
    pub fn num_invalid_boxes(&self) -> usize {
        self.num_invalid_boxes
    }

    /// Boxes whose score passed and whose class is not one of the head, since the last
    /// [`Candidates::clear`].
    pub fn num_unknown_classes(&self) -> usize {
        self.num_unknown_classes
    }

    /// The maximum number of candidates after [`Candidates::finish`].
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    fn drop_worst(&mut self) {
        if self.items.len() > self.capacity {
            self.items.select_nth_unstable_by(self.capacity, total_order);
            self.num_dropped += self.items.len() - self.capacity;
            self.items.truncate(self.capacity);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(score: f32, class: u32, source: u32) -> Candidate<()> {
        Candidate { bbox: (), score, class, source }
    }

    #[test]
    fn total_order_breaks_ties_by_class_then_source() {
        let mut items = [
            candidate(0.5, 1, 0),
            candidate(0.5, 0, 9),
            candidate(0.9, 7, 3),
            candidate(0.5, 0, 2),
        ];
        items.sort_by(total_order);
        assert_eq!(items.map(|c| c.source), [3, 2, 9, 0]);
    }

    #[test]
    fn the_worst_are_lost_whatever_the_order_of_pushing() {
        let forward: Vec<u32> = (0..1000).collect();
        let backward: Vec<u32> = (0..1000).rev().collect();
        for sources in [forward, backward] {
            let mut candidates = Candidates::with_capacity(7);
            for source in sources {
                candidates.push(candidate((source % 100) as f32 / 100.0, 0, source));
            }
            assert_eq!(candidates.finish(usize::MAX), 0);
            let kept: Vec<u32> = candidates.as_slice().iter().map(|c| c.source).collect();
            assert_eq!(kept, [99, 199, 299, 399, 499, 599, 699]);
            assert_eq!(candidates.num_dropped(), 993);
        }
    }

    #[test]
    fn what_is_not_wanted_is_removed_after_the_capacity_is_held() {
        for sources in [[0, 1, 2, 3], [3, 1, 0, 2]] {
            let mut candidates = Candidates::with_capacity(3);
            for source in sources {
                candidates.push(candidate(0.5, source % 2, source));
            }
            candidates.retain(|c| c.class == 1);
            candidates.finish(usize::MAX);
            // Of 0, 2, 1, 3 in the total order the last was over the capacity.
            assert_eq!(candidates.as_slice().iter().map(|c| c.source).collect::<Vec<_>>(), [1]);
            assert_eq!(candidates.num_dropped(), 1);
        }
    }

    #[test]
    fn exactly_full_loses_nothing_and_one_over_loses_one() {
        for (num_pushed, num_dropped) in [(0, 0), (1, 0), (4, 0), (5, 1)] {
            let mut candidates = Candidates::with_capacity(4);
            (0..num_pushed).for_each(|source| candidates.push(candidate(0.5, 0, source)));
            candidates.finish(usize::MAX);
            assert_eq!(candidates.num_dropped(), num_dropped, "{num_pushed} pushed");
            assert_eq!(candidates.as_slice().len(), (num_pushed as usize).min(4));
        }
    }

    #[test]
    fn limit_cuts_after_the_capacity_and_nan_is_counted_apart() {
        let mut candidates = Candidates::with_capacity(8);
        (0..6).for_each(|source| candidates.push(candidate(source as f32, 0, source)));
        candidates.push(candidate(f32::NAN, 0, 6));
        candidates.add_nan_scores(2);
        assert_eq!(candidates.finish(2), 4);
        assert_eq!((candidates.num_dropped(), candidates.num_nan_scores()), (0, 3));
        assert_eq!(candidates.as_slice().iter().map(|c| c.source).collect::<Vec<_>>(), [5, 4]);
        candidates.clear();
        assert_eq!(candidates.num_nan_scores(), 0);
    }

    #[test]
    fn invalid_boxes_are_counted_and_not_held() {
        let mut candidates = Candidates::with_capacity(1);
        for (source, is_valid) in [(0, false), (1, true), (2, false)] {
            candidates.push_if_valid(candidate(0.5, 0, source), is_valid);
        }
        candidates.add_invalid_boxes(3);
        candidates.finish(usize::MAX);
        assert_eq!((candidates.num_invalid_boxes(), candidates.num_dropped()), (5, 0));
        assert_eq!(candidates.as_slice(), [candidate(0.5, 0, 1)]);
        candidates.clear();
        assert_eq!(candidates.num_invalid_boxes(), 0);
    }
}
