//! Durations, counters and losses of one frame.

use std::time::{Duration, Instant};

use tracing::trace_span;

named! {
    /// The stages of a frame, in the order they run.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Stage {
        /// A compressed image becomes pixels.
        Decompress => "decompress",
        /// The upload of a payload to the device.
        Upload => "upload",
        /// Pixels become the network's input.
        Letterbox => "letterbox",
        /// A message's points become rows of floats.
        Unpack => "unpack",
        /// Past sweeps join the current one.
        Densify => "densify",
        /// Points are grouped into voxels.
        Voxelize => "voxelize",
        /// Voxels become the means of their points.
        VoxelMean => "voxel_mean",
        /// Pillars become the encoder's input.
        PillarFeatures => "pillar_features",
        /// The encoder of pillars or voxels runs, or the backbone of a surround network. A sparse
        /// encoder also writes the map; on a GPU its stage starts with the grouping of points
        /// into voxels.
        Encode => "encode",
        /// Pillar features are laid out on the map.
        Scatter => "scatter",
        /// The network runs.
        Infer => "infer",
        /// Tensors become candidates.
        Decode => "decode",
        /// The best candidates are selected and sorted into the total order.
        Select => "select",
        /// Overlapping candidates are suppressed.
        Suppress => "suppress",
        /// Survivors become detections in the input's frame.
        Gather => "gather",
        /// From decoding to gathering, where a device does all of it in one launch.
        Postprocess => "postprocess",
        /// The whole frame, from its messages to the detections, without what was done before
        /// the frame was complete.
        Total => "total",
    }
    /// The name in reports.
    pub fn name;
}

named! {
    /// What is counted in a frame that is processed: losses, each limit by itself, and
    /// unexpected data.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Count {
        /// Points with a NaN or infinite coordinate.
        PointsNotFinite => "points_not_finite",
        /// Points outside the crop box.
        PointsOutOfRange => "points_out_of_range",
        /// Points beyond `point_capacity`.
        PointsOverCapacity => "points_over_capacity",
        /// Past sweeps that are not used: too old, without a transform, or beyond the
        /// capacity.
        SweepsDropped => "sweeps_dropped",
        /// Points whose voxel was full.
        PointsOverVoxel => "points_over_voxel",
        /// Points of voxels beyond `voxel_capacity`.
        PointsOverVoxelCapacity => "points_over_voxel_capacity",
        /// Voxels beyond `voxel_capacity`.
        VoxelsOverCapacity => "voxels_over_capacity",
        /// Sites of a sparse encoder beyond the capacity of their level, all levels together.
        SitesOverCapacity => "sites_over_capacity",
        /// Sites of a sparse encoder that no convolution to the next level covers, all levels
        /// together.
        SitesWithoutOutput => "sites_without_output",
        /// Candidates beyond `candidate_capacity`.
        CandidatesOverCapacity => "candidates_over_capacity",
        /// Candidates beyond `pre_nms_top_k`.
        CandidatesOverTopK => "candidates_over_top_k",
        /// Detections beyond `max_detections`.
        DetectionsOverLimit => "detections_over_limit",
        /// Detections whose score is above 1: the network's scores are not
        /// probabilities. Nothing is dropped.
        ScoresOutOfRange => "scores_out_of_range",
        /// Boxes of the network's output (rows, cells, anchors, queries) with a NaN among the
        /// scores that were read. A NaN passes no threshold; another class of the box may.
        /// Where boxes have an objectness, class scores are read if it passes.
        ScoresNan => "scores_nan",
        /// Boxes of the network's output whose score passes the threshold and that are no
        /// boxes: a number of the box, its velocity, its variances or its score is not finite, the
        /// right edge is before the left one, the bottom edge above the top one, or an extent
        /// is negative. They are dropped.
        BoxesInvalid => "boxes_invalid",
        /// Boxes of the network's output whose score passes the threshold and whose class,
        /// which the network gives as a number, is not one of the head's: beyond its names,
        /// negative or NaN. They are dropped.
        ClassesUnknown => "classes_unknown",
        /// Memories of past frames that were cleared because of a gap between frames.
        MemoryCleared => "memory_cleared",
        /// Point clouds whose `row_step` is wrong and was corrected; see
        /// [`CloudView`](super::CloudView). Nothing is dropped.
        RowStepsCorrected => "row_steps_corrected",
        /// Compressed images whose format names another compression than the signature of the
        /// file, which decides. Nothing is dropped.
        ImagesMislabelled => "images_mislabelled",
        /// Detections without a mask: the masks before them reached `mask_capacity_bytes`.
        /// Nothing else is dropped.
        MasksOverCapacity => "masks_over_capacity",
        /// Points inside a crop box of `crop_boxes`, such as those on the vehicle itself.
        PointsCropped => "points_cropped",
        /// Points of clouds that are to be deskewed without a usable time: they stay where they
        /// were measured. Nothing is dropped.
        PointsWithoutTime => "points_without_time",
        /// Inputs that processed frames lack.
        InputsMissing => "inputs_missing",
        /// Masks with pixels of which a coefficient, or the value of a pixel before the threshold,
        /// is NaN or infinite. A NaN sets no pixel. Nothing is dropped.
        MasksInvalid => "masks_invalid",
        /// Keypoints of detections of which a number is NaN or infinite: they are (0, 0) with score 0.
        /// Nothing else is dropped.
        KeypointsInvalid => "keypoints_invalid",
    }
    /// The name in reports.
    pub fn name;
}

