//! 3D detection from pillars on a GPU: one upload, one wait, one read of the results. A
//! payload in page-locked memory is uploaded in place.
//!
//! Clouds and transforms differ from frame to frame: they are parameters of the launches
//! that unpack and merge. From the merged points on, sizes are capacities and counts
//! remain on the device, so that the rest is recorded.

mod sweeps;

use std::mem::{Discriminant, discriminant};

use sweeps::{Clouds, MergedPoints};

use super::{CLOUD, LidarDecoder, LidarHead, PillarEncoder, family, needs, with_empty_frame};
use crate::config::{ChannelConfig, LidarConfig, LidarFacts};
use crate::detectors::frame_stream::FrameStream;
use crate::detectors::{Detector, DetectorInfo, FrameSet, InputNeeds};
use crate::device::cuda::{
    DeviceBuffer, DeviceCandidates, DeviceCounters, DevicePoints, Graph, InPlaceUploads, Stream,
};
use crate::device::{Device, PayloadMemory};
use crate::error::{Error, ErrorKind, Result};
use crate::infer::device::DeviceEngine;
use crate::ops::gather::cuda::{Gathered, Inputs3d, Workspace3d as Gatherer};
use crate::ops::nms::cuda::{Capacity, Suppression3d};
use crate::ops::pillar_features::cuda::Workspace as Features;
use crate::ops::scatter::cuda::Workspace as Scatter;
use crate::ops::select;
use crate::ops::voxelize::cuda::{DeviceVoxels, Workspace as Voxelize};
use crate::types::{Box3d, Detection3d, Detections, FrameReport, Nms3d, Stage, Transfer};

/// The timed stages, in order.
const STAGES: [Stage; 9] = [
    Stage::Upload,
    Stage::Unpack,
    Stage::Densify,
    Stage::Voxelize,
    Stage::PillarFeatures,
    Stage::Encode,
    Stage::Scatter,
    Stage::Infer,
    Stage::Postprocess,
];

/// Detects objects in point clouds on a GPU.
pub struct CudaDetector {
    info: DetectorInfo,
    needs: [InputNeeds; 1],
    facts: LidarFacts,
    uploads: InPlaceUploads,
    frames: FrameStream,
    clouds: Clouds,
    points: MergedPoints,
    pillars: Pillars,
    encoder: DeviceEngine,
    engine: DeviceEngine,
    head: LidarHead,
    postprocess: Postprocess,
    detections: Vec<Detection3d>,
}

impl CudaDetector {
    /// Loads both networks for `stream`, on which the frames run.
    ///
    /// # Errors
    /// As [`super::open`].
    pub fn load(config: &LidarConfig, stream: &Stream) -> Result<Self> {
        let facts = &config.facts;
        let (path, options) = (&config.encoder_path, &config.engine);
        let encoder = DeviceEngine::load(path, options, stream, |input| {
            PillarEncoder::input_shape(facts, input).map(Vec::from)
        })?;
        let engine = DeviceEngine::load(&config.model_path, options, stream, |input| {
            LidarHead::input_shape(facts, input).map(Vec::from)
        })?;
        Self::new(config, stream, encoder, engine)
    }

    /// A detector with loaded networks, whose stream is `stream`.
    ///
    /// # Errors
    /// As [`super::open`].
    pub fn new(
        config: &LidarConfig,
        stream: &Stream,
        mut encoder: DeviceEngine,
        mut engine: DeviceEngine,
    ) -> Result<Self> {
        let facts = &config.facts;
        let output = PillarEncoder::new(facts, encoder.inputs(), encoder.outputs())?.output_index();
        let head = LidarHead::new(config, engine.inputs(), engine.outputs())?;
        let mut frames = FrameStream::new(stream, &STAGES)?;
        let points = MergedPoints::new(config, stream)?;
        let pillars = Pillars::new(
            facts,
            &points.merged,
            (&mut encoder, output),
            &mut engine,
            frames.counters(),
        )?;
        let clouds = Clouds::new(config, stream)?;
        let num_voxels = &pillars.voxels.num;
        let working = (stream, frames.counters());
        let postprocess = Postprocess::new(config, (&head, &engine), num_voxels, working)?;
        let device = Device::Cuda(stream.device().clone());
        Ok(Self {
            info: DetectorInfo::new(&device, engine.name(), &STAGES),
            needs: needs(config),
            facts: facts.clone(),
            uploads: InPlaceUploads::new(stream)?,
            frames,
            postprocess,
            clouds,
            points,
            pillars,
            encoder,
            engine,
            head,
            detections: Vec::with_capacity(config.max_detections),
        })
    }
}

