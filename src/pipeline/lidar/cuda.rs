//! A lidar's frames on a GPU: one upload, one wait, one read of the answer.
//! A payload that lies in page-locked memory is uploaded from there, which is
//! waited for as well: the memory is only lent.
//!
//! Clouds and transforms differ from frame to frame: unpacking and joining past
//! sweeps are launched with them. From the joined points on, sizes are
//! capacities and counts stay on the device, so that the rest is recorded.

use std::mem::{Discriminant, discriminant};

use super::LidarFrame;
use crate::config::{LidarConfig, LidarFacts};
use crate::device::cuda::abi::gather::LidarCounts;
use crate::device::cuda::{DeviceCandidates, DeviceCloud, DevicePoints, Graph, Stream, num_bytes};
use crate::error::{Error, ErrorKind, Result};
use crate::heads::{LidarDecoder, LidarHead, PillarEncoder};
use crate::infer::device::{DeviceEngine, NumBytes};
use crate::ops::densify::cuda::{DeviceSweeps, Joining, Workspace as Densify};
use crate::ops::gather::cuda::{LidarInputs, LidarWorkspace as Gatherer};
use crate::ops::nms::cuda::{Capacity, Suppression3d};
use crate::ops::pillar_features::cuda::Workspace as Features;
use crate::ops::scatter::cuda::Workspace as Scatter;
use crate::ops::select;
use crate::ops::unpack::{UnpackParams, cuda::Workspace as Unpack};
use crate::ops::voxelize::cuda::{DeviceVoxels, Workspace as Voxelize};
use crate::pipeline::stopwatch::Stopwatch;
use crate::types::{Box3d, Count, Detection3d, FrameReport, Nms3d, Stage, Transfer};

/// Room for clouds is taken by powers of two from these on.
const MIN_CLOUD_BYTES: usize = 1 << 20;
const MIN_CLOUD_POINTS: usize = 1 << 16;

pub(super) struct Frames {
    stream: Stream,
    stopwatch: Stopwatch,
    cloud: DeviceCloud,
    unpack: Unpack,
    unpack_params: UnpackParams,
    points: JoinedPoints,
    pillars: Pillars,
    encoder: DeviceEngine,
    engine: DeviceEngine,
    head: LidarHead,
    postprocess: Postprocess,
}

impl Frames {
    pub(super) fn new(config: &LidarConfig, stream: &Stream) -> Result<Self> {
        let facts = &config.facts;
        let (path, options) = (&config.encoder_path, &config.engine);
        let encoder = DeviceEngine::load(path, options, stream, |input| {
            PillarEncoder::input_shape(facts, input).map(Vec::from)
        })?;
        let engine = DeviceEngine::load(&config.model_path, options, stream, |input| {
            LidarHead::input_shape(facts, input).map(Vec::from)
        })?;
        Self::with_engines(config, stream, encoder, engine)
    }

    pub(super) fn with_engines(
        config: &LidarConfig,
        stream: &Stream,
        mut encoder: DeviceEngine,
        mut engine: DeviceEngine,
    ) -> Result<Self> {
        let facts = &config.facts;
        let output = PillarEncoder::new(facts, encoder.inputs(), encoder.outputs())?.output_index();
        let head = LidarHead::new(config, engine.inputs(), engine.outputs())?;
        let points = JoinedPoints::new(config, stream)?;
        let pillars = Pillars::new(facts, &points.joined, (&mut encoder, output), &mut engine)?;
        let unpack = Unpack::new(stream, MIN_CLOUD_POINTS)?;
        let before = Before { unpack: &unpack, points: &points, pillars: &pillars };
        Ok(Self {
            stream: stream.clone(),
            stopwatch: Stopwatch::new(stream, &STAGES)?,
            cloud: DeviceCloud::with_capacity(stream, MIN_CLOUD_BYTES)?,
            postprocess: Postprocess::new(config, stream, &head, &engine, before)?,
            unpack,
            unpack_params: super::unpack_params(config),
            points,
            pillars,
            encoder,
            engine,
            head,
        })
    }

    pub(super) fn engine_name(&self) -> &str {
        self.engine.name()
    }

    pub(super) fn reconfigure(&mut self, config: &LidarConfig) -> Result<()> {
        let mut head = self.head.clone();
        head.reconfigure(config);
        if self.postprocess.limits == Limits::of(config) {
            self.postprocess.set(config, &head)?;
        } else {
            let (points, pillars) = (&self.points, &self.pillars);
            let before = Before { unpack: &self.unpack, points, pillars };
            self.postprocess = Postprocess::new(config, &self.stream, &head, &self.engine, before)?;
        }
        self.head = head;
        if let Some(past) = &mut self.points.past {
            past.max_age_s = f64::from(config.densification.max_sweep_age_s);
        }
        Ok(())
    }

    pub(super) fn forget_sweeps(&mut self) {
        if let Some(past) = &mut self.points.past {
            past.sweeps.clear();
        }
    }

