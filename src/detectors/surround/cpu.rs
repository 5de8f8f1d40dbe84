//! Surround detection on the CPU.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::cameras::Cameras;
use super::decoder::{Decoder, DecoderFrame, Networks};
use super::family::family_of;
use super::images::CpuImages;
use super::{EgoMotion, MapStatistics, family, info, world_from_target};
use crate::config::{ChannelConfig, SurroundConfig};
use crate::detectors::in_flight::SingleFrame;
use crate::detectors::postprocess_3d::Postprocess3d;
use crate::detectors::{Detector, DetectorInfo, FrameInput, FrameSet};
use det_post_infer::Engine;
use det_post_ops::device::Device;
use det_post_ops::image::resample::SampleMap;
use det_post_types::{
    Detections, Error, ErrorKind, FrameReport, Resize, Result, Stage, Tensor, TensorView,
};

/// The timed stages, in order.
const STAGES: [Stage; 8] = [
    Stage::Decompress,
    Stage::Letterbox,
    Stage::Encode,
    Stage::Infer,
    Stage::Decode,
    Stage::Select,
    Stage::Suppress,
    Stage::Gather,
];

/// Finds boxes in space in the images of several cameras on the CPU.
pub struct CpuDetector {
    info: DetectorInfo,
    cameras: Cameras<SampleMap>,
    masks_missing_cameras: bool,
    images: CpuImages,
    resize: Resize,
    backbone: Box<dyn Engine>,
    /// Whether the backbone takes the images of all cameras as one batch of 1.
    has_batch: bool,
    decoder: Box<dyn Decoder<dyn Engine>>,
    motion: EgoMotion,
    max_gap: Duration,
    postprocess: Postprocess3d,
    in_flight: SingleFrame,
}

impl CpuDetector {
    /// Loads the networks.
    ///
    /// # Errors
    /// As [`super::open`].
    pub fn load(config: &SurroundConfig, num_cameras: usize) -> Result<Self> {
        Self::new(config, num_cameras, family_of(config)?.load_on_cpu()?)
    }

    /// A detector with these networks.
    ///
    /// # Errors
    /// `Model` when they take another number of cameras.
    pub fn new(
        config: &SurroundConfig,
        num_cameras: usize,
        networks: Networks<dyn Engine>,
    ) -> Result<Self> {
        super::check_cameras(networks.num_cameras, num_cameras)?;
        let Networks { backbone, decoder, input_size, has_batch, .. } = networks;
        Ok(Self {
            info: info(config, num_cameras, &Device::Cpu, backbone.name(), &STAGES),
            cameras: Cameras::new(config, num_cameras, input_size),
            masks_missing_cameras: config.facts.kind.masks_missing_cameras(),
            images: CpuImages::new(num_cameras, input_size, super::resample_params(config))?,
            resize: config.facts.resize,
            backbone,
            has_batch,
            decoder,
            motion: EgoMotion::default(),
            max_gap: config.max_gap,
            postprocess: Postprocess3d::new(
                config.candidate_capacity,
                config.pre_nms_top_k,
                &config.nms,
                config.max_detections,
            ),
            in_flight: SingleFrame::none(),
        })
    }

    /// Measures the feature maps of the next frames instead of decoding them: frames then have
    /// no detections.
    ///
    /// # Errors
    /// `Argument` for a head of kind `streampetr`, and for a backbone with int8 maps.
    pub fn measure_maps(&mut self, statistics: Arc<Mutex<MapStatistics>>) -> Result<()> {
        self.decoder.measure_maps(statistics)
    }

    /// From the input of the backbone to candidates.
    fn infer(&mut self, frame: &FrameSet<'_>, report: &mut FrameReport) -> Result<()> {
        let pose = world_from_target(frame)?;
        let Self { backbone, decoder, cameras, motion, images, has_batch, .. } = self;
        report
            .time(Stage::Encode, || run_backbone(backbone.as_mut(), images.input(), *has_batch))?;
        let step = motion.step(frame.stamp, &pose, self.max_gap, report);
        let (backbone, matrices) = (backbone.as_ref(), cameras.matrices());
        let of_frame = DecoderFrame { backbone, matrices, stamp: frame.stamp, step };
        report.time(Stage::Infer, || decoder.enqueue(&of_frame))?;
        motion.commit(frame.stamp, pose);
        decoder.read(&mut self.postprocess.candidates, report)
    }
}

impl Detector for CpuDetector {
    fn info(&self) -> &DetectorInfo {
        &self.info
    }

    fn prepare(&mut self, input: usize, message: &FrameInput<'_>) -> Result<()> {
        let Self { cameras, images, resize, .. } = self;
        let camera =
            cameras.update_view(input, message, |view, _| SampleMap::of_view(view, *resize))?;
        images.prepare(input, message, camera)
    }

    fn num_in_flight(&self) -> usize {
        self.in_flight.len()
    }

    fn submit(&mut self, frame: &FrameSet<'_>, report: &mut FrameReport) -> Result<()> {
        self.in_flight.check_free()?;
        if !self.masks_missing_cameras {
            (0..self.info.inputs.len()).try_for_each(|index| frame.input(index).map(drop))?;
        }
        let resize = self.resize;
        self.cameras.update(frame, |view, _| SampleMap::of_view(view, resize))?;
        self.images.write(frame, &self.cameras, report)?;
        self.infer(frame, report)?;
        self.in_flight.mark_submitted(());
        Ok(())
    }

    fn collect<'a>(&'a mut self, report: &mut FrameReport) -> Result<Detections<'a>> {
        self.in_flight.end()?;
        Ok(Detections::Boxes3d(self.postprocess.run(report)?))
    }

    fn reconfigure(&mut self, config: &ChannelConfig) -> Result<()> {
        let config = family(config)?;
        self.decoder.reconfigure(config, self.backbone.as_ref())?;
        self.max_gap = config.max_gap;
        self.postprocess.set(config.pre_nms_top_k, &config.nms, config.max_detections);
        Ok(())
    }

    fn reset(&mut self) -> Result<()> {
        self.motion.reset();
        self.images.forget();
        self.decoder.reset();
        Ok(())
    }

    fn warm_up(&mut self) -> Result<()> {
        run_backbone(self.backbone.as_mut(), self.images.input(), self.has_batch)?;
        self.decoder.warm_up(self.backbone.as_ref(), &mut self.postprocess.candidates)
    }
}

/// Runs the backbone on the images, [N, 3, H, W] or, as one batch, [1, N, 3, H, W].
fn run_backbone(backbone: &mut dyn Engine, images: &Tensor, has_batch: bool) -> Result<()> {
    let &[n, channels, height, width] = images.shape() else {
        return Err(Error::new(
            ErrorKind::Argument,
            super::STAGE,
            "the images must have four dimensions",
        ));
    };
    let shape = [1, n, channels, height, width];
    let shape = if has_batch { &shape[..] } else { &shape[1..] };
    backbone.run(&[TensorView::new(shape, images.view().values())?])
}
