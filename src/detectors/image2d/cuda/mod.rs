//! 2D detection on a GPU: per frame one upload, one wait and one read of the results.
//! A payload in page-locked memory is uploaded in place.

mod postprocess;

pub use postprocess::DeviceBoxes;
use postprocess::Postprocess;

use super::boxes;
use super::{IMAGE, NEEDS, YoloHead, family, with_empty_frame};
use crate::config::{CameraConfig, ChannelConfig, YoloFacts};
use crate::detectors::frame_stream::{FrameStream, Running, add_copies};
use crate::detectors::picture_uploads::{MIN_PICTURE_BYTES, PictureUploads};
use crate::detectors::{Detector, DetectorInfo, FrameSet, InputNeeds};
use crate::device::cuda::{
    DeviceImage, DeviceTensor, Graph, ImageLayout, InPlaceUploads, Stream, UploadScope,
};
use crate::device::{Device, PayloadMemory};
use crate::error::{Error, ErrorKind, Result};
use crate::infer::device::DeviceEngine;
use crate::ops::gather::cuda::Gathered;
use crate::ops::letterbox::LetterboxParams;
use crate::ops::letterbox::cuda::{Kernels as LetterboxKernels, enqueue_letterbox};
use crate::ops::nms::cuda::NmsCounts;
use crate::types::{
    Box2d, Detection2d, Detections, FrameReport, ImagePayload, JpegOptions, Kept, Stage,
    TensorSpec, Transfer,
};

/// The stages timed on the stream, in order.
const STREAM_STAGES: [Stage; 4] =
    [Stage::Upload, Stage::Letterbox, Stage::Infer, Stage::Postprocess];

/// The reported stages, in order: decompression runs on the host.
const STAGES: [Stage; 5] =
    [Stage::Decompress, Stage::Upload, Stage::Letterbox, Stage::Infer, Stage::Postprocess];

/// The most frames in flight: one is uploaded while the network runs on the other.
const MAX_IN_FLIGHT: usize = 2;

/// Finds boxes `B` in images on a GPU.
pub struct CudaDetector<B: DeviceBoxes = Box2d> {
    info: DetectorInfo,
    config: CameraConfig,
    stream: Stream,
    engine: DeviceEngine,
    head: YoloHead,
    /// One for each frame that may be in flight, used in turn.
    contexts: Vec<Context<B>>,
    /// The context of the earliest frame in flight, and the number of these frames.
    earliest: usize,
    num_in_flight: usize,
    /// Whether there was not enough memory for frames in flight.
    is_refused: bool,
    detections: Vec<Detection2d<B>>,
}

/// What a frame in flight does not share with another one. The network runs on one frame at
/// a time, so that its tensors are shared.
struct Context<B: DeviceBoxes> {
    uploads: InPlaceUploads,
    work: Work<B>,
}

/// The steps of a frame and their memory.
struct Work<B: DeviceBoxes> {
    frames: FrameStream,
    pictures: Pictures,
    postprocess: Postprocess<B>,
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
        Ok(Self {
            info: DetectorInfo::new(&device, engine.name(), &STAGES),
            config: config.clone(),
            stream: stream.clone(),
            contexts: vec![Context::new(config, &head, &engine, (stream, stream))?],
            engine,
            head,
            earliest: 0,
            num_in_flight: 0,
            is_refused: false,
            detections: Vec::with_capacity(config.max_detections),
        })
    }

    /// Contexts that upload beside the network.
    fn overlapping_contexts(&self) -> Result<Vec<Context<B>>> {
        let Self { config, head, engine, stream, .. } = self;
        let uploads = stream.beside()?;
        let new = |_| Context::new(config, head, engine, (stream, &uploads));
        (0..MAX_IN_FLIGHT).map(new).collect()
    }
}

impl<B: DeviceBoxes> Context<B> {
    /// Memory for frames on the first stream, whose uploads are queued on the second.
    fn new(
        config: &CameraConfig,
        head: &YoloHead,
        engine: &DeviceEngine,
        (stream, uploads): (&Stream, &Stream),
    ) -> Result<Self> {
        let mut frames = FrameStream::with_uploads_on(stream, uploads, &STREAM_STAGES)?;
        let working = (stream, frames.counters());
        let postprocess = Postprocess::new(config, head, engine, working)?;
        let pictures = Pictures::new((stream, uploads), &config.jpeg, head.letterbox())?;
        let work = Work { frames, pictures, postprocess };
        let uploads = InPlaceUploads::with_zero_copy(uploads, config.zero_copy)?;
        Ok(Self { uploads, work })
    }
}

