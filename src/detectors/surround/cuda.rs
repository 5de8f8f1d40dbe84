//! Surround detection on a GPU: pictures, backbone and decoder there, the few boxes that
//! pass on the host. A payload in page-locked memory is uploaded in place.

use std::time::Duration;

use super::cameras::Cameras;
use super::pictures::CudaPictures;
use super::postprocess::Postprocess;
use super::streampetr::{CameraMatrices, DeviceStreamPetr};
use super::{EgoMotion, family, needs, target, world_from_target};
use crate::config::{ChannelConfig, SurroundConfig, SurroundDecoder};
use crate::detectors::frame_stream::FrameStream;
use crate::detectors::{Detector, DetectorInfo, FrameInput, FrameSet, InputNeeds, TargetFrame};
use crate::device::cuda::{InPlaceUploads, Stream};
use crate::device::{Device, PayloadMemory};
use crate::error::{Error, ErrorKind, Result};
use crate::infer;
use crate::infer::device::{DeviceEngine, fixed_shape};
use crate::ops::decode_streampetr::decode_streampetr;
use crate::ops::resample::SampleMap;
use crate::ops::resample::cuda::DeviceMap;
use crate::types::{Detections, FrameReport, Resize, Stage, Stamp, StreamPetrDecode, Transfer};

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

/// Finds boxes in space in the pictures of several cameras on a GPU.
pub struct CudaDetector {
    info: DetectorInfo,
    needs: Vec<InputNeeds>,
    target: TargetFrame,
    uploads: InPlaceUploads,
    frames: FrameStream,
    cameras: Cameras<DeviceMap>,
    pictures: CudaPictures,
    resize: Resize,
    backbone: DeviceEngine,
    /// The position of the feature maps among the outputs of the backbone.
    features: usize,
    decoder: Decoder,
    motion: EgoMotion,
    max_gap: Duration,
    postprocess: Postprocess,
}

/// What turns feature maps into boxes, by the kind of the head.
enum Decoder {
    StreamPetr { network: Box<DeviceStreamPetr>, decode: StreamPetrDecode },
}

impl CudaDetector {
    /// Loads the networks; the frames run on `stream`.
    ///
    /// # Errors
    /// As [`super::open`].
    pub fn load(config: &SurroundConfig, num_cameras: usize, stream: &Stream) -> Result<Self> {
        let SurroundDecoder::StreamPetr { position_embedding_path, head_path } = &config.decoder
        else {
            let message = "heads of kind detr3d and sparse4d run on the CPU alone";
            return Err(Error::new(ErrorKind::Argument, super::STAGE, message));
        };
        let load = |path| DeviceEngine::load(path, &config.engine, stream, fixed_shape);
        let backbone = load(&config.model_path)?;
        let network = DeviceStreamPetr::new(
            stream,
            &backbone,
            infer::load(position_embedding_path, &config.engine)?,
            load(head_path)?,
            config.facts.class_names.len(),
            (config.facts.num_cameras, config.facts.input_size),
        )?;
        let lengths = network.signature().lengths;
        super::check_cameras(lengths.num_cameras, num_cameras)?;
        let device = Device::Cuda(stream.device().clone());
        Ok(Self {
            info: DetectorInfo::new(&device, backbone.name(), &STAGES),
            needs: needs(config, num_cameras),
            target: target(config),
            uploads: InPlaceUploads::new(stream)?,
            frames: FrameStream::new(stream, &STREAM_STAGES)?,
            cameras: Cameras::new(config, num_cameras, lengths.picture),
            pictures: CudaPictures::new(stream, num_cameras, super::resample_params(config))?,
            resize: config.facts.resize,
            features: network.signature().features,
            backbone,
            decoder: Decoder::StreamPetr {
                network: Box::new(network),
                decode: config.streampetr_decode(lengths.channels_last),
            },
            motion: EgoMotion::default(),
            max_gap: config.max_gap,
            postprocess: Postprocess::new(config),
        })
    }

