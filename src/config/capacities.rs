//! Limits on the boxes between stages: their number, and how scores meet thresholds.

use super::declaration::Change::{Fixed, Live};
use super::reader::Reader;
use super::value::{integer, one_of};

pub(super) fn candidate_capacity(p: &mut Reader<'_>) -> usize {
    p.value(
        "candidate_capacity",
        Fixed,
        integer(1..=1 << 20),
        8192,
        "Most decoded boxes of a frame, the best first.",
    )
}

pub(super) fn pre_nms_top_k(p: &mut Reader<'_>) -> usize {
    p.value(
        "pre_nms_top_k",
        Live,
        integer(1..=1 << 20),
        1000,
        "Most candidates that enter suppression, the best first.",
    )
}

pub(super) fn max_detections(p: &mut Reader<'_>, default: i64) -> usize {
    p.value(
        "max_detections",
        Live,
        integer(1..=1 << 16),
        default,
        "Most detections of a frame, the best first.",
    )
}

/// How a score meets its threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScoreKeptWhen {
    AtLeast,
    Above,
}

const KEPT_WHEN: &[(&str, ScoreKeptWhen)] =
    &[("at_least", ScoreKeptWhen::AtLeast), ("above", ScoreKeptWhen::Above)];

pub(super) fn score_kept_when(p: &mut Reader<'_>) -> ScoreKeptWhen {
    p.value(
        "score_kept_when",
        Fixed,
        one_of(KEPT_WHEN),
        "at_least",
        "Whether a box is kept when its score is `at_least` or `above` its threshold.",
    )
}

impl ScoreKeptWhen {
    /// The least score that is kept.
    pub(super) fn least_score(self, threshold: f32) -> f32 {
        match self {
            Self::AtLeast => threshold,
            Self::Above => threshold.next_up(),
        }
    }
}