impl<B: DeviceBoxes> Work<B> {
    /// Queues all work of a frame.
    fn begin<'env>(
        &mut self,
        payload: &ImagePayload<'env>,
        engine: &mut DeviceEngine,
        scope: &UploadScope<'_, 'env>,
        report: &mut FrameReport,
    ) -> Result<()> {
        let Self { frames, pictures, postprocess } = self;
        let mut running = frames.begin(scope, report);
        pictures.upload(payload, &mut running)?;
        pictures.enqueue_letterbox(engine.input(0)?, postprocess)?;
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
        detections: &mut Vec<Detection2d<B>>,
        report: &mut FrameReport,
    ) -> Result<()> {
        detections.clear();
        let num_counted = self.frames.wait(report)?;
        let gathered = self.postprocess.gather.read_complete(detections);
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
        if self.num_in_flight > 0 {
            return Err(in_flight("frames are in flight"));
        }
        let payload = frame.image(IMAGE)?;
        let Self { contexts, engine, detections, .. } = self;
        let Some(Context { uploads, work }) = contexts.first_mut() else {
            return Err(in_flight("no memory for frames"));
        };
        let ran = uploads.scope(|scope| {
            work.begin(&payload, engine, scope, report)?;
            work.end(engine, detections, report)
        });
        work.frames.settle(ran)?;
        Ok(B::detections(detections))
    }

    fn allow_in_flight(&mut self, num: usize) -> usize {
        // A payload that kernels read in host memory is borrowed until they have.
        if self.contexts.first().is_some_and(|context| context.uploads.is_zero_copy()) {
            return 1;
        }
        let is_wanted = num > 1 && self.contexts.len() < MAX_IN_FLIGHT;
        if is_wanted && self.num_in_flight == 0 && !self.is_refused {
            match self.overlapping_contexts() {
                Ok(contexts) => self.contexts = contexts,
                Err(reason) => {
                    tracing::warn!("frames do not overlap: {reason}");
                    self.is_refused = true;
                }
            }
        }
        self.contexts.len()
    }

    fn submit(&mut self, frame: &FrameSet<'_>, report: &mut FrameReport) -> Result<()> {
        let payload = frame.image(IMAGE)?;
        let Self { contexts, engine, earliest, num_in_flight, .. } = self;
        let num_contexts = contexts.len();
        let place = (*earliest + *num_in_flight) % num_contexts;
        let free = contexts.get_mut(place).filter(|_| *num_in_flight < num_contexts);
        let Some(Context { uploads, work }) = free else {
            return Err(in_flight("as many frames as allowed are in flight"));
        };
        // At its end the payload is uploaded, or held where it is in a mapped file.
        let begun = uploads.scope(|scope| work.begin(&payload, engine, scope, report));
        work.frames.settle(begun)?;
        *num_in_flight += 1;
        Ok(())
    }

    fn collect<'a>(&'a mut self, report: &mut FrameReport) -> Result<Detections<'a>> {
        let Self { contexts, engine, earliest, num_in_flight, detections, .. } = self;
        let num_contexts = contexts.len();
        let Some(Context { uploads, work }) =
            contexts.get_mut(*earliest).filter(|_| *num_in_flight > 0)
        else {
            return Err(in_flight("no frame is in flight"));
        };
        *earliest = (*earliest + 1) % num_contexts;
        *num_in_flight -= 1;
        let ended = work.end(engine, detections, report);
        work.frames.settle(ended)?;
        uploads.finish();
        Ok(B::detections(detections))
    }

    /// Writes thresholds and classes to the device; records the post-processing again
    /// for another suppression or other limits.
    fn reconfigure(&mut self, config: &ChannelConfig) -> Result<()> {
        let config = family(config)?;
        let Self { contexts, head, engine, stream, .. } = self;
        for Context { work: Work { frames, pictures, postprocess }, .. } in contexts {
            if postprocess.fits(config) {
                postprocess.set(config)?;
            } else {
                let working = (&*stream, frames.counters());
                *postprocess = Postprocess::new(config, head, engine, working)?;
                pictures.recorded = None;
            }
        }
        self.config = config.clone();
        self.detections.clear();
        self.detections.reserve(config.max_detections);
        Ok(())
    }

    fn warm_up(&mut self) -> Result<()> {
        with_empty_frame(|frame| self.detect(frame, &mut FrameReport::new()).map(drop))
    }

    fn payload_memory(&self) -> PayloadMemory {
        PayloadMemory::of(&Device::Cuda(self.stream.device().clone()))
    }
}

/// The error of a call that does not fit the number of frames in flight.
fn in_flight(what: &str) -> Error {
    Error::new(ErrorKind::Argument, "camera", what)
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
    /// The second stream is the queue of uploads.
    fn new(
        (stream, uploads): (&Stream, &Stream),
        jpeg: &JpegOptions,
        params: &LetterboxParams,
    ) -> Result<Self> {
        Ok(Self {
            stream: stream.clone(),
            uploads: PictureUploads::new(uploads, jpeg)?,
            picture: DeviceImage::with_capacity(uploads, MIN_PICTURE_BYTES)?,
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