impl Count {
    /// Whether it is a warning in diagnostics: a capacity was exceeded, inputs or times of points are
    /// missing, the network's scores are not probabilities, or its boxes, classes, masks or keypoints are
    /// invalid. The
    /// others are normal.
    pub const fn is_warning(self) -> bool {
        match self {
            Self::PointsOverCapacity
            | Self::PointsOverVoxelCapacity
            | Self::VoxelsOverCapacity
            | Self::SitesOverCapacity
            | Self::CandidatesOverCapacity
            | Self::DetectionsOverLimit
            | Self::MasksOverCapacity
            | Self::ScoresOutOfRange
            | Self::ScoresNan
            | Self::BoxesInvalid
            | Self::ClassesUnknown
            | Self::MemoryCleared
            | Self::PointsWithoutTime
            | Self::InputsMissing
            | Self::MasksInvalid
            | Self::KeypointsInvalid => true,
            Self::PointsNotFinite
            | Self::PointsOutOfRange
            | Self::SweepsDropped
            | Self::PointsOverVoxel
            | Self::SitesWithoutOutput
            | Self::CandidatesOverTopK
            | Self::RowStepsCorrected
            | Self::ImagesMislabelled
            | Self::PointsCropped => false,
        }
    }
}

named! {
    /// The copies of a frame's bytes. What is read in place is not copied.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Transfer {
        /// From host memory to host memory, by this program.
        HostCopy => "host_copy",
        /// From the host to a device.
        Upload => "upload",
        /// From a device to the host.
        Download => "download",
    }
    /// The name in reports.
    pub fn name;
}

named! {
    /// What decodes a compressed image.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum ImageDecoder {
        /// The CPU.
        Cpu => "cpu",
        /// The JPEG engines of a GPU.
        Gpu => "gpu",
    }
    /// The name in reports.
    pub fn name;
}

/// The sites of a level of a sparse encoder in one frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelCounts {
    /// Sites that were kept; of level 0, the voxels.
    pub num_sites: u64,
    /// Sites beyond the capacity of the level.
    pub num_over_capacity: u64,
    /// Sites of the level before that the convolution to this level does not cover.
    pub num_inputs_without_output: u64,
}

