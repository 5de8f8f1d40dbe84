//! Surround detection on the CPU.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::cameras::Cameras;
use super::pictures::CpuPictures;
use super::streampetr::{CameraMatrices, StatedPictures, StreamPetr};
use super::views::{ViewHead, picture_size};
use super::{EgoMotion, Step, family, info, world_from_target};
use crate::config::{ChannelConfig, SurroundConfig, SurroundDecoder, SurroundKind};
use crate::detectors::in_flight::SingleFrame;
use crate::detectors::postprocess_3d::Postprocess3d;
use crate::detectors::{Detector, DetectorInfo, FrameInput, FrameSet};
use det_post_infer::Engine;
use det_post_infer::view_decoder::{self, ViewNetwork};
use det_post_ops::decode::streampetr::decode_streampetr;
use det_post_ops::device::Device;
use det_post_ops::image::resample::SampleMap;
use det_post_ops::view::channels_last::MapStatistics;
use det_post_types::{
    Count, Detections, Error, ErrorKind, FrameReport, Resize, Result, Stage, StreamPetrDecode,
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
    cameras: Cameras<SampleMap>,
    pictures: CpuPictures,
    resize: Resize,
    backbone: Box<dyn Engine>,
    /// Whether the backbone takes the pictures of all cameras as one batch of 1.
    has_batch: bool,
    decoder: Decoder,
    motion: EgoMotion,
    max_gap: Duration,
    postprocess: Postprocess3d,
    in_flight: SingleFrame,
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

/// The networks behind the backbone.
pub enum Networks {
    /// Those of a head of kind `streampetr`.
    StreamPetr {
        /// Matrices to position embeddings.
        position: Box<dyn Engine>,
        /// Features, embeddings and memory to boxes.
        head: Box<dyn Engine>,
    },
    /// The decoder of a head of kind `detr3d` or `sparse4d`.
    Views(ViewNetwork),
}

impl CpuDetector {
    /// Loads the networks.
    ///
    /// # Errors
    /// As [`super::open`].
    pub fn load(config: &SurroundConfig, num_cameras: usize) -> Result<Self> {
        let load = |path| det_post_infer::load(path, &config.engine);
        let networks = match (&config.decoder, &config.facts.kind) {
            (SurroundDecoder::Views { weights_path, .. }, SurroundKind::Views(facts)) => {
                Networks::Views(view_decoder::load(weights_path, &facts.decoder)?)
            }
            (SurroundDecoder::StreamPetr { position_embedding_path, head_path }, _) => {
                Networks::StreamPetr {
                    position: load(position_embedding_path)?,
                    head: load(head_path)?,
                }
            }
            (SurroundDecoder::Views { .. }, SurroundKind::StreamPetr) => {
                let message = "head kind streampetr takes no decoder weights";
                return Err(Error::new(ErrorKind::Argument, super::STAGE, message));
            }
        };
        Self::new(config, num_cameras, load(&config.model_path)?, networks)
    }

    /// A detector with these networks.
    ///
    /// # Errors
    /// `Model` when a network does not fit its head or takes another number of cameras.
    pub fn new(
        config: &SurroundConfig,
        num_cameras: usize,
        mut backbone: Box<dyn Engine>,
        networks: Networks,
    ) -> Result<Self> {
        let (decoder, of_network, picture) = match (networks, &config.facts.kind) {
            (Networks::Views(network), SurroundKind::Views(facts)) => {
                let head = ViewHead::new(backbone.as_mut(), &network, facts, config)?;
                let [num_views, ..] = network.map_sizes();
                (Decoder::Views(Box::new(head)), num_views, picture_size(&config.facts)?)
            }
            (Networks::StreamPetr { position, head }, _) => {
                let network = StreamPetr::new(
                    backbone.as_mut(),
                    position,
                    head,
                    config.facts.class_names.len(),
                    StatedPictures::of(&config.facts),
                )?;
                let lengths = network.signature().lengths;
                let decode = config.streampetr_decode(lengths.channels_last);
                let features = network.signature().features;
                let network = Box::new(network);
                let decoder = Decoder::StreamPetr { network, features, decode };
                (decoder, lengths.num_cameras, lengths.picture)
            }
            (Networks::Views(_), SurroundKind::StreamPetr) => {
                let message = "head kind streampetr takes no view decoder";
                return Err(Error::new(ErrorKind::Argument, super::STAGE, message));
            }
        };
        super::check_cameras(of_network, num_cameras)?;
        // StreamPETR's backbones have 5 dimensions; others say so.
        let of_backbone = backbone.inputs().first().and_then(|spec| spec.shape.as_ref());
        let is_streampetr = matches!(decoder, Decoder::StreamPetr { .. });
        let has_batch = of_backbone.map_or(is_streampetr, |shape| shape.len() == 5);
        Ok(Self {
            info: info(config, num_cameras, &Device::Cpu, backbone.name(), &STAGES),
            cameras: Cameras::new(config, num_cameras, picture),
            pictures: CpuPictures::new(num_cameras, picture, super::resample_params(config))?,
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

    /// From the input of the backbone to candidates. Returns the candidates that decoding
    /// dropped beyond `pre_nms_top_k`.
    fn infer(&mut self, frame: &FrameSet<'_>, report: &mut FrameReport) -> Result<usize> {
        let pose = world_from_target(frame)?;
        let Self { backbone, decoder, cameras, motion, postprocess, .. } = self;
        let has_batch = self.has_batch;
        report.time(Stage::Encode, || {
            run_backbone(backbone.as_mut(), self.pictures.input(), has_batch)
        })?;
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
    fn info(&self) -> &DetectorInfo {
        &self.info
    }

    fn prepare(&mut self, input: usize, message: &FrameInput<'_>) -> Result<()> {
        let Self { cameras, pictures, resize, .. } = self;
        let camera =
            cameras.update_view(input, message, |view, _| SampleMap::of_view(view, *resize))?;
        pictures.prepare(input, message, camera)
    }

    fn num_in_flight(&self) -> usize {
        self.in_flight.len()
    }

    fn submit(&mut self, frame: &FrameSet<'_>, report: &mut FrameReport) -> Result<()> {
        self.in_flight.check_free()?;
        if matches!(self.decoder, Decoder::StreamPetr { .. }) {
            (0..self.info.inputs.len()).try_for_each(|index| frame.input(index).map(drop))?;
        }
        let resize = self.resize;
        self.cameras.update(frame, |view, _| SampleMap::of_view(view, resize))?;
        self.pictures.write(frame, &self.cameras, report)?;
        let num_over_top_k = self.infer(frame, report)?;
        report.add_count(Count::CandidatesOverTopK, num_over_top_k);
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
            Decoder::Views(head) => head.reconfigure(config),
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
        run_backbone(self.backbone.as_mut(), self.pictures.input(), self.has_batch)?;
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
        return Err(Error::new(
            ErrorKind::Argument,
            super::STAGE,
            "the pictures must have four dimensions",
        ));
    };
    let shape = [1, n, channels, height, width];
    let shape = if has_batch { &shape[..] } else { &shape[1..] };
    backbone.run(&[TensorView::new(shape, pictures.view().values())?])
}
