//! DETR3D and Sparse4D on the CPU.

use std::sync::{Arc, Mutex, PoisonError};

use super::family::{
    ViewFamily, check_outputs, inference_error, input_size, level_sizes, map_shape, model_error,
    motion_of, unseen_views, write_views,
};
use crate::config::SurroundConfig;
use crate::detectors::surround::decoder::{Decoder, DecoderFrame};
use crate::detectors::surround::{STAGE, Step};
use det_post_infer::Engine;
use det_post_infer::view_decoder::{CpuViewDecoder, View, ViewNetwork};
use det_post_ops::decode::query::{Queries, Workspace, decode_query};
use det_post_ops::view::channels_last::{MapSource, MapStatistics, MapValues, channels_last};
use det_post_ops::view::sample::{FeatureLevel, FeatureMaps, Texels};
use det_post_types::{
    Candidates, Count, Error, ErrorKind, FrameReport, MapLayout, Object3d, QueryDecode, Result,
    Stage, TensorValues, ViewPrecision,
};

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
    /// What is added to instead of decoding.
    statistics: Option<Arc<Mutex<MapStatistics>>>,
}

impl ViewHead {
    /// A head for the outputs of a backbone.
    ///
    /// # Errors
    /// `Model` when the backbone has another number of outputs than the head has levels, the head
    /// does not state the size of the images, or the precision is f16.
    pub(super) fn new(
        family: &ViewFamily<'_>,
        backbone: &mut dyn Engine,
        network: &ViewNetwork,
    ) -> Result<Self> {
        let ViewFamily { config, facts, precision, map_scales, .. } = *family;
        let num_outputs = facts.level_strides.len();
        check_outputs(backbone.outputs().len(), facts)?;
        let outputs: Vec<usize> = (0..num_outputs).collect();
        backbone.use_outputs(&outputs)?;
        let [num_views, _, num_channels] = network.map_sizes();
        let input_size = input_size(&config.facts)?;
        if precision == ViewPrecision::F16 {
            return model_error("decoder.precision f16 requires a GPU".into());
        }
        let level = |(index, [width, height]): (usize, [usize; 2])| {
            let len = num_views * num_channels * width * height;
            let texels = match map_scales.and_then(|scales| scales.get(index)) {
                Some(&scale) => Texels::I8 { values: vec![0; len], scale },
                None => Texels::F32(vec![0.0; len]),
            };
            FeatureLevel::new([width, height], texels)
        };
        let levels = level_sizes(input_size, facts).into_iter().enumerate().map(level).collect();
        let maps = FeatureMaps::new(num_views, num_channels, levels)?;
        Ok(Self {
            decoder: CpuViewDecoder::new(network),
            maps,
            layout: facts.layout,
            num_outputs,
            params: config.query_decode(),
            workspace: Workspace::new(config.pre_nms_top_k),
            views: unseen_views(num_views, input_size),
            statistics: None,
        })
    }

    /// Decodes the outputs of the backbone into queries, or measures them.
    fn run(&mut self, backbone: &dyn Engine, step: &Step) -> Result<()> {
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
}

impl Decoder<dyn Engine> for ViewHead {
    fn enqueue(&mut self, frame: &DecoderFrame<'_, dyn Engine>) -> Result<()> {
        write_views(&mut self.views, frame.matrices.image_from_target());
        self.run(frame.backbone, &frame.step)
    }

    fn read(
        &mut self,
        candidates: &mut Candidates<Object3d>,
        report: &mut FrameReport,
    ) -> Result<()> {
        if self.statistics.is_some() {
            candidates.clear();
            return Ok(());
        }
        report.time(Stage::Decode, || {
            let decoded = self.decoder.decoded();
            let queries =
                Queries { logits: decoded.logits, boxes: decoded.boxes, quality: decoded.quality };
            decode_query(&queries, &self.params, &mut self.workspace, candidates)
        })?;
        report.add_count(Count::CandidatesOverTopK, self.workspace.num_dropped());
        Ok(())
    }

    fn reconfigure(&mut self, config: &SurroundConfig, _backbone: &dyn Engine) -> Result<()> {
        self.params = config.query_decode();
        self.workspace = Workspace::new(config.pre_nms_top_k);
        Ok(())
    }

    fn reset(&mut self) {
        self.decoder.forget();
    }

    fn warm_up(
        &mut self,
        backbone: &dyn Engine,
        _candidates: &mut Candidates<Object3d>,
    ) -> Result<()> {
        self.run(backbone, &Step::First)?;
        self.decoder.forget();
        Ok(())
    }

    fn measure_maps(&mut self, statistics: Arc<Mutex<MapStatistics>>) -> Result<()> {
        self.statistics = Some(statistics);
        Ok(())
    }
}
