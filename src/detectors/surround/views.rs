//! DETR3D and Sparse4D behind a backbone, on the CPU.
//!
//! The backbone takes the pictures `[N, 3, H, W]` (or `[1, N, 3, H, W]`) and gives one
//! output a level, `[N, C, h, w]` or `[N, h, w, C]` (or with a leading 1), f32 or f16. Its
//! maps are written channels last, the decoder looks into them where its queries project,
//! and its queries become candidates.

use crate::config::{SurroundConfig, SurroundFacts, ViewFacts};
use crate::error::{Error, ErrorKind, Result};
use crate::infer::Engine;
use crate::infer::view_decoder::{CpuViewDecoder, View, ViewNetwork};
use crate::ops::channels_last::{MapSource, MapValues, channels_last};
use crate::ops::decode_query::{Queries, Workspace, decode_query};
use crate::ops::view_sample::{FeatureLevel, FeatureMaps, Texels};
use crate::types::{
    Candidates, MapLayout, Motion, Object3d, QueryDecode, Size, TensorValues, TensorView,
};

use super::{STAGE, Step};

/// A decoder of feature maps with what it reads and writes.
pub(super) struct ViewHead {
    decoder: CpuViewDecoder,
    maps: FeatureMaps,
    layout: MapLayout,
    /// Outputs of the backbone.
    num_outputs: usize,
    params: QueryDecode,
    workspace: Workspace,
    views: Vec<View>,
}

impl ViewHead {
    /// A head for the outputs of a backbone.
    ///
    /// # Errors
    /// `Model` when the backbone has another number of outputs than the head has levels, or
    /// the head does not state the size of the pictures.
    pub(super) fn new(
        backbone: &mut dyn Engine,
        network: &ViewNetwork,
        facts: &ViewFacts,
        config: &SurroundConfig,
    ) -> Result<Self> {
        let num_outputs = facts.level_strides.len();
        if backbone.outputs().len() != num_outputs {
            return model_error(format!(
                "the backbone has {} outputs, the head {num_outputs} level_strides",
                backbone.outputs().len()
            ));
        }
        let outputs: Vec<usize> = (0..num_outputs).collect();
        backbone.use_outputs(&outputs)?;
        let [num_views, _, num_channels] = network.map_sizes();
        let picture = picture_size(&config.facts)?;
        let maps = FeatureMaps::new(
            num_views,
            num_channels,
            level_sizes(picture, facts)
                .into_iter()
                .map(|[width, height]| {
                    let len = num_views * num_channels * width * height;
                    FeatureLevel::new([width, height], Texels::F32(vec![0.0; len]))
                })
                .collect(),
        )?;
        let size = [picture.width, picture.height];
        let view = View { pixels_from_base: [[0.0; 4]; 3], size, is_present: false };
        Ok(Self {
            decoder: CpuViewDecoder::new(network),
            maps,
            layout: facts.layout,
            num_outputs,
            params: config.query_decode(),
            workspace: Workspace::new(config.pre_nms_top_k),
            views: vec![view; num_views],
        })
    }

    /// The views of the next frames, to be written.
    pub(super) fn views_mut(&mut self) -> &mut [View] {
        &mut self.views
    }

    /// Decodes the outputs of the backbone into the queries of the frame.
    ///
    /// # Errors
    /// `Inference` when an output has another shape than the head states.
    pub(super) fn run(&mut self, backbone: &dyn Engine, step: &Step) -> Result<()> {
        let result = self.write_maps(backbone).and_then(|()| {
            self.decoder.set_views(&self.views)?;
            self.decoder.run(&self.maps, motion_of(step).as_ref()).map(|_| ())
        });
        if result.is_err() {
            self.decoder.forget();
        }
        result
    }

