//! 2D detection on a GPU: per frame one upload, one wait and one read of the results.
//! A payload in page-locked memory is uploaded in place.

use std::mem::{Discriminant, discriminant};

use super::boxes::{self, ImageBoxes};
use super::{IMAGE, NEEDS, YoloHead, family, with_empty_frame};
use crate::config::{CameraConfig, ChannelConfig, YoloFacts};
use crate::detectors::frame_stream::{FrameStream, Running};
use crate::detectors::picture_uploads::{MIN_PICTURE_BYTES, PictureUploads};
use crate::detectors::{Detector, DetectorInfo, FrameSet, InputNeeds};
use crate::device::cuda::{
    DeviceCandidates, DeviceCounters, DeviceImage, DeviceTensor, Graph, ImageLayout,
    InPlaceUploads, Stream,
};
use crate::device::{Device, PayloadMemory};
use crate::error::Result;
use crate::infer::device::DeviceEngine;
use crate::ops::decode_yolo::cuda::{Decoded, Selection, Workspace as Decoder};
use crate::ops::gather::cuda::{Gather, Gathered, Workspace as Gatherer};
use crate::ops::letterbox::LetterboxParams;
use crate::ops::letterbox::cuda::{Kernels as LetterboxKernels, enqueue_letterbox};
use crate::ops::nms::cuda::{Capacity, NmsCounts, Suppressible, Suppression};
use crate::types::{
    Box2d, Detection2d, Detections, FrameReport, ImagePayload, JpegOptions, Kept, Letterbox, Nms2d,
    Stage, TensorSpec, Transfer,
};

/// The stages timed on the stream, in order.
const STREAM_STAGES: [Stage; 4] =
    [Stage::Upload, Stage::Letterbox, Stage::Infer, Stage::Postprocess];

/// The reported stages, in order: decompression runs on the host.
const STAGES: [Stage; 5] =
    [Stage::Decompress, Stage::Upload, Stage::Letterbox, Stage::Infer, Stage::Postprocess];

/// Boxes in an image, from the network's outputs to detections, on a GPU.
pub trait DeviceBoxes: ImageBoxes + Decoded + Suppressible<Nms = Nms2d> + Gather {}

impl<B: ImageBoxes + Decoded + Suppressible<Nms = Nms2d> + Gather> DeviceBoxes for B {}

/// Finds boxes `B` in images on a GPU.
pub struct CudaDetector<B: DeviceBoxes = Box2d> {
    info: DetectorInfo,
    uploads: InPlaceUploads,
    frames: FrameStream,
    pictures: Pictures,
    engine: DeviceEngine,
    head: YoloHead,
    postprocess: Postprocess<B>,
    detections: Vec<Detection2d<B>>,
}

impl<B: DeviceBoxes> CudaDetector<B> {
    /// Loads the network; the frames run on `stream`.
    ///
    /// # Errors
    /// As [`super::open`].
    pub fn load(config: &CameraConfig, stream: &Stream) -> Result<Self> {
        let shape_of = |input: &TensorSpec| input_shape(&config.facts, input);
        let engine = DeviceEngine::load(&config.model_path, &config.engine, stream, shape_of)?;
        Self::new(config, stream, engine)
    }

    /// Creates a detector with a loaded network, whose stream is `stream`.
    ///
    /// # Errors
    /// As [`super::open`].
    pub fn new(config: &CameraConfig, stream: &Stream, engine: DeviceEngine) -> Result<Self> {
        boxes::check::<B>(&config.facts.layout)?;
        let head = YoloHead::new(&config.facts, engine.inputs(), engine.outputs())?;
        let device = Device::Cuda(stream.device().clone());
        let mut frames = FrameStream::new(stream, &STREAM_STAGES)?;
        let working = (stream, frames.counters());
        Ok(Self {
            info: DetectorInfo::new(&device, engine.name(), &STAGES),
            postprocess: Postprocess::new(config, &head, &engine, working)?,
            uploads: InPlaceUploads::with_zero_copy(stream, config.zero_copy)?,
            frames,
            pictures: Pictures::new(stream, &config.jpeg, head.letterbox())?,
            engine,
            head,
            detections: Vec::with_capacity(config.max_detections),
        })
    }
}

