//! The choice of the best boxes of a frame.

use crate::device::cuda::Stream;
use crate::error::Result;
use crate::ops::decode_query::cuda::Workspace;
use crate::types::{QueryDecode, ScoreThresholds, SizeOrder, YawConvention};

pub(super) const NUM_CLASSES: usize = 10;
/// Boxes of a frame, as published.
pub(super) const NUM_BOXES: usize = 300;

/// Chooses the best pairs of a query and a class of all that score 0.3.
pub(super) fn best_boxes(stream: &Stream, num_queries: usize) -> Result<Workspace> {
    let decode = QueryDecode {
        size_order: SizeOrder::LengthWidthHeight,
        yaw: YawConvention::CounterClockwise,
        score_thresholds: ScoreThresholds::uniform(0.3, NUM_CLASSES),
        yaw_norm_thresholds: Vec::new(),
        center_range: None,
    };
    Workspace::new(stream, [num_queries, NUM_CLASSES], &decode, NUM_BOXES)
}
