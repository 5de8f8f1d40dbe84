//! Outputs of a network to candidates, and candidates to detections.

pub mod anchor;
pub mod center;
pub mod gather;
pub mod query;
pub mod select;
pub mod streampetr;
pub mod yolo;
pub mod logit;
#[cfg(feature = "cuda")]
pub(crate) mod thresholds;
