//! 3D detection from point clouds on a GPU: one upload, one wait, one read of the results. A
//! payload in page-locked memory is uploaded in place.
//!
//! Clouds and transforms differ from frame to frame: they are parameters of the launches
//! that unpack and merge. From the merged points on, sizes are capacities and counts
//! remain on the device, so that the rest is recorded.

mod postprocess;
mod sweeps;

use postprocess::{Limits, Postprocess};
use sweeps::{AnyCloud, Clouds, MergedPoints};

use super::{CLOUD, LidarHead, lidar_of, needs, with_empty_frame};
use crate::config::{ChannelConfig, LidarConfig, LidarFacts};
use crate::detectors::frame_stream::{FrameStream, Running};
use crate::detectors::{Detector, DetectorInfo, FrameSet, InputNeeds};
use crate::device::cuda::{
    DeviceBuffer, DeviceCounters, DevicePoints, DeviceTensor, InPlaceUploads, Stream,
};
use crate::device::{Device, PayloadMemory};
use crate::error::{Error, ErrorKind, Result};
use crate::infer::ExpectedDim;
use crate::infer::device::DeviceEngine;
use crate::ops::gather::cuda::Gathered;
use crate::types::{Detection3d, Detections, FrameReport, Stage, Transfer};

/// The timed stages before the encoder, and those after it, in order.
const STAGES_BEFORE: [Stage; 3] = [Stage::Upload, Stage::Unpack, Stage::Densify];
const STAGES_AFTER: [Stage; 2] = [Stage::Infer, Stage::Postprocess];

/// From the points of a frame to the input of the network, a map seen from above.
pub trait DeviceMapEncoder: Send {
    /// The timed stages, in order.
    const STAGES: &'static [Stage];

    /// Queues the writing of the map, and marks the end of each stage.
    ///
    /// # Errors
    /// The reason why the frame is dropped.
    fn enqueue(&mut self, running: &mut Running<'_, '_>) -> Result<()>;

    /// The number of voxels, one value. A frame without voxels has no detections.
    fn num_voxels(&self) -> &DeviceBuffer<u32>;

    /// Adds what the encoder counted and copied to the report, after the wait for the frame.
    fn add_to_report(&mut self, running: &mut Running<'_, '_>);
}

/// Where an encoder of a new detector reads and writes.
pub struct MapEnds<'a> {
    /// The points of the current sweep and of past ones.
    pub points: &'a DevicePoints,
    /// The network's input.
    pub map: &'a mut DeviceTensor,
    /// Counters of what the frame drops.
    pub counters: &'a mut DeviceCounters,
}

/// Detects objects in point clouds on a GPU.
pub struct CudaDetector<E> {
    info: DetectorInfo,
    needs: [InputNeeds; 1],
    facts: LidarFacts,
    uploads: InPlaceUploads,
    frames: FrameStream,
    clouds: Clouds,
    points: MergedPoints,
    encoder: E,
    engine: DeviceEngine,
    head: LidarHead,
    postprocess: Postprocess,
    detections: Vec<Detection3d>,
}

/// The network of a channel, loaded for a stream and a map of these dimensions.
///
/// # Errors
/// As [`DeviceEngine::load`].
pub(in crate::detectors) fn load_network(
    config: &LidarConfig,
    stream: &Stream,
    map_dims: &[ExpectedDim; 4],
) -> Result<DeviceEngine> {
    DeviceEngine::load(&config.model_path, &config.engine, stream, |input| {
        LidarHead::input_shape(map_dims, input).map(Vec::from)
    })
}

impl<E: DeviceMapEncoder> CudaDetector<E> {
    /// A detector with a loaded network, whose stream is `stream`, and the encoder that `build`
    /// makes.
    ///
    /// # Errors
    /// `Model` when the network does not fit the encoder or the head; `Argument` when the
    /// device has no implementation of the suppression or a limit is above the device's;
    /// `Device` when it has not enough memory.
    pub fn with_encoder(
        config: &LidarConfig,
        stream: &Stream,
        map_dims: &[ExpectedDim; 4],
        mut engine: DeviceEngine,
        build: impl FnOnce(MapEnds<'_>) -> Result<E>,
    ) -> Result<Self> {
        let head = LidarHead::new(config, map_dims, engine.inputs(), engine.outputs())?;
        let stages = [&STAGES_BEFORE, E::STAGES, &STAGES_AFTER].concat();
        let mut frames = FrameStream::new(stream, &stages)?;
        let points = MergedPoints::new(config, stream)?;
        let (map, counters) = (engine.input(0)?, frames.counters());
        let encoder = build(MapEnds { points: &points.merged, map, counters })?;
        let clouds = Clouds::new(config, stream)?;
        let working = (stream, frames.counters());
        let postprocess =
            Postprocess::new(config, (&head, &engine), encoder.num_voxels(), working)?;
        let device = Device::Cuda(stream.device().clone());
        Ok(Self {
            info: DetectorInfo::new(&device, engine.name(), &stages),
            needs: needs(config),
            facts: config.facts.clone(),
            uploads: InPlaceUploads::with_zero_copy(stream, config.zero_copy)?,
            frames,
            postprocess,
            clouds,
            points,
            encoder,
            engine,
            head,
            detections: Vec::with_capacity(config.max_detections),
        })
    }
}

impl<E: DeviceMapEncoder> Detector for CudaDetector<E> {
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
        let Self { uploads, frames, clouds, points, encoder, .. } = self;
        let Self { engine, head, postprocess, detections, .. } = self;
        let (cloud, pose) = (AnyCloud::of(frame, CLOUD)?, frame.input(CLOUD)?.world_from_sensor());
        let ran = uploads.scope(|scope| {
            let mut running = frames.begin(scope, report);
            clouds.upload(cloud, &mut running)?;
            clouds.enqueue_unpack(cloud, points.current_mut(), running.counters)?;
            running.end_of(Stage::Unpack)?;
            points.merge(frame.stamp, pose, &mut running)?;
            running.end_of(Stage::Densify)?;
            encoder.enqueue(&mut running)?;
            engine.enqueue()?;
            running.end_of(Stage::Infer)?;
            postprocess.graph.enqueue()?;
            running.end_of(Stage::Postprocess)?;
            let gathered = postprocess.gather.read(detections)?;

            check_thresholds(&gathered)?;
            let num_counted = running.add_counters();
            encoder.add_to_report(&mut running);
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
        let config = lidar_of(config)?;
        let mut head = self.head.clone();
        head.reconfigure(config);
        if self.postprocess.limits == Limits::of(config) {
            self.postprocess.set(config, &head)?;
        } else {
            let stream = self.frames.stream().clone();
            let (network, counters) = ((&head, &self.engine), self.frames.counters());
            let num_voxels = self.encoder.num_voxels();
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