impl Detector for CudaDetector {
    fn inputs(&self) -> &[InputNeeds] {
        &self.needs
    }

    fn info(&self) -> &DetectorInfo {
        &self.info
    }

    fn detect<'a>(
        &'a mut self,
        frame: &FrameSet<'_>,
        report: &mut FrameReport,
    ) -> Result<Detections<'a>> {
        let Self { uploads, frames, clouds, points, pillars, encoder, .. } = self;
        let Self { engine, head, postprocess, detections, .. } = self;
        let (cloud, pose) = (frame.cloud(CLOUD)?, frame.input(CLOUD)?.world_from_sensor());
        let ran = uploads.scope(|scope| {
            let mut running = frames.begin(scope, report);
            clouds.upload(cloud, &mut running)?;
            clouds.enqueue_unpack(cloud, points.current_mut(), running.counters)?;
            running.end_of(Stage::Unpack)?;
            points.merge(frame.stamp, pose, &mut running)?;
            running.end_of(Stage::Densify)?;
            pillars.group.enqueue()?;
            running.end_of(Stage::Voxelize)?;
            pillars.features.enqueue()?;
            running.end_of(Stage::PillarFeatures)?;
            encoder.enqueue()?;
            running.end_of(Stage::Encode)?;
            pillars.scatter.enqueue()?;
            running.end_of(Stage::Scatter)?;
            engine.enqueue()?;
            running.end_of(Stage::Infer)?;
            postprocess.graph.enqueue()?;
            running.end_of(Stage::Postprocess)?;
            let gathered = postprocess.gather.read(detections)?;

            check_thresholds(&gathered)?;
            let num_counted = running.add_counters();
            running.add_copies(Stage::Encode, encoder);
            running.add_copies(Stage::Infer, engine);
            let num_words = detections.len() * head.attributes().num_words();
            let num_read = num_counted + size_of::<Gathered>() + num_words * size_of::<u32>();
            running.report.add_bytes(Stage::Postprocess, Transfer::Download, num_read);
            running.finish()
        });
        frames.settle(ran)?;
        Ok(Detections::Boxes3d(detections))
    }

    /// Writes thresholds to the device; records the postprocessing again for another kind
    /// of suppression or other limits.
    fn reconfigure(&mut self, config: &ChannelConfig) -> Result<()> {
        let config = family(config)?;
        let mut head = self.head.clone();
        head.reconfigure(config);
        if self.postprocess.limits == Limits::of(config) {
            self.postprocess.set(config, &head)?;
        } else {
            let stream = self.frames.stream().clone();
            let (network, counters) = ((&head, &self.engine), self.frames.counters());
            let num_voxels = &self.pillars.voxels.num;
            self.postprocess = Postprocess::new(config, network, num_voxels, (&stream, counters))?;
        }
        self.head = head;
        self.points.reconfigure(config);
        self.detections.clear();
        self.detections.reserve(config.max_detections);
        Ok(())
    }

    fn reset(&mut self) -> Result<()> {
        self.points.clear_past();
        Ok(())
    }

    fn warm_up(&mut self) -> Result<()> {
        let facts = self.facts.clone();
        with_empty_frame(&facts, |frame| self.detect(frame, &mut FrameReport::new()).map(drop))?;
        self.reset()
    }

    fn payload_memory(&self) -> PayloadMemory {
        PayloadMemory::of(&Device::Cuda(self.frames.stream().device().clone()))
    }
}

