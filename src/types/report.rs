//! What one frame cost and what it lost.

use std::time::{Duration, Instant};

/// The stages of a frame, in the order they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// A compressed picture becomes pixels.
    Decompress,
    /// Pixels become the network's input.
    Letterbox,
    /// A message's points become rows of floats.
    Unpack,
    /// Past sweeps join the current one.
    Densify,
    /// Points are grouped into voxels.
    Voxelize,
    /// Voxels become the encoder's input.
    PillarFeatures,
    /// The pillar encoder runs.
    Encode,
    /// Pillar features are laid out on the map.
    Scatter,
    /// The network runs.
    Infer,
    /// Tensors become candidates.
    Decode,
    /// Candidates are cut and brought into the total order.
    Select,
    /// Overlapping candidates go.
    Suppress,
    /// Survivors become detections in the input's frame.
    Gather,
    /// The whole frame, from the message to the detections.
    Total,
}

impl Stage {
    /// Every stage, in order.
    pub const ALL: [Self; 14] = [
        Self::Decompress,
        Self::Letterbox,
        Self::Unpack,
        Self::Densify,
        Self::Voxelize,
        Self::PillarFeatures,
        Self::Encode,
        Self::Scatter,
        Self::Infer,
        Self::Decode,
        Self::Select,
        Self::Suppress,
        Self::Gather,
        Self::Total,
    ];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Decompress => "decompress",
            Self::Letterbox => "letterbox",
            Self::Unpack => "unpack",
            Self::Densify => "densify",
            Self::Voxelize => "voxelize",
            Self::PillarFeatures => "pillar_features",
            Self::Encode => "encode",
            Self::Scatter => "scatter",
            Self::Infer => "infer",
            Self::Decode => "decode",
            Self::Select => "select",
            Self::Suppress => "suppress",
            Self::Gather => "gather",
            Self::Total => "total",
        }
    }
}

/// What a frame may lose without being refused. Every limit has its counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Count {
    /// Points with a NaN or infinite coordinate.
    PointsNotFinite,
    /// Points outside the crop box.
    PointsOutOfRange,
    /// Points beyond `point_capacity`.
    PointsOverCapacity,
    /// Past sweeps that could not be used, for want of a transform or room.
    SweepsDropped,
    /// Points whose voxel was full.
    PointsOverVoxel,
    /// Points whose voxel would have been one too many.
    PointsOverVoxelCapacity,
    /// Voxels beyond `voxel_capacity`.
    VoxelsOverCapacity,
    /// Candidates beyond `candidate_capacity`.
    CandidatesOverCapacity,
    /// Candidates beyond `pre_nms_top_k`.
    CandidatesOverTopK,
    /// Detections beyond `max_detections`.
    DetectionsOverLimit,
}

impl Count {
    /// Every counter, in order.
    pub const ALL: [Self; 10] = [
        Self::PointsNotFinite,
        Self::PointsOutOfRange,
        Self::PointsOverCapacity,
        Self::SweepsDropped,
        Self::PointsOverVoxel,
        Self::PointsOverVoxelCapacity,
        Self::VoxelsOverCapacity,
        Self::CandidatesOverCapacity,
        Self::CandidatesOverTopK,
        Self::DetectionsOverLimit,
    ];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::PointsNotFinite => "points_not_finite",
            Self::PointsOutOfRange => "points_out_of_range",
            Self::PointsOverCapacity => "points_over_capacity",
            Self::SweepsDropped => "sweeps_dropped",
            Self::PointsOverVoxel => "points_over_voxel",
            Self::PointsOverVoxelCapacity => "points_over_voxel_capacity",
            Self::VoxelsOverCapacity => "voxels_over_capacity",
            Self::CandidatesOverCapacity => "candidates_over_capacity",
            Self::CandidatesOverTopK => "candidates_over_top_k",
            Self::DetectionsOverLimit => "detections_over_limit",
        }
    }
}

/// Durations and losses of one frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrameReport {
    durations: [Option<Duration>; Stage::ALL.len()],
    counts: [u64; Count::ALL.len()],
}

impl FrameReport {
    /// An empty report.
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes how long a stage took; a stage that runs twice adds up.
    pub fn add_duration(&mut self, stage: Stage, duration: Duration) {
        *self.durations[stage as usize].get_or_insert_default() += duration;
    }

    /// Does the work of a stage and notes how long it took.
    pub fn time<T>(&mut self, stage: Stage, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = work();
        self.add_duration(stage, start.elapsed());
        result
    }

    /// How long a stage took; `None` when it did not run.
    pub fn duration(&self, stage: Stage) -> Option<Duration> {
        self.durations[stage as usize]
    }

    /// Adds to a counter.
    pub fn add_count(&mut self, count: Count, n: usize) {
        self.counts[count as usize] += n as u64;
    }

    /// A counter.
    pub fn count(&self, count: Count) -> u64 {
        self.counts[count as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_in_the_order_of_the_enums() {
        assert!(Stage::ALL.iter().enumerate().all(|(i, &stage)| stage as usize == i));
        assert!(Count::ALL.iter().enumerate().all(|(i, &count)| count as usize == i));
    }

    #[test]
    fn durations_add_up() {
        let mut report = FrameReport::new();
        assert_eq!(report.duration(Stage::Infer), None);
        report.add_duration(Stage::Infer, Duration::from_millis(2));
        report.add_duration(Stage::Infer, Duration::from_millis(3));
        assert_eq!(report.duration(Stage::Infer), Some(Duration::from_millis(5)));
    }
}
