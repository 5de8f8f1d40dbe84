//! StreamPETR as a family of heads.

use std::path::Path;

#[cfg(feature = "cuda")]
use super::DeviceStreamPetr;
#[cfg(feature = "cuda")]
use super::signature::Specs;
use super::signature::{Lengths, Signature, StatedImages};
use super::{CameraMatrices, StreamPetr};
use crate::config::{SurroundConfig, SurroundDecoder};
use crate::detectors::surround::STAGE;
use crate::detectors::surround::decoder::{Decoder, DecoderFrame, Family, Networks, has_batch};
use crate::detectors::surround::matrices::RigMatrices;
#[cfg(feature = "cuda")]
use crate::detectors::{frame_stream::add_copies, surround::Step};
use det_post_infer::Engine;
use det_post_infer::dense::options_of_networks;
#[cfg(feature = "cuda")]
use det_post_infer::device::{DeviceEngine, fixed_shape};
use det_post_ops::decode::streampetr::{StreamPetrOutputs, decode_streampetr};
#[cfg(feature = "cuda")]
use det_post_ops::device::cuda::Stream;
use det_post_types::{
    Candidates, Error, ErrorKind, FrameReport, Object3d, Result, Stage, StreamPetrDecode,
    TensorView,
};
#[cfg(feature = "cuda")]
use det_post_types::{Stamp, Transfer};

/// The files of a head of kind `streampetr`.
pub struct StreamPetrFamily<'a> {
    pub(in crate::detectors::surround) config: &'a SurroundConfig,
    pub(in crate::detectors::surround) position_embedding_path: &'a Path,
    pub(in crate::detectors::surround) head_path: &'a Path,
}

/// The networks behind the backbone, on the CPU or on a GPU.
struct StreamPetrDecoder<N> {
    network: N,
    /// The position of the feature maps among the outputs of the backbone.
    features: usize,
    params: StreamPetrDecode,
    /// The revision of the matrices whose embeddings the network has.
    embedded: Option<u64>,
}

impl<'a> StreamPetrFamily<'a> {
    /// The files that a configuration names.
    ///
    /// # Errors
    /// `Argument` for a head of another family.
    pub fn of(config: &'a SurroundConfig) -> Result<Self> {
        match &config.decoder {
            SurroundDecoder::StreamPetr { position_embedding_path, head_path } => {
                Ok(Self { config, position_embedding_path, head_path })
            }
            SurroundDecoder::Views { .. } => {
                let message = "the decoder has weights; a head of kind streampetr takes none";
                Err(Error::new(ErrorKind::Argument, STAGE, message))
            }
        }
    }

    /// Networks in engines of the CPU.
    ///
    /// # Errors
    /// `Model` when a network does not fit the others.
    pub fn on_cpu(
        &self,
        mut backbone: Box<dyn Engine>,
        position: Box<dyn Engine>,
        head: Box<dyn Engine>,
    ) -> Result<Networks<dyn Engine>> {
        let network = StreamPetr::new(
            backbone.as_mut(),
            position,
            head,
            self.config.facts.class_names.len(),
            StatedImages::of(&self.config.facts),
        )?;
        let Signature { features, lengths, .. } = *network.signature();
        Ok(Networks {
            has_batch: has_batch(backbone.inputs().first(), true),
            backbone,
            decoder: Box::new(self.decoder(network, features, lengths)),
            num_cameras: lengths.num_cameras,
            input_size: lengths.input_size,
        })
    }

    /// Of the backbone, the position embedding and the head.
    fn paths(&self) -> [&Path; 3] {
        [&self.config.model_path, self.position_embedding_path, self.head_path]
    }

    fn decoder<N>(&self, network: N, features: usize, lengths: Lengths) -> StreamPetrDecoder<N> {
        let params = self.config.streampetr_decode(lengths.channels_last);
        StreamPetrDecoder { network, features, params, embedded: None }
    }
}

impl Family for StreamPetrFamily<'_> {
    fn load_on_cpu(&self) -> Result<Networks<dyn Engine>> {
        let paths = self.paths();
        let options = options_of_networks(&self.config.engine, paths)?;
        let load = |at: usize| det_post_infer::load(paths[at], &options[at]);
        let [position, head] = [load(1)?, load(2)?];
        self.on_cpu(load(0)?, position, head)
    }

    #[cfg(feature = "cuda")]
    fn load_on_gpu(&self, stream: &Stream) -> Result<Networks<DeviceEngine>> {
        let config = self.config;
        let paths = self.paths();
        let options = options_of_networks(&config.engine, paths)?;
        let load = |at: usize| DeviceEngine::load(paths[at], &options[at], stream, fixed_shape);
        let backbone = load(0)?;
        let network = DeviceStreamPetr::new(
            stream,
            Specs { inputs: backbone.inputs(), outputs: backbone.outputs() },
            det_post_infer::load(paths[1], &options[1])?,
            load(2)?,
            config.facts.class_names.len(),
            StatedImages::of(&config.facts),
        )?;
        let Signature { features, lengths, .. } = *network.signature();
        Ok(Networks {
            has_batch: has_batch(backbone.inputs().first(), true),
            backbone: Box::new(backbone),
            decoder: Box::new(self.decoder(network, features, lengths)),
            num_cameras: lengths.num_cameras,
            input_size: lengths.input_size,
        })
    }
}

