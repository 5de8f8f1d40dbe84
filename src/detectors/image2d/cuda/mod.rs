//! 2D detection on a GPU: per frame one upload, one wait and one read of the results.
//! A payload in page-locked memory is uploaded in place.

mod images;
mod instances;
mod keypoints;
mod masks;
mod postprocess;

use images::InputImages;
use instances::Instances;
use keypoints::ReadKeypoints;
pub use postprocess::DeviceBoxes;
use postprocess::Postprocess;

use super::boxes::{self, Parts};
use super::{IMAGE, NEEDS, YoloHead, family, with_empty_frame};
use crate::config::{CameraConfig, ChannelConfig, YoloFacts};
use crate::detectors::frame_stream::{FrameStream, RecordedOn, add_copies};
use crate::detectors::in_flight::Contexts;
use crate::detectors::shared_jpeg::SharedJpeg;
use crate::detectors::{Detector, DetectorInfo, FrameSet};
use det_post_infer::device::DeviceEngine;
use det_post_ops::decode::gather::cuda::Gathered;
use det_post_ops::decode::mask::cuda::ReadMasks;
use det_post_ops::device::cuda::{InPlaceUploads, Stream, UploadScope};
use det_post_ops::device::{Device, PayloadMemory};
use det_post_ops::nms::cuda::NmsCounts;
use det_post_types::{
    Box2d, Detection2d, Detections, Error, FrameReport, ImagePayload, Kept, Result, Stage,
    TensorSpec, Transfer,
};

/// The stages timed on the stream, in order.
const STREAM_STAGES: [Stage; 4] =
    [Stage::Upload, Stage::Letterbox, Stage::Infer, Stage::Postprocess];

/// The reported stages, in order: decompression runs on the host.
const STAGES: [Stage; 5] =
    [Stage::Decompress, Stage::Upload, Stage::Letterbox, Stage::Infer, Stage::Postprocess];

/// Finds boxes `B` in images on a GPU.
pub struct CudaDetector<B: DeviceBoxes = Box2d> {
    info: DetectorInfo,
    config: CameraConfig,
    stream: Stream,
    instances: Instances,
    head: YoloHead,
    contexts: Contexts<Context<B>>,
    found: Found<B>,
}

/// The detections of a frame.
struct Found<B> {
    detections: Vec<Detection2d<B>>,
    /// Of a head with masks.
    masks: Option<ReadMasks>,
    /// Of a head with keypoints.
    keypoints: Option<ReadKeypoints>,
}

impl<B> Found<B> {
    /// Allocates the memory that the configuration bounds.
    fn new(config: &CameraConfig) -> Self {
        let CameraConfig { facts, max_detections, mask_capacity_bytes, .. } = config;
        let has_masks = facts.layout.has_masks();
        Self {
            detections: Vec::with_capacity(*max_detections),
            masks: has_masks
                .then(|| ReadMasks::with_capacity(*max_detections, *mask_capacity_bytes)),
            keypoints: ReadKeypoints::new(config),
        }
    }

    /// What the detections that were read last have beside boxes.
    fn parts(&self) -> Parts<'_> {
        match (&self.masks, &self.keypoints) {
            (Some(masks), _) => Parts::Masks(masks.masks()),
            (None, Some(keypoints)) => Parts::Keypoints(keypoints.keypoints()),
            (None, None) => Parts::None,
        }
    }
}

/// What a frame in flight does not share with another one, the tensors of its number in
/// [`Instances`] apart. Where several frames are in flight each has a separate queue, and its
/// network runs in that of the instance.
struct Context<B: DeviceBoxes> {
    uploads: InPlaceUploads,
    work: Work<B>,
    /// The error of work that was queued after the frame was submitted.
    failed: Option<Error>,
}

/// The queues of a frame: they differ where several frames are in flight.
#[derive(Clone, Copy)]
struct Queues<'a> {
    frame: &'a Stream,
    /// The stream of its network.
    network: &'a Stream,
}

/// The steps of a frame and their memory.
struct Work<B: DeviceBoxes> {
    frames: FrameStream,
    images: InputImages,
    postprocess: Postprocess<B>,
}

impl<B: DeviceBoxes> CudaDetector<B> {
    /// Loads the network; the frames run on `stream`.
    ///
    /// # Errors
    /// As [`super::open`].
    pub fn load(config: &CameraConfig, stream: &Stream) -> Result<Self> {
        let CameraConfig { model_path, engine, facts, .. } = config;
        let shape_of = |input: &TensorSpec| input_shape(facts, input);
        let engine = DeviceEngine::load(model_path, engine, stream, shape_of)?;
        Self::new(config, stream, engine)
    }