impl<B: DeviceBoxes> Detector for CudaDetector<B> {
    fn inputs(&self) -> &[InputNeeds] {
        &NEEDS
    }

    fn info(&self) -> &DetectorInfo {
        &self.info
    }

    fn detect<'a>(
        &'a mut self,
        frame: &FrameSet<'_>,
        report: &mut FrameReport,
    ) -> Result<Detections<'a>> {
        let Self { uploads, frames, pictures, engine, postprocess, detections, .. } = self;
        let payload = frame.image(IMAGE)?;
        let ran = uploads.scope(|scope| {
            let mut running = frames.begin(scope, report);
            pictures.upload(&payload, &mut running)?;
            pictures.enqueue_letterbox(engine.input(0)?, postprocess)?;
            running.end_of(Stage::Letterbox)?;
            engine.enqueue()?;
            running.end_of(Stage::Infer)?;
            postprocess.graph.enqueue()?;
            running.end_of(Stage::Postprocess)?;
            let gathered = postprocess.gather.read(detections)?;

            let num_counted = running.add_counters();
            running.add_copies(Stage::Infer, engine);
            // The suppression writes its survivors to host memory, too.
            let num_kept = gathered.suppressed.num_kept as usize;
            let survivors = size_of::<NmsCounts>() + num_kept * size_of::<Kept>();
            let gathered = size_of::<Gathered>() + size_of_val(detections.as_slice());
            let num_read = num_counted + gathered + survivors;
            running.report.add_bytes(Stage::Postprocess, Transfer::Download, num_read);
            running.finish()
        });
        frames.settle(ran)?;
        Ok(B::detections(detections))
    }

    /// Writes thresholds and classes to the device; records the post-processing again
    /// for another suppression or other limits.
    fn reconfigure(&mut self, config: &ChannelConfig) -> Result<()> {
        let config = family(config)?;
        if self.postprocess.fits(config) {
            self.postprocess.set(config)?;
        } else {
            let stream = self.frames.stream().clone();
            let working = (&stream, self.frames.counters());
            self.postprocess = Postprocess::new(config, &self.head, &self.engine, working)?;
            self.pictures.recorded = None;
        }
        self.detections.clear();
        self.detections.reserve(config.max_detections);
        Ok(())
    }

    fn warm_up(&mut self) -> Result<()> {
        with_empty_frame(|frame| self.detect(frame, &mut FrameReport::new()).map(drop))
    }

    fn payload_memory(&self) -> PayloadMemory {
        PayloadMemory::of(&Device::Cuda(self.frames.stream().device().clone()))
    }
}

/// The shape of the network's input.
fn input_shape(facts: &YoloFacts, input: &TensorSpec) -> Result<Vec<usize>> {
    YoloHead::input_shape(facts, input).map(|shape| shape.to_vec())
}

/// The image of a frame and its letterbox, which is recorded at the first image of a
/// layout.
struct Pictures {
    stream: Stream,
    uploads: PictureUploads,
    picture: DeviceImage,
    kernels: LetterboxKernels,
    params: LetterboxParams,
    /// With the layout of the image and the capacity of its memory; no graph for images that
    /// are read in host memory.
    recorded: Option<((ImageLayout, usize), Option<Graph>)>,
}

impl Pictures {
    fn new(stream: &Stream, jpeg: &JpegOptions, params: &LetterboxParams) -> Result<Self> {
        Ok(Self {
            stream: stream.clone(),
            uploads: PictureUploads::new(stream, jpeg)?,
            picture: DeviceImage::with_capacity(stream, MIN_PICTURE_BYTES)?,
            kernels: LetterboxKernels::load(stream.device())?,
            params: *params,
            recorded: None,
        })
    }