/// The points of one cloud. All but `num_without_time` add up to the points of the message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnpackCounts {
    /// Points written.
    pub num_points: usize,
    /// Points with a value that is NaN or infinite.
    pub num_not_finite: usize,
    /// Finite points inside the crop box.
    pub num_cropped: usize,
    /// Other finite points outside the range.
    pub num_out_of_range: usize,
    /// Valid points beyond the capacity of the output.
    pub num_over_capacity: usize,
    /// Where times are needed, finite points without a usable one; all points of a cloud without
    /// times.
    pub num_without_time: usize,
}

/// The target of the spans of frames, all at the level `TRACE`: `frame`, from its submission to its
/// collection, with `channel`, `stamp` and `detections`; `prepare`, work for a frame that is not
/// complete yet; inside both `stage`, with its name. A dropped frame is an event with `channel` and
/// `dropped`, the reason.
pub const FRAME_SPANS: &str = "det_post::frame";

/// Durations, counters, copied bytes, decoded images and sites of one frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrameReport {
    durations: [Option<Duration>; Stage::ALL.len()],
    counts: [u64; Count::ALL.len()],
    bytes: [[u64; Transfer::ALL.len()]; Stage::ALL.len()],
    images: [u64; ImageDecoder::ALL.len()],
    levels: [LevelCounts; FrameReport::MAX_LEVELS],
    num_levels: usize,
    /// By input.
    clouds: [UnpackCounts; FrameReport::MAX_CLOUDS],
}

impl FrameReport {
    /// The most levels of a sparse encoder.
    pub const MAX_LEVELS: usize = 16;
    /// The most clouds of a frame.
    pub const MAX_CLOUDS: usize = 16;

    /// An empty report.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds to the duration of a stage that was measured elsewhere, as on a GPU. Its span (see
    /// [`FRAME_SPANS`]) has the duration as `micros` and closes at once.
    pub fn add_duration(&mut self, stage: Stage, duration: Duration) {
        if stage != Stage::Total {
            let micros = || 1e6 * duration.as_secs_f64();
            drop(
                trace_span!(target: FRAME_SPANS, "stage", stage = stage.name(), micros = micros()),
            );
        }
        self.sum(stage, duration);
    }

    /// Runs a stage inside its span and adds its duration.
    pub fn time<T>(&mut self, stage: Stage, work: impl FnOnce() -> T) -> T {
        let span = trace_span!(target: FRAME_SPANS, "stage", stage = stage.name());
        let start = Instant::now();
        let result = span.in_scope(work);
        self.sum(stage, start.elapsed());
        result
    }

    fn sum(&mut self, stage: Stage, duration: Duration) {
        *self.durations[stage as usize].get_or_insert_default() += duration;
    }

    /// The duration of a stage; `None` if it did not run.
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

    /// Appends the next level of a sparse encoder and adds its losses to the counters. Levels
    /// beyond [`Self::MAX_LEVELS`] are not listed.
    pub fn add_level(&mut self, level: LevelCounts) {
        if let Some(next) = self.levels.get_mut(self.num_levels) {
            *next = level;
            self.num_levels += 1;
        }
        self.counts[Count::SitesOverCapacity as usize] += level.num_over_capacity;
        self.counts[Count::SitesWithoutOutput as usize] += level.num_inputs_without_output;
    }

    /// The levels of a sparse encoder, finest first; none without one.
    pub fn levels(&self) -> &[LevelCounts] {
        &self.levels[..self.num_levels]
    }

    /// Sets the counts of the cloud of an input. The counters of the frame are added apart from
    /// them.
    pub fn set_cloud(&mut self, input: usize, counts: UnpackCounts) {
        if let Some(cloud) = self.clouds.get_mut(input) {
            *cloud = counts;
        }
    }

    /// The counts of the clouds by input: zeros for an input without a cloud, and in frames of one
    /// input.
    pub fn clouds(&self) -> &[UnpackCounts; Self::MAX_CLOUDS] {
        &self.clouds
    }

    /// Adds bytes that a stage copied.
    pub fn add_bytes(&mut self, stage: Stage, transfer: Transfer, num: usize) {
        self.bytes[stage as usize][transfer as usize] += num as u64;
    }

