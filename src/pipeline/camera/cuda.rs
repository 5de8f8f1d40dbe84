//! A camera's frames on a GPU: one upload, one wait, one read of the answer.
//! A payload that lies in page-locked memory is uploaded from there, which is
//! waited for as well: the memory is only lent.

use std::mem::{Discriminant, discriminant};

use crate::config::{CameraConfig, YoloFacts};
use crate::device::cuda::abi::gather::FrameCounts;
use crate::device::cuda::abi::nms::NmsCounts;
use crate::device::cuda::{
    DeviceCandidates, DeviceImage, DeviceTensor, Graph, ImageLayout, Stream,
};
use crate::error::{Error, Result};
use crate::heads::YoloHead;
use crate::infer::device::{DeviceEngine, NumBytes};
use crate::ops::decode_yolo::cuda::{Selection, Workspace as Decoder};
use crate::ops::decompress::decompress_into;
use crate::ops::gather::cuda::Workspace as Gatherer;
use crate::ops::letterbox::LetterboxParams;
use crate::ops::letterbox::cuda::{Kernels as LetterboxKernels, enqueue_letterbox};
use crate::ops::nms::cuda::{Capacity, Suppression2d};
use crate::pipeline::stopwatch::Stopwatch;
use crate::types::{
    Box2d, CompressedFormat, Count, Detection2d, FrameReport, ImagePayload, Kept, Letterbox, Nms2d,
    Stage, TensorSpec, Transfer,
};

/// Room for pictures is taken by powers of two from this on.
const MIN_PICTURE_BYTES: usize = 1 << 16;

pub(super) struct Frames {
    stream: Stream,
    stopwatch: Stopwatch,
    picture: DeviceImage,
    letterbox: RecordedLetterbox,
    engine: DeviceEngine,
    head: YoloHead,
    postprocess: Postprocess,
}

impl Frames {
    pub(super) fn new(config: &CameraConfig, stream: &Stream) -> Result<Self> {
        let shape_of = |input: &TensorSpec| input_shape(&config.facts, input);
        let engine = DeviceEngine::load(&config.model_path, &config.engine, stream, shape_of)?;
        Self::with_engine(config, stream, engine)
    }

    pub(super) fn with_engine(
        config: &CameraConfig,
        stream: &Stream,
        engine: DeviceEngine,
    ) -> Result<Self> {
        let head = YoloHead::new(&config.facts, engine.inputs(), engine.outputs())?;
        let stages = [Stage::Upload, Stage::Letterbox, Stage::Infer, Stage::Postprocess];
        Ok(Self {
            stream: stream.clone(),
            stopwatch: Stopwatch::new(stream, &stages)?,
            picture: DeviceImage::with_capacity(stream, MIN_PICTURE_BYTES)?,
            letterbox: RecordedLetterbox::new(stream, head.letterbox())?,
            postprocess: Postprocess::new(config, &head, &engine, stream)?,
            engine,
            head,
        })
    }

    pub(super) fn engine_name(&self) -> &str {
        self.engine.name()
    }

    pub(super) fn reconfigure(&mut self, config: &CameraConfig) -> Result<()> {
        if self.postprocess.fits(config) {
            return self.postprocess.set(config);
        }
        self.postprocess = Postprocess::new(config, &self.head, &self.engine, &self.stream)?;
        self.letterbox.forget();
        Ok(())
    }

    /// The story of a frame.
    pub(super) fn process(
        &mut self,
        payload: &ImagePayload<'_>,
        report: &mut FrameReport,
        detections: &mut Vec<Detection2d>,
    ) -> Result<()> {
        let served = self.serve(payload, report, detections);
        if served.is_err() {
            // Whatever is queued ends before the next frame. A second error
            // would be about the same work as the first.
            let _ = self.stream.synchronize();
        }
        served
    }

    fn serve(
        &mut self,
        payload: &ImagePayload<'_>,
        report: &mut FrameReport,
        detections: &mut Vec<Detection2d>,
    ) -> Result<()> {
        self.upload(payload, report)?;
        self.stopwatch.end_of(Stage::Upload)?;
        let input = self.engine.input(0)?;
        self.letterbox.enqueue(&self.picture, input, &mut self.postprocess)?;
        self.stopwatch.end_of(Stage::Letterbox)?;
        self.engine.enqueue()?;
        self.stopwatch.end_of(Stage::Infer)?;
        self.postprocess.graph.enqueue()?;
        self.stopwatch.end_of(Stage::Postprocess)?;
        let counts = self.postprocess.gather.read(detections)?;

        self.stopwatch.add_to(report)?;
        let FrameCounts { decoded, num_over_limit, .. } = counts;
        report.add_count(Count::CandidatesOverCapacity, decoded.num_over_capacity as usize);
        report.add_count(Count::CandidatesOverTopK, decoded.num_over_top_k as usize);
        report.add_count(Count::DetectionsOverLimit, num_over_limit as usize);
        let NumBytes { to_host, to_device } = self.engine.copies();
        report.add_bytes(Stage::Infer, Transfer::Download, to_host);
        report.add_bytes(Stage::Infer, Transfer::HostCopy, to_device);
        report.add_bytes(Stage::Infer, Transfer::Upload, to_device);
        // The suppression writes its survivors to the host, too.
        let survivors = size_of::<NmsCounts>() + counts.num_kept as usize * size_of::<Kept>();
        let num_read = size_of::<FrameCounts>() + size_of_val(detections.as_slice()) + survivors;
        report.add_bytes(Stage::Postprocess, Transfer::Download, num_read);
        Ok(())
    }

