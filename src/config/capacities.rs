//! Limits on the number of boxes between stages.

use super::declaration::Change::{Fixed, Live};
use super::reader::Reader;
use super::value::integer;

pub(super) fn candidate_capacity(p: &mut Reader<'_>) -> usize {
    p.value(
        "candidate_capacity",
        Fixed,
        integer(1..=1 << 20),
        8192,
        "Most decoded boxes of a frame. More are dropped, those with the lowest scores first, and counted.",
    )
}

pub(super) fn pre_nms_top_k(p: &mut Reader<'_>) -> usize {
    p.value(
        "pre_nms_top_k",
        Live,
        integer(1..=1 << 20),
        1000,
        "Most candidates that enter suppression, the best first. The others are dropped and counted.",
    )
}

pub(super) fn max_detections(p: &mut Reader<'_>, default: i64) -> usize {
    p.value(
        "max_detections",
        Live,
        integer(1..=1 << 16),
        default,
        "Most detections of a frame, the best first. The others are dropped and counted.",
    )
}
