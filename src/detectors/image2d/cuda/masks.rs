//! Masks of the detections of a frame, on a GPU.

use crate::config::CameraConfig;
use det_post_ops::decode::gather::cuda::GatheredRows;
use det_post_ops::decode::mask::MaskMapping;
use det_post_ops::decode::mask::cuda::{MaskTotals, Outputs, ReadMasks, Workspace};
use det_post_ops::device::cuda::Stream;
use det_post_types::{
    Box2d, Count, FrameReport, Letterbox, MaskParams, MaskWindow, Placement, Result, Size, Stage,
    Transfer,
};

/// Kernels and memory of the masks of a frame.
pub(super) struct DeviceMasks {
    workspace: Workspace,
    params: MaskParams,
    placement: Placement,
    /// The shape of the prototypes.
    prototypes: Vec<usize>,
}

impl DeviceMasks {
    /// Loads the kernels and allocates the memory that the configuration bounds.
    pub(super) fn new(
        config: &CameraConfig,
        stream: &Stream,
        tensors: &Outputs<'_>,
    ) -> Result<Self> {
        let CameraConfig { facts, max_detections, mask_capacity_bytes, .. } = config;
        Ok(Self {
            workspace: Workspace::new(stream, *max_detections, *mask_capacity_bytes)?,
            params: facts.masks,
            placement: facts.placement,
            prototypes: tensors.prototypes.shape().to_vec(),
        })
    }

    /// Queues the masks of the detections that were gathered.
    pub(super) fn enqueue(
        &mut self,
        tensors: &Outputs<'_>,
        rows: &GatheredRows<Box2d>,
    ) -> Result<()> {
        self.workspace.enqueue(tensors, rows)
    }

    /// Writes the place of the source image on the prototypes to the device and waits.
    pub(super) fn set(&mut self, placed: &Letterbox) -> Result<()> {
        let map = match self.prototypes[..] {
            [_, _, height, width] => Size::new(width as u32, height as u32),
            _ => Size::new(0, 0),
        };
        let mapping = MaskMapping::new(&self.params, self.placement, placed, map)?;
        self.workspace.set(&mapping, &self.prototypes)
    }

    /// Reads the masks of a frame for which the caller has waited.
    pub(super) fn read(&self, masks: &mut ReadMasks, report: &mut FrameReport) {
        let MaskTotals { num_masks, num_over_capacity, num_words, .. } =
            self.workspace.read_complete(masks);
        report.add_count(Count::MasksOverCapacity, num_over_capacity as usize);
        report.add_count(Count::MasksInvalid, masks.num_invalid());
        let num_read = size_of::<MaskTotals>()
            + num_masks as usize * (size_of::<MaskWindow>() + size_of::<u32>())
            + num_words as usize * size_of::<u32>();
        report.add_bytes(Stage::Postprocess, Transfer::Download, num_read);
    }
}
