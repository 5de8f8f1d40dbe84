//! The parameters of the kernels `nms_iou_*`.

use super::check;
use crate::nms::cuda::kernels::NmsSettings;
use crate::nms::cuda::parameters::Parameters;
use det_post_types::{NmsIou, Result};

/// # Errors
/// `Argument` as on the CPU.
pub(crate) fn parameters(params: &NmsIou) -> Result<Parameters<'_>> {
    check(params)?;
    let settings = NmsSettings {
        iou_threshold: params.iou_threshold,
        score_threshold: params.score_threshold.unwrap_or_default(),
        has_score_threshold: u32::from(params.score_threshold.is_some()),
        offset: f32::from(params.offset),
        ..NmsSettings::default()
    };
    let mut parameters = Parameters::new(&params.class_mode, settings);
    parameters.settings.max_num = u32::try_from(params.max_num).unwrap_or(u32::MAX);
    Ok(parameters)
}
