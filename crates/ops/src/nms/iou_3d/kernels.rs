//! The parameters of the kernels `nms_iou_3d_*`.

use super::check;
use crate::nms::cuda::kernels::{Family, Geometry, names};
use crate::nms::cuda::parameters::Parameters;
use crate::nms::kernels::NmsSettings;
use det_post_types::{Box3d, NmsIou3d, Result};

// SAFETY: kernels/nms/iou_3d.cu has these kernels, for `Candidate3d`, with a solid of 3 vectors.
unsafe impl Family for NmsIou3d {
    type Bbox = Box3d;
    const OP: &'static str = "nms_iou_3d";
    const NAMES: [&'static str; 8] = names!("nms_iou_3d");
    const GEOMETRY: Geometry = Geometry::Solid;

    fn parameters(&self) -> Result<Parameters<'_>> {
        check(self)?;
        Parameters::new(&self.class_mode, NmsSettings::default())
            .with_thresholds(Self::OP, &self.iou_thresholds)
    }
}
