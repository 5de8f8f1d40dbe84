//! 2D detection from tensors that are received: a decoder without a network.

use super::boxes::{self, ImageBoxes};
use super::postprocess::{self, Postprocess};
use super::{YoloHead, family};
use crate::config::{CameraConfig, ChannelConfig};
use crate::detectors::in_flight::SingleFrame;
use crate::detectors::{Detector, DetectorInfo, FrameSet, InputNeeds, PayloadKind};
use det_post_infer::{Engine, External};
use det_post_ops::device::Device;
use det_post_types::{Box2d, Detections, FrameReport, Letterbox, Placement, Result};

/// The one input.
const TENSORS: usize = 0;

const NEEDS: [InputNeeds; 1] =
    [InputNeeds { kind: PayloadKind::Tensors, pose_in: None, calibration: false, motion: None }];

/// Finds boxes `B` in tensors of a message, on the CPU.
///
/// Boxes are in pixels of the network's input, clipped to it, or in those of the source image
/// where its size is configured.
pub struct ReceivedDetector<B = Box2d> {
    info: DetectorInfo,
    tensors: External,
    head: YoloHead,
    placed: Letterbox,
    postprocess: Postprocess<B>,
    in_flight: SingleFrame,
}

impl<B: ImageBoxes> ReceivedDetector<B> {
    /// A decoder of the tensors that the head names.
    ///
    /// # Errors
    /// `Model` when the head has boxes of the other kind, or names too few tensors.
    pub fn new(config: &CameraConfig) -> Result<Self> {
        boxes::check::<B>(&config.facts.layout)?;
        let tensors = External::new(&config.facts.output_names);
        let head = YoloHead::of_outputs(&config.facts, tensors.outputs())?;
        let network = head.network();
        let placed = match config.source_size {
            Some(source) => Letterbox::new(source, network, config.facts.placement),
            None => Letterbox::new(network, network, Placement::Stretch),
        };
        Ok(Self {
            info: DetectorInfo::new(NEEDS, &Device::Cpu, tensors.name(), &postprocess::STAGES),
            tensors,
            head,
            placed,
            postprocess: Postprocess::new(config),
            in_flight: SingleFrame::none(),
        })
    }
}

impl<B: ImageBoxes> Detector for ReceivedDetector<B> {
    fn info(&self) -> &DetectorInfo {
        &self.info
    }

    fn num_in_flight(&self) -> usize {
        self.in_flight.len()
    }

    fn submit(&mut self, frame: &FrameSet<'_>, report: &mut FrameReport) -> Result<()> {
        self.in_flight.check_free()?;
        self.tensors.receive(frame.tensors(TENSORS)?)?;
        let Self { tensors, head, placed, postprocess, .. } = self;
        let outputs = |index| tensors.output(index);
        postprocess.run(&outputs, head, placed, report)?;
        self.in_flight.mark_submitted(());
        Ok(())
    }

    fn collect<'a>(&'a mut self, _: &mut FrameReport) -> Result<Detections<'a>> {
        self.in_flight.end()?;
        Ok(self.postprocess.detections())
    }

    fn reconfigure(&mut self, config: &ChannelConfig) -> Result<()> {
        self.postprocess.reconfigure(family(config)?);
        Ok(())
    }

    fn warm_up(&mut self) -> Result<()> {
        // There is no network.
        Ok(())
    }
}
