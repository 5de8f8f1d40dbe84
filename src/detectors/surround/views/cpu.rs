//! DETR3D and Sparse4D on the CPU.

use std::sync::{Arc, Mutex, PoisonError};

use nalgebra::Matrix4;

use super::{
    check_outputs, inference_error, level_sizes, map_shape, model_error, motion_of, picture_size,
    unseen_views, write_views,
};
use crate::config::{SurroundConfig, SurroundDecoder, ViewFacts};
use crate::detectors::surround::{STAGE, Step};
use det_post_infer::Engine;
use det_post_infer::view_decoder::{CpuViewDecoder, View, ViewNetwork};
use det_post_ops::decode::query::{Queries, Workspace, decode_query};
use det_post_ops::view::channels_last::{MapSource, MapStatistics, MapValues, channels_last};
use det_post_ops::view::sample::{FeatureLevel, FeatureMaps, Texels};
use det_post_types::{
    Candidates, Error, ErrorKind, MapLayout, Object3d, QueryDecode, Result, TensorValues,
    ViewPrecision,
};

/// A decoder of feature maps with what it reads and writes.
pub(in crate::detectors::surround) struct ViewHead {
    decoder: CpuViewDecoder,
    maps: FeatureMaps,
    layout: MapLayout,
    /// Outputs of the backbone.
    num_outputs: usize,
    params: QueryDecode,
    workspace: Workspace,
    views: Vec<View>,
    /// What is added to instead of decoding.
    statistics: Option<Arc<Mutex<MapStatistics>>>,
}

impl ViewHead {
    /// A head for the outputs of a backbone.
    ///
    /// # Errors
    /// `Model` when the backbone has another number of outputs than the head has levels, or
    /// the head does not state the size of the pictures.
    pub(in crate::detectors::surround) fn new(
        backbone: &mut dyn Engine,
        network: &ViewNetwork,
        facts: &ViewFacts,
        config: &SurroundConfig,
    ) -> Result<Self> {
        let num_outputs = facts.level_strides.len();
        check_outputs(backbone.outputs().len(), facts)?;
        let outputs: Vec<usize> = (0..num_outputs).collect();
        backbone.use_outputs(&outputs)?;
        let [num_views, _, num_channels] = network.map_sizes();
        let picture = picture_size(&config.facts)?;
        let scales = match &config.decoder {
            SurroundDecoder::Views { precision: ViewPrecision::F16, .. } => {
                let message = "decoder.precision f16 requires a GPU";
                return model_error(message.into());
            }
            SurroundDecoder::Views { map_scales: Some(scales), .. } => &scales[..],
            _ => &[],
        };
        let level = |(index, [width, height]): (usize, [usize; 2])| {
            let len = num_views * num_channels * width * height;
            let texels = match scales.get(index) {
                Some(&scale) => Texels::I8 { values: vec![0; len], scale },
                None => Texels::F32(vec![0.0; len]),
            };
            FeatureLevel::new([width, height], texels)
        };
        let levels = level_sizes(picture, facts).into_iter().enumerate().map(level).collect();
        let maps = FeatureMaps::new(num_views, num_channels, levels)?;
        Ok(Self {
            decoder: CpuViewDecoder::new(network),
            maps,
            layout: facts.layout,
            num_outputs,
            params: config.query_decode(),
            workspace: Workspace::new(config.pre_nms_top_k),
            views: unseen_views(num_views, picture),
            statistics: None,
        })
    }

    /// Takes the matrices of the next frame, and which cameras it has.
    pub(in crate::detectors::surround) fn set_views<'a>(
        &mut self,
        matrices: impl Iterator<Item = (&'a Matrix4<f64>, bool)>,
    ) {
        write_views(&mut self.views, matrices);
    }

    /// Measures the maps of the next frames instead of decoding them.
    pub(in crate::detectors::surround) fn measure(
        &mut self,
        statistics: Arc<Mutex<MapStatistics>>,
    ) {
        self.statistics = Some(statistics);
    }

    /// Decodes the outputs of the backbone into the queries of the frame.
    ///
    /// # Errors
    /// `Inference` when an output has another shape than the head states.
    pub(in crate::detectors::surround) fn run(
        &mut self,
        backbone: &dyn Engine,
        step: &Step,
    ) -> Result<()> {
        if let Some(statistics) = &self.statistics {
            let statistics = Arc::clone(statistics);
            self.write_maps(backbone)?;
            let mut statistics = statistics.lock().unwrap_or_else(PoisonError::into_inner);
            statistics.add(&self.maps, |view| self.views[view].is_present);
            return Ok(());
        }
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
            let shape = map_shape(map.shape(), self.layout, [num_views, num_channels])?;
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
    pub(in crate::detectors::surround) fn decode(
        &mut self,
        candidates: &mut Candidates<Object3d>,
    ) -> Result<usize> {
        if self.statistics.is_some() {
            candidates.clear();
            return Ok(0);
        }
        let decoded = self.decoder.decoded();
        let queries =
            Queries { logits: decoded.logits, boxes: decoded.boxes, quality: decoded.quality };
        decode_query(&queries, &self.params, &mut self.workspace, candidates)?;
        Ok(self.workspace.num_dropped())
    }

    /// Takes thresholds and limits of another configuration.
    pub(in crate::detectors::surround) fn reconfigure(&mut self, config: &SurroundConfig) {
        self.params = config.query_decode();
        self.workspace = Workspace::new(config.pre_nms_top_k);
    }

    /// Forgets the frames before.
    pub(in crate::detectors::surround) fn forget(&mut self) {
        self.decoder.forget();
    }
}
