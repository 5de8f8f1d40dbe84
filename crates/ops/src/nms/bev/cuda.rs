//! The parameters of the kernels `nms_bev_*`.

use super::check;
use crate::error::Result;
use crate::ops::nms::cuda::kernels::NmsSettings;
use crate::ops::nms::cuda::parameters::Parameters;
use crate::types::NmsBev;

/// # Errors
/// `Argument` as on the CPU, or for an empty list of thresholds.
pub(in crate::ops) fn parameters(params: &NmsBev) -> Result<Parameters<'_>> {
    check(params)?;
    let settings = NmsSettings {
        squared_search_distance: params.search_distance_m * params.search_distance_m,
        ..NmsSettings::default()
    };
    let parameters = Parameters::new(&params.class_mode, settings)
        .with_thresholds("nms_bev", &params.iou_thresholds)?;
    Ok(Parameters { forbidden: &params.forbidden_pairs, ..parameters })
}