    /// Runs a frame up to its candidates.
    fn run(&mut self, frame: &FrameSet<'_>, report: &mut FrameReport) -> Result<()> {
        let pose = world_from_target(frame)?;
        let Self { uploads, frames, cameras, pictures, backbone, decoder, motion, .. } = self;
        let step = motion.step(frame.stamp, &pose, self.max_gap, report);
        let (features, candidates) = (self.features, &mut self.postprocess.candidates);
        let ran = uploads.scope(|scope| {
            let mut running = frames.begin(scope, report);
            pictures.enqueue(frame, cameras, &mut running, backbone.input(0)?)?;
            backbone.enqueue()?;
            running.end_of(Stage::Encode)?;
            match decoder {
                Decoder::StreamPetr { network, decode } => {
                    if cameras.take_changed() || !network.is_embedded() {
                        network.embed(&CameraMatrices {
                            intrinsics: cameras.intrinsics(),
                            target_from_picture: cameras.target_from_picture(),
                        })?;
                    }
                    network.enqueue(backbone.output(features)?, frame.stamp, &step)?;
                    running.end_of(Stage::Infer)?;
                    running.add_copies(Stage::Encode, backbone);
                    running.add_copies(Stage::Infer, network.head());
                    let outputs = network.outputs()?;
                    let num_values = outputs.logits.values().len() + outputs.boxes.values().len();
                    let num_bytes = num_values * size_of::<f32>();
                    running.report.add_bytes(Stage::Infer, Transfer::Download, num_bytes);
                    let decoded = running
                        .report
                        .time(Stage::Decode, || decode_streampetr(&outputs, decode, candidates));
                    decoded?;
                }
            }
            running.finish()
        });
        match frames.settle(ran) {
            Ok(()) => {
                motion.commit(frame.stamp, pose);
                Ok(())
            }
            Err(error) => {
                // The memory may hold a part of this frame.
                motion.reset();
                Err(error)
            }
        }
    }
}

impl Detector for CudaDetector {
    fn inputs(&self) -> &[InputNeeds] {
        &self.needs
    }

    fn target(&self) -> Option<&TargetFrame> {
        Some(&self.target)
    }

    fn info(&self) -> &DetectorInfo {
        &self.info
    }

    fn prepares(&self) -> bool {
        true
    }

    fn prepare(&mut self, input: usize, message: &FrameInput<'_>) -> Result<()> {
        let Self { frames, cameras, pictures, uploads, backbone, resize, .. } = self;
        let stream = frames.stream();
        let camera = cameras.update_view(input, message, |view| {
            DeviceMap::new(stream, &SampleMap::of_view(view, *resize)?)
        })?;
        pictures.prepare(input, message, camera, uploads, backbone.input(0)?)
    }

    fn detect<'a>(
        &'a mut self,
        frame: &FrameSet<'_>,
        report: &mut FrameReport,
    ) -> Result<Detections<'a>> {
        if matches!(self.decoder, Decoder::StreamPetr { .. }) {
            (0..self.needs.len()).try_for_each(|index| frame.input(index).map(drop))?;
        }
        let (resize, stream) = (self.resize, self.frames.stream().clone());
        self.cameras
            .update(frame, |view| DeviceMap::new(&stream, &SampleMap::of_view(view, resize)?))?;
        self.run(frame, report)?;
        Ok(Detections::Boxes3d(self.postprocess.run(report)?))
    }

    fn reconfigure(&mut self, config: &ChannelConfig) -> Result<()> {
        let config = family(config)?;
        match &mut self.decoder {
            Decoder::StreamPetr { decode, .. } => {
                *decode = config.streampetr_decode(decode.channels_last);
            }
        }
        self.max_gap = config.max_gap;
        self.postprocess.reconfigure(config);
        Ok(())
    }

    fn reset(&mut self) -> Result<()> {
        self.motion.reset();
        self.pictures.forget();
        Ok(())
    }

    fn warm_up(&mut self) -> Result<()> {
        self.backbone.enqueue()?;
        let features = self.backbone.output(self.features)?;
        match &mut self.decoder {
            Decoder::StreamPetr { network, .. } => {
                let zeros = vec![0.0; 16 * self.needs.len()];
                let matrices = CameraMatrices { intrinsics: &zeros, target_from_picture: &zeros };
                network.embed(&matrices)?;
                network.enqueue(features, Stamp::default(), &super::Step::First)?;
                network.outputs()?;
                network.invalidate();
            }
        }
        self.motion.reset();
        Ok(())
    }

    fn payload_memory(&self) -> PayloadMemory {
        PayloadMemory::of(&Device::Cuda(self.frames.stream().device().clone()))
    }
}
