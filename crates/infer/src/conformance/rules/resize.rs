//! Sizes of images: coordinates that rten computes in some cases.

use super::nearest::{Axis, Coordinates, Nearest};
use super::{Place, Rule, Verdict, integers_node, refused};
use crate::onnx::AttributeValue;
use crate::onnx::replace::{self, Value};
use det_post_types::Result;

pub(in super::super) const RESIZE: Rule = Rule {
    text: "nearest becomes Gather where the reciprocal of the scale, by which rten multiplies, takes other \
           places; `pytorch_half_pixel` becomes `half_pixel` where no size becomes 1; refused: cubic, `align_corners` with scales that \
           give no whole size, `pytorch_half_pixel` otherwise, nearest of unknown scales or of unknown sizes with scales that take other \
           places, scales that may keep every size",
    apply: |place| {
        if place.text("mode", "nearest") == "cubic" {
            return refused("attribute mode is cubic, which rten computes as linear");
        }
        let coordinates = place.text("coordinate_transformation_mode", "half_pixel");
        let nearest = place.text("nearest_mode", "round_prefer_floor");
        let places = match (Coordinates::named(coordinates), Nearest::named(nearest)) {
            (Some(coordinates), Some(nearest)) => place.taken(2, coordinates, nearest)?,
            // rten refuses what it does not know.
            _ => Verdict::Computed,
        };
        if !matches!(places, Verdict::Computed) {
            return Ok(places);
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

pub(in super::super) const UPSAMPLE: Rule = Rule {
    text: "as Resize, `asymmetric` and `floor`",
    apply: |place| place.taken(1, Coordinates::Asymmetric, Nearest::Floor),
};

impl Place<'_, '_, '_> {
    /// Whether rten takes the places of ONNX; the scales are input `at`, sizes the next one.
    fn taken(&self, at: usize, coordinates: Coordinates, nearest: Nearest) -> Result<Verdict> {
        let is_nearest = self.text("mode", "nearest") == "nearest";
        let Some(axes) = self.resized_axes(at) else {
            if is_nearest {
                return Ok(Verdict::OfShape(
                    "mode nearest, and neither scales nor sizes are constants: whether rten takes the \
                     places of ONNX is not known"
                        .into(),
                ));
            }
            return Ok(Verdict::Computed);
        };
        let is_changed = axes.iter().any(|axis| axis.scale.to_bits() != 1.0_f32.to_bits());
        let is_copied = axes.iter().all(Axis::keeps_size) && is_changed;
        if !is_nearest && is_copied {
            return Ok(Verdict::OfShape(format!(
                "mode {}, and scales other than 1 that may keep every size: rten copies",
                self.text("mode", "nearest")
            )));
        }
        let is_same = |axis: &Axis| axis.takes_same(coordinates, nearest);
        if !is_nearest || (!is_copied && axes.iter().all(is_same)) {
            return Ok(Verdict::Computed);
        }
        let (Some(input), Some(output)) = (self.input(0), self.output(0)) else {
            return refused("without an input or an output");
        };
        let tables: Option<Vec<Vec<i64>>> =
            axes.iter().map(|axis| axis.table(coordinates, nearest)).collect();
        let Some(tables) = tables else {
            return Ok(Verdict::OfShape(
                "mode nearest, with a scale whose reciprocal takes other places, or an unknown size".into(),
            ));
        };
        Ok(Verdict::Replaced(self.gathers(input, output, &axes, &tables)))
    }

    /// One Gather for each axis that is not copied.
    fn gathers(
        &self,
        input: &str,
        output: &str,
        axes: &[Axis],
        tables: &[Vec<i64>],
    ) -> Vec<Vec<u8>> {
        let is_copy = |axis: &Axis, table: &[i64]| {
            Some(table.len() as i64) == axis.from && table.iter().copied().eq(0..table.len() as i64)
        };
        let mut nodes = Vec::new();
        let mut last = input.to_owned();
        for (at, (axis, table)) in axes.iter().zip(tables).enumerate() {
            if is_copy(axis, table) {
                continue;
            }
            let [places, taken] =
                ["places", "taken"].map(|what| self.inner(&format!("{what}{at}")));
            nodes.push(integers_node(&places, table));
            let attributes = [("axis", Value::Int(at as i64))];
            nodes.push(self.replacement("Gather", &[&last, &places], &taken, &attributes));
            last = taken;
        }
        nodes.push(self.replacement("Identity", &[&last], output, &[]));
        nodes
    }

    /// The axes of the input; `None` where a scale is not known.
    fn resized_axes(&self, at: usize) -> Option<Vec<Axis>> {
        let is_given = |at: usize| self.constant(at).map(|constant| constant.dims() != [0]);
        let scales = match self.node.attribute("scales") {
            Some(AttributeValue::Floats(scales)) => Some(scales.clone()),
            _ if self.input(at).is_some() && is_given(at)? => Some(self.constant(at)?.floats()?),
            _ => None,
        };
        let shape = self.shape(0);
        if let Some(scales) = scales {
            let shape = shape.unwrap_or_else(|| vec![None; scales.len()]);
            let axes = scales.iter().zip(shape).map(|(&scale, from)| Axis::scaled(from, scale));
            return Some(axes.collect());
        }
        let sizes = self.constant(at + 1).and_then(|sizes| sizes.integers());
        let to: Option<Vec<i64>> = match sizes {
            Some(sizes) => Some(sizes),
            None => self.output_shape()?.into_iter().collect(),
        };
        let from: Option<Vec<i64>> = shape?.into_iter().collect();
        Some(from?.into_iter().zip(to?).map(|(from, to)| Axis::sized(from, to)).collect())
    }

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
