//! What every suppression shares: the workspace, the order, the greedy walk.
//!
//! The ops: [`nms_iou`](super::nms_iou), [`nms_fast`](super::nms_fast),
//! [`nms_soft`](super::nms_soft) and [`nms_rotated`](super::nms_rotated) in an
//! image, [`nms_circle`](super::nms_circle), [`nms_bev`](super::nms_bev) and
//! [`nms_iou_3d`](super::nms_iou_3d) in space. Common to all:
//!
//! - Candidates come in any order and are not changed. They are compared in
//!   the total order ([`crate::types::total_order`], then position); a slice
//!   that already has it is recognised and not sorted.
//! - A candidate with a NaN score, or with a coordinate, size or angle that is
//!   not finite, takes no part: it is not kept and suppresses nothing.
//! - `keep` is emptied, then receives the survivors, best first, with their
//!   positions in the slice of candidates.
//! - The answer is the sequential greedy one, exactly: a candidate goes when
//!   one that was kept before it suppresses it. Neighbours are found through a
//!   grid, which changes the time and not the answer.
//! - Nothing is lost for want of room. [`Workspace`] and `keep` allocate only
//!   when more candidates come than ever before.

#[cfg(feature = "cuda")]
pub mod cuda;
mod grid;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

pub(super) use grid::{Grid, Place, Reach};

use super::nms_bev::nms_bev;
use super::nms_circle::nms_circle;
use super::nms_fast::nms_fast;
use super::nms_iou::{Block, MAX_WITHOUT_GRID, NUM_LANES, nms_iou};
use super::nms_iou_3d::nms_iou_3d;
use super::nms_soft::nms_soft;
use super::overlap::{Flat, Rectangle, Solid};
use crate::error::{Error, ErrorKind, Result};
use crate::types::{
    Box2d, Box3d, Candidate, ClassMode, Kept, Nms2d, Nms3d, Object3d, RotatedBox2d,
};

/// Suppresses the candidates of a camera frame by the op its settings name.
///
/// # Errors
/// Those of the op.
pub fn suppress_2d(
    candidates: &[Candidate<Box2d>],
    nms: &Nms2d,
    workspace: &mut Workspace,
    keep: &mut Vec<Kept>,
) -> Result<()> {
    match nms {
        Nms2d::None => keep_all("nms", candidates, Box2d::is_finite, workspace, keep),
        Nms2d::Iou(params) => nms_iou(candidates, params, workspace, keep),
        Nms2d::Fast(params) => nms_fast(candidates, params, workspace, keep),
        Nms2d::Soft(params) => nms_soft(candidates, params, workspace, keep),
    }
}

/// Suppresses the candidates of a lidar frame by the op its settings name.
///
/// # Errors
/// Those of the op.
pub fn suppress_3d(
    candidates: &[Candidate<Object3d>],
    nms: &Nms3d,
    workspace: &mut Workspace,
    keep: &mut Vec<Kept>,
) -> Result<()> {
    match nms {
        Nms3d::None => keep_all("nms", candidates, is_finite_3d, workspace, keep),
        Nms3d::Circle(params) => nms_circle(candidates, params, workspace, keep),
        Nms3d::Bev(params) => nms_bev(candidates, params, workspace, keep),
        Nms3d::Iou3d(params) => nms_iou_3d(candidates, params, workspace, keep),
    }
}

/// Scratch of every suppression op, to be used again for the next frame.
#[derive(Clone, Debug, Default)]
pub struct Workspace {
    keys: Vec<u128>,
    pub(super) ranked: Vec<Ranked>,
    pub(super) places: Vec<Place>,
    pub(super) flats: Vec<Flat>,
    pub(super) rectangles: Vec<Rectangle>,
    pub(super) solids: Vec<Solid>,
    pub(super) scores: Vec<f32>,
    pub(super) blocks: Vec<Block>,
    pub(super) met_by: Vec<u32>,
    pub(super) queue: BinaryHeap<Reverse<u128>>,
    pub(super) grid: Grid,
}

/// A candidate at its place in the total order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ranked {
    /// Position in the slice of candidates.
    pub index: u32,
    /// Class index.
    pub class: u32,
    /// Candidates meet when their groups are equal.
    pub group: u64,
    /// Score.
    pub score: f32,
}