    /// Adds the durations, counters, bytes and images of work that was done for the frame before it
    /// was complete. Levels are not part of such work.
    pub fn merge(&mut self, earlier: &Self) {
        let add = |sum: &mut u64, other: &u64| *sum += other;
        for (duration, other) in self.durations.iter_mut().zip(earlier.durations) {
            if let Some(other) = other {
                *duration.get_or_insert_default() += other;
            }
        }
        self.counts.iter_mut().zip(&earlier.counts).for_each(|(sum, other)| add(sum, other));
        let bytes = self.bytes.as_flattened_mut().iter_mut();
        bytes.zip(earlier.bytes.as_flattened()).for_each(|(sum, other)| add(sum, other));
        self.images.iter_mut().zip(&earlier.images).for_each(|(sum, other)| add(sum, other));
    }

    /// Adds compressed images that were decoded.
    pub fn add_images(&mut self, decoder: ImageDecoder, num: usize) {
        self.images[decoder as usize] += num as u64;
    }

    /// Compressed images that were decoded by a decoder.
    pub fn images(&self, decoder: ImageDecoder) -> u64 {
        self.images[decoder as usize]
    }

    /// Bytes that a stage copied.
    pub fn bytes(&self, stage: Stage, transfer: Transfer) -> u64 {
        self.bytes[stage as usize][transfer as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_in_the_order_of_the_enums() {
        assert!(Stage::ALL.iter().enumerate().all(|(i, &stage)| stage as usize == i));
        assert!(Count::ALL.iter().enumerate().all(|(i, &count)| count as usize == i));
        assert!(Transfer::ALL.iter().enumerate().all(|(i, &way)| way as usize == i));
    }

    #[test]
    fn bytes_add_up_by_stage_and_way() {
        let mut report = FrameReport::new();
        report.add_bytes(Stage::Upload, Transfer::HostCopy, 30);
        report.add_bytes(Stage::Upload, Transfer::HostCopy, 12);
        report.add_bytes(Stage::Infer, Transfer::Download, 7);
        assert_eq!(report.bytes(Stage::Upload, Transfer::HostCopy), 42);
        assert_eq!(report.bytes(Stage::Upload, Transfer::Upload), 0);
        assert_eq!(report.bytes(Stage::Infer, Transfer::Download), 7);
    }

    #[test]
    fn earlier_work_is_added() {
        let mut earlier = FrameReport::new();
        earlier.add_duration(Stage::Letterbox, Duration::from_millis(2));
        earlier.add_bytes(Stage::Upload, Transfer::Upload, 5);
        earlier.add_count(Count::MemoryCleared, 1);
        earlier.add_images(ImageDecoder::Gpu, 3);
        let mut report = earlier.clone();
        report.add_duration(Stage::Infer, Duration::from_millis(9));
        report.merge(&earlier);
        let durations = [Stage::Letterbox, Stage::Infer, Stage::Upload];
        assert_eq!(
            durations.map(|stage| report.duration(stage).map(|of| of.as_millis())),
            [Some(4), Some(9), None]
        );
        assert_eq!(report.bytes(Stage::Upload, Transfer::Upload), 10);
        assert_eq!(report.count(Count::MemoryCleared), 2);
        assert_eq!(ImageDecoder::ALL.map(|decoder| report.images(decoder)), [0, 6]);
    }

    #[test]
    fn losses_of_levels_are_counted() {
        let mut report = FrameReport::new();
        for num_over_capacity in 0..=FrameReport::MAX_LEVELS as u64 {
            report.add_level(LevelCounts {
                num_sites: 7,
                num_over_capacity,
                num_inputs_without_output: 2,
            });
        }
        assert_eq!(report.levels().len(), FrameReport::MAX_LEVELS);
        assert_eq!(report.levels()[3].num_over_capacity, 3);
        assert_eq!(report.count(Count::SitesOverCapacity), 136);
        assert_eq!(report.count(Count::SitesWithoutOutput), 34);
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
