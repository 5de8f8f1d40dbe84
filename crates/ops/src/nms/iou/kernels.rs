//! The parameters of the kernels `nms_iou_*`.

use super::check;
use crate::nms::cuda::kernels::{Family, names};
use crate::nms::cuda::parameters::Parameters;
use crate::nms::kernels::NmsSettings;
use det_post_types::{Box2d, NmsIou, Result};

// SAFETY: kernels/nms/iou.cu has these kernels, for `Candidate2d`, without geometry.
unsafe impl Family for NmsIou {
    type Bbox = Box2d;
    const OP: &'static str = "nms_iou";
    const NAMES: [&'static str; 8] = names!("nms_iou");

    fn parameters(&self) -> Result<Parameters<'_>> {
        check(self)?;
        let settings = NmsSettings {
            iou_threshold: self.iou_threshold,
            score_threshold: self.score_threshold.unwrap_or_default(),
            has_score_threshold: u32::from(self.score_threshold.is_some()),
            offset: f32::from(self.offset),
            ..NmsSettings::default()
        };
        let mut parameters = Parameters::new(&self.class_mode, settings);
        parameters.settings.max_num = u32::try_from(self.max_num).unwrap_or(u32::MAX);
        Ok(parameters)
    }
}