/// Refuses a frame with an eligible candidate whose class has no threshold.
fn check_thresholds(gathered: &Gathered) -> Result<()> {
    let Some(class) = gathered.suppressed.class_over.checked_sub(1) else { return Ok(()) };
    let message = format!("class {class} of an eligible candidate has no threshold");
    Err(Error::new(ErrorKind::Argument, "nms", message))
}

/// From points to the network's input: graphs before and after the encoder.
struct Pillars {
    voxels: DeviceVoxels,
    group: Graph,
    features: Graph,
    scatter: Graph,
}

impl Pillars {
    fn new(
        facts: &LidarFacts,
        points: &DevicePoints,
        (encoder, output): (&mut DeviceEngine, usize),
        engine: &mut DeviceEngine,
        counters: &mut DeviceCounters,
    ) -> Result<Self> {
        let params = super::voxelize_params(facts);
        let stream = points.stream();
        let mut voxels = DeviceVoxels::new(stream, &params)?;
        let mut voxelize = Voxelize::new(stream, &params, points.capacity())?;
        let mut scatter = Scatter::new(stream, &facts.grid)?;
        let group = Graph::record(stream, || voxelize.enqueue(points, &mut voxels, counters))?;
        let (rows, with_z) = (encoder.input(0)?, facts.center_offset_z);
        let mut features = Features::new(stream, rows)?;
        let features = Graph::record(stream, || features.enqueue((points, &voxels), with_z, rows))?;
        let (encoded, map) = (encoder.output(output)?, engine.input(0)?);
        let scatter = Graph::record(stream, || scatter.enqueue(encoded, &voxels, map))?;
        Ok(Self { voxels, group, features, scatter })
    }
}

/// From the network's outputs to detections: one graph.
struct Postprocess {
    decoder: LidarDecoder,
    suppression: Suppression3d,
    gather: Gatherer,
    graph: Graph,
    limits: Limits,
}

/// The sizes and kinds of the kernels and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limits {
    num_candidates: usize,
    max_detections: usize,
    nms: Discriminant<Nms3d>,
    num_distances: usize,
    num_yaw_norms: usize,
}

impl Limits {
    fn of(config: &LidarConfig) -> Self {
        Self {
            num_candidates: config.pre_nms_top_k.min(config.candidate_capacity).max(1),
            max_detections: config.max_detections,
            nms: discriminant(&config.nms),
            num_distances: config.score_thresholds.distance_upper_limits_m.len(),
            num_yaw_norms: config.yaw_norm_thresholds.len(),
        }
    }
}

impl Postprocess {
    fn new(
        config: &LidarConfig,
        (head, engine): (&LidarHead, &DeviceEngine),
        num_voxels: &DeviceBuffer<u32>,
        (stream, counters): (&Stream, &mut DeviceCounters),
    ) -> Result<Self> {
        let limits = Limits::of(config);
        let Limits { num_candidates, max_detections, .. } = limits;
        let mut candidates = DeviceCandidates::<Box3d>::with_capacity(stream, num_candidates)?;
        let mut decoder = head.decoder(stream, engine, num_candidates)?;
        let classes = config.facts.class_names.len();
        let capacity = Capacity { candidates: num_candidates, classes };
        let mut suppression = Suppression3d::new(stream, &config.nms, capacity)?;
        let mut gather = Gatherer::new(stream, head.attributes(), max_detections)?;
        let graph = Graph::record(stream, || {
            head.enqueue_decode(engine, &mut decoder, num_voxels, &mut candidates, counters)?;
            suppression.enqueue(&candidates)?;
            let (motions, kept) = (decoder.motions(), suppression.kept());
            gather.enqueue(&Inputs3d { candidates: &candidates, motions, kept }, counters)
        })?;
        let mut recorded = Self { decoder, suppression, gather, graph, limits };
        recorded.set(config, head)?;
        Ok(recorded)
    }

    /// Writes thresholds to the device and waits.
    fn set(&mut self, config: &LidarConfig, head: &LidarHead) -> Result<()> {
        self.suppression.set(&config.nms)?;
        let LidarConfig { candidate_capacity, pre_nms_top_k, .. } = *config;
        self.decoder.set(head, select::Limits { candidate_capacity, pre_nms_top_k })
    }
}
