//! The parameters of the kernels `nms_iou_3d_*`.

use super::check;
use crate::error::Result;
use crate::ops::nms::cuda::kernels::NmsSettings;
use crate::ops::nms::cuda::parameters::Parameters;
use crate::types::NmsIou3d;

/// # Errors
/// `Argument` as on the CPU, or for an empty list of thresholds.
pub(in crate::ops) fn parameters(params: &NmsIou3d) -> Result<Parameters<'_>> {
    check(params)?;
    Parameters::new(&params.class_mode, NmsSettings::default())
        .with_thresholds("nms_iou_3d", &params.iou_thresholds)
}
