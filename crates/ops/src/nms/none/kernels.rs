//! The kernels `nms_none_*`.

use std::marker::PhantomData;

use crate::nms::cuda::kernels::{Family, Method, names};
use crate::nms::cuda::parameters::Parameters;
use crate::nms::kernels::NmsSettings;
use det_post_types::{Box2d, Box3d, ClassMode, Result, RotatedBox2d};

/// No suppression of candidates with boxes `B`.
pub(in crate::nms) struct KeepAll<B>(pub PhantomData<B>);

macro_rules! keep_all {
    ($($bbox:ty: $name:literal;)*) => {$(
        // SAFETY: kernels/nms/none.cu has a kernel of this name, for candidates with these boxes.
        unsafe impl Family for KeepAll<$bbox> {
            type Bbox = $bbox;
            const OP: &'static str = "nms_none";
            const NAMES: [&'static str; 8] = names!($name);
            const METHOD: Method = Method::None;

            fn parameters(&self) -> Result<Parameters<'_>> {
                Ok(Parameters::new(&ClassMode::Agnostic, NmsSettings::default()))
            }
        }
    )*};
}

keep_all! {
    Box2d: "nms_none_2d";
    RotatedBox2d: "nms_none_rotated";
    Box3d: "nms_none_3d";
}
