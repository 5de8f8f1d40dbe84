//! 3D detection from point clouds on a GPU: one upload, one wait, one read of the results. A
//! payload in page-locked memory is uploaded in place.
//!
//! Clouds and transforms differ from frame to frame: they are parameters of the launches
//! that unpack and merge. From the merged points on, sizes are capacities and counts
//! remain on the device, so that the rest is recorded.

mod postprocess;
mod sweeps;

use std::path::Path;

use postprocess::{Limits, Network, Postprocess};
use sweeps::{Clouds, MergedPoints};

use super::{LidarHead, Outputs, lidar_of, placing, with_empty_frame};
use crate::config::{ChannelConfig, LidarConfig};
use crate::detectors::frame_stream::{FrameInProgress, FrameStream, RecordedOn, add_copies};
use crate::detectors::in_flight::Contexts;
use crate::detectors::{Detector, DetectorInfo, FrameSet};
use det_post_infer::ExpectedDim;
use det_post_infer::device::DeviceEngine;
use det_post_infer::sparse::CudaEncoder;
use det_post_ops::cloud::DevicePoints;
use det_post_ops::decode::gather::cuda::Gathered;
use det_post_ops::device::cuda::{DeviceBuffer, DeviceTensor, InPlaceUploads, Stream};
use det_post_ops::device::{Device, PayloadMemory};
use det_post_ops::shared::DeviceCounters;
use det_post_types::{
    Detection3d, Detections, EngineOptions, Error, ErrorKind, FrameReport, MapLayout, Result,
    Stage, Transfer,
};

/// The timed stages before the encoder, and those after it, in order.
const STAGES_BEFORE: [Stage; 3] = [Stage::Upload, Stage::Unpack, Stage::Densify];
const STAGES_AFTER: [Stage; 2] = [Stage::Infer, Stage::Postprocess];

/// The most frames in flight: one is uploaded while the networks run on the other.
const MAX_IN_FLIGHT: usize = 2;

/// From the points of a frame to the input of the network: a map seen from above, or the points of
/// voxels.
pub trait DeviceMapEncoder: Send {
    /// The timed stages, in order.
    const STAGES: &'static [Stage];

    /// Stages on the host, reported before those.
    const HOST_STAGES: &'static [Stage] = &[];

    /// Whether the work of a frame may be queued before the report of the one before is complete.
    const CAN_PIPELINE: bool;

    /// Queues what takes the inputs of a frame behind its clouds, before the map is written, and marks
    /// the end of its stages.
    ///
    /// # Errors
    /// The reason why the frame is dropped.
    fn receive<'env>(
        &mut self,
        others: &FrameSet<'env>,
        running: &mut FrameInProgress<'_, 'env>,
    ) -> Result<()> {
        let _ = (others, running);
        Ok(())
    }

    /// Queues the writing of the map, and marks the end of each stage.
    ///
    /// # Errors
    /// The reason why the frame is dropped.
    fn enqueue(&mut self, running: &mut FrameInProgress<'_, '_>) -> Result<()>;

    /// Queues the network, which reads what was queued before, of a frame with these points.
    ///
    /// # Errors
    /// The reason why the frame is dropped.
    fn enqueue_network(&mut self, engine: &mut DeviceEngine, points: &DevicePoints) -> Result<()> {
        let _ = points;
        engine.enqueue()
    }

    /// The layers whose outputs are decoded in place of a network's.
    fn on_sites(&self) -> Option<&CudaEncoder> {
        None
    }

    /// The number of voxels, one value. A frame without voxels has no detections.
    fn num_voxels(&self) -> &DeviceBuffer<u32>;

    /// Adds what the encoder counted and copied to the report, after the wait for the frame.
    fn add_to_report(&mut self, report: &mut FrameReport);
}

/// Where an encoder of a new detector reads and writes.
pub struct EncoderIo<'a> {
    /// The points of the current sweep and of past ones.
    pub points: &'a DevicePoints,
    /// The network's input.
    pub map: &'a mut DeviceTensor,
    /// Its layout: planar, unless the encoder loaded the network with
    /// [`channels_last_inputs`](det_post_types::GpuEngineOptions::channels_last_inputs).
    pub layout: MapLayout,
    /// Counters of what the frame drops.
    pub counters: &'a mut DeviceCounters,
}

/// Detects objects in point clouds on a GPU.
pub struct CudaDetector<E> {
    info: DetectorInfo,
    config: LidarConfig,
    frames: FrameStream,
    contexts: Contexts<Context>,
    shared: Shared<E>,
    head: LidarHead,
    detections: Vec<Detection3d>,
}

/// The queues of a frame: uploads have another one where several frames are in flight.
struct Queues<'a> {
    frames: &'a mut FrameStream,
    uploads: &'a Stream,
}

