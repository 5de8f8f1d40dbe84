//! Masks of the detections of a frame, on the CPU.

use crate::config::CameraConfig;
use det_post_infer::Outputs;
use det_post_ops::decode::mask::{Coefficients, MaskInputs, MaskMapping, Workspace, mask};
use det_post_types::{
    Count, Detection2d, FrameReport, Letterbox, MaskParams, Masks, Placement, Result, Size,
};

use super::head::YoloHead;

/// The coefficients of a head, and memory for the masks of a frame.
pub(super) struct ImageMasks {
    coefficients: Coefficients,
    params: MaskParams,
    placement: Placement,
    /// By detection, its row of the predictions.
    pub(super) sources: Vec<u32>,
    workspace: Workspace,
}

impl ImageMasks {
    /// Allocates the memory that the configuration bounds; `None` for a head without masks.
    pub(super) fn new(config: &CameraConfig) -> Option<Self> {
        let CameraConfig { facts, max_detections, mask_capacity_bytes, .. } = config;
        let coefficients = Coefficients::of(&facts.layout, facts.class_names.len())?;
        Some(Self {
            coefficients,
            params: facts.masks,
            placement: facts.placement,
            sources: Vec::with_capacity(*max_detections),
            workspace: Workspace::with_capacity(*max_detections, *mask_capacity_bytes),
        })
    }

    /// Computes the masks of detections, whose rows are in `sources`.
    ///
    /// # Errors
    /// `Inference` or `Argument` when an output has another shape than declared.
    pub(super) fn run(
        &mut self,
        outputs: &Outputs<'_>,
        head: &YoloHead,
        placed: &Letterbox,
        detections: &[Detection2d],
        report: &mut FrameReport,
    ) -> Result<()> {
        let [predictions, prototypes] = head.mask_outputs()?;
        let prototypes = outputs(prototypes)?;
        let [_, _, height, width] = prototypes.dims::<4>()?;
        let map = Size::new(width as u32, height as u32);
        let Self { coefficients, params, placement, sources, workspace } = self;
        let inputs = MaskInputs {
            predictions: outputs(predictions)?,
            coefficients: *coefficients,
            prototypes,
            mapping: MaskMapping::new(params, *placement, placed, map)?,
            sources,
            detections,
        };
        let num_over_capacity = mask(&inputs, workspace)?;
        report.add_count(Count::MasksOverCapacity, num_over_capacity);
        report.add_count(Count::MasksInvalid, workspace.num_invalid());
        Ok(())
    }

    /// The masks that were computed last.
    pub(super) fn masks(&self) -> Masks<'_> {
        self.workspace.masks()
    }
}
