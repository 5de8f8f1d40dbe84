//! The parameters of the kernels `nms_fast_*`.

use super::check;
use crate::nms::cuda::kernels::{Family, names};
use crate::nms::cuda::parameters::Parameters;
use crate::nms::kernels::NmsSettings;
use det_post_types::{Box2d, NmsFast, Result};

// SAFETY: kernels/nms/fast.cu has these kernels, for `Candidate2d`, without geometry.
unsafe impl Family for NmsFast {
    type Bbox = Box2d;
    const OP: &'static str = "nms_fast";
    const NAMES: [&'static str; 8] = names!("nms_fast");

    fn parameters(&self) -> Result<Parameters<'_>> {
        check(self)?;
        let settings = NmsSettings { iou_threshold: self.iou_threshold, ..NmsSettings::default() };
        Ok(Parameters::new(&self.class_mode, settings))
    }
}
