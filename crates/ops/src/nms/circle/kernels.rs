//! The parameters of the kernels `nms_circle_*`.

use super::{check, longest_radius};
use crate::nms::cuda::kernels::{Family, names};
use crate::nms::cuda::parameters::Parameters;
use crate::nms::kernels::NmsSettings;
use det_post_types::{Box3d, CircleThreshold, NmsCircle, Result};

// SAFETY: kernels/nms/circle.cu has these kernels, for `Candidate3d`, without geometry.
unsafe impl Family for NmsCircle {
    type Bbox = Box3d;
    const OP: &'static str = "nms_circle";
    const NAMES: [&'static str; 8] = names!("nms_circle");

    fn parameters(&self) -> Result<Parameters<'_>> {
        check(self)?;
        let reading = match self.reading {
            CircleThreshold::Radius => 0,
            CircleThreshold::SquaredDistance => 1,
        };
        // A square that rounds to the threshold can belong to a distance that is a
        // little longer, or, where squares vanish, to one that is not 0.
        let reach = longest_radius(self) * 1.0001 + 1e-18;
        let settings = NmsSettings { reach, reading, ..NmsSettings::default() };
        Parameters::new(&self.class_mode, settings).with_thresholds(Self::OP, &self.thresholds)
    }
}