    /// Brings the picture to the device in one upload: pixels from where they
    /// lie or through one copy into page-locked memory, a file decoded there.
    fn upload(&mut self, payload: &ImagePayload<'_>, report: &mut FrameReport) -> Result<()> {
        let Self { stream, stopwatch, picture, letterbox, .. } = self;
        let num_bytes = match payload {
            ImagePayload::Raw(image) => {
                let num_bytes = image.data().len();
                reserve(stream, picture, letterbox, num_bytes)?;
                stopwatch.start()?;
                let num_copied = picture.enqueue_upload(image)?;
                report.add_bytes(Stage::Upload, Transfer::HostCopy, num_copied);
                num_bytes
            }
            ImagePayload::Compressed(file) => {
                let (layout, num_bytes) = report.time(Stage::Decompress, || {
                    let image = decompress_into(file, |num_bytes| {
                        reserve(stream, picture, letterbox, num_bytes)?;
                        picture.slot(num_bytes)
                    })?;
                    Ok::<_, Error>((ImageLayout::of(&image), image.data().len()))
                })?;
                if file.format == CompressedFormat::Jpeg {
                    report.add_bytes(Stage::Decompress, Transfer::HostCopy, num_bytes);
                }
                stopwatch.start()?;
                picture.enqueue_written(layout, num_bytes)?;
                num_bytes
            }
        };
        report.add_bytes(Stage::Upload, Transfer::Upload, num_bytes);
        Ok(())
    }
}

/// Room for a picture. More than ever before takes new memory, which the
/// recorded letterbox does not know.
fn reserve(
    stream: &Stream,
    picture: &mut DeviceImage,
    letterbox: &mut RecordedLetterbox,
    num_bytes: usize,
) -> Result<()> {
    if num_bytes > picture.capacity() {
        let capacity = num_bytes.checked_next_power_of_two().unwrap_or(num_bytes);
        *picture = DeviceImage::with_capacity(stream, capacity)?;
        letterbox.forget();
    }
    Ok(())
}

/// The shape that the network's input has in every frame.
fn input_shape(facts: &YoloFacts, input: &TensorSpec) -> Result<Vec<usize>> {
    YoloHead::input_shape(facts, input).map(|shape| shape.to_vec())
}

/// The letterbox of pictures of one layout, recorded at the first of them.
struct RecordedLetterbox {
    stream: Stream,
    kernels: LetterboxKernels,
    params: LetterboxParams,
    recorded: Option<(ImageLayout, Graph)>,
}

impl RecordedLetterbox {
    fn new(stream: &Stream, params: &LetterboxParams) -> Result<Self> {
        let kernels = LetterboxKernels::load(stream.device())?;
        Ok(Self { stream: stream.clone(), kernels, params: *params, recorded: None })
    }

    /// Makes the next picture record anew.
    fn forget(&mut self) {
        self.recorded = None;
    }

    /// Queues the letterbox of the picture. At a new layout it is recorded, and
    /// the way back to the picture's pixels written to the device.
    fn enqueue(
        &mut self,
        picture: &DeviceImage,
        input: &mut DeviceTensor,
        postprocess: &mut Postprocess,
    ) -> Result<()> {
        let Self { stream, kernels, params, recorded } = self;
        let layout = picture.layout()?;
        if let Some((of, graph)) = recorded
            && *of == layout
        {
            return graph.enqueue();
        }
        *recorded = None;
        let mut placed = None;
        let graph = Graph::record(stream, || {
            placed = Some(enqueue_letterbox(stream, kernels, picture, params, input)?);
            Ok(())
        })?;
        if let Some(placed) = placed {
            postprocess.set_placement(&placed)?;
        }
        let (_, graph) = recorded.insert((layout, graph));
        graph.enqueue()
    }
}

/// From the network's answers to detections, recorded once.
struct Postprocess {
    decoder: Decoder,
    suppression: Suppression2d,
    gather: Gatherer,
    graph: Graph,
    limits: Limits,
}

/// What kernels and memory were taken for.
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

impl Postprocess {
    fn new(
        config: &CameraConfig,
        head: &YoloHead,
        engine: &DeviceEngine,
        stream: &Stream,
    ) -> Result<Self> {
        let limits = Limits::of(config);
        let mut candidates =
            DeviceCandidates::<Box2d>::with_capacity(stream, limits.num_candidates)?;
        let mut decoder = head.decoder(stream, engine)?;
        let classes = config.facts.class_names.len();
        let capacity = Capacity { candidates: limits.num_candidates, classes };
        let mut suppression = Suppression2d::new(stream, &config.nms, capacity)?;
        let mut gather = Gatherer::new(stream, limits.max_detections)?;
        let graph = Graph::record(stream, || {
            head.enqueue_decode(engine, &mut decoder, &mut candidates)?;
            suppression.enqueue(&candidates)?;
            gather.enqueue(&candidates, suppression.kept(), decoder.counts())
        })?;
        let mut recorded = Self { decoder, suppression, gather, graph, limits };
        recorded.set(config)?;
        Ok(recorded)
    }

    /// Whether a configuration changes only what lies in device memory.
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

    /// Writes the way back to the picture's pixels to the device and waits.
    fn set_placement(&mut self, placed: &Letterbox) -> Result<()> {
        self.gather.set_placement(&placed.source_from_network(), placed.source)
    }
}
