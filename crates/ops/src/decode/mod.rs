//! Outputs of a network to candidates, and candidates to detections.

pub mod anchor;
pub mod center;
pub mod gather;
pub mod keypoints;
pub mod logit;
pub mod mask;
pub mod proposals;
pub mod query;
pub mod select;
pub mod sites;
#[cfg(feature = "cuda")]
pub(crate) mod space;
pub mod streampetr;
#[cfg(feature = "cuda")]
pub(crate) mod thresholds;
pub mod yolo;
