//! The total order, and the greedy loop in which suppressed boxes are dropped: [`Order::suppress`].

use super::grid::{Extent, Grid, Reach};
use crate::nms::geometry::Extents;
use det_post_types::{Candidate, ClassMode, Error, ErrorKind, Kept, Result};

/// The eligible candidates in the total order, with their bounds and the spatial grid.
#[derive(Clone, Debug, Default)]
pub(crate) struct Order {
    pub keys: Vec<u128>,
    pub ranked: Vec<Ranked>,
    /// By rank.
    pub extents: Vec<Extent>,
    pub grid: Grid,
}

/// An eligible candidate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ranked {
    /// Position in the total order.
    pub rank: u32,
    /// Position in the slice of candidates.
    pub index: u32,
    /// Class index.
    pub class: u32,
    /// Candidates of different groups do not suppress each other.
    pub group: u64,
    /// Score.
    pub score: f32,
}

impl Ranked {
    /// The candidate's value in a list by rank.
    #[inline]
    pub fn of<'a, T>(&self, by_rank: &'a [T]) -> &'a T {
        &by_rank[self.rank as usize]
    }
}

/// Which candidates suppress others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suppressors {
    /// Kept ones: greedy suppression.
    Kept,
    /// All, suppressed ones too: one-pass suppression.
    All,
}

impl Order {
    /// Memory for `num_candidates`, which grows for more.
    pub fn with_capacity(num_candidates: usize) -> Self {
        Self {
            keys: Vec::with_capacity(num_candidates),
            ranked: Vec::with_capacity(num_candidates),
            extents: Vec::with_capacity(num_candidates),
            grid: Grid::with_capacity(num_candidates),
        }
    }

    /// Ranks the eligible candidates. Candidates with a NaN score are not
    /// eligible.
    ///
    /// # Errors
    /// `Argument` for more than `u32::MAX` candidates.
    pub fn rank<B>(
        &mut self,
        op: &'static str,
        candidates: &[Candidate<B>],
        class_mode: &ClassMode,
        is_eligible: impl Fn(&Candidate<B>) -> bool,
    ) -> Result<()> {
        if u32::try_from(candidates.len()).is_err() {
            let message = format!("{} candidates, at most {} fit", candidates.len(), u32::MAX);
            return Err(Error::new(ErrorKind::Argument, op, message));
        }
        self.keys.clear();
        let numbered = (0_u32..).zip(candidates);
        self.keys.extend(
            numbered
                .filter(|(_, candidate)| !candidate.score.is_nan() && is_eligible(candidate))
                .map(|(index, c)| sort_key(c.score, c.class, c.source, index)),
        );
        if !self.keys.is_sorted() {
            self.keys.sort_unstable();
        }
        self.ranked.clear();
        self.ranked.extend((0..).zip(&self.keys).map(|(rank, &key)| {
            let index = key as u32;
            let Candidate { class, score, .. } = candidates[index as usize];
            Ranked { rank, index, class, group: class_mode.group(class), score }
        }));
        Ok(())
    }

    /// Fills `shapes` and the extents with the shapes of the ranked candidates.
    pub fn prepare<B, S: Extents>(
        &mut self,
        candidates: &[Candidate<B>],
        shapes: &mut Vec<S>,
        shape: impl Fn(&B) -> S,
    ) {
        shapes.clear();
        shapes.extend(self.ranked.iter().map(|r| shape(&candidates[r.index as usize].bbox)));
        self.extents.clear();
        self.extents.extend(shapes.iter().map(|s| Extent::new(s.center(), s.half_extents())));
    }

    /// Keeps, best first, up to `max_num` candidates that no suppressor of their group
    /// suppresses. `suppresses` receives the suppressor, which ranks above the candidate,
    /// and the candidate; it must be false for pairs beyond `reach`.
    pub fn suppress(
        &mut self,
        suppressors: Suppressors,
        reach: Reach,
        max_num: usize,
        keep: &mut Vec<Kept>,
        suppresses: impl Fn(&Ranked, &Ranked) -> bool,
    ) {
        let Self { ranked, extents, grid, .. } = self;
        keep.clear();
        grid.clear(ranked.len());
        for (own, extent) in ranked.iter().zip(extents) {
            if keep.len() >= max_num {
                break;
            }
            let is_suppressed = grid.any(own.group, extent, reach, |better| {
                let better = &ranked[better as usize];
                better.group == own.group && suppresses(better, own)
            });
            if !is_suppressed {
                keep.push(Kept { index: own.index, score: own.score });
            }
            if !is_suppressed || suppressors == Suppressors::All {
                grid.insert(own.rank, own.group, extent);
            }
        }
    }
}

/// A number that sorts like the total order, with ties by `index`.
#[inline]
pub(crate) fn sort_key(score: f32, class: u32, source: u32, index: u32) -> u128 {
    let bits = score.to_bits();
    // Ascends with the score: the bits of negative scores are inverted.
    let ascending = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
    u128::from(!ascending) << 96
        | u128::from(class) << 64
        | u128::from(source) << 32
        | u128::from(index)
}
