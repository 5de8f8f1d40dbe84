//! The parameters of the kernels `nms_fast_*`.

use super::check;
use crate::nms::cuda::kernels::NmsSettings;
use crate::nms::cuda::parameters::Parameters;
use det_post_types::{NmsFast, Result};

/// # Errors
/// `Argument` as on the CPU.
pub(crate) fn parameters(params: &NmsFast) -> Result<Parameters<'_>> {
    check(params)?;
    let settings = NmsSettings { iou_threshold: params.iou_threshold, ..NmsSettings::default() };
    Ok(Parameters::new(&params.class_mode, settings))
}