/// What a frame in flight does not share with another one.
struct Context {
    uploads: InPlaceUploads,
    clouds: Clouds,
    postprocess: Postprocess,
}

/// What frames share: past sweeps, and memory that is used in the order of the stream.
struct Shared<E> {
    points: MergedPoints,
    encoder: E,
    engine: DeviceEngine,
}

/// The network of a channel, loaded for a stream and a map of these dimensions.
///
/// # Errors
/// As [`DeviceEngine::load`].
pub(in crate::detectors) fn load_network(
    path: &Path,
    options: &EngineOptions,
    stream: &Stream,
    map_dims: &[ExpectedDim; 4],
) -> Result<DeviceEngine> {
    DeviceEngine::load(path, options, stream, |input| {
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
        engine: DeviceEngine,
        build: impl FnOnce(EncoderIo<'_>) -> Result<E>,
    ) -> Result<Self> {
        let head = LidarHead::new(config, map_dims, engine.inputs(), engine.outputs())?;
        Self::with_head(config, stream, head, engine, |points, engine, counters| {
            let layout = engine.input_layout(0);
            build(EncoderIo { points, map: engine.input(0)?, layout, counters })
        })
    }

    /// A detector with a loaded network that fits its head, and what `build` makes to write the
    /// network's inputs.
    ///
    /// # Errors
    /// As [`Self::with_encoder`].
    pub fn with_head(
        config: &LidarConfig,
        stream: &Stream,
        head: LidarHead,
        mut engine: DeviceEngine,
        build: impl FnOnce(&DevicePoints, &mut DeviceEngine, &mut DeviceCounters) -> Result<E>,
    ) -> Result<Self> {
        let stages = [&STAGES_BEFORE, E::STAGES, &STAGES_AFTER].concat();
        let mut frames = FrameStream::new(stream, &stages)?;
        let points = MergedPoints::new(config, stream)?;
        let encoder = build(&points.merged, &mut engine, frames.counters())?;
        let shared = Shared { points, encoder, engine };
        let context =
            Context::new(config, &head, &shared, Queues { frames: &mut frames, uploads: stream })?;
        let device = Device::Cuda(stream.device().clone());
        Ok(Self {
            info: super::info(
                config,
                &device,
                shared.engine.name(),
                &[E::HOST_STAGES, &stages].concat(),
            ),
            config: config.clone(),
            frames,
            contexts: Contexts::of_single(context),
            shared,
            head,
            detections: Vec::with_capacity(config.max_detections),
        })
    }
}

impl Context {
    /// Memory for the selected frame of these queues.
    fn new<E: DeviceMapEncoder>(
        config: &LidarConfig,
        head: &LidarHead,
        Shared { encoder, engine, .. }: &Shared<E>,
        Queues { frames, uploads }: Queues<'_>,
    ) -> Result<Self> {
        let stream = frames.stream().clone();
        let is_pipelined = !stream.is_same_queue(uploads);
        let recorded_on = RecordedOn { stream: &stream, counters: frames.counters() };
        let outputs = Outputs { engine, on_sites: encoder.on_sites() };
        let network = Network { head, outputs };
        let postprocess = Postprocess::new(config, network, encoder.num_voxels(), recorded_on)?;
        let clouds = Clouds::new(config, &stream, uploads)?;
        let uploads = InPlaceUploads::with_zero_copy(uploads, config.zero_copy)?;
        let uploads = if is_pipelined { uploads.pipelined() } else { uploads };
        Ok(Self { uploads, clouds, postprocess })
    }
}

impl<E: DeviceMapEncoder> Shared<E> {
    /// Queues all work of a frame.
    fn enqueue<'env>(
        &mut self,
        frame: &FrameSet<'env>,
        clouds: &mut Clouds,
        postprocess: &Postprocess,
        running: &mut FrameInProgress<'_, 'env>,
    ) -> Result<()> {
        let Self { points, encoder, engine } = self;
        let (frame, others) = &frame.split_at(clouds.config().num_inputs);
        let pose = placing::pose_of(frame, clouds.config())?;
        clouds.upload(frame, running)?;
        clouds.enqueue_unpack(frame, points.current_mut(), running.counters)?;
        running.end_of(Stage::Unpack)?;
        points.merge(frame.stamp, pose, running)?;
        running.end_of(Stage::Densify)?;
        encoder.receive(others, running)?;
        encoder.enqueue(running)?;
        encoder.enqueue_network(engine, &points.merged)?;
        running.end_of(Stage::Infer)?;
        postprocess.graph.enqueue()?;
        running.end_of(Stage::Postprocess)
    }

    /// Waits for the selected one of `frames` and reads its detections.
    fn end(
        &mut self,
        frames: &mut FrameStream,
        postprocess: &mut Postprocess,
        head: &LidarHead,
        detections: &mut Vec<Detection3d>,
        report: &mut FrameReport,
    ) -> Result<()> {
        detections.clear();
        let num_counted = frames.end(report)?;
        let gathered = postprocess.gather.read_complete(detections);
        check_thresholds(&gathered)?;
        self.encoder.add_to_report(report);
        add_copies(report, Stage::Infer, &self.engine);
        let num_words = detections.len() * head.attributes().num_words();
        let num_read = num_counted + size_of::<Gathered>() + num_words * size_of::<u32>();
        report.add_bytes(Stage::Postprocess, Transfer::Download, num_read);
        Ok(())
    }
}

impl<E: DeviceMapEncoder> Detector for CudaDetector<E> {
    fn info(&self) -> &DetectorInfo {
        &self.info
    }

    fn allow_in_flight(&mut self, num: usize) -> usize {
        let Self { frames, contexts, shared, head, config, info, .. } = self;
        if !contexts.can_grow_to(num) {
            return contexts.max_in_flight();
        }
        // A payload that kernels read in host memory is borrowed until they have.
        let is_borrowed = contexts.iter_mut().any(|context| context.uploads.is_zero_copy());
        if is_borrowed || !E::CAN_PIPELINE {
            return 1;
        }
        // Their networks follow each other.
        contexts.allow(num.min(MAX_IN_FLIGHT), |place| {
            let uploads = frames.stream().sibling_stream(0)?;
            if place == 0 {
                frames.pipeline(MAX_IN_FLIGHT, &uploads, &info.stages)?;
            }
            frames.select(place)?;
            let queues = Queues { frames, uploads: &uploads };
            let context = Context::new(config, head, shared, queues);
            if context.is_err() {
                let stream = frames.stream().clone();
                frames.pipeline(1, &stream, &info.stages)?;
                frames.select(0)?;
            }
            context
        })
    }

    fn num_in_flight(&self) -> usize {
        self.contexts.num_in_flight()
    }

    /// Past sweeps are those of the frames that were submitted before: their work is in that
    /// order.
    fn submit(&mut self, frame: &FrameSet<'_>, report: &mut FrameReport) -> Result<()> {
        let Self { frames, contexts, shared, .. } = self;
        let is_single = contexts.max_in_flight() == 1;
        let (place, Context { uploads, clouds, postprocess }) = contexts.next()?;
        frames.select(place)?;
        // At its end the payload is uploaded, or held where it is in a mapped file.
        let submitted = uploads.scope(|scope| {
            shared.enqueue(frame, clouds, postprocess, &mut frames.begin(scope, report))?;
            // One wait, for the upload as well: there is no other frame to begin.
            if is_single { frames.wait() } else { Ok(()) }
        });
        frames.drain_on_error(submitted).inspect_err(|_| uploads.finish())?;
        contexts.mark_submitted();
        Ok(())
    }

    fn collect<'a>(&'a mut self, report: &mut FrameReport) -> Result<Detections<'a>> {
        let Self { frames, contexts, shared, head, detections, .. } = self;
        let (place, Context { uploads, clouds, postprocess }) = contexts.end_earliest()?;
        frames.select(place)?;
        let ended = shared.end(frames, postprocess, head, detections, report);
        clouds.add_to(report);
        let ended = frames.drain_on_error(ended);
        uploads.finish();
        ended.map(|()| Detections::Boxes3d(detections))
    }

    /// Writes thresholds to the device; records the postprocessing again for another kind
    /// of suppression or other limits.
    fn reconfigure(&mut self, config: &ChannelConfig) -> Result<()> {
        let config = lidar_of(config)?;
        let mut head = self.head.clone();
        head.reconfigure(config);
        let Self { frames, contexts, shared: Shared { encoder, engine, .. }, .. } = self;
        let stream = frames.stream().clone();
        for (place, Context { postprocess, .. }) in contexts.iter_mut().enumerate() {
            if postprocess.limits == Limits::of(config) {
                postprocess.set(config, &head)?;
            } else {
                frames.select(place)?;
                let recorded_on = RecordedOn { stream: &stream, counters: frames.counters() };
                let outputs = Outputs { engine, on_sites: encoder.on_sites() };
                let network = Network { head: &head, outputs };
                let num_voxels = encoder.num_voxels();
                *postprocess = Postprocess::new(config, network, num_voxels, recorded_on)?;
            }
        }
        self.head = head;
        self.config = config.clone();
        self.shared.points.reconfigure(config);
        self.detections.clear();
        self.detections.reserve(config.max_detections);
        Ok(())
    }

    fn reset(&mut self) -> Result<()> {
        self.shared.points.clear_past();
        Ok(())
    }

    fn warm_up(&mut self) -> Result<()> {
        let config = self.config.clone();
        with_empty_frame(&config, |frame| self.detect(frame, &mut FrameReport::new()).map(drop))?;
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
