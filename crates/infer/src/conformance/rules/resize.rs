//! Sizes of images: coordinates that rten computes in some cases.

use super::{Place, Rule, Verdict, refused};
use crate::onnx::replace;
use det_post_types::Result;

pub(in super::super) const RESIZE: Rule = Rule {
    text: "nearest and linear; `pytorch_half_pixel` becomes `half_pixel` where no size becomes 1; refused: cubic, \
           `align_corners` with scales that give no whole size, `pytorch_half_pixel` otherwise",
    apply: |place| {
        if place.text("mode", "nearest") == "cubic" {
            return refused("attribute mode is cubic, which rten computes as linear");
        }
        match place.text("coordinate_transformation_mode", "half_pixel") {
            "align_corners" if place.input(2).is_some() && place.input(3).is_none() => {
                let reason = "align_corners with scales that give no whole size, or sizes that are not known";
                place.if_sizes(reason, |scale, size| match size {
                    _ if scale.fract() == 0.0 => true,
                    Some(size) => (f64::from(scale) * size as f64).fract() == 0.0,
                    None => false,
                })
            }
            "pytorch_half_pixel" => place.without_size_1(),
            _ => Ok(Verdict::Computed),
        }
    },
};

impl Place<'_, '_, '_> {
    /// Computed where every scale fits the size of its dimension.
    fn if_sizes(&self, reason: &str, fits: impl Fn(f32, Option<i64>) -> bool) -> Result<Verdict> {
        let scales = self.constant(2).and_then(|scales| scales.floats());
        let (Some(scales), Some(shape)) = (scales, self.shape(0)) else {
            return Ok(Verdict::OfShape(reason.into()));
        };
        match scales.iter().zip(&shape).all(|(scale, size)| fits(*scale, *size)) {
            true => Ok(Verdict::Computed),
            false => Ok(Verdict::OfShape(reason.into())),
        }
    }

    /// The coordinates of PyTorch are half pixels unless a size becomes 1.
    fn without_size_1(&self) -> Result<Verdict> {
        let reason = "pytorch_half_pixel, and a size becomes 1 or is not known";
        let sizes = self.constant(3).and_then(|sizes| sizes.integers());
        let verdict = match (sizes, self.shape(0)) {
            (Some(sizes), shape) => {
                let size_of = |at: usize| shape.as_ref()?.get(at).copied().flatten();
                let fits = |(at, &to): (usize, &i64)| to > 1 || size_of(at) == Some(to);
                match sizes.iter().enumerate().all(fits) {
                    true => Verdict::Computed,
                    false => Verdict::OfShape(reason.into()),
                }
            }
            (None, _) if self.input(3).is_some() => Verdict::OfShape(reason.into()),
            _ => self.if_sizes(reason, |scale, size| {
                let becomes = |size: i64| (f64::from(scale) * size as f64).floor() > 1.0;
                scale == 1.0 || scale >= 2.0 || size.is_some_and(becomes)
            })?,
        };
        match verdict {
            Verdict::Computed => {
                let mode = ["coordinate_transformation_mode"];
                let node = replace::with_attributes(self.node.bytes, &mode, &[])?;
                Ok(Verdict::Replaced(vec![node]))
            }
            other => Ok(other),
        }
    }
}
