//! Surround detection on a GPU: pictures, backbone and decoder there, the few boxes that
//! pass on the host. A payload in page-locked memory is uploaded in place.

use std::time::Duration;

use super::cameras::Cameras;
use super::pictures::CudaPictures;
use super::streampetr::{CameraMatrices, DeviceStreamPetr, StatedPictures};
use super::views::{DeviceViewHead, picture_size};
use super::{EgoMotion, family, info, world_from_target};
use crate::config::{ChannelConfig, SurroundConfig, SurroundDecoder, SurroundKind};
use crate::detectors::frame_stream::FrameStream;
use crate::detectors::in_flight::SingleFrame;
use crate::detectors::postprocess_3d::Postprocess3d;
use crate::detectors::{Detector, DetectorInfo, FrameInput, FrameSet};
use det_post_infer::device::{DeviceEngine, fixed_shape};
use det_post_infer::view_decoder;
use det_post_infer::view_decoder::ViewNetwork;
use det_post_ops::decode::streampetr::decode_streampetr;
use det_post_ops::device::cuda::{InPlaceUploads, Stream};
use det_post_ops::device::{Device, PayloadMemory};
use det_post_ops::image::resample::SampleMap;
use det_post_ops::image::resample::cuda::DeviceMap;
use det_post_types::{
    Count, Detections, Error, ErrorKind, FrameReport, Resize, Result, Size, Stage, Stamp,
    StreamPetrDecode, TensorSpec, Transfer,
};

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
    uploads: InPlaceUploads,
    frames: FrameStream,
    cameras: Cameras<DeviceMap>,
    pictures: CudaPictures,
    resize: Resize,
    backbone: DeviceEngine,
    decoder: Decoder,
    motion: EgoMotion,
    max_gap: Duration,
    postprocess: Postprocess3d,
    in_flight: SingleFrame,
}

/// What turns feature maps into boxes, by the kind of the head.
enum Decoder {
    StreamPetr {
        network: Box<DeviceStreamPetr>,
        /// The position of the feature maps among the outputs of the backbone.
        features: usize,
        decode: StreamPetrDecode,
    },
    Views(Box<DeviceViewHead>),
}

impl CudaDetector {
    /// Loads the networks; the frames run on `stream`.
    ///
    /// # Errors
    /// As [`super::open`].
    pub fn load(config: &SurroundConfig, num_cameras: usize, stream: &Stream) -> Result<Self> {
        let load = |path| DeviceEngine::load(path, &config.engine, stream, fixed_shape);
        match (&config.decoder, &config.facts.kind) {
            (SurroundDecoder::Views { weights_path, .. }, SurroundKind::Views(facts)) => {
                let network = view_decoder::load(weights_path, &facts.decoder)?;
                let picture = picture_size(&config.facts)?;
                let [num_views, ..] = network.map_sizes();
                let shape_of = |spec: &TensorSpec| Ok(pictures_shape(spec, num_views, picture));
                let backbone =
                    DeviceEngine::load(&config.model_path, &config.engine, stream, shape_of)?;
                Self::with_views(config, num_cameras, stream, backbone, &network)
            }
            (SurroundDecoder::StreamPetr { position_embedding_path, head_path }, _) => {
                let backbone = load(&config.model_path)?;
                let network = DeviceStreamPetr::new(
                    stream,
                    &backbone,
                    det_post_infer::load(position_embedding_path, &config.engine)?,
                    load(head_path)?,
                    config.facts.class_names.len(),
                    StatedPictures::of(&config.facts),
                )?;
                let lengths = network.signature().lengths;
                let decoder = Decoder::StreamPetr {
                    features: network.signature().features,
                    network: Box::new(network),
                    decode: config.streampetr_decode(lengths.channels_last),
                };
                super::check_cameras(lengths.num_cameras, num_cameras)?;
                Self::with_decoder(config, stream, backbone, decoder, num_cameras, lengths.picture)
            }
            (SurroundDecoder::Views { .. }, SurroundKind::StreamPetr) => {
                let message = "head kind streampetr takes no decoder weights";
                Err(Error::new(ErrorKind::Argument, super::STAGE, message))
            }
        }
    }

    /// A detector of kind `detr3d` or `sparse4d` with a loaded backbone, whose stream is `stream`.
    ///
    /// # Errors
    /// As [`super::open`].
    pub fn with_views(
        config: &SurroundConfig,
        num_cameras: usize,
        stream: &Stream,
        backbone: DeviceEngine,
        network: &ViewNetwork,
    ) -> Result<Self> {
        let SurroundKind::Views(facts) = &config.facts.kind else {
            let message = "head kind streampetr takes no view decoder";
            return Err(Error::new(ErrorKind::Argument, super::STAGE, message));
        };
        let [num_views, ..] = network.map_sizes();
        super::check_cameras(num_views, num_cameras)?;
        let head = DeviceViewHead::new(stream, &backbone, network, facts, config)?;
        let (decoder, picture) = (Decoder::Views(Box::new(head)), picture_size(&config.facts)?);
        Self::with_decoder(config, stream, backbone, decoder, num_cameras, picture)
    }

