//! Surround detection on the CPU.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::cameras::{Cameras, named};
use super::postprocess::Postprocess;
use super::streampetr::{CameraMatrices, StreamPetr};
use super::views::{ViewHead, picture_size};
use super::{EgoMotion, Step, family, needs, target, world_from_target};
use crate::config::{ChannelConfig, SurroundConfig, SurroundDecoder, SurroundKind};
use crate::detectors::{Detector, DetectorInfo, FrameSet, InputNeeds, TargetFrame};
use crate::device::Device;
use crate::error::{Error, ErrorKind, Result};
use crate::infer::{self, Engine, view_decoder};
use crate::ops::channels_last::MapStatistics;
use crate::ops::decode_streampetr::decode_streampetr;
use crate::ops::decompress::{Picture, decompress};
use crate::ops::resample::{self, ResampleParams, SampleMap, resample};
use crate::types::{
    Count, Detections, ElementType, FrameReport, ImagePayload, Resize, Stage, StreamPetrDecode,
    Tensor, TensorView,
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

/// Finds boxes in space in the pictures of several cameras on the CPU.
pub struct CpuDetector {
    info: DetectorInfo,
    needs: Vec<InputNeeds>,
    target: TargetFrame,
    cameras: Cameras<SampleMap>,
    /// Memory for decompressed images.
    picture: Picture,
    params: ResampleParams,
    resize: Resize,
    resampling: resample::Workspace,
    /// The pictures of all cameras, [N, 3, H, W].
    input: Tensor,
    backbone: Box<dyn Engine>,
    /// Whether the backbone takes the pictures of all cameras as one batch of 1.
    has_batch: bool,
    decoder: Decoder,
    motion: EgoMotion,
    max_gap: Duration,
    postprocess: Postprocess,
}

/// What turns feature maps into boxes, by the kind of the head.
enum Decoder {
    StreamPetr {
        network: Box<StreamPetr>,
        /// The position of the feature maps among the outputs of the backbone.
        features: usize,
        decode: StreamPetrDecode,
    },
    Views(Box<ViewHead>),
}

impl CpuDetector {
    /// Loads the networks.
    ///
    /// # Errors
    /// As [`super::open`].
    pub fn load(config: &SurroundConfig, num_cameras: usize) -> Result<Self> {
        let load = |path| infer::load(path, &config.engine);
        let mut backbone = load(&config.model_path)?;
        let (decoder, of_network, picture) = match (&config.decoder, &config.facts.kind) {
            (SurroundDecoder::Views { weights_path, .. }, SurroundKind::Views(facts)) => {
                let network = view_decoder::load(weights_path, &facts.decoder)?;
                let head = ViewHead::new(backbone.as_mut(), &network, facts, config)?;
                let [num_views, ..] = network.map_sizes();
                (Decoder::Views(Box::new(head)), num_views, picture_size(&config.facts)?)
            }
            (SurroundDecoder::StreamPetr { position_embedding_path, head_path }, _) => {
                let network = StreamPetr::new(
                    backbone.as_mut(),
                    load(position_embedding_path)?,
                    load(head_path)?,
                    config.facts.class_names.len(),
                    (config.facts.num_cameras, config.facts.input_size),
                )?;
                let lengths = network.signature().lengths;
                let decode = config.streampetr_decode(lengths.channels_last);
                let features = network.signature().features;
                let network = Box::new(network);
                let decoder = Decoder::StreamPetr { network, features, decode };
                (decoder, lengths.num_cameras, lengths.picture)
            }
            (SurroundDecoder::Views { .. }, SurroundKind::StreamPetr) => {
                let message = "weights of a decoder for a head of kind streampetr";
                return Err(Error::new(ErrorKind::Argument, super::STAGE, message));
            }
        };
        super::check_cameras(of_network, num_cameras)?;
        let [height, width] = [picture.height, picture.width].map(|n| n as usize);
        // StreamPETR's backbones have 5 dimensions; others say so.
        let of_backbone = backbone.inputs().first().and_then(|spec| spec.shape.as_ref());
        let is_streampetr = matches!(decoder, Decoder::StreamPetr { .. });
        let has_batch = of_backbone.map_or(is_streampetr, |shape| shape.len() == 5);
        Ok(Self {
            info: DetectorInfo::new(&Device::Cpu, backbone.name(), &STAGES),
            needs: needs(config, num_cameras),
            target: target(config),
            cameras: Cameras::new(config, num_cameras, picture),
            picture: Picture::new(),
            params: super::resample_params(config),
            resize: config.facts.resize,
            resampling: resample::Workspace::new(),
            input: Tensor::zeros(ElementType::F32, &[num_cameras, 3, height, width])?,
            backbone,
            has_batch,
            decoder,
            motion: EgoMotion::default(),
            max_gap: config.max_gap,
            postprocess: Postprocess::new(config),
        })
    }

    /// Measures the feature maps of the next frames instead of decoding them: frames then have
    /// no detections.
    ///
    /// # Errors
    /// `Argument` for a head of kind `streampetr`.
    pub fn measure_maps(&mut self, statistics: Arc<Mutex<MapStatistics>>) -> Result<()> {
        match &mut self.decoder {
            Decoder::Views(head) => head.measure(statistics),
            Decoder::StreamPetr { .. } => {
                let message = "a head of kind streampetr has no maps of several levels";
                return Err(Error::new(ErrorKind::Argument, super::STAGE, message));
            }
        }
        Ok(())
    }

    /// Writes the pictures of all cameras into the input of the backbone.
    fn prepare(&mut self, frame: &FrameSet<'_>, report: &mut FrameReport) -> Result<()> {
        let Self { cameras, picture, params, resampling, input, .. } = self;
        for (index, camera) in cameras.iter().enumerate() {
            // Of a missing camera the old picture stays, which the decoder does not read.
            if matches!(frame.inputs.get(index), Some(None)) {
                continue;
            }
            let of_frame = frame.input(index)?;
            let of_camera = |error: Error| named(index, of_frame, &error);
            let image = match frame.image(index)? {
                ImagePayload::Raw(image) => image,
                ImagePayload::Compressed(file) => {
                    report
                        .time(Stage::Decompress, || decompress(&file, picture))
                        .map_err(of_camera)?;
                    picture.view()?
                }
            };
            let camera = camera.ok_or_else(|| {
                of_camera(Error::new(ErrorKind::Uncalibrated, super::STAGE, "has no view"))
            })?;
            report
                .time(Stage::Letterbox, || {
                    resample(&image, &camera.map, params, resampling, index, input)
                })
                .map_err(of_camera)?;
        }
        Ok(())
    }

    /// From the input of the backbone to candidates. Returns the candidates that decoding
    /// dropped beyond `pre_nms_top_k`.
    fn infer(&mut self, frame: &FrameSet<'_>, report: &mut FrameReport) -> Result<usize> {
        let pose = world_from_target(frame)?;
        let Self { backbone, decoder, cameras, motion, postprocess, .. } = self;
        let has_batch = self.has_batch;
        report.time(Stage::Encode, || run_backbone(backbone.as_mut(), &self.input, has_batch))?;
        let step = motion.step(frame.stamp, &pose, self.max_gap, report);
        match decoder {
            Decoder::StreamPetr { network, features, decode } => {
                let features = backbone.output(*features)?;
                let outputs = report.time(Stage::Infer, || {
                    if cameras.take_changed() || !network.is_embedded() {
                        let matrices = CameraMatrices {
                            intrinsics: cameras.intrinsics(),
                            target_from_picture: cameras.target_from_picture(),
                        };
                        network.embed(&matrices, &features)?;
                    }
                    network.run(&features, frame.stamp, &step)
                })?;
                motion.commit(frame.stamp, pose);
                report.time(Stage::Decode, || {
                    decode_streampetr(&outputs, decode, &mut postprocess.candidates)
                })?;
                Ok(0)
            }
            Decoder::Views(head) => {
                head.set_views(cameras.picture_from_target());
                report.time(Stage::Infer, || head.run(backbone.as_ref(), &step))?;
                motion.commit(frame.stamp, pose);
                report.time(Stage::Decode, || head.decode(&mut postprocess.candidates))
            }
        }
    }
}

impl Detector for CpuDetector {
    fn inputs(&self) -> &[InputNeeds] {
        &self.needs
    }

    fn target(&self) -> Option<&TargetFrame> {
        Some(&self.target)
    }

    fn info(&self) -> &DetectorInfo {
        &self.info
    }

    fn detect<'a>(
        &'a mut self,
        frame: &FrameSet<'_>,
        report: &mut FrameReport,
    ) -> Result<Detections<'a>> {
        if matches!(self.decoder, Decoder::StreamPetr { .. }) {
            (0..self.needs.len()).try_for_each(|index| frame.input(index).map(drop))?;
        }
        let resize = self.resize;
        self.cameras.update(frame, |view| SampleMap::of_view(view, resize))?;
        self.prepare(frame, report)?;
        let num_over_top_k = self.infer(frame, report)?;
        report.add_count(Count::CandidatesOverTopK, num_over_top_k);
        Ok(Detections::Boxes3d(self.postprocess.run(report)?))
    }

    fn reconfigure(&mut self, config: &ChannelConfig) -> Result<()> {
        let config = family(config)?;
        match &mut self.decoder {
            Decoder::StreamPetr { decode, .. } => {
                *decode = config.streampetr_decode(decode.channels_last);
            }
            Decoder::Views(head) => head.reconfigure(config),
        }
        self.max_gap = config.max_gap;
        self.postprocess.reconfigure(config);
        Ok(())
    }

    fn reset(&mut self) -> Result<()> {
        self.motion.reset();
        if let Decoder::Views(head) = &mut self.decoder {
            head.forget();
        }
        Ok(())
    }

    fn warm_up(&mut self) -> Result<()> {
        run_backbone(self.backbone.as_mut(), &self.input, self.has_batch)?;
        match &mut self.decoder {
            Decoder::StreamPetr { network, features, .. } => {
                network.warm_up(&self.backbone.output(*features)?)
            }
            Decoder::Views(head) => {
                head.run(self.backbone.as_ref(), &Step::First)?;
                head.forget();
                Ok(())
            }
        }
    }
}

/// Runs the backbone on the pictures, [N, 3, H, W] or, as one batch, [1, N, 3, H, W].
fn run_backbone(backbone: &mut dyn Engine, pictures: &Tensor, has_batch: bool) -> Result<()> {
    let &[n, channels, height, width] = pictures.shape() else {
        return Err(Error::new(ErrorKind::Argument, super::STAGE, "pictures of another shape"));
    };
    let shape = [1, n, channels, height, width];
    let shape = if has_batch { &shape[..] } else { &shape[1..] };
    backbone.run(&[TensorView::new(shape, pictures.view().values())?])
}
