//! The parameters of the kernels `nms_bev_*`.

use super::check;
use crate::nms::cuda::kernels::NmsSettings;
use crate::nms::cuda::parameters::Parameters;
use det_post_types::{NmsBev, Result};

/// # Errors
/// `Argument` as on the CPU, or for an empty list of thresholds.
pub(crate) fn parameters(params: &NmsBev) -> Result<Parameters<'_>> {
    check(params)?;
    let settings = NmsSettings {
        squared_search_distance: params.search_distance_m * params.search_distance_m,
        ..NmsSettings::default()
    };
    let parameters = Parameters::new(&params.class_mode, settings)
        .with_thresholds("nms_bev", &params.iou_thresholds)?;
    Ok(Parameters { forbidden: &params.forbidden_pairs, ..parameters })
}