    /// The story of a frame.
    pub(super) fn process(
        &mut self,
        frame: &LidarFrame<'_>,
        report: &mut FrameReport,
        detections: &mut Vec<Detection3d>,
    ) -> Result<()> {
        let served = self.serve(frame, report, detections);
        if served.is_err() {
            // Whatever is queued ends before the next frame. A second error
            // would be about the same work as the first.
            let _ = self.stream.synchronize();
        }
        served
    }

    fn serve(
        &mut self,
        frame: &LidarFrame<'_>,
        report: &mut FrameReport,
        detections: &mut Vec<Detection3d>,
    ) -> Result<()> {
        self.upload(frame, report)?;
        self.stopwatch.end_of(Stage::Upload)?;
        let (fields, current) = (frame.cloud.fields(), self.points.current_mut());
        self.unpack.enqueue(&self.cloud, fields, &self.unpack_params, current)?;
        self.stopwatch.end_of(Stage::Unpack)?;
        self.points.join(frame, report)?;
        self.stopwatch.end_of(Stage::Densify)?;
        self.pillars.group.enqueue()?;
        self.stopwatch.end_of(Stage::Voxelize)?;
        self.pillars.features.enqueue()?;
        self.stopwatch.end_of(Stage::PillarFeatures)?;
        self.encoder.enqueue()?;
        self.stopwatch.end_of(Stage::Encode)?;
        self.pillars.scatter.enqueue()?;
        self.stopwatch.end_of(Stage::Scatter)?;
        self.engine.enqueue()?;
        self.stopwatch.end_of(Stage::Infer)?;
        self.postprocess.graph.enqueue()?;
        self.stopwatch.end_of(Stage::Postprocess)?;
        let counts = self.postprocess.gather.read(detections)?;

        self.stopwatch.add_to(report)?;
        add_counts(report, &counts)?;
        for (stage, engine) in [(Stage::Encode, &self.encoder), (Stage::Infer, &self.engine)] {
            let NumBytes { to_host, to_device } = engine.copies();
            report.add_bytes(stage, Transfer::Download, to_host);
            report.add_bytes(stage, Transfer::HostCopy, to_device);
            report.add_bytes(stage, Transfer::Upload, to_device);
        }
        let num_words = detections.len() * self.head.says().num_words();
        let num_read = size_of::<LidarCounts>() + num_words * size_of::<u32>();
        report.add_bytes(Stage::Postprocess, Transfer::Download, num_read);
        Ok(())
    }

    /// Brings the cloud to the device in one upload, from where it lies or through
    /// one copy into page-locked memory. More than ever before takes new memory.
    fn upload(&mut self, frame: &LidarFrame<'_>, report: &mut FrameReport) -> Result<()> {
        let num_bytes = num_bytes(frame.cloud);
        let enough = |num: usize| num.checked_next_power_of_two().unwrap_or(num);
        if num_bytes > self.cloud.capacity() {
            self.cloud = DeviceCloud::with_capacity(&self.stream, enough(num_bytes))?;
        }
        let num_points = frame.cloud.num_points();
        if num_points > self.unpack.max_points() {
            self.unpack.reserve(enough(num_points))?;
        }
        self.stopwatch.start()?;
        let num_copied = self.cloud.enqueue_upload(frame.cloud)?;
        report.add_bytes(Stage::Upload, Transfer::HostCopy, num_copied);
        report.add_bytes(Stage::Upload, Transfer::Upload, num_bytes);
        Ok(())
    }
}

/// What is timed, in order.
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

/// What the device counted, into the report.
fn add_counts(report: &mut FrameReport, counts: &LidarCounts) -> Result<()> {
    let LidarCounts { frame, suppressed, unpacked, densified, voxelized } = *counts;
    if let Some(class) = suppressed.class_over.checked_sub(1) {
        let message = format!("class {class} takes part and has no threshold");
        return Err(Error::new(ErrorKind::Argument, "nms", message));
    }
    for (count, num) in [
        (Count::PointsNotFinite, unpacked.num_not_finite),
        (Count::PointsOutOfRange, unpacked.num_out_of_range),
        (Count::PointsOverCapacity, unpacked.num_over_capacity),
        (Count::PointsOverCapacity, densified.num_points_over_capacity),
        (Count::PointsNotFinite, densified.num_points_not_finite),
        (Count::PointsOutOfRange, voxelized.num_out_of_range),
        (Count::PointsOverVoxel, voxelized.num_points_over_voxel),
        (Count::PointsOverVoxelCapacity, voxelized.num_points_over_voxel_capacity),
        (Count::VoxelsOverCapacity, voxelized.num_voxels_over_capacity),
        (Count::CandidatesOverCapacity, frame.decoded.num_over_capacity),
        (Count::CandidatesOverTopK, frame.decoded.num_over_top_k),
        (Count::DetectionsOverLimit, frame.num_over_limit),
    ] {
        report.add_count(count, num as usize);
    }
    Ok(())
}

