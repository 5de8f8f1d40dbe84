//! Outputs of a network to candidates, and candidates to detections.

pub mod anchor;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "candidates and detections are copied as bytes")]
pub mod boxes;
pub mod center;
pub mod gather;
pub mod logit;
pub mod query;
pub mod select;
pub mod streampetr;
#[cfg(feature = "cuda")]
pub(crate) mod thresholds;
pub mod yolo;