    /// Creates a detector with a loaded network, whose stream is `stream`.
    ///
    /// # Errors
    /// As [`super::open`].
    pub fn new(config: &CameraConfig, stream: &Stream, mut engine: DeviceEngine) -> Result<Self> {
        boxes::check::<B>(&config.facts.layout)?;
        let head = YoloHead::new(&config.facts, engine.inputs(), engine.outputs())?;
        head.stage(&mut engine)?;
        let device = Device::Cuda(stream.device().clone());
        let queues = Queues { frame: stream, network: stream };
        Ok(Self {
            info: DetectorInfo::new(NEEDS, &device, engine.name(), &STAGES),
            config: config.clone(),
            stream: stream.clone(),
            contexts: Contexts::of_single(Context::new(config, &head, &engine, queues)?),
            instances: Instances::of_single(engine),
            head,
            found: Found::new(config),
        })
    }
}

impl<B: DeviceBoxes> Context<B> {
    /// Memory for frames in these queues.
    fn new(
        config: &CameraConfig,
        head: &YoloHead,
        engine: &DeviceEngine,
        queues: Queues<'_>,
    ) -> Result<Self> {
        let Queues { frame: stream, network } = queues;
        let mut frames = FrameStream::with_queues(stream, &STREAM_STAGES, |stage| match stage {
            Stage::Infer => network.clone(),
            _ => stream.clone(),
        })?;
        let recorded_on = RecordedOn { stream, counters: frames.counters() };
        let postprocess = Postprocess::new(config, head, engine, recorded_on)?;
        let is_pipelined = !stream.is_same_queue(network);
        let mut images = InputImages::new(stream, &config.jpeg, head.letterbox())?;
        if is_pipelined {
            images.shared = SharedJpeg::join(stream, &config.jpeg)?;
        }
        let work = Work { frames, images, postprocess };
        let uploads = InPlaceUploads::with_zero_copy(stream, config.zero_copy)?;
        let uploads = if is_pipelined { uploads.pipelined() } else { uploads };
        Ok(Self { uploads, work, failed: None })
    }

    /// Queues the work of a frame whose file is kept.
    fn flush(&mut self, engine: &mut DeviceEngine, report: &mut FrameReport) {
        let Self { uploads, work, failed } = self;
        if work.images.is_waiting() {
            let queued = uploads.scope(|scope| work.enqueue(None, engine, scope, report));
            *failed = work.frames.drain_on_error(queued).err();
        }
    }
}

impl<B: DeviceBoxes> Work<B> {
    /// Queues all work of a frame, without a payload of one whose file is kept.
    fn enqueue<'env>(
        &mut self,
        payload: Option<&ImagePayload<'env>>,
        engine: &mut DeviceEngine,
        scope: &UploadScope<'_, 'env>,
        report: &mut FrameReport,
    ) -> Result<()> {
        let Self { frames, images, postprocess } = self;
        let mut running = frames.begin(scope, report);
        match payload {
            Some(payload) => images.upload(payload, &mut running)?,
            None => images.upload_kept(&mut running)?,
        }
        if let Some(graph) = images.letterbox(engine.input(0)?, postprocess)? {
            graph.enqueue()?;
        }
        running.end_of(Stage::Letterbox)?;
        engine.enqueue()?;
        running.end_of(Stage::Infer)?;
        postprocess.graph.enqueue()?;
        running.end_of(Stage::Postprocess)
    }

    /// Waits for the frame and reads its detections.
    fn end(
        &mut self,
        engine: &DeviceEngine,
        Found { detections, masks, keypoints }: &mut Found<B>,
        report: &mut FrameReport,
    ) -> Result<()> {
        detections.clear();
        let num_counted = self.frames.end(report)?;
        let gathered = self.postprocess.gather.read_complete(detections);
        if let (Some(on_device), Some(masks)) = (&self.postprocess.masks, masks) {
            on_device.read(masks, report);
        }
        if let (Some(on_device), Some(keypoints)) = (&self.postprocess.keypoints, keypoints) {
            on_device.read(detections.len(), keypoints, report);
        }
        add_copies(report, Stage::Infer, engine);
        // The suppression writes its survivors to host memory, too.
        let num_kept = gathered.suppressed.num_kept as usize;
        let survivors = size_of::<NmsCounts>() + num_kept * size_of::<Kept>();
        let gathered = size_of::<Gathered>() + size_of_val(detections.as_slice());
        let num_read = num_counted + gathered + survivors;
        report.add_bytes(Stage::Postprocess, Transfer::Download, num_read);
        Ok(())
    }
}

