//! The parameters of the kernels `nms_bev_*`.

use super::check;
use crate::nms::cuda::kernels::{Family, Geometry, names};
use crate::nms::cuda::parameters::Parameters;
use crate::nms::kernels::NmsSettings;
use det_post_types::{Box3d, NmsBev, Result};

// SAFETY: kernels/nms/bev.cu has these kernels, for `Candidate3d`, with a footprint of 2 vectors.
unsafe impl Family for NmsBev {
    type Bbox = Box3d;
    const OP: &'static str = "nms_bev";
    const NAMES: [&'static str; 8] = names!("nms_bev");
    const GEOMETRY: Geometry = Geometry::Footprint;

    fn parameters(&self) -> Result<Parameters<'_>> {
        check(self)?;
        let parameters = Parameters::new(&self.class_mode, NmsSettings::default())
            .with_search_distance(self.search_distance_m)
            .with_thresholds(Self::OP, &self.iou_thresholds)?;
        Ok(Parameters { forbidden: &self.forbidden_pairs, ..parameters })
    }
}
