//! Scratch memory of suppression.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::greedy::Order;
use super::lanes::Lanes;
use crate::nms::geometry::{AlignedBox, Rectangle, Solid};
use det_post_types::{Candidate, Object3d};

/// Scratch memory of every suppression op, reused from frame to frame.
#[derive(Clone, Debug, Default)]
pub struct Workspace {
    pub(crate) order: Order,
    pub(crate) boxes: Vec<AlignedBox>,
    pub(crate) rectangles: Vec<Rectangle>,
    pub(crate) solids: Vec<Solid>,
    pub(crate) lanes: Lanes,
    pub(crate) scores: Vec<f32>,
    pub(crate) lowered_by: Vec<u32>,
    pub(crate) queue: BinaryHeap<Reverse<u128>>,
    /// The candidates that a stage leaves to the next, and their positions.
    pub(super) survivors: Vec<Candidate<Object3d>>,
    pub(super) positions: Vec<u32>,
}

impl Workspace {
    /// Scratch memory for `num_candidates`, which grows for more.
    pub fn with_capacity(num_candidates: usize) -> Self {
        Self {
            order: Order::with_capacity(num_candidates),
            boxes: Vec::with_capacity(num_candidates),
            rectangles: Vec::with_capacity(num_candidates),
            solids: Vec::with_capacity(num_candidates),
            lanes: Lanes::with_capacity(num_candidates),
            scores: Vec::with_capacity(num_candidates),
            lowered_by: Vec::with_capacity(num_candidates),
            queue: BinaryHeap::with_capacity(num_candidates),
            survivors: Vec::with_capacity(num_candidates),
            positions: Vec::with_capacity(num_candidates),
        }
    }
}