impl<N> StreamPetrDecoder<N> {
    /// Computes the embeddings by `embed`, unless the network has those of the matrices.
    fn embed(
        &mut self,
        matrices: &RigMatrices,
        embed: impl FnOnce(&mut N, &CameraMatrices<'_>) -> Result<()>,
    ) -> Result<()> {
        if self.embedded != Some(matrices.revision()) {
            self.embedded = None;
            let of_network = CameraMatrices {
                intrinsics: matrices.intrinsics(),
                target_from_image: matrices.target_from_image(),
            };
            embed(&mut self.network, &of_network)?;
            self.embedded = Some(matrices.revision());
        }
        Ok(())
    }

    fn set_params(&mut self, config: &SurroundConfig) {
        self.params = config.streampetr_decode(self.params.channels_last);
    }
}

/// Decodes the outputs of the head.
fn decode(
    outputs: &StreamPetrOutputs<TensorView<'_>>,
    params: &StreamPetrDecode,
    candidates: &mut Candidates<Object3d>,
    report: &mut FrameReport,
) -> Result<()> {
    report.time(Stage::Decode, || decode_streampetr(outputs, params, candidates))
}

impl Decoder<dyn Engine> for StreamPetrDecoder<StreamPetr> {
    fn enqueue(&mut self, frame: &DecoderFrame<'_, dyn Engine>) -> Result<()> {
        let features = frame.backbone.output(self.features)?;
        self.embed(frame.matrices, |network, matrices| network.embed(matrices, &features))?;
        self.network.run(&features, frame.stamp, &frame.step).map(drop)
    }

    fn read(
        &mut self,
        candidates: &mut Candidates<Object3d>,
        report: &mut FrameReport,
    ) -> Result<()> {
        decode(&self.network.outputs()?, &self.params, candidates, report)
    }

    fn reconfigure(&mut self, config: &SurroundConfig, _backbone: &dyn Engine) -> Result<()> {
        self.set_params(config);
        Ok(())
    }

    // The network clears its memory at a first step.
    fn reset(&mut self) {}

    fn warm_up(
        &mut self,
        backbone: &dyn Engine,
        _candidates: &mut Candidates<Object3d>,
    ) -> Result<()> {
        self.embedded = None;
        self.network.warm_up(&backbone.output(self.features)?)
    }
}

#[cfg(feature = "cuda")]
impl Decoder<DeviceEngine> for StreamPetrDecoder<DeviceStreamPetr> {
    fn enqueue(&mut self, frame: &DecoderFrame<'_, DeviceEngine>) -> Result<()> {
        self.embed(frame.matrices, DeviceStreamPetr::embed)?;
        self.network.enqueue(frame.backbone.output(self.features)?, frame.stamp, &frame.step)
    }

    fn read(
        &mut self,
        candidates: &mut Candidates<Object3d>,
        report: &mut FrameReport,
    ) -> Result<()> {
        add_copies(report, Stage::Infer, self.network.head());
        let outputs = self.network.outputs()?;
        let num_values = outputs.logits.values().len() + outputs.boxes.values().len();
        report.add_bytes(Stage::Infer, Transfer::Download, num_values * size_of::<f32>());
        decode(&outputs, &self.params, candidates, report)
    }

    fn reconfigure(&mut self, config: &SurroundConfig, _backbone: &DeviceEngine) -> Result<()> {
        self.set_params(config);
        Ok(())
    }

    // The network clears its memory at a first step.
    fn reset(&mut self) {}

    fn warm_up(
        &mut self,
        backbone: &DeviceEngine,
        _candidates: &mut Candidates<Object3d>,
    ) -> Result<()> {
        self.embedded = None;
        let zeros = vec![0.0; 16 * self.network.signature().lengths.num_cameras];
        let matrices = CameraMatrices { intrinsics: &zeros, target_from_image: &zeros };
        self.network.embed(&matrices)?;
        let features = backbone.output(self.features)?;
        self.network.enqueue(features, Stamp::default(), &Step::First)?;
        self.network.outputs().map(drop)
    }
}
