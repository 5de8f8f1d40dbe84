//! The parameters of the kernels `nms_rotated_*`.

use super::check;
use crate::error::Result;
use crate::ops::nms::cuda::kernels::NmsSettings;
use crate::ops::nms::cuda::parameters::Parameters;
use crate::types::NmsRotated;

/// # Errors
/// `Argument` as on the CPU.
pub(in crate::ops) fn parameters(params: &NmsRotated) -> Result<Parameters<'_>> {
    check(params)?;
    let settings = NmsSettings { iou_threshold: params.iou_threshold, ..NmsSettings::default() };
    Ok(Parameters::new(&params.class_mode, settings))
}
