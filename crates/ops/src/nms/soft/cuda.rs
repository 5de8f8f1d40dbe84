//! The parameters of the kernels `nms_soft_*`.

use super::check;
use crate::nms::cuda::kernels::NmsSettings;
use crate::nms::cuda::parameters::Parameters;
use det_post_types::{NmsSoft, Result, SoftDecay};

/// # Errors
/// `Argument` as on the CPU.
pub(crate) fn parameters(params: &NmsSoft) -> Result<Parameters<'_>> {
    check(params)?;
    let (sigma, iou_threshold) = match params.decay {
        SoftDecay::Linear { iou_threshold } => (0.0, iou_threshold),
        SoftDecay::Gaussian { sigma } => (sigma, 0.0),
    };
    let settings = NmsSettings {
        sigma,
        iou_threshold,
        min_score: params.min_score,
        offset: f32::from(params.offset),
        ..NmsSettings::default()
    };
    Ok(Parameters::new(&params.class_mode, settings))
}
