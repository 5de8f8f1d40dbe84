//! The parameters of the kernels `nms_soft_*`.

use super::check;
use crate::nms::cuda::kernels::{Family, Method, names};
use crate::nms::cuda::parameters::Parameters;
use crate::nms::kernels::NmsSettings;
use det_post_types::{Box2d, NmsSoft, Result, SoftDecay};

// SAFETY: kernels/nms/soft.cu has these kernels, for `Candidate2d`.
unsafe impl Family for NmsSoft {
    type Bbox = Box2d;
    const OP: &'static str = "nms_soft";
    const NAMES: [&'static str; 8] = names!("nms_soft");
    const METHOD: Method = Method::Soft;

    fn parameters(&self) -> Result<Parameters<'_>> {
        check(self)?;
        let (sigma, iou_threshold) = match self.decay {
            SoftDecay::Linear { iou_threshold } => (0.0, iou_threshold),
            SoftDecay::Gaussian { sigma } => (sigma, 0.0),
        };
        let settings = NmsSettings {
            sigma,
            iou_threshold,
            min_score: self.min_score,
            offset: f32::from(self.offset),
            ..NmsSettings::default()
        };
        Ok(Parameters::new(&self.class_mode, settings))
    }
}
