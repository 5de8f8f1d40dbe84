//! The CPU implementation: one function per layout. Layouts of planes are in `planes.rs`, layouts
//! of final boxes in `finals.rs` and `detr.rs`.

use super::rows::{misfit, one, push};
use super::values::{Floats, Spaced, best_class, passes};
use super::{Head, argument, detr, finals, planes, unsupported};
use crate::decode::logit::{exp, logit_bound, sigmoid};
use det_post_types::{
    AnchorLevel, Box2d, Candidates, Result, RotatedBox2d, Size, TensorView, YoloLayout,
};

/// Decodes a layout of axis-aligned boxes.
pub(super) fn aligned(
    outputs: &[TensorView<'_>],
    layout: &YoloLayout,
    head: &Head,
    candidates: &mut Candidates<Box2d>,
) -> Result<()> {
    match layout {
        YoloLayout::V5 => v5(outputs, head, candidates),
        YoloLayout::V5Raw { levels } => v5_raw(outputs, levels, head, candidates),
        YoloLayout::V8 | YoloLayout::Seg { .. } | YoloLayout::Pose { .. } => {
            planes::v8(outputs, head, layout.num_further_planes(), candidates)
        }
        YoloLayout::Yolox { strides } => yolox(outputs, strides, head, candidates),
        YoloLayout::EndToEnd
        | YoloLayout::SegEndToEnd { .. }
        | YoloLayout::PoseEndToEnd { .. }
        | YoloLayout::V7EndToEnd
        | YoloLayout::Mmdeploy
        | YoloLayout::MmdeploySeg => finals::aligned(outputs, layout, head, candidates),
        YoloLayout::Detr { boxes, logits, classes }
        | YoloLayout::DetrSeg { boxes, logits, classes } => {
            let form = detr::Form { boxes: *boxes, has_logits: *logits, classes: *classes };
            detr::aligned(outputs, form, head, candidates)
        }
        YoloLayout::Obb | YoloLayout::ObbEndToEnd => Err(unsupported(layout, "axis-aligned")),
    }
}

/// Decodes a layout of rotated boxes.
pub(super) fn rotated(
    outputs: &[TensorView<'_>],
    layout: &YoloLayout,
    head: &Head,
    candidates: &mut Candidates<RotatedBox2d>,
) -> Result<()> {
    match layout {
        YoloLayout::Obb => planes::obb(outputs, head, candidates),
        YoloLayout::ObbEndToEnd => finals::rotated(outputs, layout, head, candidates),
        _ => Err(unsupported(layout, "rotated")),
    }
}

/// Class and score of a row of activated `… objectness classes`, objectness
/// at `start + 4`, if it passes.
#[inline(always)]
fn scored(
    values: Floats<'_>,
    start: usize,
    head: &Head,
    num_nan: &mut usize,
) -> Option<(usize, f32)> {
    let objectness = values.at(start + 4);
    if !passes(objectness, head.score_threshold, num_nan) {
        return None;
    }
    let place = Spaced { start: start + 5, distance: 1 };
    let (class, best) = best_class(values, place, head.num_classes, num_nan)?;
    let score = objectness * best;
    (score >= head.score_threshold).then_some((class, score))
}

fn v5(outputs: &[TensorView<'_>], head: &Head, candidates: &mut Candidates<Box2d>) -> Result<()> {
    let row_len = 5 + head.num_classes;
    let expected = format_args!("[1, N, {row_len}]");
    let output = one(outputs, expected)?;
    let [1, num_rows, len] = *output.shape() else { return Err(misfit(output, expected)) };
    if len != row_len {
        return Err(misfit(output, expected));
    }
    let values = Floats::of(output)?;
    let mut num_nan = 0;
    for row in 0..num_rows {
        let start = row * row_len;
        if let Some((class, score)) = scored(values, start, head, &mut num_nan) {
            let [cx, cy, width, height] = values.four(start);
            push(candidates, Box2d::from_center(cx, cy, width, height), score, class, row);
        }
    }
    candidates.add_nan_scores(num_nan);
    Ok(())
}

fn yolox(
    outputs: &[TensorView<'_>],
    strides: &[u32],
    head: &Head,
    candidates: &mut Candidates<Box2d>,
) -> Result<()> {
    let row_len = 5 + head.num_classes;
    let mut num_rows = 0;
    for &stride in strides {
        let [columns, rows] = cells(head, stride)?;
        num_rows += columns * rows;
    }
    let Size { width, height } = head.network;
    let expected =
        format_args!("[1, {num_rows}, {row_len}] for strides {strides:?} at {width}x{height}");
    let output = one(outputs, expected)?;
    if *output.shape() != [1, num_rows, row_len] {
        return Err(misfit(output, expected));
    }
    let values = Floats::of(output)?;
    let (mut row, mut num_nan) = (0, 0);
    for &stride in strides {
        let [num_columns, num_lines] = cells(head, stride)?;
        let stride = stride as f32;
        for cell in 0..num_columns * num_lines {
            let start = row * row_len;
            if let Some((class, score)) = scored(values, start, head, &mut num_nan) {
                let [x, y, width, height] = values.four(start);
                let cx = (x + (cell % num_columns) as f32) * stride;
                let cy = (y + (cell / num_columns) as f32) * stride;
                let bbox = Box2d::from_center(cx, cy, exp(width) * stride, exp(height) * stride);
                push(candidates, bbox, score, class, row);
            }
            row += 1;
        }
    }
    candidates.add_nan_scores(num_nan);
    Ok(())
}

/// Cells of a level along x and y.
fn cells(head: &Head, stride: u32) -> Result<[usize; 2]> {
    let sides = [head.network.width, head.network.height];
    if stride == 0 || sides.iter().any(|side| side % stride != 0) {
        return Err(argument(format!(
            "stride {stride}; a divisor of the network's input {}x{} expected",
            sides[0], sides[1]
        )));
    }
    Ok(sides.map(|side| (side / stride) as usize))
}

fn v5_raw(
    outputs: &[TensorView<'_>],
    levels: &[AnchorLevel],
    head: &Head,
    candidates: &mut Candidates<Box2d>,
) -> Result<()> {
    if outputs.len() != levels.len() {
        let (found, expected) = (outputs.len(), levels.len());
        return Err(argument(format!("{found} outputs; {expected} expected, one a level")));
    }
    for (output, level) in outputs.iter().zip(levels) {
        Floats::of(output)?;
        RawLevel::new(output, level, head)?;
    }
    let bound = logit_bound(head.score_threshold);
    let (mut source, mut num_nan) = (0, 0);
    for (output, level) in outputs.iter().zip(levels) {
        let (values, raw) = (Floats::of(output)?, RawLevel::new(output, level, head)?);
        for (anchor, size) in level.anchors.iter().enumerate() {
            for cell in 0..raw.num_columns * raw.num_lines {
                let place = raw.place(anchor, cell, head);
                let decoded = raw.decode(values, place, bound, head, &mut num_nan);
                if let Some((bbox, score, class)) = decoded {
                    let (x, y) = (cell % raw.num_columns, cell / raw.num_columns);
                    let stride = level.stride as f32;
                    let [tx, ty, tw, th] = bbox.map(|logit| sigmoid(logit) * 2.0);
                    let bbox = Box2d::from_center(
                        (tx - 0.5 + x as f32) * stride,
                        (ty - 0.5 + y as f32) * stride,
                        tw * tw * size[0],
                        th * th * size[1],
                    );
                    push(candidates, bbox, score, class, source);
                }
                source += 1;
            }
        }
    }
    candidates.add_nan_scores(num_nan);
    Ok(())
}

/// The shape of one raw output: `[1, A * (5 + C), H, W]` or
/// `[1, A, H, W, 5 + C]`.
struct RawLevel {
    num_columns: usize,
    num_lines: usize,
    channels_last: bool,
}

impl RawLevel {
    fn new(output: &TensorView<'_>, level: &AnchorLevel, head: &Head) -> Result<Self> {
        let [num_columns, num_lines] = cells(head, level.stride)?;
        let (num_anchors, row_len) = (level.anchors.len(), 5 + head.num_classes);
        let first = [1, num_anchors * row_len, num_lines, num_columns];
        let last = [1, num_anchors, num_lines, num_columns, row_len];
        let channels_last = output.shape() == last;
        if !channels_last && output.shape() != first {
            return Err(misfit(output, format_args!("{first:?} or {last:?}")));
        }
        Ok(Self { num_columns, num_lines, channels_last })
    }

    /// The position of the values of one cell and anchor.
    fn place(&self, anchor: usize, cell: usize, head: &Head) -> Spaced {
        let (num_cells, row_len) = (self.num_columns * self.num_lines, 5 + head.num_classes);
        if self.channels_last {
            Spaced { start: (anchor * num_cells + cell) * row_len, distance: 1 }
        } else {
            Spaced { start: anchor * row_len * num_cells + cell, distance: num_cells }
        }
    }

    /// Logits of the box, score and class of a row that passes.
    #[inline(always)]
    fn decode(
        &self,
        values: Floats<'_>,
        Spaced { start, distance }: Spaced,
        bound: f32,
        head: &Head,
        num_nan: &mut usize,
    ) -> Option<([f32; 4], f32, usize)> {
        let objectness = values.at(start + 4 * distance);
        if !passes(objectness, bound, num_nan) {
            return None;
        }
        let classes = Spaced { start: start + 5 * distance, distance };
        let (class, best) = best_class(values, classes, head.num_classes, num_nan)
            .filter(|&(_, best)| best >= bound)?;
        let score = sigmoid(objectness) * sigmoid(best);
        let bbox = std::array::from_fn(|i| values.at(start + i * distance));
        (score >= head.score_threshold).then_some((bbox, score, class))
    }
}
