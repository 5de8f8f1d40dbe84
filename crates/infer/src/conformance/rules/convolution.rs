//! Convolutions and pools: kernels, strides and paddings that a node leaves out.

use super::{Place, Rule, Verdict, refused};
use crate::onnx::replace::{self, Value};
use det_post_types::Result;

/// The most spatial dimensions that rten computes.
const MAX_SPATIAL: usize = 2;

pub(in super::super) const CONV: Rule = Rule {
    text: "1 or 2 spatial dimensions; kernel_shape, strides and dilations are filled in; SAME_LOWER becomes pads, \
           refused where the sizes that decide are not known",
    apply: |place| match Window::of(place, place.shape(1).as_deref()) {
        Ok(window) => window.with_pads(place, same_lower),
        Err(verdict) => Ok(verdict),
    },
};

pub(in super::super) const CONV_TRANSPOSE: Rule = Rule {
    text: "as Conv; SAME_UPPER and SAME_LOWER become pads; refused: output_shape, an odd padding before set 11",
    apply: |place| {
        if place.node.attribute("output_shape").is_some() {
            return refused("rten does not read the attribute output_shape");
        }
        match Window::of(place, place.shape(1).as_deref()) {
            Ok(window) => window.with_pads(place, transposed_same),
            Err(verdict) => Ok(verdict),
        }
    },
};

pub(in super::super) const POOL: Rule = Rule {
    text: "1 or 2 spatial dimensions, one output; strides are filled in; SAME_LOWER as in Conv; refused: dilations",
    apply: |place| {
        if place.has_other_outputs() {
            return refused("rten computes its first output only");
        }
        match Window::of(place, None) {
            Ok(window) => window.with_pads(place, same_lower),
            Err(verdict) => Ok(verdict),
        }
    },
};

/// How a kernel moves, with what the node leaves out.
struct Window {
    kernel: Vec<i64>,
    strides: Vec<i64>,
    dilations: Vec<i64>,
    /// Whether the node leaves something out that rten needs.
    is_filled: bool,
    /// Whether the node may have dilations.
    has_dilations: bool,
}

/// Paddings before and after each axis; `None` where sizes decide that are not known.
type Pads = std::result::Result<Vec<(i64, i64)>, Verdict>;

impl Window {
    /// The window of a node whose weights have a shape.
    fn of(
        place: &Place<'_, '_, '_>,
        weights: Option<&[Option<i64>]>,
    ) -> std::result::Result<Self, Verdict> {
        let is_pool = place.node.operator.ends_with("Pool");
        let of_weights = || -> Option<Vec<i64>> { weights?.iter().skip(2).copied().collect() };
        let given = place.integers("kernel_shape");
        let unknown = || Verdict::OfShape("kernel_shape is missing and not known".into());
        let kernel = match given {
            Some(kernel) => kernel.to_vec(),
            None if is_pool => {
                return Err(Verdict::Refused("attribute kernel_shape is missing".into()));
            }
            None => of_weights().ok_or_else(unknown)?,
        };
        let num = kernel.len();
        if num == 0 || num > MAX_SPATIAL {
            return Err(Verdict::Refused(format!(
                "{num} spatial dimensions; rten computes 1 and 2"
            )));
        }
        let list = |name| place.integers(name).map_or_else(|| vec![1; num], <[i64]>::to_vec);
        let (strides, dilations) = (list("strides"), list("dilations"));
        let pads = place.integers("pads");
        let is_complete = strides.len() == num
            && dilations.len() == num
            && pads.is_none_or(|pads| pads.len() == 2 * num);
        let is_positive = |values: &[i64]| values.iter().all(|value| (1..1 << 24).contains(value));
        if !is_complete
            || !is_positive(&strides)
            || !is_positive(&dilations)
            || !is_positive(&kernel)
        {
            return Err(Verdict::Refused(format!(
                "kernel_shape {kernel:?}, strides {strides:?}, dilations {dilations:?}, pads {pads:?} \
                 do not fit each other"
            )));
        }
        let is_filled = given.is_none() || (is_pool && place.integers("strides").is_none());
        Ok(Self { kernel, strides, dilations, is_filled, has_dilations: !is_pool })
    }

