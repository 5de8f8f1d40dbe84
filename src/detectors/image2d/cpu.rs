//! 2D detection on the CPU.

use std::time::{Duration, Instant};

use super::batch::BatchPlace;
use super::boxes::{self, ImageBoxes};
use super::postprocess::{self, Postprocess};
use super::{IMAGE, NEEDS, YoloHead, family, with_empty_frame};
use crate::config::{CameraConfig, ChannelConfig};
use crate::detectors::{Detector, DetectorInfo, FrameSet};
use det_post_infer::Engine;
use det_post_infer::batch::HostNetwork;
use det_post_ops::device::Device;
use det_post_ops::image::decompress::{Picture, decompress};
use det_post_ops::image::letterbox::{self, letterbox};
use det_post_types::{
    Box2d, Detections, Error, ErrorKind, FrameReport, ImagePayload, Letterbox, PictureDecoder,
    Result, Stage, Tensor, TensorSpec,
};

/// The timed stages, in order: those before the outputs of the network and those after.
const STAGES: [Stage; 7] = {
    let [decode, select, suppress, gather] = postprocess::STAGES;
    [Stage::Decompress, Stage::Letterbox, Stage::Infer, decode, select, suppress, gather]
};

/// Finds boxes `B` in images on the CPU.
pub struct CpuDetector<B = Box2d> {
    info: DetectorInfo,
    network: HostNetwork,
    head: YoloHead,
    picture: Picture,
    letterbox: letterbox::Workspace,
    input: Tensor,
    postprocess: Postprocess<B>,
    /// How long a frame waits for others in its batch.
    batch_wait: Duration,
    /// The placement of the frame between [`Detector::submit`] and [`Detector::collect`].
    submitted: Option<Letterbox>,
}

impl<B: ImageBoxes> CpuDetector<B> {
    /// Loads the network, which may be shared with other detectors.
    ///
    /// # Errors
    /// As [`super::open`].
    pub fn load(config: &CameraConfig, batch: Option<&BatchPlace>) -> Result<Self> {
        let (path, options) = (config.model_path.clone(), config.engine.clone());
        let load = move || det_post_infer::load(&path, &options);
        let Some(place) = batch else { return Self::new(config, load()?) };
        let facts = config.facts.clone();
        let shape_of = move |input: &TensorSpec| {
            YoloHead::input_shape(&facts, input).map(|shape| shape.to_vec())
        };
        Self::with_network(
            config,
            HostNetwork::shared((&place.network.on_host, place.place), load, shape_of)?,
        )
    }

    /// Creates a detector with a loaded network.
    ///
    /// # Errors
    /// `Model` when the network does not fit the head, or the head has boxes of the
    /// other kind.
    pub fn new(config: &CameraConfig, engine: Box<dyn Engine>) -> Result<Self> {
        Self::with_network(config, HostNetwork::own(engine))
    }

    fn with_network(config: &CameraConfig, network: HostNetwork) -> Result<Self> {
        boxes::check::<B>(&config.facts.layout)?;
        let head = YoloHead::new(&config.facts, network.inputs(), network.outputs())?;
        let input = head.input()?;
        let info = DetectorInfo::new(NEEDS, &Device::Cpu, network.name(), &STAGES);
        Ok(Self {
            info: DetectorInfo { is_batched: network.is_shared(), ..info },
            network,
            head,
            picture: Picture::new(),
            letterbox: letterbox::Workspace::new(),
            input,
            postprocess: Postprocess::new(config),
            batch_wait: config.batch_wait,
            submitted: None,
        })
    }

    /// From the image to the input of the network.
    fn begin(&mut self, frame: &FrameSet<'_>, report: &mut FrameReport) -> Result<Letterbox> {
        let Self { network, head, picture, letterbox: workspace, input, .. } = self;
        let image = match frame.image(IMAGE)? {
            ImagePayload::Raw(image) => image,
            ImagePayload::OnDevice(image) => return Err(image.data().refused("letterbox")),
            ImagePayload::Compressed(file) => {
                report.time(Stage::Decompress, || decompress(&file, picture))?;
                report.add_pictures(PictureDecoder::Cpu, 1);
                picture.view()?
            }
        };
        let placed = report
            .time(Stage::Letterbox, || letterbox(&image, head.letterbox(), workspace, input))?;
        report.time(Stage::Infer, || network.enter(&input.view()))?;
        Ok(placed)
    }

    /// From the outputs of the network to detections; waits at most `limit` for other members
    /// of the batch.
    fn finish(
        &mut self,
        placed: &Letterbox,
        limit: Duration,
        report: &mut FrameReport,
    ) -> Result<Detections<'_>> {
        let Self { network, head, postprocess, .. } = self;
        let start = Instant::now();
        network.leave(limit, |outputs| {
            report.add_duration(Stage::Infer, start.elapsed());
            let source_from_network = placed.source_from_network();
            postprocess.run(outputs, head, &source_from_network, placed.source, report)
        })?;
        Ok(postprocess.detections())
    }
}

impl<B: ImageBoxes> Detector for CpuDetector<B> {
    fn info(&self) -> &DetectorInfo {
        &self.info
    }

    fn detect<'a>(
        &'a mut self,
        frame: &FrameSet<'_>,
        report: &mut FrameReport,
    ) -> Result<Detections<'a>> {
        let placed = self.begin(frame, report)?;
        self.finish(&placed, self.batch_wait, report)
    }

    fn submit(&mut self, frame: &FrameSet<'_>, report: &mut FrameReport) -> Result<()> {
        if self.submitted.is_some() {
            return Err(in_flight("a frame is in flight"));
        }
        self.submitted = Some(self.begin(frame, report)?);
        Ok(())
    }

    fn collect<'a>(&'a mut self, report: &mut FrameReport) -> Result<Detections<'a>> {
        let placed = self.submitted.take().ok_or_else(|| in_flight("no frame is in flight"))?;
        self.finish(&placed, Duration::ZERO, report)
    }

    fn reconfigure(&mut self, config: &ChannelConfig) -> Result<()> {
        self.postprocess.reconfigure(family(config)?);
        Ok(())
    }

    fn warm_up(&mut self) -> Result<()> {
        with_empty_frame(|frame| self.detect(frame, &mut FrameReport::new()).map(drop))
    }
}

/// The error of a call that does not fit the number of frames in flight.
fn in_flight(what: &str) -> Error {
    Error::new(ErrorKind::Argument, "camera", what)
}
