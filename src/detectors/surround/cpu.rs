//! Surround detection on the CPU.

use std::time::Duration;

use super::cameras::{Cameras, named};
use super::postprocess::Postprocess;
use super::streampetr::{CameraMatrices, StreamPetr};
use super::{EgoMotion, family, needs, target, world_from_target};
use crate::config::{ChannelConfig, SurroundConfig, SurroundDecoder};
use crate::detectors::{Detector, DetectorInfo, FrameSet, InputNeeds, TargetFrame};
use crate::device::Device;
use crate::error::{Error, ErrorKind, Result};
use crate::infer::{self, Engine};
use crate::ops::decode_streampetr::decode_streampetr;
use crate::ops::decompress::{Picture, decompress};
use crate::ops::resample::{self, ResampleParams, SampleMap, resample};
use crate::types::{
    Detections, ElementType, FrameReport, ImagePayload, Resize, Stage, StreamPetrDecode, Tensor,
    TensorView,
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
    /// The position of the feature maps among the outputs of the backbone.
    features: usize,
    decoder: Decoder,
    motion: EgoMotion,
    max_gap: Duration,
    postprocess: Postprocess,
}

/// What turns feature maps into boxes, by the kind of the head.
enum Decoder {
    StreamPetr { network: StreamPetr, decode: StreamPetrDecode },
}

impl CpuDetector {
    /// Loads the networks.
    ///
    /// # Errors
    /// As [`super::open`].
    pub fn load(config: &SurroundConfig, num_cameras: usize) -> Result<Self> {
        let load = |path| infer::load(path, &config.engine);
        let mut backbone = load(&config.model_path)?;
        let SurroundDecoder::StreamPetr { position_embedding_path, head_path } = &config.decoder;
        let network = StreamPetr::new(
            backbone.as_mut(),
            load(position_embedding_path)?,
            load(head_path)?,
            config.facts.class_names.len(),
            (config.facts.num_cameras, config.facts.input_size),
        )?;
        let lengths = network.signature().lengths;
        super::check_cameras(lengths.num_cameras, num_cameras)?;
        let [height, width] = [lengths.picture.height, lengths.picture.width].map(|n| n as usize);
        let decode = config.streampetr_decode(lengths.channels_last);
        Ok(Self {
            info: DetectorInfo::new(&Device::Cpu, backbone.name(), &STAGES),
            needs: needs(config, num_cameras),
            target: target(config),
            cameras: Cameras::new(config, num_cameras, lengths.picture),
            picture: Picture::new(),
            params: super::resample_params(config),
            resize: config.facts.resize,
            resampling: resample::Workspace::new(),
            input: Tensor::zeros(ElementType::F32, &[num_cameras, 3, height, width])?,
            features: network.signature().features,
            backbone,
            decoder: Decoder::StreamPetr { network, decode },
            motion: EgoMotion::default(),
            max_gap: config.max_gap,
            postprocess: Postprocess::new(config),
        })
    }

    /// Writes the pictures of all cameras into the input of the backbone.
    fn prepare(&mut self, frame: &FrameSet<'_>, report: &mut FrameReport) -> Result<()> {
        let Self { cameras, picture, params, resampling, input, .. } = self;
        for (index, camera) in cameras.iter().enumerate() {
            let of_frame = frame.input(index)?;
            let of_camera = |error| named(index, of_frame, error);
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

    /// From the input of the backbone to candidates.
    fn infer(&mut self, frame: &FrameSet<'_>, report: &mut FrameReport) -> Result<()> {
        let pose = world_from_target(frame)?;
        let Self { backbone, decoder, cameras, motion, postprocess, .. } = self;
        report.time(Stage::Encode, || run_backbone(backbone.as_mut(), &self.input))?;
        let features = backbone.output(self.features)?;
        let step = motion.step(frame.stamp, &pose, self.max_gap, report);
        match decoder {
            Decoder::StreamPetr { network, decode } => {
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
                })
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
        let resize = self.resize;
        self.cameras.update(frame, |view| SampleMap::of_view(view, resize))?;
        self.prepare(frame, report)?;
        self.infer(frame, report)?;
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
        Ok(())
    }

    fn warm_up(&mut self) -> Result<()> {
        run_backbone(self.backbone.as_mut(), &self.input)?;
        let features = self.backbone.output(self.features)?;
        match &mut self.decoder {
            Decoder::StreamPetr { network, .. } => network.warm_up(&features),
        }
    }
}

/// Runs the backbone on the pictures, [N, 3, H, W], as one batch.
fn run_backbone(backbone: &mut dyn Engine, pictures: &Tensor) -> Result<()> {
    let &[n, channels, height, width] = pictures.shape() else {
        return Err(Error::new(ErrorKind::Argument, super::STAGE, "pictures of another shape"));
    };
    let shape = [1, n, channels, height, width];
    backbone.run(&[TensorView::new(&shape, pictures.view().values())?])
}
