//! The story of a frame: one function per sensor, its stages in order.
//!
//! A pipeline owns everything a frame needs (engine, tensors, workspaces) from
//! its construction on; processing allocates nothing of its own once the first
//! frames have shown the sizes. It does no input or output, knows no clock but
//! the stopwatch of its report, and never keeps anything of a frame but past
//! sweeps. An error drops the frame and leaves the pipeline ready for the next.
//!
//! | camera | LiDAR |
//! |---|---|
//! | decompress | unpack |
//! | letterbox | densify |
//! | infer | voxelize, pillar features, encode, scatter, infer |
//! | decode, select, suppress, gather | decode, select, suppress, gather |

#[cfg(feature = "cuda")]
mod frame_stream;
pub mod image2d;
pub mod pillars;
#[cfg(feature = "cuda")]
mod stopwatch;

pub use image2d::CameraPipeline;
pub use pillars::{LidarFrame, LidarPipeline};

use crate::types::FrameReport;

/// What became of a frame: its detections, best first, and its report. Both
/// stay valid until the next frame.
#[derive(Clone, Copy, Debug)]
pub struct Processed<'a, D> {
    /// Detections in the total order of their scores, classes and sources.
    pub detections: &'a [D],
    /// Durations and losses.
    pub report: &'a FrameReport,
}
