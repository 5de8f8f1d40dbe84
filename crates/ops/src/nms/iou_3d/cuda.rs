//! The parameters of the kernels `nms_iou_3d_*`.

use super::check;
use crate::nms::cuda::kernels::NmsSettings;
use crate::nms::cuda::parameters::Parameters;
use det_post_types::{NmsIou3d, Result};

/// # Errors
/// `Argument` as on the CPU, or for an empty list of thresholds.
pub(crate) fn parameters(params: &NmsIou3d) -> Result<Parameters<'_>> {
    check(params)?;
    Parameters::new(&params.class_mode, NmsSettings::default())
        .with_thresholds("nms_iou_3d", &params.iou_thresholds)
}
