//! The parameters of the kernels `nms_circle_*`.

use super::{check, longest_radius};
use crate::nms::cuda::kernels::NmsSettings;
use crate::nms::cuda::parameters::Parameters;
use det_post_types::{CircleThreshold, NmsCircle, Result};

/// # Errors
/// `Argument` as on the CPU, or for an empty list of thresholds.
pub(crate) fn parameters(params: &NmsCircle) -> Result<Parameters<'_>> {
    check(params)?;
    let reading = match params.reading {
        CircleThreshold::Radius => 0,
        CircleThreshold::SquaredDistance => 1,
    };
    // A square that rounds to the threshold can belong to a distance that is a
    // little longer, or, where squares vanish, to one that is not 0.
    let reach = longest_radius(params) * 1.0001 + 1e-18;
    let settings = NmsSettings { reach, reading, ..NmsSettings::default() };
    Parameters::new(&params.class_mode, settings).with_thresholds("nms_circle", &params.thresholds)
}