impl<B: DeviceBoxes> Detector for CudaDetector<B> {
    fn info(&self) -> &DetectorInfo {
        &self.info
    }

    fn allow_in_flight(&mut self, num: usize) -> usize {
        let Self { contexts, config, head, instances, stream, .. } = self;
        if !contexts.can_grow_to(num) {
            return contexts.max_in_flight();
        }
        // A payload that kernels read in host memory is borrowed until they have.
        if contexts.iter_mut().any(|context| context.uploads.is_zero_copy()) {
            return 1;
        }
        let num = instances.allow(num, stream);
        contexts.allow(num, |place| {
            instances.prepare(place)?;
            let engine = instances.select(place)?;
            let queues = Queues { frame: &stream.sibling_stream(place)?, network: engine.stream() };
            Context::new(config, head, engine, queues)
        })
    }

    fn num_in_flight(&self) -> usize {
        self.contexts.num_in_flight()
    }

    fn submit(&mut self, frame: &FrameSet<'_>, report: &mut FrameReport) -> Result<()> {
        let payload = frame.image(IMAGE)?;
        let Self { contexts, instances, .. } = self;
        let is_single = contexts.max_in_flight() == 1;
        let (place, Context { uploads, work, .. }) = contexts.next()?;
        let engine = instances.select(place)?;
        if !work.images.keep(&payload, report)? {
            // At its end the payload is uploaded, or held where it is in a mapped file.
            let submitted = uploads.scope(|scope| {
                work.enqueue(Some(&payload), engine, scope, report)?;
                // One wait, for the upload as well: there is no other frame to begin.
                if is_single { work.frames.wait() } else { Ok(()) }
            });
            work.frames.drain_on_error(submitted).inspect_err(|_| uploads.finish())?;
        }
        contexts.mark_submitted();
        Ok(())
    }

    fn flush(&mut self, report: &mut FrameReport) {
        if let Some((place, context)) = self.contexts.latest()
            // The place of a frame that was submitted.
            && let Ok(engine) = self.instances.select(place)
        {
            context.flush(engine, report);
        }
    }

    fn collect<'a>(&'a mut self, report: &mut FrameReport) -> Result<Detections<'a>> {
        let Self { contexts, instances, found, .. } = self;
        let (place, context) = contexts.end_earliest()?;
        let engine = instances.select(place)?;
        context.flush(engine, report);
        let Context { uploads, work, failed } = context;
        let ended = match failed.take() {
            Some(error) => Err(error),
            None => work.end(engine, found, report),
        };
        let ended = work.frames.drain_on_error(ended);
        uploads.finish();
        ended.map(|()| B::detections(&found.detections, found.parts()))
    }

    /// Writes thresholds and classes to the device; records the post-processing again
    /// for another suppression or other limits. Loads the network again for other classes of a vocabulary.
    fn reconfigure(&mut self, config: &ChannelConfig) -> Result<()> {
        let config = family(config)?;
        if self.config.facts.class_names != config.facts.class_names {
            let (stream, num_in_flight) = (self.stream.clone(), self.contexts.max_in_flight());
            *self = Self::load(config, &stream)?;
            self.allow_in_flight(num_in_flight);
            return Ok(());
        }
        let Self { contexts, head, instances, .. } = self;
        for (place, context) in contexts.iter_mut().enumerate() {
            let Work { frames, images, postprocess } = &mut context.work;
            if postprocess.fits(config) {
                postprocess.set(config)?;
            } else {
                let engine = instances.select(place)?;
                let stream = frames.stream().clone();
                let recorded_on = RecordedOn { stream: &stream, counters: frames.counters() };
                *postprocess = Postprocess::new(config, head, engine, recorded_on)?;
                images.recorded = None;
            }
        }
        self.config = config.clone();
        self.found = Found::new(config);
        Ok(())
    }

    fn warm_up(&mut self) -> Result<()> {
        with_empty_frame(|frame| self.detect(frame, &mut FrameReport::new()).map(drop))
    }

    fn payload_memory(&self) -> PayloadMemory {
        PayloadMemory::of(&Device::Cuda(self.stream.device().clone()))
    }
}

/// The shape of the network's input.
fn input_shape(facts: &YoloFacts, input: &TensorSpec) -> Result<Vec<usize>> {
    YoloHead::input_shape(facts, input).map(|shape| shape.to_vec())
}