impl Workspace {
    /// Scratch for `num_candidates`; more make it grow.
    pub fn with_capacity(num_candidates: usize) -> Self {
        let mut workspace = Self {
            keys: Vec::with_capacity(num_candidates),
            ranked: Vec::with_capacity(num_candidates),
            places: Vec::with_capacity(num_candidates),
            flats: Vec::with_capacity(num_candidates),
            rectangles: Vec::with_capacity(num_candidates),
            solids: Vec::with_capacity(num_candidates),
            scores: Vec::with_capacity(num_candidates),
            blocks: Vec::with_capacity(num_candidates.min(MAX_WITHOUT_GRID).div_ceil(NUM_LANES)),
            met_by: Vec::with_capacity(num_candidates),
            queue: BinaryHeap::with_capacity(num_candidates),
            grid: Grid::default(),
        };
        workspace.grid.reserve(num_candidates);
        workspace
    }

    /// Brings the candidates that take part into the total order: afterwards
    /// `ranked` names them, best first. A NaN score never takes part.
    ///
    /// # Errors
    /// `Argument` when there are more candidates than a position can name.
    pub(super) fn rank<B>(
        &mut self,
        op: &'static str,
        candidates: &[Candidate<B>],
        class_mode: &ClassMode,
        takes_part: impl Fn(&Candidate<B>) -> bool,
    ) -> Result<()> {
        if u32::try_from(candidates.len()).is_err() {
            let message = format!("{} candidates, at most {} fit", candidates.len(), u32::MAX);
            return Err(Error::new(ErrorKind::Argument, op, message));
        }
        self.keys.clear();
        let numbered = (0_u32..).zip(candidates);
        self.keys.extend(
            numbered
                .filter(|(_, candidate)| !candidate.score.is_nan() && takes_part(candidate))
                .map(|(index, c)| key(c.score, c.class, c.source, index)),
        );
        if !self.keys.is_sorted() {
            self.keys.sort_unstable();
        }
        self.ranked.clear();
        self.ranked.extend(self.keys.iter().map(|&key| {
            let index = key as u32;
            let candidate = &candidates[index as usize];
            let group = class_mode.group(candidate.class);
            Ranked { index, class: candidate.class, group, score: candidate.score }
        }));
        Ok(())
    }

    /// The boxes of the ranked candidates with their places in the grid.
    pub(super) fn prepare_flats(&mut self, candidates: &[Candidate<Box2d>], offset: f32) {
        self.flats.clear();
        self.flats.extend(
            self.ranked.iter().map(|r| Flat::new(&candidates[r.index as usize].bbox, offset)),
        );
        self.places.clear();
        self.places
            .extend(self.flats.iter().map(|flat| Place::new(flat.center(), flat.half_extents())));
    }

    /// The rectangles of the ranked candidates with their places in the grid.
    pub(super) fn prepare_rectangles<B>(
        &mut self,
        candidates: &[Candidate<B>],
        rectangle: impl Fn(&B) -> Rectangle,
    ) {
        self.rectangles.clear();
        self.rectangles
            .extend(self.ranked.iter().map(|r| rectangle(&candidates[r.index as usize].bbox)));
        self.places.clear();
        self.places.extend(self.rectangles.iter().map(place_of));
    }

    /// The volumes of the ranked candidates with their places in the grid.
    pub(super) fn prepare_solids(&mut self, candidates: &[Candidate<Object3d>]) {
        self.solids.clear();
        self.solids.extend(
            self.ranked.iter().map(|r| Solid::new(&candidates[r.index as usize].bbox.bbox)),
        );
        self.places.clear();
        self.places.extend(self.solids.iter().map(|solid| place_of(&solid.footprint)));
    }
}

fn place_of(rectangle: &Rectangle) -> Place {
    Place::new(rectangle.center, rectangle.half_extents())
}

/// A number that sorts as the total order does; the position comes last.
#[inline]
pub(super) fn key(score: f32, class: u32, source: u32, index: u32) -> u128 {
    let bits = score.to_bits();
    // Rising with the score: negative scores are turned round, all others lie
    // above them.
    let rising = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
    u128::from(!rising) << 96
        | u128::from(class) << 64
        | u128::from(source) << 32
        | u128::from(index)
}

/// Which candidates suppress others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Suppressors {
    /// Those that were kept: greedy suppression.
    Kept,
    /// All, also those that go: fast, one-pass suppression.
    All,
}

