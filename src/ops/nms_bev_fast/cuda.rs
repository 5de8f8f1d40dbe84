//! The parameters of the kernels `nms_bev_fast_*`.

use super::check;
use crate::error::Result;
use crate::ops::nms::cuda::kernels::NmsSettings;
use crate::ops::nms::cuda::parameters::Parameters;
use crate::types::NmsBevFast;

/// # Errors
/// `Argument` as on the CPU, or for an empty list of thresholds.
pub(in crate::ops) fn parameters(params: &NmsBevFast) -> Result<Parameters<'_>> {
    check(params)?;
    let settings = NmsSettings {
        squared_search_distance: params.search_distance_m * params.search_distance_m,
        ..NmsSettings::default()
    };
    let parameters = Parameters::new(&params.class_mode, settings)
        .with_thresholds("nms_bev_fast", &params.iou_thresholds)?;
    let NmsBevFast { forbidden_pairs, unlimited_pairs, .. } = params;
    Ok(Parameters { forbidden: forbidden_pairs, unlimited: unlimited_pairs, ..parameters })
}
