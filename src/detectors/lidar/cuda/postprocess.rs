//! From the network's outputs to detections.

use std::mem::{Discriminant, discriminant};

use crate::config::LidarConfig;
use crate::detectors::frame_stream::RecordedOn;
use crate::detectors::lidar::{LidarDecoder, LidarHead, Outputs};
use det_post_ops::decode::gather::cuda::{Inputs3d, Workspace3d as Gatherer};
use det_post_ops::decode::select;
use det_post_ops::device::cuda::{DeviceBuffer, Graph};
use det_post_ops::nms::cuda::{Capacity, Stages3d};
use det_post_ops::shared::DeviceCandidates;
use det_post_types::{Box3d, Nms3d, Result};

/// From the network's outputs to detections: one graph.
pub(super) struct Postprocess {
    decoder: LidarDecoder,
    suppression: Stages3d,
    pub(super) gather: Gatherer,
    pub(super) graph: Graph,
    pub(super) limits: Limits,
}

/// The network whose outputs are decoded, and their meaning.
#[derive(Clone, Copy)]
pub(super) struct Network<'a> {
    pub(super) head: &'a LidarHead,
    pub(super) outputs: Outputs<'a>,
}

/// The sizes and kinds of the kernels and memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    num_candidates: usize,
    max_detections: usize,
    nms: Vec<Discriminant<Nms3d>>,
    num_distances: usize,
    num_yaw_norms: usize,
}

impl Limits {
    pub(super) fn of(config: &LidarConfig) -> Self {
        Self {
            num_candidates: config.pre_nms_top_k.min(config.candidate_capacity).max(1),
            max_detections: config.max_detections,
            nms: config.nms.iter().map(discriminant).collect(),
            num_distances: config.score_thresholds.distance_upper_limits_m.len(),
            num_yaw_norms: config.yaw_norm_thresholds.len(),
        }
    }
}

impl Postprocess {
    pub(super) fn new(
        config: &LidarConfig,
        Network { head, outputs }: Network<'_>,
        num_voxels: &DeviceBuffer<u32>,
        RecordedOn { stream, counters }: RecordedOn<'_>,
    ) -> Result<Self> {
        let limits = Limits::of(config);
        let Limits { num_candidates, max_detections, .. } = limits;
        // Freed when other limits replace it.
        let stream = &stream.with_own_memory();
        let mut candidates = DeviceCandidates::<Box3d>::with_capacity(stream, num_candidates)?;
        let mut decoder = head.decoder(stream, outputs, num_candidates)?;
        let classes = config.facts.class_names.len();
        let capacity = Capacity { candidates: num_candidates, classes };
        let mut suppression = Stages3d::new(stream, &config.nms, capacity)?;
        let mut gather = Gatherer::new(stream, head.attributes(), max_detections)?;
        let graph = Graph::capture(stream, || {
            head.enqueue_decode(outputs, &mut decoder, num_voxels, &mut candidates, counters)?;
            let motions = decoder.motions();
            let left = suppression.enqueue(&candidates, motions.map(|(_, places)| places))?;
            let motions = motions.map(|(motions, _)| motions).zip(left.places);
            let inputs = Inputs3d { candidates: left.candidates, motions, kept: left.kept };
            gather.enqueue(&inputs, counters)
        })?;
        let mut recorded = Self { decoder, suppression, gather, graph, limits };
        recorded.set(config, head)?;
        Ok(recorded)
    }

    /// Writes thresholds to the device and waits.
    pub(super) fn set(&mut self, config: &LidarConfig, head: &LidarHead) -> Result<()> {
        self.suppression.set(&config.nms)?;
        let LidarConfig { candidate_capacity, pre_nms_top_k, .. } = *config;
        self.decoder.set(head, select::Limits { candidate_capacity, pre_nms_top_k })
    }
}
