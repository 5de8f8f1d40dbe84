//! 2D detection on the CPU.

use super::boxes::{self, ImageBoxes};
use super::postprocess::{self, Postprocess};
use super::{IMAGE, NEEDS, YoloHead, family, with_empty_frame};
use crate::config::{CameraConfig, ChannelConfig};
use crate::detectors::{Detector, DetectorInfo, FrameSet, InputNeeds};
use crate::device::Device;
use crate::error::Result;
use crate::infer::{self, Engine};
use crate::ops::decompress::{Picture, decompress};
use crate::ops::letterbox::{self, letterbox};
use crate::types::{Box2d, Detections, FrameReport, ImagePayload, PictureDecoder, Stage, Tensor};

/// The timed stages, in order: those before the outputs of the network and those after.
const STAGES: [Stage; 7] = {
    let [decode, select, suppress, gather] = postprocess::STAGES;
    [Stage::Decompress, Stage::Letterbox, Stage::Infer, decode, select, suppress, gather]
};

/// Finds boxes `B` in images on the CPU.
pub struct CpuDetector<B = Box2d> {
    info: DetectorInfo,
    engine: Box<dyn Engine>,
    head: YoloHead,
    picture: Picture,
    letterbox: letterbox::Workspace,
    input: Tensor,
    postprocess: Postprocess<B>,
}

impl<B: ImageBoxes> CpuDetector<B> {
    /// Loads the network.
    ///
    /// # Errors
    /// As [`super::open`].
    pub fn load(config: &CameraConfig) -> Result<Self> {
        Self::new(config, infer::load(&config.model_path, &config.engine)?)
    }

    /// Creates a detector with a loaded network.
    ///
    /// # Errors
    /// `Model` when the network does not fit the head, or the head has boxes of the
    /// other kind.
    pub fn new(config: &CameraConfig, engine: Box<dyn Engine>) -> Result<Self> {
        boxes::check::<B>(&config.facts.layout)?;
        let head = YoloHead::new(&config.facts, engine.inputs(), engine.outputs())?;
        let input = head.input()?;
        Ok(Self {
            info: DetectorInfo::new(&Device::Cpu, engine.name(), &STAGES),
            engine,
            head,
            picture: Picture::new(),
            letterbox: letterbox::Workspace::new(),
            input,
            postprocess: Postprocess::new(config),
        })
    }
}

impl<B: ImageBoxes> Detector for CpuDetector<B> {
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
        let Self { engine, head, picture, letterbox: workspace, input, postprocess, .. } = self;
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
        report.time(Stage::Infer, || engine.run(&[input.view()]))?;
        let source_from_network = placed.source_from_network();
        postprocess.run(engine.as_ref(), head, &source_from_network, image.size(), report)
    }

    fn reconfigure(&mut self, config: &ChannelConfig) -> Result<()> {
        self.postprocess.reconfigure(family(config)?);
        Ok(())
    }

    fn warm_up(&mut self) -> Result<()> {
        with_empty_frame(|frame| self.detect(frame, &mut FrameReport::new()).map(drop))
    }
}