/// The points that are grouped, and where they come from.
struct JoinedPoints {
    /// Those of the current sweep, and of past ones where these join.
    joined: DevicePoints,
    past: Option<Past>,
}

/// Past sweeps and what joins them.
struct Past {
    sweeps: DeviceSweeps,
    densify: Densify,
    max_age_s: f64,
}

impl JoinedPoints {
    fn new(config: &LidarConfig, stream: &Stream) -> Result<Self> {
        let num_channels = config.facts.num_point_channels();
        let num_past = config.densification.num_past_sweeps;
        let mut past = None;
        if num_past > 0 {
            let sweeps = DeviceSweeps::new(stream, num_past, num_channels, config.point_capacity)?;
            let time_lag_channel = super::time_lag_channel(&config.facts);
            past = Some(Past {
                densify: Densify::new(stream, &sweeps, time_lag_channel)?,
                sweeps,
                max_age_s: f64::from(config.densification.max_sweep_age_s),
            });
        }
        let joined = DevicePoints::with_capacity(stream, num_channels, config.point_capacity)?;
        Ok(Self { joined, past })
    }

    /// Where the current sweep is unpacked to.
    fn current_mut(&mut self) -> &mut DevicePoints {
        match &mut self.past {
            Some(past) => past.sweeps.current_mut(),
            None => &mut self.joined,
        }
    }

    /// Queues the joining of past sweeps, none without a transform, and keeps
    /// the current one for the next frames.
    fn join(&mut self, frame: &LidarFrame<'_>, report: &mut FrameReport) -> Result<()> {
        let Some(Past { sweeps, densify, max_age_s }) = &mut self.past else { return Ok(()) };
        let LidarFrame { stamp, world_from_sensor, .. } = *frame;
        let joining = Joining { stamp, world_from_sensor, max_age_s: *max_age_s };
        let counts = densify.enqueue(sweeps, &joining, &mut self.joined)?;
        report.add_count(Count::SweepsDropped, counts.num_sweeps_dropped);
        if let Some(world_from_sensor) = world_from_sensor {
            sweeps.push(stamp, world_from_sensor);
        }
        Ok(())
    }
}

/// From points to the network's input, recorded once, with the encoder's run in
/// between.
struct Pillars {
    voxels: DeviceVoxels,
    voxelize: Voxelize,
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
    ) -> Result<Self> {
        let params = super::voxelize_params(facts);
        let stream = points.stream();
        let mut voxels = DeviceVoxels::new(stream, &params)?;
        let mut voxelize = Voxelize::new(stream, &params, points.capacity())?;
        let mut scatter = Scatter::new(stream, &facts.grid)?;
        let group = Graph::record(stream, || voxelize.enqueue(points, &mut voxels))?;
        let (rows, with_z) = (encoder.input(0)?, facts.center_offset_z);
        let mut features = Features::new(stream, rows)?;
        let features = Graph::record(stream, || features.enqueue((points, &voxels), with_z, rows))?;
        let (encoded, map) = (encoder.output(output)?, engine.input(0)?);
        let scatter = Graph::record(stream, || scatter.enqueue(encoded, &voxels, map))?;
        Ok(Self { voxels, voxelize, group, features, scatter })
    }
}

/// What goes before the networks and counts what it loses.
#[derive(Clone, Copy)]
struct Before<'a> {
    unpack: &'a Unpack,
    points: &'a JoinedPoints,
    pillars: &'a Pillars,
}

/// From the network's answers to detections, recorded once.
struct Postprocess {
    decoder: LidarDecoder,
    suppression: Suppression3d,
    gather: Gatherer,
    graph: Graph,
    limits: Limits,
}

/// What kernels and memory were taken for.
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
        stream: &Stream,
        head: &LidarHead,
        engine: &DeviceEngine,
        before: Before<'_>,
    ) -> Result<Self> {
        let limits = Limits::of(config);
        let Limits { num_candidates, max_detections, .. } = limits;
        let mut candidates = DeviceCandidates::<Box3d>::with_capacity(stream, num_candidates)?;
        let mut decoder = head.decoder(stream, engine, num_candidates)?;
        let classes = config.facts.class_names.len();
        let capacity = Capacity { candidates: num_candidates, classes };
        let mut suppression = Suppression3d::new(stream, &config.nms, capacity)?;
        let mut gather = Gatherer::new(stream, head.says(), max_detections)?;
        let Before { unpack, points, pillars } = before;
        let graph = Graph::record(stream, || {
            let num_voxels = &pillars.voxels.num;
            head.enqueue_decode(engine, &mut decoder, num_voxels, &mut candidates)?;
            suppression.enqueue(&candidates)?;
            gather.enqueue(&LidarInputs {
                candidates: &candidates,
                motions: decoder.motions(),
                kept: suppression.kept(),
                decoded: decoder.counts(),
                unpacked: Some(unpack.counts()),
                densified: points.past.as_ref().map(|past| past.densify.counts()),
                voxelized: Some(pillars.voxelize.counts()),
            })
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
