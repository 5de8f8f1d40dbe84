//! The parameters of the kernels `nms_rotated_*`.

use super::check;
use crate::nms::cuda::kernels::{Family, Geometry, names};
use crate::nms::cuda::parameters::Parameters;
use crate::nms::kernels::NmsSettings;
use det_post_types::{NmsRotated, Result, RotatedBox2d};

// SAFETY: kernels/nms/rotated.cu has these kernels, for `CandidateRotated`, with a rectangle of 2 vectors.
unsafe impl Family for NmsRotated {
    type Bbox = RotatedBox2d;
    const OP: &'static str = "nms_rotated";
    const NAMES: [&'static str; 8] = names!("nms_rotated");
    const GEOMETRY: Geometry = Geometry::Rectangle;

    fn parameters(&self) -> Result<Parameters<'_>> {
        check(self)?;
        let settings = NmsSettings { iou_threshold: self.iou_threshold, ..NmsSettings::default() };
        Ok(Parameters::new(&self.class_mode, settings))
    }
}
