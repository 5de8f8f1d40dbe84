//! Surround detection on a GPU: images, backbone and decoder there, the few boxes that
//! pass on the host. A payload in page-locked memory is uploaded in place.

use std::time::Duration;

use super::cameras::Cameras;
use super::decoder::{Decoder, DecoderFrame, Networks};
use super::family::family_of;
use super::images::CudaImages;
use super::{EgoMotion, family, info, world_from_target};
use crate::config::{ChannelConfig, SurroundConfig};
use crate::detectors::frame_stream::FrameStream;
use crate::detectors::in_flight::SingleFrame;
use crate::detectors::postprocess_3d::Postprocess3d;
use crate::detectors::{Detector, DetectorInfo, FrameInput, FrameSet};
use det_post_infer::device::DeviceEngine;
use det_post_ops::device::cuda::{InPlaceUploads, Stream};
use det_post_ops::device::{Device, PayloadMemory};
use det_post_ops::image::resample::SampleMap;
use det_post_ops::image::resample::cuda::DeviceMap;
use det_post_types::{Detections, FrameReport, Resize, Result, Stage};

/// The stages timed on the stream, in order.
const STREAM_STAGES: [Stage; 4] = [Stage::Upload, Stage::Letterbox, Stage::Encode, Stage::Infer];

/// The reported stages, in order: the first and those after the networks run on the host.
const STAGES: [Stage; 9] = [
    Stage::Decompress,
    Stage::Upload,
    Stage::Letterbox,
    Stage::Encode,
    Stage::Infer,
    Stage::Decode,
    Stage::Select,
    Stage::Suppress,
    Stage::Gather,
];

/// Finds boxes in space in the images of several cameras on a GPU.
pub struct CudaDetector {
    info: DetectorInfo,
    uploads: InPlaceUploads,
    frames: FrameStream,
    cameras: Cameras<DeviceMap>,
    masks_missing_cameras: bool,
    images: CudaImages,
    resize: Resize,
    backbone: Box<DeviceEngine>,
    decoder: Box<dyn Decoder<DeviceEngine>>,
    motion: EgoMotion,
    max_gap: Duration,
    postprocess: Postprocess3d,
    in_flight: SingleFrame,
}

impl CudaDetector {
    /// Loads the networks; the frames run on `stream`.
    ///
    /// # Errors
    /// As [`super::open`].
    pub fn load(config: &SurroundConfig, num_cameras: usize, stream: &Stream) -> Result<Self> {
        Self::new(config, num_cameras, stream, family_of(config)?.load_on_gpu(stream)?)
    }

    /// A detector with these networks, whose stream is `stream`.
    ///
    /// # Errors
    /// `Model` when they take another number of cameras; `Device` when there is not enough memory.
    pub fn new(
        config: &SurroundConfig,
        num_cameras: usize,
        stream: &Stream,
        networks: Networks<DeviceEngine>,
    ) -> Result<Self> {
        super::check_cameras(networks.num_cameras, num_cameras)?;
        let Networks { backbone, decoder, input_size, .. } = networks;
        let device = Device::Cuda(stream.device().clone());
        Ok(Self {
            info: info(config, num_cameras, &device, backbone.name(), &STAGES),
            uploads: InPlaceUploads::new(stream)?,
            frames: FrameStream::new(stream, &STREAM_STAGES)?,
            cameras: Cameras::new(config, num_cameras, input_size),
            masks_missing_cameras: config.facts.kind.masks_missing_cameras(),
            images: CudaImages::new(
                stream,
                num_cameras,
                &config.jpeg,
                super::resample_params(config),
            )?,
            resize: config.facts.resize,
            backbone,
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

    /// The kernels of a frame without memory behind the backbone, in order: for tests.
    #[doc(hidden)]
    pub fn decoder_kernels(&self) -> Vec<&'static str> {
        self.decoder.kernels()
    }

    /// Runs a frame up to its candidates.
    fn run(&mut self, frame: &FrameSet<'_>, report: &mut FrameReport) -> Result<()> {
        let pose = world_from_target(frame)?;
        let Self { uploads, frames, cameras, images, backbone, decoder, motion, .. } = self;
        let step = motion.step(frame.stamp, &pose, self.max_gap, report);
        let candidates = &mut self.postprocess.candidates;
        let mut is_decoding = false;
        let ran = uploads.scope(|scope| {
            let mut running = frames.begin(scope, report);
            images.enqueue(frame, cameras, &mut running, backbone.input(0)?)?;
            backbone.enqueue()?;
            running.end_of(Stage::Encode)?;
            is_decoding = true;
            let (backbone, matrices) = (&**backbone, cameras.matrices());
            let of_frame = DecoderFrame { backbone, matrices, stamp: frame.stamp, step };
            decoder.enqueue(&of_frame)?;
            running.end_of(Stage::Infer)?;
            // While the GPU works.
            images.add_times(running.report)?;
            running.add_copies(Stage::Encode, backbone);
            decoder.read(candidates, running.report)?;
            images.add_times(running.report)?;
            running.finish()
        });
        match frames.drain_on_error(ran) {
            Ok(()) => {
                motion.commit(frame.stamp, pose);
                Ok(())
            }
            Err(error) => {
                if is_decoding {
                    // The memory may hold a part of this frame.
                    motion.reset();
                    decoder.reset();
                }
                Err(error)
            }
        }
    }
}

impl Detector for CudaDetector {
    fn info(&self) -> &DetectorInfo {
        &self.info
    }

    fn prepare(&mut self, input: usize, message: &FrameInput<'_>) -> Result<()> {
        let Self { frames, cameras, images, uploads, backbone, resize, .. } = self;
        let stream = frames.stream();
        let camera = cameras.update_view(input, message, |view, before| {
            DeviceMap::replacing(before, stream, &SampleMap::of_view(view, *resize)?)
        })?;
        images.prepare(input, message, camera, uploads, backbone.input(0)?)
    }

    fn num_in_flight(&self) -> usize {
        self.in_flight.len()
    }

    fn submit(&mut self, frame: &FrameSet<'_>, report: &mut FrameReport) -> Result<()> {
        self.in_flight.check_free()?;
        if !self.masks_missing_cameras {
            (0..self.info.inputs.len()).try_for_each(|index| frame.input(index).map(drop))?;
        }
        let (resize, stream) = (self.resize, self.frames.stream().clone());
        self.cameras.update(frame, |view, before| {
            DeviceMap::replacing(before, &stream, &SampleMap::of_view(view, resize)?)
        })?;
        self.run(frame, report)?;
        self.in_flight.mark_submitted(());
        Ok(())
    }

    fn collect<'a>(&'a mut self, report: &mut FrameReport) -> Result<Detections<'a>> {
        self.in_flight.end()?;
        Ok(Detections::Boxes3d(self.postprocess.run(report)?))
    }

    fn reconfigure(&mut self, config: &ChannelConfig) -> Result<()> {
        let config = family(config)?;
        self.decoder.reconfigure(config, &self.backbone)?;
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
        self.backbone.enqueue()?;
        self.decoder.warm_up(&self.backbone, &mut self.postprocess.candidates)?;
        self.motion.reset();
        Ok(())
    }

    fn payload_memory(&self) -> PayloadMemory {
        PayloadMemory::of(&Device::Cuda(self.frames.stream().device().clone()))
    }
}