    /// Queues the upload or the decoding of the image.
    fn upload<'env>(
        &mut self,
        payload: &ImagePayload<'env>,
        frame: &mut Running<'_, 'env>,
    ) -> Result<()> {
        let Self { uploads, picture, .. } = self;
        let pending = uploads.receive(picture, *payload, frame.report)?;
        frame.upload_by(|scope, report| {
            let images = std::slice::from_mut(picture);
            uploads.enqueue(images, &mut [Some(pending)], (scope, report), |_, error| error)
        })
    }

    /// Queues the letterbox of the image. At a new layout it is recorded, and the
    /// transform to source pixels written to the device.
    fn enqueue_letterbox(
        &mut self,
        input: &mut DeviceTensor,
        postprocess: &mut Postprocess<impl DeviceBoxes>,
    ) -> Result<()> {
        let Self { stream, picture, kernels, params, recorded, .. } = self;
        // Larger memory is other memory.
        let layout = (picture.layout()?, picture.capacity());
        let is_in_place = picture.is_in_place();
        match recorded {
            Some((of, Some(graph))) if *of == layout && !is_in_place => return graph.enqueue(),
            // The address of an image in host memory differs from frame to frame.
            Some((of, None)) if *of == layout && is_in_place => {
                return enqueue_letterbox(stream, kernels, picture, params, input).map(drop);
            }
            _ => *recorded = None,
        }
        if is_in_place {
            let placed = enqueue_letterbox(stream, kernels, picture, params, input)?;
            *recorded = Some((layout, None));
            return postprocess.set_placement(&placed);
        }
        let mut placed = None;
        let graph = Graph::record(stream, || {
            placed = Some(enqueue_letterbox(stream, kernels, picture, params, input)?);
            Ok(())
        })?;
        if let Some(placed) = placed {
            postprocess.set_placement(&placed)?;
        }
        graph.enqueue()?;
        *recorded = Some((layout, Some(graph)));
        Ok(())
    }
}

/// The operations from the network's outputs to detections, recorded once.
struct Postprocess<B: DeviceBoxes> {
    decoder: Decoder<B>,
    suppression: Suppression<B>,
    gather: Gatherer<B>,
    graph: Graph,
    limits: Limits,
}

/// The values that kernels and memory are chosen for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limits {
    num_candidates: usize,
    max_detections: usize,
    nms: Discriminant<Nms2d>,
}

impl Limits {
    fn of(config: &CameraConfig) -> Self {
        Self {
            num_candidates: config.pre_nms_top_k.min(config.candidate_capacity).max(1),
            max_detections: config.max_detections,
            nms: discriminant(&config.nms),
        }
    }
}

impl<B: DeviceBoxes> Postprocess<B> {
    fn new(
        config: &CameraConfig,
        head: &YoloHead,
        engine: &DeviceEngine,
        (stream, counters): (&Stream, &mut DeviceCounters),
    ) -> Result<Self> {
        let limits = Limits::of(config);
        let mut candidates = DeviceCandidates::<B>::with_capacity(stream, limits.num_candidates)?;
        let mut decoder = head.decoder(stream, engine)?;
        let classes = config.facts.class_names.len();
        let capacity = Capacity { candidates: limits.num_candidates, classes };
        let mut suppression = Suppression::new(stream, &config.nms, capacity)?;
        let mut gather = Gatherer::new(stream, limits.max_detections)?;
        let graph = Graph::record(stream, || {
            head.enqueue_decode(engine, &mut decoder, &mut candidates, counters)?;
            suppression.enqueue(&candidates)?;
            gather.enqueue(&candidates, suppression.kept(), counters)
        })?;
        let mut recorded = Self { decoder, suppression, gather, graph, limits };
        recorded.set(config)?;
        Ok(recorded)
    }

    /// Whether a configuration changes only values in device memory.
    fn fits(&self, config: &CameraConfig) -> bool {
        self.limits == Limits::of(config)
    }

    /// Writes thresholds and wanted classes to the device and waits.
    fn set(&mut self, config: &CameraConfig) -> Result<()> {
        self.suppression.set(&config.nms)?;
        self.decoder.set(&Selection {
            score_threshold: config.score_threshold,
            class_filter: &config.class_filter,
            candidate_capacity: config.candidate_capacity,
            pre_nms_top_k: config.pre_nms_top_k,
        })
    }

    /// Writes the transform to source pixels to the device and waits.
    fn set_placement(&mut self, placed: &Letterbox) -> Result<()> {
        self.gather.set_placement(&placed.source_from_network(), placed.source)
    }
}