    /// Pixels from the first to the last of a kernel.
    fn extent(&self, axis: usize) -> i64 {
        (self.kernel[axis] - 1) * self.dilations[axis] + 1
    }

    /// The node with what it leaves out, and with the pads that `same` gives where it asks for them.
    fn with_pads(
        &self,
        place: &Place<'_, '_, '_>,
        same: fn(&Self, &Place<'_, '_, '_>, bool) -> Option<Pads>,
    ) -> Result<Verdict> {
        let pads = match place.text("auto_pad", "NOTSET") {
            "SAME_UPPER" => same(self, place, true),
            "SAME_LOWER" => same(self, place, false),
            "VALID"
                if place.integers("pads").is_some_and(|pads| pads.iter().any(|&pad| pad != 0)) =>
            {
                return refused("attributes auto_pad VALID and pads contradict each other");
            }
            "NOTSET" | "VALID" | "" => None,
            other => return refused(format!("attribute auto_pad is {other:?}")),
        };
        let pads = match pads.transpose() {
            Ok(pads) => pads,
            Err(verdict) => return Ok(verdict),
        };
        if pads.is_none() && !self.is_filled {
            return Ok(Verdict::Computed);
        }
        let mut added = vec![
            ("kernel_shape", Value::Ints(&self.kernel)),
            ("strides", Value::Ints(&self.strides)),
        ];
        if self.has_dilations {
            added.push(("dilations", Value::Ints(&self.dilations)));
        }
        let begins = pads.iter().flatten().map(|pad| pad.0);
        let written: Vec<i64> = begins.chain(pads.iter().flatten().map(|pad| pad.1)).collect();
        let mut dropped: &[&str] = &[];
        if pads.is_some() {
            added.push(("pads", Value::Ints(&written)));
            dropped = &["auto_pad"];
        }
        let node = replace::with_attributes(place.node.bytes, dropped, &added)?;
        Ok(Verdict::Replaced(vec![node]))
    }
}

/// The pads of SAME_LOWER: with an odd sum the larger one is before the image. rten computes
/// SAME_UPPER.
fn same_lower(window: &Window, place: &Place<'_, '_, '_>, is_upper: bool) -> Option<Pads> {
    if is_upper {
        return None;
    }
    let shape = place.shape(0);
    let pad = |axis: usize| {
        let (extent, stride) = (window.extent(axis), window.strides[axis]);
        let size = || shape.as_ref()?.get(axis + 2).copied().flatten();
        // With a stride of 1 the size does not matter.
        let total = match size() {
            Some(size) => (size + stride - 1) / stride * stride - stride + extent - size,
            None if stride == 1 => extent - 1,
            None => {
                let reason =
                    "attribute auto_pad is SAME_LOWER and the size of the input is not known";
                return Err(Verdict::OfShape(reason.into()));
            }
        };
        let total = total.max(0);
        Ok((total - total / 2, total / 2))
    };
    Some((0..window.kernel.len()).map(pad).collect())
}

/// The pads of a transposed convolution whose output is the input's size times the strides.
fn transposed_same(window: &Window, place: &Place<'_, '_, '_>, is_upper: bool) -> Option<Pads> {
    let added = place.integers("output_padding").unwrap_or_default();
    let pad = |axis: usize| {
        let added = added.get(axis).copied().unwrap_or(0);
        let total = added + window.extent(axis) - window.strides[axis];
        if total < 0 {
            return Err(Verdict::Refused("auto_pad with strides longer than the kernel".into()));
        }
        if total % 2 != 0 && place.checker.set < 11 {
            let reason = "auto_pad with an odd padding, whose sides set 11 exchanged";
            return Err(Verdict::Refused(reason.into()));
        }
        let less = total / 2;
        Ok(if is_upper { (less, total - less) } else { (total - less, less) })
    };
    Some((0..window.kernel.len()).map(pad).collect())
}