    fn with_decoder(
        config: &SurroundConfig,
        stream: &Stream,
        backbone: DeviceEngine,
        decoder: Decoder,
        num_cameras: usize,
        picture: Size,
    ) -> Result<Self> {
        let device = Device::Cuda(stream.device().clone());
        Ok(Self {
            info: info(config, num_cameras, &device, backbone.name(), &STAGES),
            uploads: InPlaceUploads::new(stream)?,
            frames: FrameStream::new(stream, &STREAM_STAGES)?,
            cameras: Cameras::new(config, num_cameras, picture),
            pictures: CudaPictures::new(
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

    /// Runs a frame up to its candidates.
    fn run(&mut self, frame: &FrameSet<'_>, report: &mut FrameReport) -> Result<()> {
        let pose = world_from_target(frame)?;
        let Self { uploads, frames, cameras, pictures, backbone, decoder, motion, .. } = self;
        let step = motion.step(frame.stamp, &pose, self.max_gap, report);
        let candidates = &mut self.postprocess.candidates;
        let mut is_decoding = false;
        let ran = uploads.scope(|scope| {
            let mut running = frames.begin(scope, report);
            pictures.enqueue(frame, cameras, &mut running, backbone.input(0)?)?;
            backbone.enqueue()?;
            running.end_of(Stage::Encode)?;
            is_decoding = true;
            match decoder {
                Decoder::StreamPetr { network, features, decode } => {
                    if cameras.take_changed() || !network.is_embedded() {
                        network.embed(&CameraMatrices {
                            intrinsics: cameras.intrinsics(),
                            target_from_picture: cameras.target_from_picture(),
                        })?;
                    }
                    network.enqueue(backbone.output(*features)?, frame.stamp, &step)?;
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
                Decoder::Views(head) => {
                    head.set_views(cameras.picture_from_target());
                    head.enqueue(&step)?;
                    running.end_of(Stage::Infer)?;
                    // While the GPU works.
                    pictures.add_times(running.report)?;
                    running.add_copies(Stage::Encode, backbone);
                    // The first wait of the frame, and the last.
                    let num_over_top_k = head.read(candidates)?;
                    let report = &mut *running.report;
                    report.add_bytes(Stage::Infer, Transfer::Download, head.num_read_bytes());
                    report.add_count(Count::CandidatesOverTopK, num_over_top_k);
                }
            }
            pictures.add_times(running.report)?;
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
                    if let Decoder::Views(head) = decoder {
                        head.forget();
                    }
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
        let Self { frames, cameras, pictures, uploads, backbone, resize, .. } = self;
        let stream = frames.stream();
        let camera = cameras.update_view(input, message, |view, before| {
            DeviceMap::replacing(before, stream, &SampleMap::of_view(view, *resize)?)
        })?;
        pictures.prepare(input, message, camera, uploads, backbone.input(0)?)
    }

    fn num_in_flight(&self) -> usize {
        self.in_flight.len()
    }

    fn submit(&mut self, frame: &FrameSet<'_>, report: &mut FrameReport) -> Result<()> {
        self.in_flight.check_free()?;
        if matches!(self.decoder, Decoder::StreamPetr { .. }) {
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
        match &mut self.decoder {
            Decoder::StreamPetr { decode, .. } => {
                *decode = config.streampetr_decode(decode.channels_last);
            }
            Decoder::Views(head) => head.reconfigure(config, &self.backbone)?,
        }
        self.max_gap = config.max_gap;
        self.postprocess.set(config.pre_nms_top_k, &config.nms, config.max_detections);
        Ok(())
    }

    fn reset(&mut self) -> Result<()> {
        self.motion.reset();
        self.pictures.forget();
        if let Decoder::Views(head) = &mut self.decoder {
            head.forget();
        }
        Ok(())
    }

    fn warm_up(&mut self) -> Result<()> {
        self.backbone.enqueue()?;
        match &mut self.decoder {
            Decoder::StreamPetr { network, features, .. } => {
                let features = self.backbone.output(*features)?;
                let zeros = vec![0.0; 16 * self.info.inputs.len()];
                let matrices = CameraMatrices { intrinsics: &zeros, target_from_picture: &zeros };
                network.embed(&matrices)?;
                network.enqueue(features, Stamp::default(), &super::Step::First)?;
                network.outputs()?;
                network.invalidate();
            }
            Decoder::Views(head) => {
                head.enqueue(&super::Step::First)?;
                head.read(&mut self.postprocess.candidates)?;
                head.forget();
            }
        }
        self.motion.reset();
        Ok(())
    }

    fn payload_memory(&self) -> PayloadMemory {
        PayloadMemory::of(&Device::Cuda(self.frames.stream().device().clone()))
    }
}

/// The shape of the backbone's input, with a batch of 1 where it has one.
fn pictures_shape(input: &TensorSpec, num_views: usize, picture: Size) -> Vec<usize> {
    let shape = [1, num_views, 3, picture.height as usize, picture.width as usize];
    let has_batch = input.shape.as_ref().is_some_and(|shape| shape.len() == 5);
    shape[usize::from(!has_batch)..].to_vec()
}