/// What [`Walk::run`] walks over: candidates in the total order.
pub(super) struct Walk<'a> {
    pub ranked: &'a [Ranked],
    pub places: &'a [Place],
    pub grid: &'a mut Grid,
    pub suppressors: Suppressors,
    /// Which candidates can meet.
    pub reach: Reach,
    pub max_num: usize,
}

impl Walk<'_> {
    /// Keeps every candidate that no better suppressor of its group
    /// suppresses, until there are `max_num`. `suppresses` takes the ranks of
    /// the better one and of the candidate, and must be false for candidates
    /// out of `reach`.
    pub(super) fn run(self, keep: &mut Vec<Kept>, suppresses: impl Fn(usize, usize) -> bool) {
        keep.clear();
        self.grid.clear(self.ranked.len());
        for (rank, (candidate, place)) in self.ranked.iter().zip(self.places).enumerate() {
            if keep.len() >= self.max_num {
                break;
            }
            let goes = self.grid.any(candidate.group, place, self.reach, |better| {
                self.ranked[better as usize].group == candidate.group
                    && suppresses(better as usize, rank)
            });
            if !goes {
                keep.push(Kept { index: candidate.index, score: candidate.score });
            }
            if !goes || self.suppressors == Suppressors::All {
                self.grid.insert(rank as u32, candidate.group, place);
            }
        }
    }
}

/// All that take part, in the total order.
fn keep_all<B>(
    op: &'static str,
    candidates: &[Candidate<B>],
    is_finite: impl Fn(&B) -> bool,
    workspace: &mut Workspace,
    keep: &mut Vec<Kept>,
) -> Result<()> {
    workspace.rank(op, candidates, &ClassMode::Agnostic, |c| is_finite(&c.bbox))?;
    keep.clear();
    keep.extend(workspace.ranked.iter().map(|r| Kept { index: r.index, score: r.score }));
    Ok(())
}

/// Whether centre, sizes and yaw are finite.
pub(super) fn is_finite_3d(object: &Object3d) -> bool {
    let Box3d { center: [x, y, z], length_m, width_m, height_m, yaw_rad } = object.bbox;
    [x, y, z, length_m, width_m, height_m, yaw_rad].iter().all(|value| value.is_finite())
}

/// Whether centre, sizes and angle are finite.
pub(super) fn is_finite_rotated(bbox: &RotatedBox2d) -> bool {
    let RotatedBox2d { cx, cy, width, height, angle_rad } = *bbox;
    [cx, cy, width, height, angle_rad].iter().all(|value| value.is_finite())
}

/// Refuses an IoU threshold outside [0, 1].
pub(super) fn check_iou_threshold(op: &'static str, threshold: f32) -> Result<()> {
    if (0.0..=1.0).contains(&threshold) {
        return Ok(());
    }
    let message = format!("iou_threshold is {threshold}, allowed is 0 to 1");
    Err(Error::new(ErrorKind::Argument, op, message))
}

/// Refuses an offset other than 0 and 1.
pub(super) fn check_offset(op: &'static str, offset: u8) -> Result<()> {
    if offset <= 1 {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Argument, op, format!("offset is {offset}, allowed are 0 and 1")))
}

/// Refuses a list of thresholds that does not name one for every class that
/// takes part. A list of one holds for all.
pub(super) fn check_num_thresholds(
    op: &'static str,
    num_thresholds: usize,
    ranked: &[Ranked],
) -> Result<()> {
    if num_thresholds == 1 {
        return Ok(());
    }
    match ranked.iter().map(|r| r.class).max() {
        Some(class) if class as usize >= num_thresholds => {
            let message =
                format!("{num_thresholds} thresholds, class {class} needs {}", class as usize + 1);
            Err(Error::new(ErrorKind::Argument, op, message))
        }
        None if num_thresholds == 0 => {
            Err(Error::new(ErrorKind::Argument, op, "0 thresholds, at least 1 is needed"))
        }
        _ => Ok(()),
    }
}

/// The lowest of the thresholds.
pub(super) fn lowest(thresholds: &[f32]) -> f32 {
    thresholds.iter().copied().fold(f32::INFINITY, f32::min)
}

/// The threshold of a class, from a list that was checked.
#[inline]
pub(super) fn threshold_of(thresholds: &[f32], class: u32) -> f32 {
    let position = if thresholds.len() == 1 { 0 } else { class as usize };
    thresholds[position]
}

#[cfg(test)]
pub(super) mod tests;
