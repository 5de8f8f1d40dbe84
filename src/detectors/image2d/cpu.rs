//! 2D detection on the CPU.

use super::boxes::{self, ImageBoxes};
use super::postprocess::{self, Postprocess};
use super::{IMAGE, NEEDS, YoloHead, family, with_empty_frame};
use crate::config::{CameraConfig, ChannelConfig};
use crate::detectors::in_flight::SingleFrame;
use crate::detectors::{Detector, DetectorInfo, FrameSet};
use det_post_infer::Engine;
use det_post_ops::device::Device;
use det_post_ops::image::decompress::{DecodedImage, decompress};
use det_post_ops::image::letterbox::{self, letterbox};
use det_post_types::{
    Box2d, Detections, FrameReport, ImageDecoder, ImagePayload, Letterbox, Result, Stage, Tensor,
};

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
    decoded: DecodedImage,
    letterbox: letterbox::Workspace,
    input: Tensor,
    /// The classes that were loaded.
    class_names: Vec<String>,
    postprocess: Postprocess<B>,
    /// The frame in flight, and its placement in the network's input.
    in_flight: SingleFrame<Letterbox>,
}

impl<B: ImageBoxes> CpuDetector<B> {
    /// Loads the network.
    ///
    /// # Errors
    /// As [`super::open`].
    pub fn load(config: &CameraConfig) -> Result<Self> {
        Self::new(config, det_post_infer::load(&config.model_path, &config.engine)?)
    }

    /// Creates a detector with a loaded network.
    ///
    /// # Errors
    /// `Model` when the network does not fit the head, or the head has boxes of the
    /// other kind; `Config` when the capacities do not fit into the address space.
    pub fn new(config: &CameraConfig, mut engine: Box<dyn Engine>) -> Result<Self> {
        boxes::check::<B>(&config.facts.layout)?;
        config.check_memory()?;
        let head = YoloHead::new(&config.facts, engine.inputs(), engine.outputs())?;
        engine.use_outputs(head.output_positions())?;
        let input = head.input()?;
        Ok(Self {
            info: DetectorInfo::new(NEEDS, &Device::Cpu, engine.name(), &STAGES),
            engine,
            head,
            decoded: DecodedImage::new(),
            letterbox: letterbox::Workspace::new(),
            input,
            class_names: config.facts.class_names.clone(),
            postprocess: Postprocess::new(config),
            in_flight: SingleFrame::none(),
        })
    }
}

impl<B: ImageBoxes> Detector for CpuDetector<B> {
    fn info(&self) -> &DetectorInfo {
        &self.info
    }

    fn num_in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// From the image to the outputs of the network.
    fn submit(&mut self, frame: &FrameSet<'_>, report: &mut FrameReport) -> Result<()> {
        self.in_flight.check_free()?;
        let Self { engine, head, decoded, letterbox: workspace, input, .. } = self;
        let image = match frame.image(IMAGE)? {
            ImagePayload::Raw(image) => image,
            ImagePayload::OnDevice(image) => return Err(image.data().refused("letterbox")),
            ImagePayload::Compressed(file) => {
                report.time(Stage::Decompress, || decompress(&file, decoded))?;
                report.add_images(ImageDecoder::Cpu, 1);
                decoded.view()?
            }
        };
        let placed = report
            .time(Stage::Letterbox, || letterbox(&image, head.letterbox(), workspace, input))?;
        report.time(Stage::Infer, || engine.run(&[input.view()]))?;
        self.in_flight.mark_submitted(placed);
        Ok(())
    }

    /// From the outputs of the network to detections.
    fn collect<'a>(&'a mut self, report: &mut FrameReport) -> Result<Detections<'a>> {
        let placed = self.in_flight.end()?;
        let Self { engine, head, postprocess, .. } = self;
        let outputs = |index| engine.output(index);
        postprocess.run(&outputs, head, &placed, report)?;
        Ok(postprocess.detections())
    }

    /// Loads the network again for other classes.
    fn reconfigure(&mut self, config: &ChannelConfig) -> Result<()> {
        let config = family(config)?;
        if self.class_names == config.facts.class_names {
            self.postprocess.reconfigure(config);
        } else {
            *self = Self::load(config)?;
        }
        Ok(())
    }

    fn warm_up(&mut self) -> Result<()> {
        with_empty_frame(|frame| self.detect(frame, &mut FrameReport::new()).map(drop))
    }
}