    fn write_maps(&mut self, backbone: &dyn Engine) -> Result<()> {
        let num_levels = self.maps.levels().len();
        let (num_views, num_channels) = (self.maps.num_views(), self.maps.num_channels());
        for index in 0..num_levels {
            // The level after the outputs is made of the last.
            let output = index.min(self.num_outputs - 1);
            let map = backbone.output(output)?;
            let shape = map_shape(&map, self.layout, [num_views, num_channels])?;
            let values = match map.values() {
                TensorValues::F32(values) => MapValues::F32(values),
                TensorValues::F16(values) => MapValues::F16(values),
                other => {
                    return inference_error(format!("output {output} is {}", other.element()));
                }
            };
            let subsampled = index >= self.num_outputs;
            let source = MapSource { shape, layout: self.layout, values, subsampled };
            if let Some(level) = self.maps.level_mut(index) {
                channels_last(&source, level).map_err(|error| {
                    Error::new(ErrorKind::Inference, STAGE, error.message().to_owned())
                })?;
            }
        }
        Ok(())
    }

    /// Replaces the candidates by those of the last frame. Returns the pairs of a query and
    /// a class that were above their thresholds and beyond the limit.
    ///
    /// # Errors
    /// `Argument` when thresholds are not of as many classes.
    pub(super) fn decode(&mut self, candidates: &mut Candidates<Object3d>) -> Result<usize> {
        let decoded = self.decoder.decoded();
        let queries =
            Queries { logits: decoded.logits, boxes: decoded.boxes, quality: decoded.quality };
        decode_query(&queries, &self.params, &mut self.workspace, candidates)?;
        Ok(self.workspace.num_dropped())
    }

    /// Takes thresholds and limits of another configuration.
    pub(super) fn reconfigure(&mut self, config: &SurroundConfig) {
        self.params = config.query_decode();
        self.workspace = Workspace::new(config.pre_nms_top_k);
    }

    /// Forgets the frames before.
    pub(super) fn forget(&mut self) {
        self.decoder.forget();
    }
}

/// The size of the pictures that the head states.
///
/// # Errors
/// `Model` when it does not.
pub(super) fn picture_size(facts: &SurroundFacts) -> Result<Size> {
    facts.input_size.map_or_else(|| model_error("the head states no input_size".into()), Ok)
}

/// Width and height of every level, those that are begun counted whole.
fn level_sizes(picture: Size, facts: &ViewFacts) -> Vec<[usize; 2]> {
    let of_stride =
        |&stride: &u32| [picture.width, picture.height].map(|n| n.div_ceil(stride) as usize);
    let mut sizes: Vec<[usize; 2]> = facts.level_strides.iter().map(of_stride).collect();
    if let Some(last) = sizes.last().copied().filter(|_| facts.extra_level) {
        sizes.push(last.map(|n| n.div_ceil(2)));
    }
    sizes
}

/// Views, channels, rows and columns of a map.
fn map_shape(
    map: &TensorView<'_>,
    layout: MapLayout,
    [num_views, num_channels]: [usize; 2],
) -> Result<[usize; 4]> {
    let shape = match map.shape() {
        [1, shape @ ..] if shape.len() == 4 => shape,
        shape => shape,
    };
    let shape = match (shape, layout) {
        (&[n, c, h, w], MapLayout::Planar) | (&[n, h, w, c], MapLayout::ChannelsLast) => {
            [n, c, h, w]
        }
        _ => [0; 4],
    };
    if shape[..2] == [num_views, num_channels] {
        return Ok(shape);
    }
    inference_error(format!(
        "an output of the backbone is {:?}; {num_views} cameras and {num_channels} channels in \
         {layout:?} order expected",
        map.shape()
    ))
}

fn motion_of(step: &Step) -> Option<Motion> {
    let Step::Next { current_from_previous, elapsed } = step else { return None };
    let matrix = current_from_previous.to_homogeneous();
    let row = |row| std::array::from_fn(|column| matrix[(row, column)] as f32);
    Some(Motion { interval_s: elapsed.as_secs_f32(), current_from_past: [row(0), row(1), row(2)] })
}

fn model_error<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Model, STAGE, message))
}

fn inference_error<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Inference, STAGE, message))
}
