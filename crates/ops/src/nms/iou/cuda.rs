//! The parameters of the kernels `nms_iou_*`.

use super::check;
use crate::error::Result;
use crate::ops::nms::cuda::kernels::NmsSettings;
use crate::ops::nms::cuda::parameters::Parameters;
use crate::types::NmsIou;

/// # Errors
/// `Argument` as on the CPU.
pub(in crate::ops) fn parameters(params: &NmsIou) -> Result<Parameters<'_>> {
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
