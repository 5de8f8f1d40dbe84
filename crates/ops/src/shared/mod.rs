//! What families of operations share on a GPU: candidates and the counters of a frame.

mod candidates;
mod counters;
#[expect(unsafe_code, reason = "candidates and detections are copied as bytes")]
pub mod kernels;

pub use candidates::DeviceCandidates;
pub use counters::{DeviceCounters, PublishedCounters};
pub use kernels::Motion;
