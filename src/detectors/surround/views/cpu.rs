//! DETR3D and Sparse4D on the CPU.

use std::sync::{Arc, Mutex, PoisonError};

use super::family::{ViewFamily, check_outputs, input_size, motion_of, unseen_views, write_views};
use super::maps::ViewMaps;
use crate::config::SurroundConfig;
use crate::detectors::surround::decoder::{Decoder, DecoderFrame};
use crate::detectors::surround::{STAGE, Step};
use det_post_infer::Engine;
use det_post_infer::view_decoder::{CpuViewDecoder, View, ViewNetwork};
use det_post_ops::decode::query::{Queries, Workspace, decode_query};
use det_post_ops::view::map_statistics::MapStatistics;
use det_post_types::{
    Candidates, Count, Error, ErrorKind, FrameReport, Object3d, QueryDecode, Result, Stage,
};

/// A decoder of feature maps with what it reads and writes.
pub(super) struct ViewHead {
    decoder: CpuViewDecoder,
    maps: ViewMaps,
    params: QueryDecode,
    workspace: Workspace,
    views: Vec<View>,
    /// What is added to instead of decoding.
    statistics: Option<Arc<Mutex<MapStatistics>>>,
    is_int8: bool,
}

impl ViewHead {
    /// A head for the outputs of a backbone, whose file states the scales of int8 ones.
    ///
    /// # Errors
    /// `Model` when the backbone has another number of outputs than the head has levels, an int8 one has
    /// no scale, the head does not state the size of the images, or the precision is f16.
    pub(super) fn new(
        family: &ViewFamily<'_>,
        backbone: &mut dyn Engine,
        network: &ViewNetwork,
        stated: &[Option<f32>],
    ) -> Result<Self> {
        let ViewFamily { config, facts, .. } = *family;
        check_outputs(backbone.outputs().len(), facts)?;
        let outputs: Vec<usize> = (0..facts.level_strides.len()).collect();
        backbone.use_outputs(&outputs)?;
        let [num_views, ..] = network.map_sizes();
        Ok(Self {
            decoder: CpuViewDecoder::new(network),
            maps: ViewMaps::new(family, network, family.level_scales(backbone.outputs(), stated)?)?,
            params: config.query_decode(),
            workspace: Workspace::new(config.pre_nms_top_k),
            views: unseen_views(num_views, input_size(&config.facts)?),
            statistics: None,
            is_int8: family.are_int8(backbone.outputs())?,
        })
    }

    /// Decodes the outputs of the backbone into queries, or measures them.
    fn run(&mut self, backbone: &dyn Engine, step: &Step) -> Result<()> {
        if let Some(statistics) = &self.statistics {
            let statistics = Arc::clone(statistics);
            let maps = self.maps.read(|index| backbone.output(index))?;
            let mut statistics = statistics.lock().unwrap_or_else(PoisonError::into_inner);
            statistics.add(maps, |view| self.views[view].is_present);
            return Ok(());
        }
        let result = self.maps.read(|index| backbone.output(index)).and_then(|maps| {
            self.decoder.set_views(&self.views)?;
            self.decoder.run(maps, motion_of(step).as_ref()).map(|_| ())
        });
        if result.is_err() {
            self.decoder.forget();
        }
        result
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
        if self.is_int8 {
            let message = "the backbone's maps are int8 already: there are no scales to find";
            return Err(Error::new(ErrorKind::Argument, STAGE, message));
        }
        self.statistics = Some(statistics);
        Ok(())
    }
}
